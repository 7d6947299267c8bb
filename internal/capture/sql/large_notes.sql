CREATE OR REPLACE FUNCTION tutti.large_note(object pg_catalog.oid, what pg_catalog.int2, first pg_catalog.int8, last pg_catalog.int8) RETURNS pg_catalog.void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
DECLARE t text := current_setting('{{tx}}', true); size int8 := current_setting('block_size')::int8 / 4; here bool; own bool; changed bool := current_setting('transaction_isolation') <> 'read committed';
BEGIN
  {{begun}}
  IF current_setting('{{session}}', true) IN ('{{applies}}', '{{defines}}') THEN
    RAISE EXCEPTION 'a definition cannot write large objects' USING ERRCODE = 'feature_not_supported', HINT = 'Write them by statements of their own.';
  ELSIF t = '{{direct}}' THEN
    PERFORM set_config('{{tx}}', 'on', true);
  ELSIF t = '{{inside}}' THEN
    PERFORM tutti.enter_inside();
  ELSIF t IN ('on', '{{bulk}}') THEN
  ELSE
    RAISE EXCEPTION 'large object % was written outside a Tutti transaction', object USING ERRCODE = '{{outside}}', HINT = 'Connect to Tutti, not to the database behind it.';
  END IF;
  SELECT true, tutti.mine(m.xmin) INTO here, own FROM pg_largeobject_metadata m WHERE m.oid = object;
  IF what IN ({{wrote}}, {{cut}}) THEN
    first := first / size; last := CASE what WHEN {{cut}} THEN {{end}} ELSE last / size END;
    own := coalesce(own, false) OR (SELECT count(*) FROM (SELECT FROM pg_largeobject p WHERE p.loid = object AND p.pageno BETWEEN first AND last AND tutti.mine(p.xmin) LIMIT 1) x) = 1;
    IF own THEN
      PERFORM FROM pg_largeobject_metadata m WHERE m.oid = object FOR NO KEY UPDATE;
      own := FOUND;
      changed := NOT FOUND;
    END IF;
  ELSIF what = {{gone}} THEN
    own := here IS NULL;
  ELSIF what <> {{made}} THEN
    own := false;
  END IF;
  IF own IS NOT TRUE AND changed THEN -- since the transaction's snapshot, which PostgreSQL does not look at to write large objects
    RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = 'serialization_failure';
  ELSIF own IS NOT TRUE THEN
    RAISE EXCEPTION 'large object % was not written', object USING ERRCODE = 'insufficient_privilege';
  END IF;
  PERFORM tutti.put('', {{op}}::int2, object::int8, ARRAY[what, first, last]::int8[], NULL), set_config('{{flag}}', 'on', true), set_config('{{counted}}', {{count}}, true), set_config('{{seen}}', concat({{count}}, '/', {{marks}}), false);
END $tutti$;
-- Something was written by other functions than ours since the last of them, or before the first; or it was undone, or was an earlier transaction's. PostgreSQL keeps its
-- lock for pages, and none for an object that is made.
CREATE OR REPLACE FUNCTION tutti.large_seen() RETURNS pg_catalog.bool LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT {{count}} IN ('0', split_part(x, '/', 1)) AND concat('0', split_part(x, '/', 2))::int8 <= {{marks}} FROM (SELECT coalesce(current_setting('{{seen}}', true), '') AS x) s
$tutti$;
CREATE OR REPLACE FUNCTION tutti.large_before() RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  IF coalesce(current_setting('{{counted}}', true), '') <> '' OR NOT tutti.large_seen() THEN
    PERFORM set_config('{{odd}}', 'on', true);
  END IF;
  PERFORM set_config('{{counted}}', {{count}}, true);
END $tutti$;

