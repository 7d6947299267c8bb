-- Makes functions members of the extension, see adopt.
CREATE OR REPLACE FUNCTION tutti.adopt_functions(made pg_catalog._name) RETURNS pg_catalog.void LANGUAGE plpgsql{{index_plans}}AS $tutti$
BEGIN
  {{adopt}};
END $tutti$;
-- Drops functions of schema tutti. A client's view may name one.
CREATE OR REPLACE FUNCTION tutti.drop_functions(gone pg_catalog._name) RETURNS pg_catalog.void LANGUAGE plpgsql{{index_plans}}AS $tutti$
DECLARE list text;
BEGIN
  SELECT string_agg(p.oid::regprocedure::text, ', ') INTO list FROM pg_proc p WHERE p.proname = ANY (gone) AND p.pronamespace = 'tutti'::regnamespace
    AND to_regprocedure(p.oid::regprocedure::text) IS NOT NULL; -- others may drop it, too: a snapshot may show what is gone
  IF list IS NOT NULL THEN
    DELETE FROM pg_depend d USING pg_proc p WHERE d.deptype = 'e' AND d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND p.pronamespace = 'tutti'::regnamespace AND p.proname = ANY (gone);
    EXECUTE concat('DROP FUNCTION IF EXISTS ', list, ' CASCADE');
  END IF;
