CREATE OR REPLACE FUNCTION tutti.note_counted() RETURNS pg_catalog.void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT set_config('{{setting}}', {{count}}::text, true)
$tutti$;
CREATE OR REPLACE FUNCTION tutti.note_shared() RETURNS pg_catalog.void{{own}}AS $tutti$
DECLARE procedure bool; shared bool; owners jsonb;
BEGIN
  IF {{count}} = concat('0', current_setting('{{setting}}', true))::int8 OR pg_current_xact_id_if_assigned() IS NULL OR current_setting('transaction_read_only') = 'on' THEN
    RETURN;
  END IF;
  procedure := EXISTS (SELECT FROM tutti.inside i WHERE i.xid = txid_current());
  IF procedure THEN
    PERFORM set_config('{{setting}}', {{count}}::text, false); -- the counts go on in its next transaction
  ELSE
    PERFORM tutti.note_counted();
  END IF;
  IF EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation = 3592 AND mode = 'RowExclusiveLock') THEN
    RAISE EXCEPTION 'a function cannot change security labels of roles and databases' USING ERRCODE = '0A000', HINT = 'Use SECURITY LABEL as a statement of its own.';
  END IF;
  shared := procedure OR EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation IN (1260, 1261, 2964, 2396) AND mode = 'RowExclusiveLock')
    OR EXISTS (SELECT FROM pg_database WHERE tutti.mine(xmin)); -- else what was counted was done by an earlier transaction, or is undone
  IF {{reowned}} > 0 THEN
    owners := tutti.owners(CASE WHEN procedure THEN nullif(current_setting('tutti.since', true), '')::xid8::xid END);
  END IF;
  IF shared THEN
    PERFORM tutti.note_shared_state({{undone}} > 0, procedure, owners);
  ELSIF owners IS NOT NULL THEN
    PERFORM tutti.note_state(jsonb_build_object('every', false, 'owners', owners), '{{owned_tag}}', '{{owned_message}}');
  END IF;
END $tutti$;
-- Notes what the others shall look like: what this transaction has changed, or all there is, as transactions of a procedure
-- may have changed it that have captured nothing and so were asked for nothing. With every, also what is not there any more.
CREATE OR REPLACE FUNCTION tutti.note_shared_state(every pg_catalog.bool, behind pg_catalog.bool, owners pg_catalog.jsonb) RETURNS pg_catalog.void{{own}}AS $tutti$
DECLARE state jsonb;
BEGIN
  IF EXISTS (SELECT FROM pg_database WHERE NOT datallowconn AND datname <> 'template0' AND (behind OR tutti.mine(xmin))) THEN
    RAISE EXCEPTION 'a database that nobody can connect to cannot be replicated' USING ERRCODE = '0A000', HINT = 'REVOKE CONNECT ON DATABASE … FROM PUBLIC keeps clients out.';
  END IF;
  SELECT jsonb_build_object('every', every, 'owners', owners,
      'roles', (SELECT coalesce(jsonb_agg(to_jsonb(a) - 'oid' ORDER BY a.rolname), '[]') FROM pg_authid a WHERE behind AND a.rolname !~ '^pg_' OR tutti.mine(a.xmin)),
      'names', (SELECT coalesce(jsonb_agg(a.rolname ORDER BY a.rolname), '[]') FROM pg_authid a WHERE every),
      'things', (SELECT jsonb_object_agg(a.rolname, t.things) FROM pg_authid a, tutti.things_of(a.oid) AS t(things) WHERE every AND NOT behind AND tutti.mine(a.xmin) AND t.things IS NOT NULL),
      'members', (SELECT coalesce(jsonb_agg(jsonb_build_object('role', r.rolname, 'member', m.rolname, 'grantor', g.rolname, 'options', to_jsonb(x) - '{oid,roleid,member,grantor}'::text[])
          ORDER BY r.rolname, m.rolname, g.rolname), '[]')
        FROM pg_auth_members x JOIN pg_authid r ON r.oid = x.roleid JOIN pg_authid m ON m.oid = x.member LEFT JOIN pg_authid g ON g.oid = x.grantor WHERE every OR behind OR tutti.mine(x.xmin)),
      'settings', (SELECT coalesce(jsonb_agg(jsonb_build_object('database', d.datname, 'role', r.rolname, 'list', s.setconfig) ORDER BY d.datname, r.rolname), '[]')
        FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid = s.setdatabase LEFT JOIN pg_authid r ON r.oid = s.setrole WHERE every OR behind OR tutti.mine(s.xmin)),
      'comments', (SELECT coalesce(jsonb_agg(jsonb_build_object('class', c.classoid::regclass, 'name', coalesce(r.rolname, d.datname), 'comment', c.description) ORDER BY c.classoid, coalesce(r.rolname, d.datname)), '[]')
        FROM pg_shdescription c LEFT JOIN pg_authid r ON c.classoid = 'pg_authid'::regclass AND r.oid = c.objoid LEFT JOIN pg_database d ON c.classoid = 'pg_database'::regclass AND d.oid = c.objoid
        WHERE (every OR behind OR tutti.mine(c.xmin)) AND coalesce(r.oid, d.oid) IS NOT NULL),
      'databases', (SELECT coalesce(jsonb_agg(jsonb_build_object('name', d.datname, 'owner', pg_get_userbyid(d.datdba), 'limit', d.datconnlimit, 'rights', tutti.rights_on(d), 'behind', behind) ORDER BY d.datname), '[]')
        FROM pg_database d WHERE behind AND NOT d.datistemplate OR tutti.mine(d.xmin)))
    INTO state;
  IF NOT every AND NOT EXISTS (SELECT FROM jsonb_each(state) WHERE value NOT IN ('[]', 'false', 'null')) THEN
    RETURN;
  END IF;
  PERFORM tutti.note_state(state, '{{tag}}', '{{message}}');
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.note_state(state pg_catalog.jsonb, tag pg_catalog.text, message pg_catalog.text) RETURNS pg_catalog.void{{own}}AS $tutti$
DECLARE owner name := pg_get_userbyid(10);
BEGIN
  INSERT INTO tutti.definitions VALUES (txid_current(), tutti.definition_number(), owner, jsonb_build_object(
    'sql', format('DO %L', format('BEGIN PERFORM tutti.assume_shared(%L); END', state)), 'tag', tag, 'role', owner, 'settings', '{}'::jsonb, 'dropped', '[["{{schema}}", "{{large}}"]]'::jsonb));
  PERFORM set_config('{{defined}}', 'on', true), set_config('tutti.tags', concat(current_setting('tutti.tags', true), ',COMMENT'), true), tutti.note_counted();
  RAISE INFO '%', message USING ERRCODE = '{{state}}';
