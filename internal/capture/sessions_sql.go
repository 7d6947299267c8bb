package capture

import (
	"fmt"
	"strings"
)

// To PostgreSQL every client of a member is a local one. Their addresses are known to the member's process, which
// keeps them in a
// file of records in PostgreSQL's data directory: one for each session, written when it begins and blanked when it
// ends. So they
// cost no statement and no transaction, all databases of the server have them, and a crash leaves none.
//
// The view tutti.sessions joins them to pg_stat_activity, and shows of a session what that view shows to whom: where
// it shows no
// backend_start there is no address. The function that reads the file does so for the view alone: it demands the
// secret that is in
// tutti.token, which the view's owner may read and clients may not.

// SessionsFile is the file, below PostgreSQL's data directory, in a folder that base backups leave empty.
const SessionsFile = "pg_stat_tmp/tutti_sessions"

// SessionRecordBytes is the length of one record.
const SessionRecordBytes = 128

// SessionRecord is the record of a session that was there at a time, in microseconds since 1970. The pid at both ends
// tells a record
// that is read while it is written. tls is the version that the client speaks; empty: none.
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
	return fmt.Sprintf(`
CREATE OR REPLACE FUNCTION tutti.session_records(proof pg_catalog.bytea, OUT pid pg_catalog.int4, OUT since pg_catalog.timestamptz,
  OUT client_addr pg_catalog.inet, OUT client_port pg_catalog.int4, OUT tls pg_catalog.text)
RETURNS SETOF pg_catalog.record LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  IF NOT EXISTS (SELECT FROM tutti.token k WHERE k.secret = proof) THEN
    RAISE EXCEPTION 'permission denied for function session_records' USING ERRCODE = 'insufficient_privilege', HINT = 'Ask the view tutti.sessions.';
  END IF;
  RETURN QUERY SELECT r[1]::int4, to_timestamp(r[2]::float8 / 1000000), r[3]::inet, r[4]::int4, nullif(r[5], '-')
    FROM (SELECT regexp_match(l, '^([0-9]+) ([0-9]+) ([0-9a-f.:]+) ([0-9]+) ([^ ]+) ([0-9]+) *$') AS r
      FROM string_to_table(pg_read_file('%s', 0, %d, true), E'\n') l) x
    WHERE r[1] = r[6];
END $tutti$;
CREATE OR REPLACE VIEW tutti.sessions WITH (security_barrier) AS
  SELECT a.pid, CASE WHEN a.backend_start IS NOT NULL THEN c.client_addr END AS client_addr,
    CASE WHEN a.backend_start IS NOT NULL THEN c.client_port END AS client_port, CASE WHEN a.backend_start IS NOT NULL THEN c.tls END AS tls,
    a.datname, a.usename, a.application_name, a.backend_start
  FROM tutti.token k CROSS JOIN LATERAL tutti.session_records(k.secret) c JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) c.pid
    AND (a.backend_start IS NULL OR c.since OPERATOR(pg_catalog.>=) a.backend_start AND c.since OPERATOR(pg_catalog.<=) (a.backend_start OPERATOR(pg_catalog.+) '1 minute'::pg_catalog.interval));
ALTER VIEW tutti.sessions OWNER TO tutti_owner;
GRANT SELECT ON tutti.sessions TO PUBLIC;
`, SessionsFile, sessionsBytesMax)
}
