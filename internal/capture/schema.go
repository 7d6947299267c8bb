package capture

import (
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// SchemaName is the schema everything of Tutti inside a database lives in.
const SchemaName = writeset.OwnSchema

// TriggerName is the name of the row trigger on every captured table. It sorts before every
// name users are likely to choose, so that it fires first.
const TriggerName = "!!tutti"

// TruncateTriggerName is the name of the statement trigger on every captured table.
const TruncateTriggerName = "!!tutti_truncate"

// triggerNames are those of all triggers of Tutti.
var triggerNames = []string{TriggerName, TruncateTriggerName, insertTriggerName, updateTriggerName, deleteTriggerName,
	replicaTriggerName}

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
	b.WriteString(install("schema.sql", words{"trigger_name": TriggerName}))
	b.WriteString(keyFormFunction())
	for i := range captureTables {
		b.WriteString(captureTable(fmt.Sprintf("capture%d", i)))
	}
	for i := range serializableTables {
		b.WriteString(captureTable(fmt.Sprintf("capture_s%d", i)))
	}
	b.WriteString(install("put.sql", words{
		"serializable_tables": serializableTables,
		"number": number(fmt.Sprintf("pg_catalog.concat('tutti.capture_s', "+
			"pg_catalog.mod(pg_catalog.pg_backend_pid(), %d))", serializableTables)),
		"window":       window(),
		"insert_chain": insertChain("new_tab, new_op, new_ident, new_keys, new_img"),
	}))
	b.WriteString(collectFunction())
	b.WriteString(sessionsSchema())
	b.WriteString(metricsSchema())
	b.WriteString(sequenceSchema())
	b.WriteString(insideSchema())
	b.WriteString(definitionSchema())
	b.WriteString(replicaFunctions())
	b.WriteString(driftFunction())
	b.WriteString(viewsFunctions())
	b.WriteString(sharedSchema())
	b.WriteString(recaptureSchema())
	b.WriteString(install("yield.sql", nil))
	b.WriteString(describeFunctions())
	b.WriteString(followFunctions())
	b.WriteString(outsideFunction())
	b.WriteString(extentFunction())
	b.WriteString(lockSchema())
	b.WriteString(largeSchema())
	b.WriteString(unnoticedFunction())
	b.WriteString(install("prepared.sql", nil))
	b.WriteString(install("installed.sql", nil))
	b.WriteString(adoptAll())
	return b.String()
}

// window is SQL for which table this transaction's rows go to, captureTables for a SERIALIZABLE one.
func window() string {
	return fmt.Sprintf(
		`CASE WHEN pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'serializable' THEN %d
    ELSE (pg_catalog.txid_current() OPERATOR(pg_catalog.>>) %d) OPERATOR(pg_catalog.&) %d END`, captureTables, windowBits, captureTables-1)
}

// number is SQL for the place of the next captured row, or definition, among those of its transaction: how many rows
// the session has written to its table, the one given, whether they are still there or not. It grows with each of
// them, savepoint or not, costs what nextval would, and leaves lastval() alone. With track_counts off it does not grow,
// and the second row violates the primary key.
func number(table string) string {
	return fmt.Sprintf("(pg_catalog.pg_stat_get_xact_tuples_inserted(%s::pg_catalog.regclass) "+
		"OPERATOR(pg_catalog.<<) %d)", table, numberBits)
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

// captureTable is one of the tables that captured rows go to.
func captureTable(name string) string { return install("capture_table.sql", words{"name": name}) }

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
