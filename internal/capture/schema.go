package capture

import (
	"fmt"
	"strings"
)

// SchemaName is the schema everything of Tutti inside a database lives in.
const SchemaName = "tutti"

// TriggerName is the name of the row trigger on every captured table. It sorts before every
// name users are likely to choose, so that it fires first.
const TriggerName = "!!tutti"

// TruncateTriggerName is the name of the statement trigger on every captured table.
const TruncateTriggerName = "!!tutti_truncate"

// triggerNames are those of all triggers of Tutti.
var triggerNames = []string{TriggerName, TruncateTriggerName, insertTriggerName, updateTriggerName, deleteTriggerName, replicaTriggerName}

const (
	// OutsideState is the SQLSTATE of a write in a transaction that is not Tutti's.
	OutsideState = "TT001"
	// TransactionSetting must be 'on', DirectSetting or BulkSetting (SET LOCAL) in transactions
	// that write.
	TransactionSetting = "tutti.tx"
	// DDLSetting must be DDLOn (SET LOCAL) in transactions that repeat changes of the schema, and DDLOwn while objects
	// of Tutti's are made to fit. None but superusers can set it, who have no use for it: PostgreSQL would log the call
	// stack of errors in C functions of these names.
	DDLSetting = "backtrace_functions"
	DDLOn      = ddlPrefix + "on"
	DDLOwn     = ddlPrefix + "own"
	// TurnSetting is DDLTurn for a DETACH PARTITION that has its place in the order: it may end where LetDetach lets
	// it.
	TurnSetting = "tutti.ddl"
	DDLTurn     = "turn"
)

const (
	captureTables      = 4  // rotate with the xid
	serializableTables = 16 // chosen by backend, see C7
	windowBits         = 16 // transactions per window, as a power of two
)

// FireDeferred runs deferred constraints and triggers now. It must be executed by the session
// before collecting, as the client's own role: inside tutti.collect the client's
// triggers would run with Tutti's rights.
const FireDeferred = "SET CONSTRAINTS ALL IMMEDIATE"

// Schema returns the SQL that installs schema tutti, idempotently. It must be executed by a
// superuser with DDLSetting on, as one simple Query in one transaction.
func Schema() string { return schema() + noteInstalled() }

// schema is that without the note of it.
func schema() string {
	var b strings.Builder
	b.WriteString(releaseAll)
	b.WriteString(schemaHead)
	b.WriteString(keyFormFunction())
	for i := range captureTables {
		fmt.Fprintf(&b, captureTable, fmt.Sprintf("capture%d", i))
	}
	for i := range serializableTables {
		fmt.Fprintf(&b, captureTable, fmt.Sprintf("capture_s%d", i))
	}
	fmt.Fprintf(&b, putFunction, insertChain("new_tab, new_op, new_ident, new_keys, new_img"), serializableTables, window(),
		number(fmt.Sprintf("pg_catalog.concat('tutti.capture_s', pg_catalog.mod(pg_catalog.pg_backend_pid(), %d))", serializableTables)))
	b.WriteString(collectFunction())
	b.WriteString(sessionsSchema())
	b.WriteString(sequenceSchema())
	b.WriteString(insideSchema())
	b.WriteString(definitionSchema())
	b.WriteString(replicaSchema)
	b.WriteString(driftFunction())
	b.WriteString(viewsSchema)
	b.WriteString(sharedSchema())
	b.WriteString(recaptureSchema())
	b.WriteString(yieldFunction)
	b.WriteString(describeFunctions())
	b.WriteString(followFunctions())
	b.WriteString(outsideFunction())
	b.WriteString(extentFunction())
	b.WriteString(lockSchema())
	b.WriteString(largeSchema())
	b.WriteString(unnoticedFunction())
	b.WriteString(preparedSchema)
	b.WriteString(installedTable)
	b.WriteString(adoptAll())
	return b.String()
}

