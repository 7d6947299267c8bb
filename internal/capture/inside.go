package capture

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// A procedure, or DO, that commits does so inside the backend, where nobody can come between. So the first thing that
// is captured in such a transaction queues a deferred trigger, which fires when all else is done: it has all other
// deferred triggers fired, tells the session by an INFO, and then runs what the session says, row by row of the answer
// in an INFO of its own, until it is told to go on or to fail. What the session says comes in a row of tutti.said.

const (
	// InsideState is the SQLSTATE of these INFOs.
	InsideState = "TT006"
	// EnteredState is the SQLSTATE of the INFO with which a transaction of a procedure's says that it has captured
	// something: EnteredFirst if it is the procedure's first. PostgreSQL lets those that capture nothing commit without
	// a word.
	EnteredState = "TT008"
	EnteredFirst = "first"
	// InsideSetting is TransactionSetting's value, for the session, while a procedure runs in transactions of its own.
	// The first thing that is captured in each makes 'on' of it.
	InsideSetting = "procedure"

	// InsideGo lets the transaction commit, InsideFail makes it fail.
	InsideGo   = "go"
	InsideFail = "fail"
)

// insideProofBytes is how much of the hash shows that a message is ours: a client's function may raise whatever it
// likes, and what it captured would be carried out with all rights.
const insideProofBytes = 16

// InsideMessage reads the message of such an INFO. Ok is false if a client made it up. kind is "commit"; "row", with
// the row as record_send gives it in hexadecimal; "done"; or "cancelled", with the error's message.
func InsideMessage(message string, secret []byte) (conversation, kind, rest string, ok bool) {
	f := strings.SplitN(message, " ", 4)
	if len(f) < 3 {
		return "", "", "", false
	}
	sum := sha256.Sum256(append([]byte(f[0]), secret...))
	if f[1] != hex.EncodeToString(sum[:insideProofBytes]) {
		return "", "", "", false
	}
	if len(f) == 4 {
		rest = f[3]
	}
	return f[0], f[2], rest, true
}

// ReadRecord reads the values of a row as record_send gives it, in hexadecimal.
func ReadRecord(text string) (values [][]byte, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) < 4 {
		return nil, errors.New("capture: a row that was told is malformed")
	}
	n := binary.BigEndian.Uint32(b)
	for b = b[4:]; n > 0; n-- {
		if len(b) < 8 {
			return nil, errors.New("capture: a row that was told ends too early")
		}
		size := int32(binary.BigEndian.Uint32(b[4:]))
		b = b[8:]
		switch {
		case size < 0:
			values = append(values, nil)
		case int(size) > len(b):
			return nil, errors.New("capture: a row that was told ends too early")
		default:
			values = append(values, b[:size:size])
			b = b[size:]
		}
	}
	return values, nil
}

// SaySQL is the n'th thing said to the backend pid, in a conversation as InsideMessage gave it. Run it as a superuser,
// and as a Query.
func SaySQL(pid uint32, conversation string, n int, command string) string {
	return fmt.Sprintf("BEGIN; INSERT INTO tutti.said VALUES (%d, %s, %d, %s); COMMIT;", pid, literal(conversation), n,
		literal(command))
}

// InsideWaitSQL makes the backend wait for the n'th thing that will be said, instead of looking for it again and again,
// if the answer is true; InsideWakeSQL, after it was said, ends that wait. There are locks for two such waits.
func InsideWaitSQL(pid uint32, n int) string {
	return fmt.Sprintf("SELECT tutti.native_try(%d::pg_catalog.int8);", insideKey(pid, n))
}

func InsideWakeSQL(pid uint32, n int) string {
	return fmt.Sprintf("SELECT tutti.native_unlock(%d::pg_catalog.int8);", insideKey(pid, n))
}

// insideKey: requests about advisory locks do not have the number 0.
func insideKey(pid uint32, n int) int64 { return lockKey(pid, 0) + int64(n%insideWaits) }

// Of the four reserved locks of a backend two are for what will be said, one is held by the transaction that converses,
// and one holds up the next, which so cannot hold the one before.
const (
	insideWaits = 2
	insideTalks = 2
	insideHolds = 3
)

