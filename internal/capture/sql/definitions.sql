CREATE UNLOGGED TABLE IF NOT EXISTS tutti.definitions (
  xid pg_catalog.int8 NOT NULL, n pg_catalog.int8 NOT NULL, role pg_catalog.name NOT NULL, data pg_catalog.jsonb NOT NULL, PRIMARY KEY (xid, n)
);
ALTER TABLE tutti.definitions OWNER TO tutti_owner;
-- Backends that may end the detachment of a partition now. Nothing of it is older than the life of the member.
CREATE UNLOGGED TABLE IF NOT EXISTS tutti.detaching (pid pg_catalog.int4 PRIMARY KEY);
TRUNCATE tutti.detaching;
GRANT SELECT ON tutti.detaching TO PUBLIC;
ALTER TABLE tutti.definitions ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS definition ON tutti.definitions;
CREATE POLICY definition ON tutti.definitions FOR INSERT WITH CHECK (role OPERATOR(pg_catalog.=) CURRENT_USER
  AND xid OPERATOR(pg_catalog.=) pg_catalog.txid_current() AND (SELECT pg_catalog.count(*) FROM pg_catalog.pg_event_trigger_ddl_commands()) OPERATOR(pg_catalog.>=) 0);
REVOKE ALL ON tutti.definitions FROM PUBLIC;
GRANT INSERT ON tutti.definitions TO PUBLIC;
DROP EVENT TRIGGER IF EXISTS "!tutti_ddl";
DROP EVENT TRIGGER IF EXISTS "!tutti_drop";
DROP EVENT TRIGGER IF EXISTS "!tutti_ahead";
DROP EVENT TRIGGER IF EXISTS "!tutti_begin";
DROP EVENT TRIGGER IF EXISTS "!tutti_rewrite";
DROP EVENT TRIGGER IF EXISTS tutti_ddl;
DROP EVENT TRIGGER IF EXISTS tutti_drop;
DROP EVENT TRIGGER IF EXISTS tutti_begin;
DROP EVENT TRIGGER IF EXISTS tutti_rewrite;
DROP FUNCTION IF EXISTS tutti.refuse_ddl();
CREATE OR REPLACE FUNCTION tutti.ddl() RETURNS event_trigger LANGUAGE plpgsql SET jit = off AS $tutti$
DECLARE c pg_catalog.text; q pg_catalog.text; r pg_catalog.oid; repeats pg_catalog.bool := pg_catalog.current_setting('{{ddl}}') OPERATOR(pg_catalog.=) '{{ddl_on}}';
BEGIN
  IF pg_catalog.current_setting('{{ddl}}') OPERATOR(pg_catalog.=) '{{ddl_own}}' THEN RETURN; END IF; IF pg_catalog.current_setting('{{turn_setting}}', true) OPERATOR(pg_catalog.=) '{{ddl_turn}}' THEN IF TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_end' AND NOT EXISTS (SELECT FROM tutti.detaching d WHERE d.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()) THEN RAISE EXCEPTION 'the partition cannot be detached ahead of its place in the order' USING ERRCODE = '40001'; END IF; RETURN; END IF;
  GET DIAGNOSTICS c = PG_CONTEXT;
  IF TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_start' AND TG_TAG OPERATOR(pg_catalog.!~) 'EXTENSION' THEN
    q := coalesce((pg_catalog.regexp_match(c, E'^[^\n]*?\nSQL statement "(.*?)"\n(?:PL/|SQL |COPY )'))[1], pg_catalog.current_query());
    IF TG_TAG OPERATOR(pg_catalog.=) 'CREATE RULE' THEN
      r := tutti.made_view(q);
      IF r IS NOT NULL AND tutti.bare(r, CURRENT_USER) THEN END IF;
    ELSIF pg_catalog.starts_with(TG_TAG, 'DROP ') THEN
      PERFORM pg_catalog.set_config('tutti.local', tutti.local_functions()::pg_catalog.text, true);
    ELSE
      PERFORM tutti.open_sequences(TG_TAG, q, tutti.altered(q), repeats, CURRENT_USER);
    END IF;
    RETURN;
  END IF;
  IF TG_EVENT OPERATOR(pg_catalog.=) 'sql_drop' THEN
    PERFORM tutti.note_gone(true);
  ELSIF TG_TAG OPERATOR(pg_catalog.=) 'ALTER TABLE' AND TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_end' AND pg_catalog.concat(pg_catalog.current_query(), c) OPERATOR(pg_catalog.~*) E'\\m(rename|schema)\\M' THEN
    PERFORM tutti.note_gone(false);
  END IF;
  IF TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_end' AND TG_TAG OPERATOR(pg_catalog.=) ANY ('{ALTER TABLE,CREATE MATERIALIZED VIEW,REFRESH MATERIALIZED VIEW}'::pg_catalog._text) THEN
    PERFORM tutti.refuse_drift(TG_TAG, coalesce((pg_catalog.regexp_match(c, E'^[^\n]*?\nSQL statement "(.*?)"\n(?:PL/|SQL |COPY )'))[1], pg_catalog.current_query()));
  END IF;
  IF TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_end' AND TG_TAG OPERATOR(pg_catalog.=) ANY ('{CREATE INDEX,CREATE TABLE,ALTER TABLE}'::pg_catalog._text) THEN
    PERFORM tutti.refuse_unordered();
  END IF;
  IF repeats AND TG_EVENT OPERATOR(pg_catalog.=) 'table_rewrite' THEN
    RETURN;
  ELSIF repeats THEN
    PERFORM pg_catalog.set_config('tutti.tag', TG_TAG, true); -- what the definition's client is told
    PERFORM tutti.note_tag(TG_TAG, pg_catalog.current_query());
  ELSE
    PERFORM tutti.note_definition(TG_EVENT, TG_TAG, c, {{carried}});
  END IF;
  IF TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_end' AND TG_TAG OPERATOR(pg_catalog.~) 'EXTENSION' THEN
    PERFORM tutti.settle_large();
  END IF;
  IF TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_end' THEN
    PERFORM tutti.settle_sequences(TG_TAG, CASE WHEN repeats THEN nullif(pg_catalog.current_setting('{{home_setting}}', true), '')::pg_catalog.int4 END);
  END IF;
