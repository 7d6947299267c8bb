package capture

import (
	"fmt"
)

// As a replica (session_replication_role) a superuser's session fires none of the triggers that capture. Those here
// fire in no other: they cost nothing at the origin. What Tutti itself does as a replica says so by DDLSetting, which
// none but superusers can set.

// replicaTriggerName is the name of the trigger that refuses statements of such a session.
const replicaTriggerName = "!!tutti_replica"

// DDLApplies is DDLSetting's value where what others have done is carried out.
const DDLApplies = ddlPrefix + "applies"

const ddlPrefix = "tutti_"

// foreign is the condition that a session is none of Tutti's own.
const foreign = "NOT pg_catalog.starts_with(pg_catalog.current_setting('" + DDLSetting + "'), '" + ddlPrefix + "')"

// replicaTrigger makes it; tutti.hide_triggers has it fire as a replica, and tutti.rearm does again.
func replicaTrigger(table string) string {
	return fmt.Sprintf(
		`CREATE OR REPLACE TRIGGER %q BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s FOR EACH STATEMENT
  WHEN (pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.=) 'replica' AND %s) EXECUTE FUNCTION tutti.refuse_replica()`,
		replicaTriggerName, table, foreign)
}

// replicaFunctions: ENABLE TRIGGER ALL has all triggers of a table fire at the origin, which tutti.rearm takes back,
// after each definition that may have been one.
func replicaFunctions() string {
	return install("replica.sql", words{
		"index_plans": indexPlans,
		"locked":      lockedRelations,
		"name":        replicaTriggerName,
		"foreign":     foreign,
	})
}