END $tutti$;
-- Notes all of it behind a procedure, in a transaction of Tutti's, and the owners of what was changed since its statement.
DROP FUNCTION IF EXISTS tutti.note_shared_behind(); -- of earlier versions
DROP FUNCTION IF EXISTS tutti.note_shared_state(pg_catalog.bool, pg_catalog.bool);
CREATE OR REPLACE FUNCTION tutti.note_shared_behind(since pg_catalog.xid8) RETURNS pg_catalog.void{{own}}AS $tutti$
BEGIN
  PERFORM txid_current(), tutti.note_shared_state(true, true, tutti.owners(since::xid)), tutti.note_counted();
END $tutti$;
-- It differs if roles, what they may do to databases, or owners by REASSIGN OWNED, were changed in between, by whatever session of the server.
CREATE OR REPLACE FUNCTION tutti.shared_version() RETURNS pg_catalog.text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT string_agg(concat(x.n, ':', x.s), ',' ORDER BY x.i) FROM (
    SELECT 1 AS i, count(*) AS n, sum(xmin::text::int8) AS s FROM pg_authid UNION ALL SELECT 2, count(*), sum(xmin::text::int8) FROM pg_auth_members
    UNION ALL SELECT 3, count(*), sum(xmin::text::int8) FROM pg_db_role_setting UNION ALL SELECT 4, count(*), sum(xmin::text::int8) FROM pg_shdescription
    UNION ALL SELECT 5, count(*), sum(xmin::text::int8) FROM pg_database UNION ALL SELECT 6, pg_stat_get_numscans({{by_role}}) + pg_stat_get_xact_numscans({{by_role}}), 0) x