END $tutti$;
-- What a function has done to owners and roles is noted in front of the definition that may need it.
CREATE OR REPLACE FUNCTION tutti.ahead() RETURNS event_trigger LANGUAGE plpgsql AS $tutti$
BEGIN
  IF pg_catalog.current_setting('{{ddl}}') OPERATOR(pg_catalog.=) '{{ddl_own}}' OR pg_catalog.current_setting('{{ddl}}') OPERATOR(pg_catalog.=) '{{ddl_on}}' THEN RETURN; END IF; -- by itself: what follows takes longer to prepare
  IF pg_catalog.concat(pg_catalog.current_setting('tutti.extension', true)) OPERATOR(pg_catalog.=) '' AND {{shared_changed}} THEN
    CASE pg_catalog.current_setting('{{tx}}', true)
      WHEN 'on', '{{bulk_setting}}' THEN NULL; WHEN '{{inside_setting}}' THEN PERFORM tutti.enter_inside(); WHEN '{{direct}}' THEN PERFORM pg_catalog.set_config('{{tx}}', 'on', true);
      ELSE RETURN;
    END CASE;
    PERFORM tutti.note_shared();
  END IF;
END $tutti$;
-- A function that takes or gives a type of a temporary table is at the member of its session alone, and ends with it:
-- no other member has the type. Nothing else of a function tells for all of its time.
CREATE OR REPLACE FUNCTION tutti.local_functions() RETURNS pg_catalog._oid LANGUAGE plpgsql STABLE{{index_plans}}AS $tutti$
BEGIN
  RETURN ARRAY(
    WITH made AS (SELECT d.classid, d.objid FROM pg_namespace n JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid WHERE n.nspname ~ '^pg_temp_'),
    types AS (SELECT objid AS oid FROM made WHERE classid = 'pg_type'::regclass UNION SELECT c.reltype FROM made m JOIN pg_class c ON c.oid = m.objid WHERE m.classid = 'pg_class'::regclass AND c.reltype <> 0),
    every AS (SELECT oid FROM types UNION SELECT y.typarray FROM types t JOIN pg_type y ON y.oid = t.oid WHERE y.typarray <> 0)
    SELECT DISTINCT p.oid FROM every y JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = y.oid AND d.classid = 'pg_proc'::regclass
      JOIN pg_proc p ON p.oid = d.objid AND y.oid = ANY (p.prorettype || p.proargtypes::oid[] || p.proallargtypes));
