package capture

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// A procedure, or DO, that commits does so inside the backend, where nobody can come between. So the first thing that is
// captured in such a transaction queues a deferred trigger, which fires when all else is done: it has all other deferred
// triggers fired, tells the session by an INFO, and then runs what the session says, row by row of the answer in an
// INFO of its own, until it is told to go on or to fail. What the session says comes in a row of tutti.said.

const (
	// InsideState is the SQLSTATE of these INFOs.
	InsideState = "TT006"
	// EnteredState is the SQLSTATE of the INFO with which a transaction of a procedure's says that it has captured something:
	// EnteredFirst if it is the procedure's first. PostgreSQL lets those that capture nothing commit without a word.
	EnteredState = "TT008"
	EnteredFirst = "first"
	// InsideSetting is TransactionSetting's value, for the session, while a procedure runs in transactions of its own. The
	// first thing that is captured in each makes 'on' of it.
	InsideSetting = "procedure"

	// InsideGo lets the transaction commit, InsideFail makes it fail.
	InsideGo   = "go"
	InsideFail = "fail"
)

// insideProofBytes is how much of the hash shows that a message is ours: a client's function may raise whatever it likes,
// and what it captured would be carried out with all rights.
const insideProofBytes = 16

// InsideMessage reads the message of such an INFO. Ok is false if a client made it up. kind is "commit"; "row", with the row as record_send gives it in hexadecimal; "done"; or "cancelled", with the error's message.
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

// SaySQL is the n'th thing said to the backend pid, in a conversation as InsideMessage gave it. Run it as a superuser, and as a
// Query.
func SaySQL(pid uint32, conversation string, n int, command string) string {
	return fmt.Sprintf("BEGIN; INSERT INTO tutti.said VALUES (%d, %s, %d, %s); COMMIT;", pid, literal(conversation), n, literal(command))
}

// InsideWaitSQL makes the backend wait for the n'th thing that will be said, instead of looking for it again and again, if the
// answer is true; InsideWakeSQL, after it was said, ends that wait. There are locks for two such waits.
func InsideWaitSQL(pid uint32, n int) string {
	return fmt.Sprintf("SELECT tutti.native_try(%d::pg_catalog.int8);", insideKey(pid, n))
}

func InsideWakeSQL(pid uint32, n int) string {
	return fmt.Sprintf("SELECT tutti.native_unlock(%d::pg_catalog.int8);", insideKey(pid, n))
}

// insideKey: requests about advisory locks do not have the number 0.
func insideKey(pid uint32, n int) int64 { return lockKey(pid, 0) + int64(n%insideWaits) }

// Of the four reserved locks of a backend two are for what will be said, one is held by the transaction that converses, and
// one holds up the next, which so cannot hold the one before.
const (
	insideWaits = 2
	insideTalks = 2
	insideHolds = 3
)

// InsideHoldSQL makes the backend's next transaction wait with the first thing that it captures until InsideFreeSQL. Its answer
// must be true.
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
	return fmt.Sprintf(`SELECT tutti.native_lock_shared(%[1]d::pg_catalog.int8); SELECT tutti.native_unlock_shared(%[1]d::pg_catalog.int8);
SELECT FROM tutti.mark WHERE slot OPERATOR(pg_catalog.=) %[2]d AND incarnation OPERATOR(pg_catalog.=) %[3]d::pg_catalog.int8 AND seq OPERATOR(pg_catalog.=) %[4]d::pg_catalog.int8`,
		lockKey(pid, 0)+insideTalks, int32(slot), int64(incarnation), int64(seq))
}

// InsideCommand is the collect step as a command that can be said.
func InsideCommand(token int64, slot int32, incarnation, seq uint64) string {
	return fmt.Sprintf("SELECT op, ident, keys, tab, img FROM tutti.collect(%d, %d, %d, %d, false, false)", token, slot, int64(incarnation), int64(seq))
}

// PrivilegedCommand is PrivilegedStatement, without a value, as a command that can be said.
func PrivilegedCommand(command string, secret []byte, asks bool) string {
	return fmt.Sprintf(`SELECT tutti.privileged('\x%x'::pg_catalog.bytea, '\x%x'::pg_catalog.bytea, NULL, %t)`, Proof(command, secret), command, asks)
}

// RereadCommand is a Reread as a command that can be said: array is its parameter as text, of the type typ.
func RereadCommand(r Reread, array, typ string) string {
	return strings.Replace(r.SQL, "$1", literal(array)+"::"+typ, 1)
}