END $tutti$;
DROP FUNCTION IF EXISTS tutti.drop_directs(pg_catalog.text, pg_catalog.text); -- of earlier versions
-- Drops the functions of tables, given by their keys in hexadecimal, but for some; and but for those of tables that others have made meanwhile.
CREATE OR REPLACE FUNCTION tutti.drop_functions_of(tables pg_catalog._text, kept pg_catalog._name) RETURNS pg_catalog.void LANGUAGE plpgsql{{index_plans}}AS $tutti$
DECLARE old name[]; used text[];
BEGIN
  SELECT array_agg(p.proname), array_agg(t) FILTER (WHERE EXISTS (SELECT FROM (SELECT * FROM pg_depend WHERE refclassid = 'pg_proc'::regclass AND refobjid = p.oid OFFSET 0) d
      JOIN pg_trigger g ON g.oid = d.objid JOIN pg_class c ON c.oid = g.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE d.classid = 'pg_trigger'::regclass AND c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti')))
    INTO old, used FROM unnest(tables) t CROSS JOIN unnest('{capture,bulk,direct,final}'::text[]) k
    CROSS JOIN LATERAL (SELECT * FROM pg_proc WHERE proname >= concat(k, '_', t)::name AND proname < concat(k, '_', t, 'g')::name AND pronamespace = 'tutti'::regnamespace OFFSET 0) p
    WHERE p.proname <> ALL (kept);
  old := ARRAY(SELECT o FROM unnest(old) o WHERE split_part(o::text, '_', 2) <> ALL (coalesce(used, '{}')));
  IF old <> '{}' THEN
    PERFORM tutti.drop_functions(old);
  END IF;
END $tutti$;
DROP FUNCTION IF EXISTS tutti.rename_function(pg_catalog.name, pg_catalog.name); -- of earlier versions
-- Gives a function without parameters another name, which may be that of one that is left over.
CREATE OR REPLACE FUNCTION tutti.rename_function(was pg_catalog.name, new_name pg_catalog.name, definition pg_catalog.text DEFAULT NULL) RETURNS pg_catalog.void LANGUAGE plpgsql{{index_plans}}AS $tutti$
BEGIN
  IF to_regproc(format('tutti.%I', was)) IS NULL THEN RETURN; END IF; -- by now it is another's, with a definition of its own
  IF was <> new_name THEN
    PERFORM tutti.drop_functions(ARRAY[new_name]);
    EXECUTE format('ALTER FUNCTION tutti.%I() RENAME TO %I', was, new_name);
  END IF;
  IF definition IS NOT NULL THEN EXECUTE definition; END IF;
END $tutti$;
-- The same for the direct function of a table, whatever it is called. To statements that name it, it is gone.
CREATE OR REPLACE FUNCTION tutti.rename_direct(prefix pg_catalog.text, new_name pg_catalog.name) RETURNS pg_catalog.void LANGUAGE plpgsql{{index_plans}}AS $tutti$
DECLARE old name[] := ARRAY(SELECT proname FROM pg_proc WHERE proname >= prefix::name AND proname < (prefix || 'g')::name AND pronamespace = 'tutti'::regnamespace);
BEGIN
  IF cardinality(old) = 1 THEN
    PERFORM tutti.rename_function(old[1], new_name);
    RETURN;
  END IF;
  PERFORM tutti.drop_functions(old);
  EXECUTE format('{{direct_function}}', format('tutti.%I', new_name));
  EXECUTE format('ALTER FUNCTION tutti.%I() OWNER TO tutti_owner', new_name);
  PERFORM tutti.adopt_functions(ARRAY[new_name]);
END $tutti$;
-- Has statements done to a table that goes by this name, behind the lock that making triggers takes. If it does not any more,
-- another transaction has dropped it meanwhile, or named it anew and done the same.
CREATE OR REPLACE FUNCTION tutti.refit(rel pg_catalog.oid, name pg_catalog.text, statements pg_catalog.text) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  BEGIN
    EXECUTE concat('LOCK TABLE ONLY ', name, ' IN SHARE ROW EXCLUSIVE MODE');
  EXCEPTION WHEN undefined_table OR invalid_schema_name THEN
    RETURN;
  END;
  IF to_regclass(name) = rel THEN
    EXECUTE statements;
  END IF;
END $tutti$;
-- Marks the triggers of a table as internal ones, or takes the mark away.
CREATE OR REPLACE FUNCTION tutti.hide_triggers(rel pg_catalog.oid, yes pg_catalog.bool) RETURNS pg_catalog.void LANGUAGE plpgsql{{index_plans}}AS $tutti$
BEGIN
  UPDATE pg_trigger SET tgisinternal = yes, tgenabled = CASE tgname WHEN '{{replica_trigger_name}}' THEN 'R' ELSE tgenabled END WHERE tgrelid = rel AND tgname = ANY ('{{trigger_names}}'::_name) AND tgisinternal <> yes;
END $tutti$;
DROP FUNCTION IF EXISTS tutti.changed_tables(); -- of earlier versions
-- What this transaction has locked as definitions do, of that what it has locked against writers, and a JSON array of schema and name
-- of the tables of users that it holds so that it may have changed them, or what their rows mean: code of users that it ran may write
-- anywhere. PostgreSQL looks at the locks of all sessions for that, so it is asked once.
CREATE OR REPLACE FUNCTION tutti.locked(OUT locks pg_catalog._oid, OUT barred pg_catalog._oid, OUT changed pg_catalog.text) LANGUAGE plpgsql{{index_plans}}AS $tutti$
DECLARE written oid[];
BEGIN
  SELECT coalesce(array_agg(l.relation) FILTER (WHERE l.mode <> 'RowExclusiveLock'), '{}'), coalesce(array_agg(l.relation) FILTER (WHERE l.mode IN ('ShareLock', 'AccessExclusiveLock')), '{}'),
      array_agg(l.relation) FILTER (WHERE l.mode <> 'ShareUpdateExclusiveLock') INTO locks, barred, written
    FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted
      AND l.mode IN ('RowExclusiveLock', 'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock');
  changed := (SELECT coalesce(json_agg(DISTINCT jsonb_build_array(n.nspname, c.relname)), '[]') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = ANY (written) AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti'));
END $tutti$;
-- A JSON array of schema and name of the tables that this transaction has locked as definitions do, and whether against writers.
CREATE OR REPLACE FUNCTION tutti.touched() RETURNS pg_catalog.json LANGUAGE plpgsql{{index_plans}}AS $tutti$
DECLARE held oid[]; barred oid[];
BEGIN
  SELECT array_agg(l.relation), coalesce(array_agg(l.relation) FILTER (WHERE l.mode <> 'ShareUpdateExclusiveLock'), '{}') INTO held, barred
    FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted
      AND l.mode IN ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock');
  RETURN (SELECT coalesce(json_agg(jsonb_build_array(n.nspname, c.relname, c.oid = ANY (barred))), '[]') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = ANY (held) AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti'));
END $tutti$;
-- What is to be known before a definition is repeated: NULL if there is no such role.
CREATE OR REPLACE FUNCTION tutti.ready(who pg_catalog.name, definition pg_catalog.text, OUT super pg_catalog.bool, OUT events pg_catalog.bool) LANGUAGE plpgsql{{index_plans}}AS $tutti$
BEGIN
  PERFORM tutti.yield_functions(definition);
  SELECT rolsuper INTO super FROM pg_roles WHERE rolname = who;
  events := {{events_query}};
END $tutti$;
-- Gives the applier its own settings back; what was noted of the definitions is kept.
CREATE OR REPLACE FUNCTION tutti.own_settings() RETURNS pg_catalog.void LANGUAGE plpgsql AS $tutti$
DECLARE tags pg_catalog.text := pg_catalog.current_setting('tutti.tags', true); gone pg_catalog.text := pg_catalog.current_setting('tutti.gone', true);
BEGIN
  RESET ALL;
  PERFORM pg_catalog.set_config('tutti.tags', tags, true), pg_catalog.set_config('tutti.gone', gone, true), pg_catalog.set_config('search_path', 'pg_catalog', true), pg_catalog.set_config('client_min_messages', 'warning', true);
END $tutti$;
-- What is told of a database besides its tables, see catalog. A transaction that has only made or changed what it has locked
-- says nothing of the rest: then views, rights or code are NULL, which leaves them as they were. Known: what was before is known,
-- deferred and granted are how it was; locks are what it has locked. What tutti.inside defers is queued in procedures that commit alone.
DROP FUNCTION IF EXISTS tutti.besides(pg_catalog.bool, pg_catalog.bool, pg_catalog.bool);
DROP FUNCTION IF EXISTS tutti.besides(pg_catalog.bool, pg_catalog.bool, pg_catalog.bool, pg_catalog._oid);
CREATE OR REPLACE FUNCTION tutti.besides(known pg_catalog.bool, deferred pg_catalog.bool, granted pg_catalog.bool, locks pg_catalog._oid, OUT defers pg_catalog.bool, OUT views pg_catalog._text, OUT rights pg_catalog._text, OUT events pg_catalog.bool, OUT code pg_catalog.bool)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on SET enable_hashjoin = on SET enable_mergejoin = on AS $tutti$
#variable_conflict use_variable
DECLARE tags text[] := CASE WHEN known AND tutti.partial() THEN string_to_array(ltrim(current_setting('tutti.tags', true), ','), ',') END;
BEGIN
  PERFORM tutti.rearm();
  IF tags IS NOT NULL AND NOT deferred THEN
    defers := tutti.defers(locks);
  ELSE
    defers := EXISTS (SELECT FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid WHERE g.tgdeferrable AND c.relpersistence <> 't' AND c.oid <> 'tutti.inside'::regclass)
      OR EXISTS (SELECT FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid WHERE k.condeferrable AND c.relpersistence <> 't' AND c.oid <> 'tutti.inside'::regclass);
  END IF;
  IF (tags <@ '{CREATE TABLE,CREATE TABLE AS,SELECT INTO,CREATE FUNCTION,CREATE PROCEDURE,CREATE AGGREGATE,CREATE OPERATOR,CREATE TYPE,CREATE DOMAIN,CREATE INDEX,ALTER INDEX,DROP INDEX,CREATE TRIGGER,DROP TRIGGER,CREATE SEQUENCE,ALTER SEQUENCE,COMMENT,GRANT,REVOKE}') IS NOT TRUE THEN
    views := ARRAY(SELECT DISTINCT c.relname::text FROM (SELECT ev_class FROM pg_rewrite UNION ALL SELECT ftrelid FROM pg_foreign_table) r(oid) JOIN pg_class c ON c.oid = r.oid
      WHERE c.relkind IN ('v', 'm', 'f')); -- all views have a rule
  END IF;
  IF granted OR (tags <@ '{CREATE TABLE,CREATE TABLE AS,SELECT INTO,CREATE FUNCTION,CREATE PROCEDURE,CREATE AGGREGATE,CREATE OPERATOR,CREATE TYPE,CREATE DOMAIN,DROP FUNCTION,DROP PROCEDURE,ALTER TABLE,DROP TABLE,CREATE INDEX,ALTER INDEX,DROP INDEX,CREATE TRIGGER,DROP TRIGGER,CREATE SEQUENCE,ALTER SEQUENCE,DROP SEQUENCE,CREATE VIEW,DROP VIEW,COMMENT}') IS NOT TRUE THEN
    rights := ARRAY(SELECT c.relname::text FROM pg_class c WHERE c.oid IN (SELECT a.attrelid FROM pg_attribute a WHERE a.attacl IS NOT NULL));
  END IF;
  events := {{events_query}};
  IF (tags <@ '{CREATE TABLE,ALTER TABLE,DROP TABLE,CREATE INDEX,ALTER INDEX,DROP INDEX,CREATE TRIGGER,DROP TRIGGER,CREATE SEQUENCE,ALTER SEQUENCE,DROP SEQUENCE,COMMENT}') IS NOT TRUE THEN
    code := {{code_query}};
  END IF;
END $tutti$;
-- Whether the definitions concern nothing but the tables that this transaction has locked, which made them or has been told of them: they
-- are of none but tables, their indexes and sequences, and nobody finds something new by a name by which he found something else.
CREATE OR REPLACE FUNCTION tutti.narrow(made pg_catalog.bool, locks pg_catalog._oid) RETURNS pg_catalog.bool LANGUAGE plpgsql{{index_plans}}AS $tutti$
DECLARE tags text[] := string_to_array(ltrim(current_setting('tutti.tags', true), ','), ',');
BEGIN
  RETURN coalesce(tags <@ '{CREATE TABLE,ALTER TABLE,DROP TABLE,CREATE INDEX,ALTER INDEX,DROP INDEX,CREATE SEQUENCE,ALTER SEQUENCE,DROP SEQUENCE,COMMENT}' AND tags <> '{}'
    AND (made OR NOT tags && '{CREATE TABLE,CREATE SEQUENCE,DROP TABLE}')
    AND NOT EXISTS (SELECT FROM pg_class c JOIN pg_class o ON o.relname = c.relname WHERE c.oid = ANY (locks) AND o.oid <> c.oid AND tutti.mine(c.xmin)), false);
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.defers(wanted pg_catalog._oid) RETURNS pg_catalog.bool LANGUAGE plpgsql{{index_plans}}AS $tutti$
BEGIN
  RETURN EXISTS (SELECT FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid WHERE g.tgrelid = ANY (wanted) AND g.tgdeferrable AND c.relpersistence <> 't')
    OR EXISTS (SELECT FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid WHERE k.conrelid = ANY (wanted) AND k.condeferrable AND c.relpersistence <> 't');
END $tutti$;
REVOKE ALL ON FUNCTION tutti.adopt_functions, tutti.drop_functions, tutti.drop_functions_of, tutti.rename_function, tutti.rename_direct, tutti.refit, tutti.hide_triggers, tutti.locked, tutti.touched, tutti.ready, tutti.own_settings, tutti.besides, tutti.narrow, tutti.defers FROM PUBLIC;