END $tutti$;
-- Such functions give way to a definition that has its place in the order and names them: it must do the same at all members.
CREATE OR REPLACE FUNCTION tutti.yield_functions(definition pg_catalog.text) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE f regprocedure; local oid[] := tutti.local_functions();
BEGIN
  IF local = '{}' THEN RETURN; END IF;
  FOR f IN SELECT p.oid FROM unnest(local) u JOIN pg_proc p ON p.oid = u WHERE (strpos(lower(definition), lower(p.proname)) > 0 OR definition ~* 'extension') ORDER BY p.oid LOOP
    PERFORM tutti.drop_function(f);
  END LOOP;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.drop_function(f pg_catalog.regprocedure) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $tutti$
BEGIN
  PERFORM tutti.unseen(format('DROP ROUTINE IF EXISTS %s CASCADE', f)); -- by another one of its kind, meanwhile
END $tutti$;
-- Runs definitions of Tutti's such that users' event triggers do not fire for them. For a replica, too, those are silenced that
-- fire there. PostgreSQL forgets all plans when session_replication_role changes, so nothing else sets it.
CREATE OR REPLACE FUNCTION tutti.unseen(command pg_catalog.text) RETURNS pg_catalog.void LANGUAGE plpgsql SET session_replication_role = replica SET {{ddl_setting}} = '{{ddl_own}}' AS $tutti$
DECLARE silenced pg_catalog.jsonb;
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_event_trigger WHERE evtenabled OPERATOR(pg_catalog.=) ANY ('{A,R}') AND evtname OPERATOR(pg_catalog.<>) '!tutti_replica'::pg_catalog.name) THEN
    WITH u AS (UPDATE pg_catalog.pg_event_trigger e SET evtenabled = 'D' FROM pg_catalog.pg_event_trigger o
      WHERE o.oid OPERATOR(pg_catalog.=) e.oid AND o.evtenabled OPERATOR(pg_catalog.=) ANY ('{A,R}') AND o.evtname OPERATOR(pg_catalog.<>) '!tutti_replica'::pg_catalog.name RETURNING o.oid, o.evtenabled)
    SELECT pg_catalog.jsonb_object_agg(oid, evtenabled) INTO silenced FROM u;
  END IF;
  EXECUTE command;
  IF silenced IS NOT NULL THEN
    UPDATE pg_catalog.pg_event_trigger e SET evtenabled = x.value::pg_catalog."char" FROM pg_catalog.jsonb_each_text(silenced) x WHERE e.oid OPERATOR(pg_catalog.=) x.key::pg_catalog.oid;
  END IF;
END $tutti$;
REVOKE ALL ON FUNCTION tutti.yield_functions, tutti.drop_function, tutti.unseen FROM PUBLIC;
-- The table that a CREATE RULE "_RETURN" shall make a view of, as its session understands the name; NULL for anything else.
CREATE OR REPLACE FUNCTION tutti.made_view(query pg_catalog.text) RETURNS pg_catalog.oid LANGUAGE sql AS $tutti$
  SELECT pg_catalog.to_regclass((pg_catalog.regexp_match(query,
    '^\s*create\s+(?:or\s+replace\s+)?rule\s+"_RETURN"\s+as\s+on\s+select\s+to\s+((?:"(?:[^"]|"")+"|[^\s".;]+)(?:\s*\.\s*(?:"(?:[^"]|"")+"|[^\s".;]+))?)\s', 'i'))[1])
$tutti$;
-- Takes the triggers of Tutti's from a table that becomes a view with the definition that is about to run, or the
-- definition fails: PostgreSQL asks for a table that never had one. Only tutti.ddl can have it done.
CREATE OR REPLACE FUNCTION tutti.bare(rel pg_catalog.oid, who pg_catalog.name) RETURNS pg_catalog.bool{{own_settings}}AS $tutti$
DECLARE c text; t text;
BEGIN
  GET DIAGNOSTICS c = PG_CONTEXT;
  IF split_part(c, E'\n', 2) !~ '^PL/pgSQL function tutti\.ddl\(\) line ' OR NOT EXISTS (SELECT FROM pg_class
      WHERE oid = rel AND relkind = 'r' AND relpersistence <> 't' AND pg_has_role(who, relowner, 'USAGE')) THEN
    RETURN false;
  END IF;
  FOR t IN SELECT g.tgname FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid WHERE g.tgrelid = rel AND p.pronamespace = 'tutti'::regnamespace LOOP
    PERFORM tutti.unseen(format('DROP TRIGGER %I ON %s', t, rel::regclass));
  END LOOP;
  UPDATE pg_class SET relhastriggers = false WHERE oid = rel AND relhastriggers AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = rel);
  RETURN true;
