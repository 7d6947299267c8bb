CREATE OR REPLACE FUNCTION tutti.note_counted() RETURNS pg_catalog.void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT set_config('{{setting}}', {{count}}::text, true)
$tutti$;
CREATE OR REPLACE FUNCTION tutti.note_shared() RETURNS pg_catalog.void{{own}}AS $tutti$
DECLARE procedure bool;
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
  IF NOT procedure AND NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation IN (1260, 1261, 2964, 2396) AND mode = 'RowExclusiveLock')
      AND NOT EXISTS (SELECT FROM pg_database WHERE tutti.mine(xmin)) THEN
    RETURN; -- what was counted was done by an earlier transaction, or is undone
  END IF;
  PERFORM tutti.note_shared_state({{undone}} > 0, procedure);
END $tutti$;
-- Notes what the others shall look like: what this transaction has changed, or all there is, as transactions of a procedure
-- may have changed it that have captured nothing and so were asked for nothing. With every, also what is not there any more.
CREATE OR REPLACE FUNCTION tutti.note_shared_state(every pg_catalog.bool, behind pg_catalog.bool) RETURNS pg_catalog.void{{own}}AS $tutti$
DECLARE state jsonb; owner name := pg_get_userbyid(10);
BEGIN
  IF EXISTS (SELECT FROM pg_database WHERE NOT datallowconn AND datname <> 'template0' AND (behind OR tutti.mine(xmin))) THEN
    RAISE EXCEPTION 'a database that nobody can connect to cannot be replicated' USING ERRCODE = '0A000', HINT = 'REVOKE CONNECT ON DATABASE … FROM PUBLIC keeps clients out.';
  END IF;
  SELECT jsonb_build_object('every', every,
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
  INSERT INTO tutti.definitions VALUES (txid_current(), tutti.definition_number(), owner, jsonb_build_object(
    'sql', format('DO %L', format('BEGIN PERFORM tutti.assume_shared(%L); END', state)), 'tag', '{{tag}}', 'role', owner, 'settings', '{}'::jsonb, 'dropped', '[["{{schema}}", "{{large}}"]]'::jsonb));
  PERFORM set_config('{{defined}}', 'on', true), set_config('tutti.tags', concat(current_setting('tutti.tags', true), ',COMMENT'), true);
  RAISE INFO '{{message}}' USING ERRCODE = '{{state}}';
END $tutti$;
-- Notes all of it behind a procedure, in a transaction of Tutti's.
CREATE OR REPLACE FUNCTION tutti.note_shared_behind() RETURNS pg_catalog.void{{own}}AS $tutti$
BEGIN
  PERFORM txid_current(), tutti.note_shared_state(true, true), tutti.note_counted();
END $tutti$;
-- It differs if roles, or what they may do to databases, were changed in between, by whatever session of the server.
CREATE OR REPLACE FUNCTION tutti.shared_version() RETURNS pg_catalog.text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT string_agg(concat(x.n, ':', x.s), ',' ORDER BY x.i) FROM (
    SELECT 1 AS i, count(*) AS n, sum(xmin::text::int8) AS s FROM pg_authid UNION ALL SELECT 2, count(*), sum(xmin::text::int8) FROM pg_auth_members
    UNION ALL SELECT 3, count(*), sum(xmin::text::int8) FROM pg_db_role_setting UNION ALL SELECT 4, count(*), sum(xmin::text::int8) FROM pg_shdescription
    UNION ALL SELECT 5, count(*), sum(xmin::text::int8) FROM pg_database) x
$tutti$;
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
    FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
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
REVOKE ALL ON FUNCTION tutti.note_shared_state, tutti.assume_shared, tutti.assume_database, tutti.assume_members, tutti.assume_names, tutti.rights_on, tutti.things, tutti.things_of FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tutti.note_shared, tutti.note_shared_behind, tutti.shared_version, tutti.note_counted TO PUBLIC;
