package capture

import (
	"fmt"
	"strings"
)

// To PostgreSQL every client of a member is a local one. Their addresses are known to the member's process, which keeps
// them in a file of records in PostgreSQL's data directory: one for each session, written when it begins and blanked
// when it ends. So they cost no statement and no transaction, all databases of the server have them, and a crash leaves
// none.
//
// The view tutti.sessions joins them to pg_stat_activity, and shows of a session what that view shows to whom: where it
// shows no backend_start there is no address. The function that reads the file does so for the view alone: it demands
// the secret that is in tutti.token, which the view's owner may read and clients may not.

// SessionsFile is the file, below PostgreSQL's data directory, in a folder that base backups leave empty.
const SessionsFile = "pg_stat_tmp/tutti_sessions"

// SessionRecordBytes is the length of one record.
const SessionRecordBytes = 128

// SessionRecord is the record of a session that was there at a time, in microseconds since 1970. The pid at both ends
// tells a record that is read while it is written. tls is the version that the client speaks; empty: none.
func SessionRecord(pid uint32, micros int64, address string, port uint16, tls string) []byte {
	if tls == "" {
		tls = "-"
	}
	text := fmt.Sprintf("%d %d %s %d %s %d", pid, micros, address, port, tls, pid)
	if len(text) >= SessionRecordBytes {
		text = "" // no address is that long
	}
	return []byte(text + strings.Repeat(" ", SessionRecordBytes-1-len(text)) + "\n")
}

// sessionsBytesMax bounds what is read of the file.
const sessionsBytesMax = 1 << 26

// sessionsSchema has the view and its function. Users may have views of it, so it is never dropped. A record belongs
// to a backend that began at most a minute before it: logging in takes less.
func sessionsSchema() string {
	return install("sessions.sql", words{"file": SessionsFile, "bytes_max": sessionsBytesMax})
}