END $tutti$;
-- What may not be captured any more by the name it had, for tutti.describe: tables that were dropped, of which one may have become a
-- view before, and the keys of those with another name or schema, as their functions tell.
CREATE OR REPLACE FUNCTION tutti.note_gone(dropped pg_catalog.bool) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE gone jsonb;
BEGIN
  IF dropped THEN
    gone := (SELECT jsonb_agg(jsonb_build_object('schema', schema_name, 'name', object_name, 'oid', objid::int8)) FROM pg_event_trigger_dropped_objects()
      WHERE object_type IN ('table', 'view') AND NOT is_temporary);
  ELSE
    gone := (SELECT jsonb_agg(DISTINCT jsonb_build_object('key', split_part(p.proname::text, '_', 2))) FROM pg_event_trigger_ddl_commands() d
      JOIN pg_trigger g ON g.tgrelid = d.objid JOIN pg_proc p ON p.oid = g.tgfoid WHERE d.classid = 'pg_class'::regclass AND p.pronamespace = 'tutti'::regnamespace AND starts_with(p.proname, 'capture_'));
  END IF;
  IF gone IS NOT NULL THEN
    PERFORM set_config('tutti.gone', (coalesce(nullif(current_setting('tutti.gone', true), ''), '[]')::jsonb || gone)::text, true);
  END IF;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.note_tag(tag pg_catalog.text, query pg_catalog.text) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  PERFORM set_config('tutti.tags', concat(current_setting('tutti.tags', true), ',',
    CASE WHEN tag = 'ALTER TABLE' AND query ~* E'^\\s*alter\\s+table\\s+(if\\s+exists\\s+)?(only\\s+)?("[^"]+"|\\w+)(\\s*\\.\\s*("[^"]+"|\\w+))?\\s+rename\\s+((column|constraint)\\s+)?("[^"]+"|\\w+)\\s+to\\s+("[^"]+"|\\w+)\\s*;?\\s*(PL/pgSQL function tutti\\.ddl\\(\\) line [0-9]+ at GET DIAGNOSTICS)?$' THEN '{{rename_tag}}'
    WHEN tag IN ('ALTER VIEW', 'ALTER MATERIALIZED VIEW') OR tag = 'ALTER TABLE' AND query ~* E'^\\s*alter\\s+table\\s+(if\\s+exists\\s+)?(only\\s+)?("[^"]+"|\\w+)(\\s*\\.\\s*("[^"]+"|\\w+))?\\s+(rename\\s+to|set\\s+schema)\\s+("[^"]+"|\\w+)\\s*;?\\s*(PL/pgSQL function tutti\\.ddl\\(\\) line [0-9]+ at GET DIAGNOSTICS)?$' THEN '{{move_tag}}'
    WHEN tag = 'ALTER TABLE' AND query ~* E'\\m(rename|schema)\\M' THEN 'ANYTHING'
    ELSE tag END), true);
END $tutti$;
-- PostgreSQL lets a COMMENT on a large object that has waited for its removal go on, and tells nobody of it. The comment would be
-- found with the next object of that number, at one member.
CREATE OR REPLACE FUNCTION tutti.still_there(tag pg_catalog.text) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  IF tag IN ('COMMENT', 'SECURITY LABEL') AND NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands()) THEN
    RAISE EXCEPTION 'the object does not exist: another transaction has removed it meanwhile' USING ERRCODE = 'undefined_object';
  END IF;
END $tutti$;
-- A statement on a permanent table changes rows of temporary ones that inherit from it, too. Transition tables do not tell whose they are.
CREATE OR REPLACE FUNCTION tutti.tell_heir(tag pg_catalog.text) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  IF tag IN ('CREATE TABLE', 'ALTER TABLE') AND EXISTS (SELECT FROM pg_event_trigger_ddl_commands() d JOIN pg_inherits i ON i.inhrelid = d.objid JOIN pg_class p ON p.oid = i.inhparent
      WHERE d.classid = 'pg_class'::regclass AND p.relpersistence <> 't') THEN
    RAISE INFO 'a temporary table inherits from a permanent one' USING ERRCODE = '{{heir_state}}';
  END IF;