// InsideHoldSQL makes the backend's next transaction wait with the first thing that it captures until InsideFreeSQL.
// Its answer must be true.
func InsideHoldSQL(pid uint32) string {
	return fmt.Sprintf("SELECT tutti.native_try(%d::pg_catalog.int8);", lockKey(pid, 0)+insideHolds)
}

func InsideFreeSQL(pid uint32) string {
	return fmt.Sprintf("SELECT tutti.native_unlock(%d::pg_catalog.int8);", lockKey(pid, 0)+insideHolds)
}

// HushSQL takes back what was said to a backend.
func HushSQL(pid uint32) string {
	return fmt.Sprintf("DELETE FROM tutti.said WHERE pid OPERATOR(pg_catalog.=) %d;", pid)
}

// InsideEndedSQL waits until the transaction has ended that says something. Its last statement gives a row if it has
// committed, as its mark shows. Run it as a superuser.
func InsideEndedSQL(pid, slot uint32, incarnation, seq uint64) string {
	return fmt.Sprintf(
		`SELECT tutti.native_lock_shared(%[1]d::pg_catalog.int8); SELECT `+
			`tutti.native_unlock_shared(%[1]d::pg_catalog.int8);
SELECT FROM tutti.mark WHERE slot OPERATOR(pg_catalog.=) %[2]d AND incarnation OPERATOR(pg_catalog.=) %[3]d::pg_catalog.int8 AND seq OPERATOR(pg_catalog.=) %[4]d::pg_catalog.int8`,
		lockKey(pid, 0)+insideTalks, int32(slot), int64(incarnation), int64(seq))
}

// InsideCommand is the collect step as a command that can be said.
func InsideCommand(token int64, slot int32, incarnation, seq uint64) string {
	return fmt.Sprintf("SELECT op, ident, keys, tab, img FROM tutti.collect(%d, %d, %d, %d, false, false)", token, slot,
		int64(incarnation), int64(seq))
}

// PrivilegedCommand is PrivilegedStatement, without a value, as a command that can be said.
func PrivilegedCommand(command string, secret []byte, asks bool) string {
	return fmt.Sprintf(`SELECT tutti.privileged('\x%x'::pg_catalog.bytea, '\x%x'::pg_catalog.bytea, NULL, %t)`,
		Proof(command, secret), command, asks)
}

// RereadCommand is a Reread as a command that can be said: array is its parameter as text, of the type typ.
func RereadCommand(r Reread, array, typ string) string {
	return strings.Replace(r.SQL, "$1", literal(array)+"::"+typ, 1)
}

// ArraySQL gives the text and the type's name of a Reread's parameter. Run it where texts are written as apply has them
// written.
const ArraySQL = `SELECT $1::pg_catalog.text, pg_catalog.concat(pg_catalog.quote_ident(n.nspname), '.', ` +
	`pg_catalog.quote_ident(y.typname))
  FROM pg_catalog.pg_type y JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) y.typnamespace WHERE y.oid OPERATOR(pg_catalog.=) pg_catalog.pg_typeof($1)::pg_catalog.oid`

func insideSchema() string {
	return install("inside.sql", words{
		"tag":       lockTag,
		"shift":     lockPIDShift,
		"holds":     insideHolds,
		"tx":        TransactionSetting,
		"entered":   EnteredState,
		"first":     EnteredFirst,
		"procedure": InsideSetting,
		"text":      textSettings,
		"proof":     insideProofBytes,
		"talks":     insideTalks,
		"state":     InsideState,
		"waits":     insideWaits,
		"go":        InsideGo,
		"fail":      InsideFail,
	})
}

// sql/inside.sql: tutti.commit_inside has the caller's rights, because deferred triggers of users run in it, and no
// settings of its own for the same reason. It is at a COMMIT if nothing has called it, or a procedure itself; what SET
// CONSTRAINTS calls is called by an SQL statement, and then it waits for the COMMIT anew. With one snapshot it would
// not see what is said.
//
// A cancel that comes while the log decides is told, and comes again after the COMMIT, as PostgreSQL keeps one that
// comes while it commits.

// ownBegin is PL/pgSQL that makes sure that a transaction whose setting says so is one of Tutti's, or of a procedure's
// that will ask.
const ownBegin = "IF pg_catalog.transaction_timestamp() OPERATOR(pg_catalog.>=) pg_catalog.statement_timestamp() " +
	"THEN PERFORM tutti.entered(); END IF;"