const schemaHead = `
DO $tutti$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'tutti_owner') THEN
    CREATE ROLE tutti_owner NOLOGIN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'tutti_reader') THEN
    CREATE ROLE tutti_reader NOLOGIN BYPASSRLS;
    GRANT pg_read_all_data TO tutti_reader;
  END IF;
  -- Triggers cast to row types and may name collations, in any schema.
  IF NOT pg_catalog.pg_has_role('tutti_owner', 'pg_read_all_data', 'MEMBER') THEN
    GRANT pg_read_all_data TO tutti_owner;
  END IF;
END $tutti$;
CREATE SCHEMA IF NOT EXISTS tutti AUTHORIZATION tutti_owner;
GRANT USAGE ON SCHEMA tutti TO PUBLIC;
DROP SEQUENCE IF EXISTS tutti.capture_n; -- of earlier versions
CREATE TABLE IF NOT EXISTS tutti.mark (
  slot pg_catalog.int4 PRIMARY KEY, incarnation pg_catalog.int8 NOT NULL, seq pg_catalog.int8 NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE IF NOT EXISTS tutti.progress (
  one pg_catalog.bool PRIMARY KEY DEFAULT true CHECK (one),
  ordinal pg_catalog.int8 NOT NULL DEFAULT 0, floor pg_catalog.int8 NOT NULL DEFAULT 0,
  member pg_catalog.int4 NOT NULL DEFAULT 0, cluster pg_catalog.text NOT NULL DEFAULT ''
) WITH (fillfactor = 10);
INSERT INTO tutti.progress DEFAULT VALUES ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS tutti.token (token pg_catalog.int8 PRIMARY KEY);
ALTER TABLE tutti.token ADD COLUMN IF NOT EXISTS secret pg_catalog.bytea, ADD COLUMN IF NOT EXISTS bytes_max pg_catalog.int8;
DO $tutti$ BEGIN
  IF pg_catalog.to_regtype('tutti.image') IS NULL THEN
    CREATE DOMAIN tutti.image AS pg_catalog.bytea;
    UPDATE pg_catalog.pg_type SET typstorage = 'e' WHERE oid OPERATOR(pg_catalog.=) 'tutti.image'::pg_catalog.regtype::pg_catalog.oid; -- kept as it is, outside of the row
  END IF;
END $tutti$;
CREATE TABLE IF NOT EXISTS tutti.checkpoint (one pg_catalog.bool PRIMARY KEY DEFAULT true CHECK (one), data tutti.image NOT NULL);
ALTER TABLE tutti.checkpoint ALTER COLUMN data TYPE tutti.image;
ALTER TABLE tutti.checkpoint OWNER TO tutti_owner;
CREATE TABLE IF NOT EXISTS tutti.database (id pg_catalog.int8 PRIMARY KEY, name pg_catalog.text COLLATE "C" NOT NULL, state pg_catalog.text NOT NULL, dropped pg_catalog.int8 NOT NULL DEFAULT 0);
ALTER TABLE tutti.database OWNER TO tutti_owner;
CREATE TABLE IF NOT EXISTS tutti.pending (ordinal pg_catalog.int8, done pg_catalog.bool DEFAULT false, item pg_catalog.bytea NOT NULL, PRIMARY KEY (ordinal, done));
ALTER TABLE tutti.pending OWNER TO tutti_owner;
CREATE TABLE IF NOT EXISTS tutti.listening (member pg_catalog.int4, channel pg_catalog.text COLLATE "C", PRIMARY KEY (member, channel));
ALTER TABLE tutti.listening OWNER TO tutti_owner;
ALTER TABLE tutti.token OWNER TO tutti_owner;
ALTER TABLE tutti.mark OWNER TO tutti_owner;
ALTER TABLE tutti.mark ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS mark ON tutti.mark;
CREATE POLICY mark ON tutti.mark USING (false) WITH CHECK (false);
REVOKE ALL ON tutti.mark FROM PUBLIC;
GRANT SELECT (slot), INSERT (slot, incarnation, seq), UPDATE (incarnation, seq) ON tutti.mark TO PUBLIC;
ALTER TABLE tutti.progress OWNER TO tutti_owner;
CREATE OR REPLACE VIEW tutti.prepared_by_user AS SELECT * FROM pg_catalog.pg_prepared_statements WHERE name !~ '^tutti ';
CREATE OR REPLACE VIEW tutti.prepared_statements_of_user AS SELECT * FROM pg_catalog.pg_prepared_statements WHERE name !~ '^tutti ';
ALTER VIEW tutti.prepared_by_user OWNER TO tutti_owner;
ALTER VIEW tutti.prepared_statements_of_user OWNER TO tutti_owner;
GRANT SELECT ON tutti.prepared_by_user, tutti.prepared_statements_of_user TO PUBLIC;
CREATE OR REPLACE VIEW tutti.captured_tables AS
  SELECT n.nspname AS schema, c.relname AS name, p.proname AS signature
  FROM pg_catalog.pg_trigger t
  JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
  WHERE t.tgname = '` + TriggerName + `' AND p.pronamespace = 'tutti'::pg_catalog.regnamespace;
`

const captureTable = `
CREATE UNLOGGED TABLE IF NOT EXISTS tutti.%[1]s (
  xid pg_catalog.int8 NOT NULL, n pg_catalog.int8 NOT NULL, tab pg_catalog.bytea NOT NULL,
  op pg_catalog.int2 NOT NULL, ident pg_catalog.int8, keys pg_catalog._int8, img tutti.image,
  PRIMARY KEY (xid, n)
) WITH (autovacuum_enabled = false, toast_tuple_target = 8160);
ALTER TABLE tutti.%[1]s ALTER img TYPE tutti.image;
ALTER TABLE tutti.%[1]s OWNER TO tutti_owner;
REVOKE ALL ON tutti.%[1]s FROM PUBLIC;
`