END $tutti$;
-- What a materialized view shows must not have rows of temporary heirs, which no other member has.
CREATE OR REPLACE FUNCTION tutti.filled_here(tag pg_catalog.text) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  IF tag LIKE '%MATERIALIZED VIEW' AND pg_my_temp_schema() <> 0 AND EXISTS (SELECT FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid WHERE d.classid = 'pg_class'::regclass AND c.relkind = 'm' AND c.relispopulated)
      AND EXISTS (SELECT FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid JOIN pg_class p ON p.oid = i.inhparent WHERE c.relnamespace = pg_my_temp_schema() AND p.relpersistence <> 't') THEN
    RAISE EXCEPTION 'a materialized view cannot be filled while the session has temporary tables that inherit from permanent ones' USING ERRCODE = '0A000', HINT = 'Fill it in another session.';
  END IF;
END $tutti$;
-- Whether a definition may have made a table a partition, or given it heirs. From then on rows are captured one by one in a statement that is
-- captured as a whole, whose rows so far are captured twice. All others leave tables as they are to their statement triggers.
CREATE OR REPLACE FUNCTION tutti.gives_heirs(tag pg_catalog.text) RETURNS pg_catalog.bool LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  RETURN tag ~ '^ALTER|EXTENSION' OR EXISTS (SELECT FROM pg_event_trigger_ddl_commands() d JOIN pg_inherits i ON i.inhrelid = d.objid WHERE d.classid = 'pg_class'::regclass);
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.partial() RETURNS pg_catalog.bool LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  RETURN coalesce(string_to_array(ltrim(current_setting('tutti.tags', true), ','), ',') <@ '{{tags}}' AND current_setting('tutti.tags', true) <> '', false);
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.note_definition(event pg_catalog.text, tag pg_catalog.text, context pg_catalog.text, settings pg_catalog.jsonb)
RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = on AS $tutti$
DECLARE q text; o text; mixed bool; gone jsonb; enclosed text[]; f jsonb := '{}';
  -- What the definitions that are under way have dropped, by their depth: users' event triggers may define something in between.
  waiting jsonb := coalesce(nullif(current_setting('tutti.dropped', true), ''), '{}'); depth text := regexp_count(context, E'\n');