$tutti$;
-- Lists what has an owner and was made or changed since a transaction (NULL: by this one), and whose it is; the same at all members. NULL: nothing.
-- PostgreSQL calls no event trigger for REASSIGN OWNED.
CREATE OR REPLACE FUNCTION tutti.owners(since pg_catalog.xid) RETURNS pg_catalog.jsonb LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE q text; list jsonb;
BEGIN
  SELECT string_agg(format('SELECT %s::oid AS class, oid AS object, %I AS owner FROM %s WHERE age(xmin) <= %s', CASE c.oid WHEN 'pg_largeobject_metadata'::regclass THEN 'pg_largeobject'::regclass::oid ELSE c.oid END,
      a.attname, c.oid::regclass, age(coalesce(since, pg_current_xact_id()::xid))), ' UNION ALL ') INTO q
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind = 'r' AND NOT c.relisshared AND a.attname ~ 'owner$' AND a.atttypid = 'oid'::regtype;
  EXECUTE format('SELECT jsonb_agg(jsonb_build_array(a.type, a.object_names, a.object_args, pg_get_userbyid(x.owner)) ORDER BY x.class, x.object) FROM (%s) x,
    pg_identify_object(x.class, x.object, 0) o, pg_identify_object_as_address(x.class, x.object, 0) a
    WHERE NOT EXISTS (SELECT FROM pg_class c WHERE x.class = ''pg_class''::regclass AND c.oid = x.object AND c.relkind NOT IN (''r'', ''p'', ''v'', ''m'', ''f'', ''S''))
      AND NOT EXISTS (SELECT FROM pg_type y JOIN pg_depend d ON d.objid = y.oid WHERE x.class = ''pg_type''::regclass AND y.oid = x.object AND d.classid = x.class AND d.deptype = ''i'' AND y.typtype <> ''m'') -- an array, or of a table
      AND o.schema IS DISTINCT FROM ''{{schema}}'' AND o.identity !~ ''(^| on )pg_temp'' AND (x.class <> ''pg_proc''::regclass OR x.object <> ALL ($1))', q) INTO list USING tutti.local_functions();
  RETURN list;
END $tutti$;
-- The address of what such a list names; NULL if it is not there, as what is noted behind the list makes it.
CREATE OR REPLACE FUNCTION tutti.address(thing pg_catalog.jsonb, OUT class pg_catalog.oid, OUT object pg_catalog.oid) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  SELECT a.classid, a.objid INTO class, object FROM pg_get_object_address(thing ->> 0, ARRAY(SELECT jsonb_array_elements_text(thing -> 1)), ARRAY(SELECT jsonb_array_elements_text(thing -> 2))) a;
EXCEPTION WHEN undefined_object OR undefined_table OR undefined_function OR invalid_schema_name OR undefined_column THEN
  NULL;
END $tutti$;
-- Gives what such a list names to its owners. It becomes what a role of Tutti's owns before, so that REASSIGN OWNED does the rest: nothing else can with all that has an owner.
CREATE OR REPLACE FUNCTION tutti.assume_owners(list pg_catalog.jsonb) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE heir name;
BEGIN
  CREATE ROLE "tutti reassigns";
  FOR heir IN SELECT DISTINCT x ->> 3 FROM jsonb_array_elements(list) x ORDER BY 1 LOOP
    UPDATE pg_shdepend s SET refobjid = (SELECT oid FROM pg_authid WHERE rolname = 'tutti reassigns') FROM jsonb_array_elements(list) x, tutti.address(x) a, pg_database d
      WHERE x ->> 3 = heir AND d.datname = current_database() AND (s.dbid, s.classid, s.objid, s.objsubid) = (d.oid, a.class, a.object, 0) AND s.deptype = 'o' AND s.refclassid = 'pg_authid'::regclass AND s.refobjid <> quote_ident(heir)::regrole;
    IF FOUND THEN
      EXECUTE format('REASSIGN OWNED BY "tutti reassigns" TO %I', heir);
    END IF;
  END LOOP;
  DROP ROLE "tutti reassigns";
END $tutti$;
-- Lists what belongs to a role (NULL: to any) or names it in its rights, the same at all members, and whether this transaction has brought that about.
CREATE OR REPLACE FUNCTION tutti.things(of pg_catalog.oid) RETURNS TABLE (role pg_catalog.oid, thing pg_catalog.text, owned pg_catalog.bool, new pg_catalog.bool) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT s.refobjid, concat(d.datname, ' ', o.type, ' ', CASE WHEN s.classid NOT IN ('pg_default_acl'::regclass, 'pg_user_mapping'::regclass) THEN o.identity END), s.deptype = 'o', tutti.mine(s.xmin)
    FROM pg_shdepend s LEFT JOIN pg_database d ON d.oid = s.dbid LEFT JOIN LATERAL pg_identify_object(s.classid, s.objid, s.objsubid) o ON s.dbid = 0 OR d.datname = current_database()
    WHERE s.refclassid = 'pg_authid'::regclass AND (of IS NULL OR s.refobjid = of) AND coalesce(o.identity, '') !~ '(^| on )pg_temp' -- others may have one of this name, which is somebody else's
$tutti$;
-- Tells by which things a role can be known that it had before this transaction: some that it owns, or else all that name it. NULL: it has none.
CREATE OR REPLACE FUNCTION tutti.things_of(of pg_catalog.oid) RETURNS pg_catalog.jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT jsonb_build_object('owned', x.owned, 'list', jsonb_agg(x.thing ORDER BY x.thing COLLATE "C")) FROM (
    SELECT t.thing, t.owned, rank() OVER (ORDER BY t.owned DESC) AS r, row_number() OVER (ORDER BY t.owned DESC, t.thing COLLATE "C") AS n FROM tutti.things(of) t WHERE NOT t.new) x
    WHERE x.r = 1 AND (NOT x.owned OR x.n <= 10) GROUP BY x.owned
$tutti$;
-- Who may do what to a database, in an order that does not depend on the member; its owner's own grants come first.
CREATE OR REPLACE FUNCTION tutti.rights_on(d pg_catalog.pg_database) RETURNS pg_catalog.jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT coalesce(jsonb_agg(jsonb_build_object('grantor', pg_get_userbyid(a.grantor), 'grantee', CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, 'privilege', a.privilege_type, 'passes', a.is_grantable)
      ORDER BY a.grantor <> d.datdba, pg_get_userbyid(a.grantor), a.grantee <> 0, pg_get_userbyid(a.grantee), a.privilege_type), '[]')
    FROM (SELECT DISTINCT * FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba)) || '{}'::aclitem[])) a -- a long list may have one many times
