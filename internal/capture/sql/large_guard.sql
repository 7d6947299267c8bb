CREATE OR REPLACE FUNCTION tutti.guard_large() RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = on AS $tutti$
DECLARE found bool; written bool := EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation = 2613 AND mode = 'RowExclusiveLock');
BEGIN
  IF pg_current_xact_id_if_assigned() IS NULL OR concat(current_setting('{{counted}}', true), current_setting('{{odd}}', true)) = '' AND tutti.large_seen() THEN RETURN; END IF;
  EXECUTE format('WITH notes AS MATERIALIZED (SELECT c.op, c.ident::oid AS object, c.keys[1] AS what, c.keys[2] AS first, c.keys[3] AS last FROM %s c WHERE c.xid = txid_current() AND c.op IN ({{op}}, {{definition}}, {{frozen}}))
    SELECT NOT EXISTS (SELECT FROM notes WHERE op <> {{op}}) AND (
        EXISTS (SELECT FROM pg_largeobject_metadata m WHERE pg_stat_get_xact_tuples_inserted(2995) > 0 AND age(m.xmin) <= 0 AND tutti.mine(m.xmin) AND NOT EXISTS (SELECT FROM notes n WHERE n.object = m.oid))
        OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = ''object'' AND l.classid = 2613 AND l.mode = ''AccessExclusiveLock'' AND NOT EXISTS (SELECT FROM notes n WHERE n.object = l.objid)))
      OR $1 AND NOT EXISTS (SELECT FROM notes WHERE op = {{frozen}}) AND EXISTS (SELECT FROM pg_largeobject p WHERE age(p.xmin) <= 0 AND tutti.mine(p.xmin) AND NOT EXISTS (SELECT FROM notes n WHERE n.object = p.loid AND (n.what = {{made}} OR p.pageno BETWEEN n.first AND n.last)))',
    tutti.captures()) INTO found USING written;
  IF found THEN
    RAISE EXCEPTION 'a large object was written by other functions than those of their names' USING ERRCODE = '0A000', HINT = 'Call lo_create, lo_put, lowrite and so on by their names in SQL.';
  END IF;
  PERFORM set_config('{{seen}}', concat({{count}}, '/', {{marks}}), false);
END $tutti$;
ALTER FUNCTION tutti.guard_large OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.guard_large FROM PUBLIC;