BEGIN
  IF event = 'table_rewrite' THEN
    PERFORM tutti.note_rewrite(pg_event_trigger_table_rewrite_oid(), pg_event_trigger_table_rewrite_reason());
    RETURN;
  END IF;
  IF tag IN ('REINDEX', 'CLUSTER', 'ANALYZE', 'VACUUM') THEN RETURN; END IF;
  IF event = 'ddl_command_start' THEN -- of an extension, whose script is no definition of its own
    PERFORM set_config('tutti.extension', 'on', true);
    RETURN;
  END IF;
  IF tag IN ('CREATE EXTENSION', 'ALTER EXTENSION') THEN
    PERFORM set_config('tutti.extension', '', true);
  ELSIF current_setting('tutti.extension', true) = 'on' THEN
    RETURN;
  END IF;
  IF event = 'sql_drop' THEN
    SELECT bool_or(is_temporary), coalesce(jsonb_agg(jsonb_build_array(schema_name, object_name)) FILTER (WHERE object_type = 'table'), '[]')
      INTO mixed, gone FROM pg_event_trigger_dropped_objects() WHERE schema_name IS DISTINCT FROM 'pg_toast_temp'
      HAVING bool_or(original AND NOT is_temporary AND address_names[1] IS DISTINCT FROM 'pg_temp' -- rules on temporary tables are not said to be so
        AND (tag !~ '(FUNCTION|PROCEDURE|ROUTINE|AGGREGATE)$' OR objid <> ALL (coalesce(nullif(current_setting('tutti.local', true), ''), '{}')::oid[])));
    IF NOT FOUND THEN RETURN; END IF;
    IF mixed AND EXISTS (SELECT FROM pg_event_trigger_dropped_objects() WHERE original AND is_temporary) THEN
      RAISE EXCEPTION 'temporary and permanent objects cannot be dropped by one statement' USING ERRCODE = '0A000',
        HINT = 'Drop the temporary ones by a statement of their own.';
    END IF;
    PERFORM set_config('tutti.dropped', jsonb_set(waiting, ARRAY[depth], gone)::text, true);
    RETURN;
  END IF;
  IF tag IN ('GRANT', 'REVOKE') AND context NOT LIKE E'%\n%' AND starts_with(current_query(), '{{bulk_mark}}') THEN RETURN; END IF; -- on temporary relations
  gone := waiting -> depth;
  PERFORM set_config('tutti.dropped', (waiting - depth)::text, true);
  SELECT coalesce(object_identity, tag) INTO o FROM pg_event_trigger_ddl_commands()
    WHERE coalesce(schema_name, '') NOT LIKE 'pg\_temp%' AND coalesce(object_identity, '') !~ '(^| on )pg_temp'
      AND (classid IS DISTINCT FROM 'pg_proc'::regclass OR objid <> ALL (tutti.local_functions())) LIMIT 1;
  IF NOT FOUND AND gone IS NULL AND tag <> 'DROP OWNED' THEN PERFORM tutti.still_there(tag), tutti.tell_heir(tag), tutti.note_temporary(tag); RETURN; END IF; PERFORM tutti.filled_here(tag);
  IF tag LIKE '%MATERIALIZED VIEW' THEN PERFORM set_config('tutti.fresh', (tutti.fresh_rows() || coalesce(nullif(current_setting('tutti.fresh', true), ''), '{}')::jsonb)::text, true); END IF;
  IF tag ~ 'OWNED$' OR EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE lower(object_type) = 'large object') THEN
    gone := coalesce(gone, '[]') || '[["{{schema_name}}", "{{large_name}}"]]'; -- who writes one at another member must not be passed by
  END IF;
  {{own_begin}}
  CASE current_setting('{{tx}}', true)
    WHEN 'on' THEN NULL; WHEN '{{inside_setting}}' THEN PERFORM tutti.enter_inside();
    WHEN '{{bulk_setting}}' THEN IF tutti.gives_heirs(tag) THEN PERFORM set_config('{{tx}}', 'on', true); END IF; WHEN '{{direct}}' THEN PERFORM set_config('{{tx}}', 'on', true);
    ELSE RAISE EXCEPTION '% outside a Tutti transaction', tag USING ERRCODE = '{{outside}}', HINT = 'Connect to Tutti, not to the database behind it.';
  END CASE; PERFORM tutti.note_shared(); -- in front of what may name a role that the same function has made
  PERFORM tutti.note_tag(tag, concat(current_query(), context));
  q := current_query();
  IF context LIKE E'%\n%' THEN -- not of the client itself
    enclosed := regexp_match(context, E'^[^\n]*?\nSQL statement "(.*?)"\n(?:PL/|SQL |COPY )');
    IF enclosed IS NULL AND tag NOT IN ('CREATE TABLE AS', 'SELECT INTO') THEN -- their texts are made below
      RAISE EXCEPTION '% on % is not possible here', tag, coalesce(o, tag) USING ERRCODE = '0A000',
        HINT = 'Only statements, and functions in PL/pgSQL, can change the schema.';
    END IF;
    q := enclosed[1];
  END IF;
  IF tag IN ('CREATE TABLE AS', 'SELECT INTO') THEN
    SELECT format('CREATE %sTABLE %I.%I (%s)%s', CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END, n.nspname, c.relname,
        (SELECT string_agg(format('%I %s%s', a.attname, format_type(a.atttypid, a.atttypmod),
           CASE WHEN a.attcollation <> y.typcollation THEN (SELECT format(' COLLATE %I.%I', cn.nspname, k.collname)
             FROM pg_collation k JOIN pg_namespace cn ON cn.oid = k.collnamespace WHERE k.oid = a.attcollation) ELSE '' END), ', ' ORDER BY a.attnum)
         FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0),
        (SELECT format(' USING %I', m.amname) FROM pg_am m WHERE m.oid = c.relam) || coalesce(' WITH (' || array_to_string(c.reloptions, ', ') || ')', '')) INTO q
      FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE d.classid = 'pg_class'::regclass AND c.relkind = 'r' LIMIT 1;
  END IF;
  IF tag = 'ALTER TABLE' THEN
    SELECT tutti.filled(objid) INTO f FROM pg_event_trigger_ddl_commands() WHERE classid = 'pg_class'::regclass AND command_tag = 'ALTER TABLE' LIMIT 1;
    IF context LIKE E'%\n%' AND f ? 'rewritten' THEN
      RAISE EXCEPTION 'a table cannot be filled anew inside a function' USING ERRCODE = '0A000',
        HINT = 'Run the ALTER TABLE as a statement of its own.';
    END IF;
  END IF;
  IF tag IN ('ALTER TABLE', 'CREATE VIEW') AND tutti.retyped() THEN
    f := coalesce(f, '{}') || '{"typed": true}';
  END IF;
  IF tag = 'ALTER TABLE' AND q ~* '\mrename\M' THEN
    f := coalesce(f, '{}') || jsonb_build_object('moved', tutti.moved());
  END IF;
  IF tag IN ('ALTER TABLE', 'ALTER INDEX') AND o LIKE 'pg\_toast.%' THEN
    SELECT tutti.renamed_toast(objid) INTO q FROM pg_event_trigger_ddl_commands() WHERE classid = 'pg_class'::regclass AND q ~* '\sRENAME\s+TO\s+("([^"]|"")+"|[^\s"]+)\s*;?\s*$' LIMIT 1;
    IF q IS NULL THEN
      RAISE EXCEPTION '% on % is not possible here', tag, o USING ERRCODE = '0A000', HINT = 'Alter the table it belongs to.'; -- another one may have its name elsewhere
    END IF;
  END IF;
  INSERT INTO tutti.definitions VALUES (txid_current(), tutti.definition_number(), current_user,
    coalesce(f, '{}') || jsonb_build_object('sql', q, 'tag', tag, 'role', current_user, 'settings', settings, 'dropped', coalesce(gone, '[]')));
  PERFORM set_config('{{defined}}', 'on', true);
  RAISE INFO '%', CASE WHEN f ? 'rewritten' THEN '{{filled_notice}}' ELSE 'a definition was noted' END USING ERRCODE = '{{state}}';