$tutti$;
-- Gives roles that had things the names they have got: a role's things tell which it was. A role without any is dropped and made, which is
-- the same.
CREATE OR REPLACE FUNCTION tutti.assume_names(names pg_catalog.jsonb, things pg_catalog.jsonb) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE x record; found name[]; was name[] := '{}'; got name[] := '{}';
BEGIN
  FOR x IN SELECT n.key AS role, (n.value ->> 'owned')::bool AS owned, n.value -> 'list' AS list, a.oid IS NULL AS new FROM jsonb_each(things) n LEFT JOIN pg_authid a ON a.rolname = n.key ORDER BY n.key LOOP
    SELECT array_agg(c.rolname ORDER BY c.rolname) INTO found FROM (SELECT a.rolname FROM pg_authid a JOIN tutti.things(NULL) t ON t.role = a.oid WHERE t.owned = x.owned AND x.list ? t.thing
        GROUP BY a.rolname HAVING x.owned OR count(DISTINCT t.thing) = jsonb_array_length(x.list)) c WHERE c.rolname = x.role OR x.owned OR NOT names ? c.rolname;
    IF x.role = ANY (found) OR found IS NULL AND NOT x.new THEN
      CONTINUE;
    ELSIF found IS NULL OR cardinality(found) > 1 OR found[1] = ANY (was) THEN
      RAISE EXCEPTION 'which role is "%" now cannot be told by what belongs to it or names it in its rights', x.role USING ERRCODE = '0A000', HINT = 'Use ALTER ROLE … RENAME as a statement of its own.';
    END IF;
    was := was || found[1];
    got := got || x.role::name;
  END LOOP;
  FOR i IN 1 .. cardinality(was) LOOP -- two may have changed their names with each other
    EXECUTE format('ALTER ROLE %I RENAME TO %I', was[i], 'tutti renames ' || i);
  END LOOP;
  FOR i IN 1 .. cardinality(was) LOOP
    EXECUTE format('ALTER ROLE %I RENAME TO %I', 'tutti renames ' || i, got[i]);
  END LOOP;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.assume_shared(state pg_catalog.jsonb) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $tutti$