// ArraySQL gives the text and the type's name of a Reread's parameter. Run it where texts are written as apply has them
// written.
const ArraySQL = `SELECT $1::pg_catalog.text, pg_catalog.concat(pg_catalog.quote_ident(n.nspname), '.', pg_catalog.quote_ident(y.typname))
  FROM pg_catalog.pg_type y JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) y.typnamespace WHERE y.oid OPERATOR(pg_catalog.=) pg_catalog.pg_typeof($1)::pg_catalog.oid`

func insideSchema() string {
	return strings.NewReplacer("@tx", TransactionSetting, "@procedure", InsideSetting, "@state", InsideState, "@entered", EnteredState, "@first", EnteredFirst, "@proof", fmt.Sprint(insideProofBytes), "@go", InsideGo, "@fail", InsideFail,
		"@text", textSettings, "@tag", fmt.Sprint(lockTag), "@shift", fmt.Sprint(lockPIDShift), "@waits", fmt.Sprint(insideWaits), "@talks", fmt.Sprint(insideTalks), "@holds", fmt.Sprint(insideHolds)).Replace(insideTables)
}

// insideTables: tutti.commit_inside has the caller's rights, because deferred triggers of users run in it, and no settings of
// its own for the same reason. It is at a COMMIT if nothing has called it, or a procedure itself; what SET CONSTRAINTS calls is called by an
// SQL statement, and then it waits for the COMMIT anew. With one snapshot it would not see what is said.
//
// A cancel that comes while the log decides is told, and comes again after the COMMIT, as PostgreSQL keeps one that comes
// while it commits.
const insideTables = `
CREATE UNLOGGED TABLE IF NOT EXISTS tutti.inside (xid pg_catalog.int8 NOT NULL) WITH (autovacuum_enabled = false);
ALTER TABLE tutti.inside OWNER TO tutti_owner;
REVOKE ALL ON tutti.inside FROM PUBLIC;
CREATE INDEX IF NOT EXISTS inside_xid ON tutti.inside (xid);
CREATE UNLOGGED TABLE IF NOT EXISTS tutti.said (pid pg_catalog.int4, conversation pg_catalog.text COLLATE "C", n pg_catalog.int4, command pg_catalog.text NOT NULL, PRIMARY KEY (pid, conversation, n));
ALTER TABLE tutti.said OWNER TO tutti_owner;
REVOKE ALL ON tutti.said FROM PUBLIC;
CREATE OR REPLACE FUNCTION tutti.enter_inside() RETURNS pg_catalog.void LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '0' AS $tutti$
DECLARE k pg_catalog.int8 := (@tag::pg_catalog.int8 OPERATOR(pg_catalog.<<) 48) OPERATOR(pg_catalog.|) (pg_catalog.pg_backend_pid()::pg_catalog.int8 OPERATOR(pg_catalog.<<) @shift) OPERATOR(pg_catalog.|) @holds::pg_catalog.int8;
BEGIN
  PERFORM tutti.native_lock_shared(k), tutti.native_unlock_shared(k);
  INSERT INTO tutti.inside VALUES (pg_catalog.txid_current());
  PERFORM pg_catalog.set_config('@tx', 'on', true);
  RAISE INFO USING ERRCODE = '@entered', MESSAGE = CASE WHEN pg_catalog.transaction_timestamp() OPERATOR(pg_catalog.>) pg_catalog.statement_timestamp() THEN 'later' ELSE '@first' END;
END $tutti$;
ALTER FUNCTION tutti.enter_inside OWNER TO tutti_owner;
-- A procedure may say that it is in a transaction of Tutti's, where its COMMIT would be none of its own, and so may the function of an index in ANALYZE. But those have begun before
-- their statement.
CREATE OR REPLACE FUNCTION tutti.entered() RETURNS pg_catalog.void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
BEGIN
  IF current_setting('@tx', true) = '@procedure' OR transaction_timestamp() = statement_timestamp() AND current_query() !~* E'^(\\s|/\\*.*?\\*/|--[^\n]*\n)*(call|do|vacuum|analyze|reindex|cluster)\\M' OR EXISTS (SELECT FROM tutti.inside i WHERE i.xid = txid_current()) THEN
    RETURN;
  END IF;
  RAISE EXCEPTION 'a procedure has changed a setting of Tutti''s: its writes could escape replication' USING ERRCODE = 'feature_not_supported', HINT = 'Leave settings that begin with tutti. alone.';
END $tutti$;
ALTER FUNCTION tutti.entered OWNER TO tutti_owner;
CREATE OR REPLACE FUNCTION tutti.commit_inside() RETURNS trigger LANGUAGE plpgsql AS $tutti$
DECLARE c pg_catalog.text;
BEGIN
  GET DIAGNOSTICS c = PG_CONTEXT;
  IF c OPERATOR(pg_catalog.~) E'^[^\n]*\n(?!PL/)' THEN
    SET CONSTRAINTS tutti.commit_inside DEFERRED;
    PERFORM tutti.enter_inside();
    RETURN NULL;
  ELSIF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) ANY ('{repeatable read,serializable}'::pg_catalog._text) THEN
    RAISE EXCEPTION 'a procedure cannot commit what it has written in %', pg_catalog.upper(pg_catalog.current_setting('transaction_isolation')) USING ERRCODE = '0A000',
      HINT = 'Commit from the client, or use READ COMMITTED.';
  END IF;
  SET CONSTRAINTS ALL IMMEDIATE;
  PERFORM tutti.converse();
  RETURN NULL;
END $tutti$;
DO $tutti$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid OPERATOR(pg_catalog.=) 'tutti.inside'::pg_catalog.regclass) THEN
    CREATE CONSTRAINT TRIGGER commit_inside AFTER INSERT ON tutti.inside DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tutti.commit_inside();
    UPDATE pg_catalog.pg_trigger SET tgisinternal = true WHERE tgrelid OPERATOR(pg_catalog.=) 'tutti.inside'::pg_catalog.regclass; -- nothing to show
  END IF;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.converse() RETURNS pg_catalog.void LANGUAGE plpgsql SECURITY DEFINER@text SET lock_timeout = '0' AS $tutti$
DECLARE id text; proof text; spoken int4 := 0; looks int4; c text; r record; k int8;
BEGIN
  GET DIAGNOSTICS c = PG_CONTEXT;
  IF split_part(c, E'\n', 3) !~ '^PL/pgSQL function tutti\.commit_inside\(\) line ' THEN
    RAISE EXCEPTION 'tutti.converse is not for clients' USING ERRCODE = 'insufficient_privilege';
  END IF;
  id := (extract(epoch from clock_timestamp()) * 1000000)::int8::text;
  SELECT left(encode(sha256(convert_to(id, 'UTF8') || k.secret), 'hex'), 2 * @proof) INTO proof FROM tutti.token k;
  PERFORM tutti.native_xact_lock((@tag::int8 << 48) | (pg_backend_pid()::int8 << @shift) | @talks);
  RAISE INFO USING ERRCODE = '@state', MESSAGE = concat_ws(' ', id, proof, 'commit');
  LOOP
    spoken := spoken + 1;
    looks := 0;
    c := NULL;
    WHILE c IS NULL LOOP
      BEGIN
        LOOP
          SELECT s.command INTO c FROM tutti.said s WHERE s.pid = pg_backend_pid() AND s.conversation = id AND s.n = spoken;
          EXIT WHEN FOUND;
          looks := looks + 1;
          k := (@tag::int8 << 48) | (pg_backend_pid()::int8 << @shift) | (spoken % @waits);
          IF NOT tutti.native_try_shared(k) THEN
            PERFORM tutti.native_lock_shared(k), tutti.native_unlock_shared(k);
          ELSE
            PERFORM tutti.native_unlock_shared(k), CASE WHEN looks > 30 THEN pg_sleep(least(looks / 30, 10) * 0.001) END;
          END IF;
        END LOOP;
      EXCEPTION WHEN query_canceled THEN
        IF spoken = 1 THEN
          RAISE;
        END IF;
        RAISE INFO USING ERRCODE = '@state', MESSAGE = concat_ws(' ', id, proof, 'cancelled', SQLERRM);
      END;
    END LOOP;
    IF c = '@go' THEN
      RETURN;
    ELSIF c = '@fail' THEN
      RAISE EXCEPTION 'the transaction cannot commit here' USING ERRCODE = 'feature_not_supported', HINT = 'Connect to Tutti, and CALL the procedure there.';
    END IF;
    FOR r IN EXECUTE c LOOP
      RAISE INFO USING ERRCODE = '@state', MESSAGE = concat_ws(' ', id, proof, 'row', encode(record_send(r), 'hex'));
    END LOOP;
    RAISE INFO USING ERRCODE = '@state', MESSAGE = concat_ws(' ', id, proof, 'done');
  END LOOP;
END $tutti$;
`

// ownBegin is PL/pgSQL that makes sure that a transaction whose setting says so is one of Tutti's, or of a procedure's
// that will ask.
const ownBegin = "IF pg_catalog.transaction_timestamp() OPERATOR(pg_catalog.>=) pg_catalog.statement_timestamp() THEN PERFORM tutti.entered(); END IF;"