END $tutti$;
-- What gives a TOAST table, or its index, the name it has here: at another member it had another one before, but it belongs to the same table.
CREATE OR REPLACE FUNCTION tutti.renamed_toast(rel pg_catalog.oid) RETURNS pg_catalog.text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT format('DO %L', format('DECLARE was text := pg_catalog.current_setting(''allow_system_table_mods''); BEGIN PERFORM pg_catalog.set_config(''allow_system_table_mods'', ''on'', true);
    EXECUTE pg_catalog.format(''ALTER TABLE pg_toast.%%I RENAME TO %I'', (SELECT r.relname FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_index x ON x.indrelid = c.reltoastrelid
      JOIN pg_catalog.pg_class r ON r.oid = %s WHERE c.oid = %L::pg_catalog.regclass)); PERFORM pg_catalog.set_config(''allow_system_table_mods'', was, true); END',
    r.relname, CASE r.relkind WHEN 'i' THEN 'x.indexrelid' ELSE 'c.reltoastrelid' END, c.oid::regclass))
  FROM pg_class r LEFT JOIN pg_index x ON x.indexrelid = r.oid JOIN pg_class c ON c.reltoastrelid = coalesce(x.indrelid, r.oid) WHERE r.oid = rel
$tutti$;
CREATE OR REPLACE FUNCTION tutti.mine(x pg_catalog.xid) RETURNS pg_catalog.bool LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT age(x) <= 0 AND pg_xact_status((pg_current_xact_id()::text::int8 - age(x))::text::xid8) = 'in progress' -- of this transaction, as it can be seen
$tutti$;
CREATE OR REPLACE FUNCTION tutti.note_rewrite(rel pg_catalog.oid, reason pg_catalog.int4) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  IF reason & 1 <> 0 AND (SELECT relpersistence FROM pg_class WHERE oid = rel) = 'u' -- SET LOGGED: each member has rows of its own
    OR reason & 2 <> 0 AND EXISTS (SELECT FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type y ON y.oid = a.atttypid
      WHERE c.oid = rel AND c.relpersistence = 'p' AND a.attnum > 0 AND a.attgenerated = '' AND (a.atthasdef OR a.attidentity <> '' OR y.typtype = 'd') AND tutti.mine(a.xmin)) THEN
    PERFORM set_config('tutti.rewritten', concat(current_setting('tutti.rewritten', true), rel, ','), true);
  END IF;