DECLARE x jsonb; r name; every bool := state -> 'every';
BEGIN
  IF jsonb_typeof(state -> 'things') = 'object' THEN
    PERFORM tutti.assume_names(state -> 'names', state -> 'things');
  END IF;
  FOR x IN SELECT value FROM jsonb_array_elements(state -> 'roles') LOOP
    IF NOT EXISTS (SELECT FROM pg_authid WHERE rolname = x ->> 'rolname') THEN
      EXECUTE format('CREATE ROLE %I', x ->> 'rolname');
    END IF;
    UPDATE pg_authid a SET rolsuper = n.rolsuper, rolinherit = n.rolinherit, rolcreaterole = n.rolcreaterole, rolcreatedb = n.rolcreatedb, rolcanlogin = n.rolcanlogin, rolreplication = n.rolreplication,
        rolbypassrls = n.rolbypassrls, rolconnlimit = n.rolconnlimit, rolpassword = n.rolpassword, rolvaliduntil = n.rolvaliduntil
      FROM jsonb_populate_record(NULL::pg_authid, x) n WHERE a.rolname = n.rolname AND to_jsonb(a) - 'oid' <> x;
  END LOOP;
  FOR x IN SELECT value FROM jsonb_array_elements(state -> 'databases') LOOP
    PERFORM tutti.assume_database(x);
  END LOOP;
  IF jsonb_typeof(state -> 'owners') = 'array' THEN
    PERFORM tutti.assume_owners(state -> 'owners');
  END IF;
  FOR r IN SELECT a.rolname FROM pg_authid a WHERE every AND NOT state -> 'names' ? a.rolname ORDER BY a.rolname LOOP
    EXECUTE format('DROP ROLE %I', r);
  END LOOP;
  PERFORM tutti.assume_members(state -> 'members', every);
  DELETE FROM pg_db_role_setting s USING (SELECT o.setdatabase, o.setrole, d.datname, a.rolname FROM pg_db_role_setting o LEFT JOIN pg_database d ON d.oid = o.setdatabase LEFT JOIN pg_authid a ON a.oid = o.setrole) o
    WHERE o.setdatabase = s.setdatabase AND o.setrole = s.setrole AND CASE WHEN every THEN
        NOT EXISTS (SELECT FROM jsonb_to_recordset(state -> 'settings') AS n(database name, role name, list text[]) WHERE (n.database, n.role, n.list) IS NOT DISTINCT FROM (o.datname, o.rolname, s.setconfig))
      ELSE EXISTS (SELECT FROM jsonb_to_recordset(state -> 'settings') AS n(database name, role name) WHERE (n.database, n.role) IS NOT DISTINCT FROM (o.datname, o.rolname)) END;
  INSERT INTO pg_db_role_setting SELECT coalesce(d.oid, 0), coalesce(a.oid, 0), n.list FROM jsonb_to_recordset(state -> 'settings') AS n(database name, role name, list text[])
    LEFT JOIN pg_database d ON d.datname = n.database LEFT JOIN pg_authid a ON a.rolname = n.role
    WHERE (n.database IS NULL OR d.oid IS NOT NULL) AND NOT EXISTS (SELECT FROM pg_db_role_setting s WHERE s.setdatabase = coalesce(d.oid, 0) AND s.setrole = coalesce(a.oid, 0));
  DELETE FROM pg_shdescription c USING (SELECT 'pg_authid' AS class, oid, rolname AS name FROM pg_authid UNION ALL SELECT 'pg_database', oid, datname FROM pg_database) o
    WHERE c.classoid = o.class::regclass AND c.objoid = o.oid AND CASE WHEN every THEN
        NOT EXISTS (SELECT FROM jsonb_to_recordset(state -> 'comments') AS n(class text, name name, comment text) WHERE (n.class, n.name, n.comment) = (o.class, o.name, c.description))
      ELSE EXISTS (SELECT FROM jsonb_to_recordset(state -> 'comments') AS n(class text, name name) WHERE (n.class, n.name) = (o.class, o.name)) END;
  INSERT INTO pg_shdescription SELECT o.oid, o.class::regclass, n.comment FROM jsonb_to_recordset(state -> 'comments') AS n(class text, name name, comment text)
    JOIN (SELECT 'pg_authid' AS class, oid, rolname AS name FROM pg_authid UNION ALL SELECT 'pg_database', oid, datname FROM pg_database) o USING (class, name)
    WHERE NOT EXISTS (SELECT FROM pg_shdescription c WHERE c.classoid = o.class::regclass AND c.objoid = o.oid);
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.assume_database(x pg_catalog.jsonb) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE d pg_database; g record; was text := current_setting('role');
BEGIN
  SELECT o.* INTO d FROM pg_database o WHERE o.datname = x ->> 'name';
  IF NOT FOUND AND (x ->> 'behind')::bool THEN
    RETURN; -- it is made, or goes, by a definition of its own
  ELSIF NOT FOUND THEN
    RAISE EXCEPTION 'database "%" does not exist', x ->> 'name' USING ERRCODE = '3D000';
  END IF;
  IF pg_get_userbyid(d.datdba) <> x ->> 'owner' THEN
    EXECUTE format('ALTER DATABASE %I OWNER TO %I', d.datname, x ->> 'owner');
  END IF;
  IF d.datconnlimit <> (x ->> 'limit')::int4 THEN
    EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT %s', d.datname, x ->> 'limit');
  END IF;
  SELECT o.* INTO d FROM pg_database o WHERE o.oid = d.oid;
  IF tutti.rights_on(d) = x -> 'rights' THEN RETURN; END IF;
  FOR g IN SELECT DISTINCT a ->> 'grantee' AS grantee FROM jsonb_array_elements(tutti.rights_on(d)) a ORDER BY 1 LOOP
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM %s CASCADE', d.datname, g.grantee);
  END LOOP;
  FOR g IN SELECT a.* FROM ROWS FROM (jsonb_to_recordset(x -> 'rights') AS (grantor name, grantee text, privilege text, passes bool)) WITH ORDINALITY AS a ORDER BY a.ordinality LOOP
    EXECUTE format('SET LOCAL ROLE %I', g.grantor);
    EXECUTE format('GRANT %s ON DATABASE %I TO %s%s', g.privilege, d.datname, g.grantee, CASE WHEN g.passes AND g.grantee <> quote_ident(x ->> 'owner') THEN ' WITH GRANT OPTION' ELSE '' END);
    EXECUTE format('SET LOCAL ROLE %s', CASE was WHEN 'none' THEN was ELSE quote_ident(was) END);
  END LOOP;
