CREATE OR REPLACE FUNCTION tutti.settle_large() RETURNS pg_catalog.void{{own_settings}}AS $tutti$
BEGIN
  UPDATE pg_proc SET probin = NULL, prolang = (SELECT l.oid FROM pg_language l WHERE l.lanname = 'plpgsql'), prosrc = $body$
DECLARE was text; becomes text;
BEGIN
  EXECUTE pg_catalog.format('SELECT ($1).%I::pg_catalog.text', TG_ARGV[0]) INTO was USING OLD;
  IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
    PERFORM pg_catalog.lo_unlink(was::pg_catalog.oid);
    RETURN OLD;
  END IF;
  EXECUTE pg_catalog.format('SELECT ($1).%I::pg_catalog.text', TG_ARGV[0]) INTO becomes USING NEW;
  IF was IS DISTINCT FROM becomes THEN
    PERFORM pg_catalog.lo_unlink(was::pg_catalog.oid);
  END IF;
  RETURN NEW;
END $body$
  WHERE prosrc = 'lo_manage' AND prolang = (SELECT l.oid FROM pg_language l WHERE l.lanname = 'c') AND prorettype = 'trigger'::regtype;
END $tutti$;
SELECT tutti.settle_large();
CREATE OR REPLACE FUNCTION tutti.large_apply(r tutti.large) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
DECLARE old text := current_setting('role'); size int4 := current_setting('block_size')::int4 / 4;
BEGIN
  PERFORM FROM pg_largeobject_metadata m WHERE m.oid = r.object FOR NO KEY UPDATE;
  IF FOUND = (r.what = {{make}}) THEN
    IF r.what <> {{fill}} THEN
      RAISE WARNING 'large object % % here', r.object, CASE r.what WHEN {{make}} THEN 'exists already' ELSE 'does not exist' END;
    END IF;
  ELSIF r.what = {{make}} THEN
    IF EXISTS (SELECT FROM pg_roles a WHERE a.rolname = r.owner) THEN
      PERFORM set_config('role', r.owner, true);
      PERFORM tutti_lo_create(r.object);
      PERFORM set_config('role', old, true);
    ELSE
      RAISE WARNING 'role % does not exist here, who owns large object %', r.owner, r.object;
      PERFORM tutti_lo_create(r.object);
    END IF;
  ELSIF r.what = {{drop}} THEN
    PERFORM tutti_lo_unlink(r.object);
  ELSIF r.what = {{clear}} THEN
    DELETE FROM pg_largeobject p WHERE p.loid = r.object AND p.pageno BETWEEN r.page AND r.last;
  ELSE
    INSERT INTO pg_largeobject SELECT r.object, r.page + i, substring(r.data FROM i * size + 1 FOR size) FROM generate_series(0, greatest(0, (length(r.data) - 1) / size)) i;
  END IF;
END $tutti$;
REVOKE ALL ON FUNCTION tutti.large_apply FROM PUBLIC;
