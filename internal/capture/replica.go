package capture

import (
	"fmt"
	"strings"
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
	return fmt.Sprintf(`CREATE OR REPLACE TRIGGER %q BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s FOR EACH STATEMENT
  WHEN (pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.=) 'replica' AND %s) EXECUTE FUNCTION tutti.refuse_replica()`,
		replicaTriggerName, table, foreign)
}

// replicaSchema: ENABLE TRIGGER ALL has all triggers of a table fire at the origin, which tutti.rearm takes back, after each
// definition that may have been one.
var replicaSchema = strings.NewReplacer("@name", replicaTriggerName, "@locked", lockedRelations, "@foreign", foreign).Replace(`
CREATE OR REPLACE FUNCTION tutti.rearm() RETURNS pg_catalog.void LANGUAGE plpgsql` + indexPlans + `AS $tutti$
BEGIN
  IF current_setting('tutti.tags', true) ~ 'ALTER|DROP|ANYTHING' THEN
    UPDATE pg_trigger g SET tgenabled = 'R' FROM (SELECT h.oid FROM pg_trigger h WHERE h.tgrelid IN (@locked) AND h.tgname = '@name' AND h.tgenabled <> 'R') o WHERE g.oid = o.oid;
  END IF;
END $tutti$;
REVOKE ALL ON FUNCTION tutti.rearm FROM PUBLIC;
CREATE OR REPLACE FUNCTION tutti.refuse_replica() RETURNS trigger LANGUAGE plpgsql AS $tutti$
BEGIN
  RAISE EXCEPTION 'nothing can be written while session_replication_role is replica' USING ERRCODE = 'feature_not_supported', HINT = 'Leave it at origin.';
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.refuse_replica_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $tutti$
BEGIN
  IF @foreign THEN
    RAISE EXCEPTION 'nothing can be defined while session_replication_role is replica' USING ERRCODE = 'feature_not_supported', HINT = 'Leave it at origin.';
  END IF;
END $tutti$;
DROP EVENT TRIGGER IF EXISTS "!tutti_replica";
CREATE EVENT TRIGGER "!tutti_replica" ON ddl_command_start EXECUTE FUNCTION tutti.refuse_replica_ddl();
ALTER EVENT TRIGGER "!tutti_replica" ENABLE REPLICA;
`)
