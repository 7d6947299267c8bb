package capture

import (
	"fmt"
	"strings"
)

// What follows up a definition is done by functions where it can be: a session keeps their plans, and to make
// them costs more than to run them.

// indexPlans are SET clauses for functions that look at few rows of catalogs which may be large.
const indexPlans = " SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan " +
	"SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off "

// followFunctions install them.
func followFunctions() string {
	of := "SELECT 'pg_proc'::regclass::oid AS class, oid AS object, 0 AS part, proacl AS acl FROM pg_proc WHERE " +
		"pronamespace = 'tutti'::regnamespace AND proname = ANY (made)"
	return install("follow.sql", words{
		"index_plans":          indexPlans,
		"adopt":                adopt("SELECT class, object FROM ("+of+") AS functions", of),
		"direct_function":      strings.ReplaceAll(directFunction, "'", "''"),
		"replica_trigger_name": replicaTriggerName,
		"trigger_names":        "{" + strings.Join(triggerNames, ",") + "}",
		"events_query":         EventsQuery,
		"code_query":           codeQuery,
	})
}

// Ready is a statement of the applier of definitions, which is a superuser's. It has functions that are local to a
// session give way to a definition by a role. It returns whether the role is a superuser, NULL if there is none, and
// whether users have event triggers; the third column has set the role, where it is one and they have none.
func Ready(role, definition string) string {
	return fmt.Sprintf("SELECT super, events, CASE WHEN super AND NOT events THEN pg_catalog.set_config('role', "+
		"%[1]s, true) END FROM tutti.ready(%[1]s, %[2]s)", escaped(role), escaped(definition))
}

// OwnSettings takes back what a definition or its origin has set, but for what was noted of the kinds of
// definitions; for the same applier.
const OwnSettings = "SELECT tutti.own_settings()"

// adoptFunctions makes functions of schema tutti, given by name, members of the extension.
func adoptFunctions(names []string) string {
	return "SELECT tutti.adopt_functions(" + nameArray(names) + ")"
}

// dropFunctions drops functions of schema tutti, given by name, and takes them out of the extension before.
func dropFunctions(names []string) string {
	return "SELECT tutti.drop_functions(" + nameArray(names) + ")"
}

// dropFunctionsOf drops the functions of tables, given by their keys in hexadecimal, but for some.
func dropFunctionsOf(tables, kept []string) string {
	return "SELECT tutti.drop_functions_of(" + nameArray(tables) + ", " + nameArray(kept) + ")"
}

// hidden marks the triggers of a table as internal ones, or takes the mark away: psql and pg_dump pass
// over them, and ALTER TABLE … DISABLE TRIGGER USER leaves them on. PostgreSQL does not replace a
// trigger that has it. What it replaces it enables as well; ALTER TABLE would not take a partition that is detached in
// part.
func hidden(name string, yes bool) string {
	return fmt.Sprintf("SELECT tutti.hide_triggers(%s::pg_catalog.regclass, %t)", literal(name), yes)
}

func nameArray(names []string) string { return "'{" + strings.Join(names, ",") + "}'" }