END $tutti$;
-- What an ALTER TABLE was about that may have given a table, or a part of one, another name: these tables, by the names they have now, those
-- below and all that refer to them (a column is in the key of what refers to it), and whether rows of one are in columns elsewhere. NULL if it
-- was about no table, or about too many.
CREATE OR REPLACE FUNCTION tutti.moved() RETURNS pg_catalog.jsonb LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE answer jsonb;
BEGIN
  WITH RECURSIVE renamed AS (
      SELECT c.oid, c.reltype, n.nspname, c.relname FROM pg_event_trigger_ddl_commands() d LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
        JOIN pg_class c ON c.oid = CASE d.classid WHEN 'pg_class'::regclass THEN d.objid ELSE k.conrelid END JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'),
    tree(oid) AS (SELECT oid FROM renamed UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = tree.oid),
    every AS (SELECT oid FROM tree UNION SELECT k.conrelid FROM tree JOIN pg_constraint k ON k.confrelid = tree.oid AND k.contype = 'f'),
    names AS (SELECT n.nspname, c.relname FROM every JOIN pg_class c ON c.oid = every.oid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't')
    SELECT CASE WHEN count(*) BETWEEN 1 AND {{extent_max}} THEN jsonb_build_object('tables', jsonb_agg(jsonb_build_array(nspname, relname)),
        'renamed', (SELECT jsonb_agg(jsonb_build_array(r.nspname, r.relname)) FROM renamed r),
        'rows', EXISTS (SELECT FROM renamed r JOIN pg_type y ON y.oid = r.reltype JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid IN (y.oid, y.typarray)
          AND d.deptype = 'n' AND d.classid IN ('pg_class'::regclass, 'pg_type'::regclass))) END INTO answer FROM names;
  RETURN answer;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.retyped() RETURNS pg_catalog.bool LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  RETURN EXISTS (
    WITH RECURSIVE tree(oid) AS (SELECT objid FROM pg_event_trigger_ddl_commands() WHERE classid = 'pg_class'::regclass
      UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = tree.oid)
    SELECT FROM tree JOIN pg_class c ON c.oid = tree.oid JOIN pg_type y ON y.oid = c.reltype
      JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid IN (y.oid, y.typarray) AND d.deptype = 'n' AND d.classid IN ('pg_class'::regclass, 'pg_type'::regclass)
    WHERE EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND tutti.mine(a.xmin)));
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.filled(rel pg_catalog.oid) RETURNS pg_catalog.jsonb LANGUAGE plpgsql{{text_settings}} AS $tutti$
DECLARE tree oid[]; seen text[]; f record;
BEGIN
  WITH RECURSIVE t(o) AS (SELECT rel UNION SELECT inhrelid FROM pg_inherits JOIN t ON inhparent = o) SELECT array_agg(o) INTO tree FROM t;
  IF tree && string_to_array(trim(TRAILING ',' FROM current_setting('tutti.rewritten', true)), ',')::oid[] THEN
    RETURN '{"rewritten": true}';
  END IF;
  seen := string_to_array(current_setting('tutti.seen', true), ',');
  SELECT jsonb_object_agg(a.attname, (SELECT (m.attmissingval::text::text[])[1] FROM pg_attribute m WHERE m.attrelid = ANY (tree) AND m.attname = a.attname AND m.atthasmissing LIMIT 1)) AS filled,
      set_config('tutti.seen', concat(current_setting('tutti.seen', true), string_agg(concat(rel, ':', a.attnum), ',') , ','), true)
    INTO f FROM pg_attribute a WHERE a.attrelid = rel AND a.attnum > 0 AND NOT a.attisdropped AND a.atthasdef AND a.attgenerated = ''
      AND tutti.mine(a.xmin) AND concat(rel, ':', a.attnum) <> ALL (coalesce(seen, '{}'));
  RETURN jsonb_build_object('filled', coalesce(f.filled, '{}'));
END $tutti$;
REVOKE ALL ON FUNCTION tutti.ddl(), tutti.ahead(), tutti.partial() FROM PUBLIC;
-- PostgreSQL calls event triggers in the order of their names. What those of users define in turn comes after the definition.
CREATE EVENT TRIGGER "!tutti_ahead" ON ddl_command_start EXECUTE FUNCTION tutti.ahead();
CREATE EVENT TRIGGER "!tutti_begin" ON ddl_command_start WHEN TAG IN ('CREATE EXTENSION', 'ALTER EXTENSION', 'ALTER SEQUENCE', 'ALTER TABLE', 'CREATE TABLE', 'CREATE SCHEMA', 'CREATE RULE',
  'DROP FUNCTION', 'DROP PROCEDURE', 'DROP ROUTINE', 'DROP AGGREGATE') EXECUTE FUNCTION tutti.ddl();
CREATE EVENT TRIGGER "!tutti_ddl" ON ddl_command_end EXECUTE FUNCTION tutti.ddl();
CREATE EVENT TRIGGER "!tutti_drop" ON sql_drop EXECUTE FUNCTION tutti.ddl();
CREATE EVENT TRIGGER "!tutti_rewrite" ON table_rewrite EXECUTE FUNCTION tutti.ddl();