END $tutti$;
-- PostgreSQL 15 knows one membership of a role in another, later ones one per grantor, which may inherit or not.
CREATE OR REPLACE FUNCTION tutti.assume_members(list pg_catalog.jsonb, every pg_catalog.bool) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE x record; several bool := EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'pg_auth_members'::regclass AND attname = 'set_option');
BEGIN
  FOR x IN SELECT r.rolname AS role, m.rolname AS member, g.rolname AS grantor, n.role IS NULL AS gone
      FROM pg_auth_members o JOIN pg_authid r ON r.oid = o.roleid JOIN pg_authid m ON m.oid = o.member LEFT JOIN pg_authid g ON g.oid = o.grantor
      LEFT JOIN jsonb_to_recordset(list) AS n(role name, member name, grantor name, options jsonb) ON (n.role, n.member) = (r.rolname, m.rolname) AND (NOT several OR n.grantor IS NOT DISTINCT FROM g.rolname)
      WHERE CASE WHEN n.role IS NULL THEN every ELSE n.grantor IS DISTINCT FROM g.rolname OR n.options <> to_jsonb(o) - '{oid,roleid,member,grantor}'::text[] END ORDER BY 1, 2, 3 LOOP
    EXECUTE format('REVOKE %I FROM %I', x.role, x.member) || CASE WHEN several THEN format(' GRANTED BY %I CASCADE', x.grantor) ELSE '' END;
  END LOOP;
  FOR x IN SELECT n.* FROM ROWS FROM (jsonb_to_recordset(list) AS (role name, member name, grantor name, options jsonb)) WITH ORDINALITY AS n
      WHERE NOT EXISTS (SELECT FROM pg_auth_members o JOIN pg_authid r ON r.oid = o.roleid JOIN pg_authid m ON m.oid = o.member LEFT JOIN pg_authid g ON g.oid = o.grantor
        WHERE (r.rolname, m.rolname) = (n.role, n.member) AND (NOT several OR n.grantor IS NOT DISTINCT FROM g.rolname)) ORDER BY n.ordinality LOOP
    EXECUTE format('GRANT %I TO %I', x.role, x.member) || CASE WHEN several THEN format(' WITH ADMIN %s, INHERIT %s, SET %s', x.options ->> 'admin_option', x.options ->> 'inherit_option', x.options ->> 'set_option')
      WHEN (x.options ->> 'admin_option')::bool THEN ' WITH ADMIN OPTION' ELSE '' END || coalesce(format(' GRANTED BY %I', x.grantor), '');
  END LOOP;
END $tutti$;
REVOKE ALL ON FUNCTION tutti.note_shared_state, tutti.note_state, tutti.owners, tutti.address, tutti.assume_owners, tutti.assume_shared, tutti.assume_database, tutti.assume_members, tutti.assume_names, tutti.rights_on, tutti.things, tutti.things_of FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tutti.note_shared, tutti.note_shared_behind, tutti.shared_version, tutti.note_counted TO PUBLIC;