// window is SQL for which table this transaction's rows go to, captureTables for a SERIALIZABLE one.
func window() string {
	return fmt.Sprintf(`CASE WHEN pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'serializable' THEN %d
    ELSE (pg_catalog.txid_current() OPERATOR(pg_catalog.>>) %d) OPERATOR(pg_catalog.&) %d END`, captureTables, windowBits, captureTables-1)
}

// number is SQL for the place of the next captured row, or definition, among those of its transaction: how many rows
// the session has written to its table, the one given, whether they are still there or not. It grows with each of
// them, savepoint or not, costs what nextval would, and leaves lastval() alone. With track_counts off it does not grow,
// and the second row violates the primary key.
func number(table string) string {
	return fmt.Sprintf("(pg_catalog.pg_stat_get_xact_tuples_inserted(%s::pg_catalog.regclass) OPERATOR(pg_catalog.<<) %d)", table, numberBits)
}

// numberBits is room for the definitions between two captured rows.
const numberBits = 32

// insertChain is the PL/pgSQL that writes one captured row; values are the last five columns,
// and the variable s is the window.
func insertChain(values string) string {
	var b strings.Builder
	for i := range captureTables {
		word := "ELSIF"
		if i == 0 {
			word = "IF"
		}
		fmt.Fprintf(&b, `  %s s OPERATOR(pg_catalog.=) %d THEN
    INSERT INTO tutti.capture%d VALUES (pg_catalog.txid_current(), %s, %s);
`, word, i, i, number(fmt.Sprintf("'tutti.capture%d'", i)), values)
	}
	fmt.Fprintf(&b, "  ELSE\n    PERFORM tutti.put_serializable(%s);\n  END IF;\n", values)
	return b.String()
}

const putFunction = `
CREATE OR REPLACE FUNCTION tutti.put_serializable(new_tab pg_catalog.bytea, new_op pg_catalog.int2, new_ident pg_catalog.int8,
  new_keys pg_catalog._int8, new_img pg_catalog.bytea) RETURNS pg_catalog.void LANGUAGE plpgsql AS $tutti$
BEGIN
  EXECUTE pg_catalog.concat('INSERT INTO tutti.capture_s', pg_catalog.mod(pg_catalog.pg_backend_pid(), %[2]d),
    ' VALUES (pg_catalog.txid_current(), $6, $1, $2, $3, $4, $5)')
    USING new_tab, new_op, new_ident, new_keys, new_img, %[4]s;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.put(new_tab pg_catalog.bytea, new_op pg_catalog.int2, new_ident pg_catalog.int8,
  new_keys pg_catalog._int8, new_img pg_catalog.bytea) RETURNS pg_catalog.void LANGUAGE plpgsql AS $tutti$
DECLARE s pg_catalog.int8;
BEGIN
  s := %[3]s;
%[1]sEND $tutti$;
ALTER FUNCTION tutti.put_serializable OWNER TO tutti_owner;
ALTER FUNCTION tutti.put OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.put_serializable FROM PUBLIC;
REVOKE ALL ON FUNCTION tutti.put FROM PUBLIC;
`

// CleanupSQL returns statements that empty captured-row tables no running transaction uses.
// Run it every few seconds as a simple Query outside a transaction, as a superuser; it
// never waits for a lock (C6) and does nothing while all tables are small.
func CleanupSQL() string { return cleanupSQL(windowBits) }

func cleanupSQL(bits int) string {
	return fmt.Sprintf(`DO $tutti$
DECLARE w pg_catalog.int8; k pg_catalog.text; names pg_catalog.text[] := '{}';
BEGIN
  PERFORM pg_catalog.set_config('session_replication_role', 'replica', true);
  w := (pg_catalog.txid_current() OPERATOR(pg_catalog.>>) %d) OPERATOR(pg_catalog.&) %d;
  FOR i IN 0..%d LOOP
    IF i OPERATOR(pg_catalog.<>) w THEN names := names OPERATOR(pg_catalog.||) pg_catalog.concat('tutti.capture', i); END IF;
  END LOOP;
  FOR i IN 0..%d LOOP names := names OPERATOR(pg_catalog.||) pg_catalog.concat('tutti.capture_s', i); END LOOP;
  FOREACH k IN ARRAY names OPERATOR(pg_catalog.||) 'tutti.inside'::pg_catalog.text LOOP
    IF pg_catalog.pg_table_size(k::pg_catalog.regclass) OPERATOR(pg_catalog.>) 1000000 THEN
      BEGIN
        EXECUTE pg_catalog.concat('LOCK TABLE ', k, ' IN ACCESS EXCLUSIVE MODE NOWAIT');
        EXECUTE pg_catalog.concat('TRUNCATE ', k);
      EXCEPTION WHEN lock_not_available THEN NULL;
      END;
    END IF;
  END LOOP;
END $tutti$`, bits, captureTables-1, captureTables-1, serializableTables-1)
}
