package capture

import (
	"strings"
)

// lockedRelations are the relations that this transaction has locked as definitions do. A function where it stands may
// have a parameter that is called granted.
const lockedRelations = `SELECT relation FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'
      AND pg_locks.granted AND mode IN ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
        'AccessExclusiveLock')`

// DescribeQuery returns the query whose one row and column DecodeDescribe reads. It must run
// as a superuser in a database where Schema is installed. It describes all tables, or where tutti.partial
// says so those that this transaction has locked against definitions.
func DescribeQuery() string { return DescribeLocked + " FROM tutti.locked()" }

// DescribeLocked is DescribeQuery beside tutti.locked.
const DescribeLocked = "SELECT tutti.describe(locks, barred)"

// DescribeSome is DescribeLocked beside SomeTables.
const DescribeSome = "SELECT tutti.describe_some(locks, false, false)"

// SomeTables gives the tables of users whose schemas and names are in $1 and $2 like tutti.locked what this transaction
// has locked.
const SomeTables = `(SELECT ARRAY(SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN unnest($1::text[], $2::text[]) AS u(schema, name) ON u.schema = n.nspname AND u.name = c.relname
  WHERE n.nspname <> 'tutti') AS locks,
  '[]' AS changed) AS named`

// fewTables is how many tables are described one by one, where all are.
const fewTables = 128

// describeFunctions describe tables: few, or many. The queries are long: as functions of PL/pgSQL they are
// planned once in a session. Of few tables everything is found through indexes, however large
// the catalogs are. Every name outside pg_catalog is printed qualified.
// With tables that a transaction has changed are described the other ends of foreign keys that were changed or refer to
// keys that were, and those that have their rows in columns, as such, in arrays, domains, ranges or other row types:
// keys and images of rows depend on these.
func describeFunctions() string {
	const indexes = " SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off " +
		"SET enable_mergejoin = off "
	const usual = " SET enable_seqscan = on SET enable_hashjoin = on SET enable_mergejoin = on " +
		"SET enable_material = on "
	return describeFunction("describe_some", indexes, apart) + describeFunction("describe_many", usual, "") +
		install("describe.sql", words{
			"index_plans": indexPlans,
			"rename_tag":  renameTag,
			"move_tag":    moveTag,
			"index_tag":   indexTag,
			"few":         fewTables,
		})
}

// triggerList are triggerNames as SQL.
var triggerList = "'" + strings.Join(triggerNames, "', '") + "'"

// apart has a row of a catalog looked up for each row that asks for it. PostgreSQL would rather read a part of the
// catalog that it takes for small, and which grows with the number of tables.
const apart = "OFFSET 0"

// usualTypes are the OIDs of types that travel in binary and are made of no others, and wordTypes of those of
// PostgreSQL's that hold text. Tables of nothing but usual types are described with less than half the plan.
const (
	usualTypes = "16, 17, 20, 21, 23, 25, 26, 114, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, 1186, 1266, 1700, " +
		"2950, 3802"
	wordTypes = "19, 25, 114, 142, 1042, 1043, 1790, 3614, 3615, 3802, 4072"
)

// describeFunction is a function that describes some tables.
func describeFunction(name, settings, apart string) string {
	columns := fragment("describe_columns.sql", nil)
	types := fragment("describe_types.sql", words{"columns": columns})
	forms := fragment("describe_forms.sql", words{"apart": apart, "word_types": wordTypes})
	parts := fragment("describe_parts.sql", words{"plain_types": PlainTypes, "form_own": formOwn})
	tables := func(w words) string {
		w["parts"], w["trigger_list"], w["trigger_name"] = parts, triggerList, TriggerName
		w["truncate_trigger_name"], w["replica_trigger_name"] = TruncateTriggerName, replicaTriggerName
		return fragment("describe_tables.sql", w)
	}
	return install("describe_function.sql", words{
		"name":        name,
		"settings":    settings,
		"apart":       apart,
		"types":       types,
		"parts":       parts,
		"usual_types": usualTypes,
		"tables_of_usual_types": tables(words{
			"recursive": "", "types": columns, "binary": "true", "join_binary": "", "words": wordTypes,
		}),
		"tables_of_any_types": tables(words{
			"recursive":   "RECURSIVE ",
			"types":       types + ", " + forms,
			"binary":      "bt.ok",
			"join_binary": " JOIN binary_types bt ON bt.root = a.atttypid",
			"words":       "SELECT oid FROM words",
		}),
	})
}
