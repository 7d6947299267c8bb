CREATE OR REPLACE FUNCTION tutti.rearm() RETURNS pg_catalog.void LANGUAGE plpgsql{{index_plans}}AS $tutti$
BEGIN
  IF current_setting('tutti.tags', true) ~ 'ALTER|DROP|ANYTHING' THEN
    UPDATE pg_trigger g SET tgenabled = 'R' FROM (SELECT h.oid FROM pg_trigger h WHERE h.tgrelid IN ({{locked}}) AND h.tgname = '{{name}}' AND h.tgenabled <> 'R') o WHERE g.oid = o.oid;
  END IF;
END $tutti$;
REVOKE ALL ON FUNCTION tutti.rearm FROM PUBLIC;
CREATE OR REPLACE FUNCTION tutti.refuse_replica() RETURNS trigger LANGUAGE plpgsql AS $tutti$
BEGIN
  RAISE EXCEPTION 'nothing can be written while session_replication_role is replica' USING ERRCODE = 'feature_not_supported', HINT = 'Leave it at origin.';
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.refuse_replica_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $tutti$
BEGIN
  IF {{foreign}} THEN
    RAISE EXCEPTION 'nothing can be defined while session_replication_role is replica' USING ERRCODE = 'feature_not_supported', HINT = 'Leave it at origin.';
  END IF;
END $tutti$;
DROP EVENT TRIGGER IF EXISTS "!tutti_replica";
CREATE EVENT TRIGGER "!tutti_replica" ON ddl_command_start EXECUTE FUNCTION tutti.refuse_replica_ddl();
ALTER EVENT TRIGGER "!tutti_replica" ENABLE REPLICA;
