package capture

import (
	"strings"
)

// lockedRelations are the relations that this transaction has locked as definitions do.
const lockedRelations = `SELECT relation FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' ` +
	`AND granted
      AND mode IN ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`

// rekeyedRelations are those of them whose rows foreign keys may know by another index now: it was made, or has become
// that of a partition.
const rekeyedRelations = `SELECT relation FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND ` +
	`granted AND mode IN ('ShareLock', 'AccessExclusiveLock')`

// DescribeQuery returns the query whose one row and column DecodeDescribe reads. It must run
// as a superuser in a database where Schema is installed. It describes all tables, or where tutti.partial
// says so those that this transaction has locked against definitions.
func DescribeQuery() string { return "SELECT tutti.describe()" }

// DescribeSomeQuery is DescribeQuery for the tables whose schemas and names are in $1 and $2.
const DescribeSomeQuery = `SELECT tutti.describe_some(ARRAY(SELECT c.oid FROM pg_class c JOIN pg_namespace n ON ` +
	`n.oid = c.relnamespace
  JOIN unnest($1::text[], $2::text[]) AS u(schema, name) ON u.schema = n.nspname AND u.name = c.relname))`

// describeFunctions describe all tables, or some. The queries are long: as functions of PL/pgSQL they are
// planned once in a session. Of few tables everything is found through indexes, however large
// the catalogs are. Every name outside pg_catalog is printed qualified.
// With tables that a transaction has changed are described the other ends of foreign keys that were changed or refer to
// keys that were, and those that have their rows in columns, as such, in arrays, domains, ranges or other row types:
// keys and images of rows depend on these.
func describeFunctions() string {
	const indexes = " SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off " +
		"SET enable_mergejoin = off"
	const usual = " SET enable_seqscan = on SET enable_hashjoin = on SET enable_mergejoin = on SET enable_material = on"
	all := describeQuery("false", "", "false",
		"AND p.proname ~ '^(capture|bulk|final|direct)_[0-9a-f]{16}(_[0-9a-f]{16})?$'")
	some := describeQuery("true", "AND c.oid = ANY (wanted)", "NOT "+createsOnly, "AND NOT "+createsOnly+someFunctions)
	return install("describe_function.sql", words{"name": "all()", "settings": usual, "query": all}) +
		install("describe_function.sql", words{"name": "some(wanted pg_catalog._oid)", "settings": indexes,
			"query": some}) +
		install("describe.sql", words{
			"locked_relations":  lockedRelations,
			"rename_tag":        renameTag,
			"rekeyed_relations": rekeyedRelations,
		})
}

// someFunctions is SQL for those of our functions that some tables do not have: a table may not be captured any more.
const someFunctions = ` AND (p.proname >= 'd' OR NOT EXISTS (SELECT FROM pg_depend d JOIN pg_trigger g ON g.oid ` +
	`= d.objid
       WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid AND d.classid = 'pg_trigger'::regclass AND g.tgrelid <> ALL (wanted)))`

// createsOnly is SQL for whether the transaction's definitions were none that can leave functions of ours
// without a table. Those that a table had before are known by its triggers.
const createsOnly = "(SELECT string_to_array(ltrim(current_setting('tutti.tags', true), ','), ',') <@ '{CREATE " +
	"TABLE,ALTER TABLE,RENAME COLUMN,CREATE INDEX,DROP INDEX,CREATE TRIGGER,DROP TRIGGER,CREATE TABLE AS,SELECT " +
	"INTO,CREATE VIEW,CREATE SEQUENCE,CREATE FUNCTION,CREATE PROCEDURE,CREATE SCHEMA,CREATE TYPE,CREATE " +
	"DOMAIN,COMMENT,GRANT,REVOKE}')"

// triggerList are triggerNames as SQL.
var triggerList = "'" + strings.Join(triggerNames, "', '") + "'"

// describeQuery describes tables: what differs between all and some comes in.
func describeQuery(partial, tables, names, functions string) string {
	return install("describe_query.sql", words{
		"plain_types":           PlainTypes,
		"form_own":              formOwn,
		"trigger_list":          triggerList,
		"trigger_name":          TriggerName,
		"truncate_trigger_name": TruncateTriggerName,
		"replica_trigger_name":  replicaTriggerName,
		"partial":               partial,
		"tables":                tables,
		"names":                 names,
		"functions":             functions,
	})
}
