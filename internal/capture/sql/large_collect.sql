CREATE OR REPLACE FUNCTION tutti.large_steps(captures pg_catalog.text, OUT at pg_catalog.int8, OUT object pg_catalog.oid, OUT what pg_catalog.int2, OUT ranges pg_catalog.int8multirange)
RETURNS SETOF pg_catalog.record LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
BEGIN
  RETURN QUERY EXECUTE format('WITH notes AS MATERIALIZED (
      SELECT c.n, c.ident::oid AS object, c.keys[1] AS what, c.keys[2] AS first, c.keys[3] AS last FROM %s c WHERE c.xid = txid_current() AND c.op = {{op}}),
    locked AS MATERIALIZED (SELECT l.objid FROM pg_locks l WHERE EXISTS (SELECT FROM notes WHERE what = {{gone}})
      AND l.pid = pg_backend_pid() AND l.locktype = ''object'' AND l.classid = ''pg_largeobject''::regclass AND l.mode = ''AccessExclusiveLock'' AND l.granted),
    objects AS (
      SELECT x.object, (array_agg(x.what ORDER BY x.n))[1] <> {{made}} AS was, EXISTS (SELECT FROM pg_largeobject_metadata m WHERE m.oid = x.object) AS is_there,
        min(x.n) AS begun, max(x.n) FILTER (WHERE x.what = {{made}}) AS made, min(x.n) FILTER (WHERE x.what = {{gone}}) AS gone, max(x.n) FILTER (WHERE x.what = {{gone}}) AS gone_last,
        coalesce(range_agg(int8range(x.first, x.last, ''[]'')) FILTER (WHERE x.what IN ({{wrote}}, {{cut}})), ''{}'') AS ranges
      FROM notes x WHERE x.what <> {{gone}} OR x.object IN (SELECT objid FROM locked) GROUP BY x.object)
    SELECT CASE WHEN is_there THEN gone ELSE gone_last END, object, {{drop}}::int2, ''{}''::int8multirange FROM objects WHERE was AND gone IS NOT NULL
    UNION ALL SELECT made, object, {{make}}::int2, ''{[0,{{end}}]}'' FROM objects WHERE is_there AND made IS NOT NULL AND (NOT was OR gone IS NOT NULL)
    UNION ALL SELECT begun, object, {{clear}}::int2, ranges FROM objects WHERE is_there AND was AND gone IS NULL
    ORDER BY 1, 3 DESC', captures);
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.collect_large(captures pg_catalog.text,
  OUT op pg_catalog.int2, OUT ident pg_catalog.int8, OUT keys pg_catalog._int8, OUT tab pg_catalog.bytea, OUT img pg_catalog.bytea)
RETURNS SETOF pg_catalog.record LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
DECLARE s record; r int8range; p record; size int4 := current_setting('block_size')::int4 / 4; most int8; bytes int8 := 0; page int4; last int4; n int8 := -9223372036854775808; alone bool;
  captured text := format('SELECT c.op, c.ident, c.keys, c.tab, c.img::bytea FROM %s c WHERE c.xid = txid_current() AND c.n > $1 AND c.n <= $2 AND c.op <> {{op}} ORDER BY c.n', captures);
BEGIN
  SELECT max(k.bytes_max) INTO most FROM tutti.token k;
  EXECUTE format('SELECT NOT EXISTS (SELECT FROM %s c WHERE c.xid = txid_current() AND c.op <> {{op}})', captures) INTO alone;
  FOR s IN SELECT * FROM tutti.large_steps(captures) LOOP
    IF NOT alone AND s.at > n THEN
      RETURN QUERY EXECUTE captured USING n, s.at;
      n := s.at;
    END IF;
    op := 1; ident := NULL; keys := ARRAY[hashoidextended(s.object, {{key}})]; tab := {{header}};
    IF s.what <> {{clear}} THEN
      img := record_send(ROW(s.object, s.what, NULL, NULL, (SELECT pg_get_userbyid(m.lomowner)::text FROM pg_largeobject_metadata m WHERE m.oid = s.object), NULL)::tutti.large);
      RETURN NEXT;
    END IF;
    FOR r IN SELECT unnest(s.ranges) LOOP
      page := lower(r); last := upper(r) - 1;
      img := record_send(ROW(s.object, {{clear}}, page, last, NULL, NULL)::tutti.large);
      RETURN NEXT;
      LOOP
        SELECT min(l.pageno) INTO page FROM pg_largeobject l WHERE l.loid = s.object AND l.pageno BETWEEN page AND last;
        EXIT WHEN page IS NULL;
        FOR p IN SELECT min(y.pageno) AS first, string_agg(y.data, '' ORDER BY y.pageno) AS data FROM (
            SELECT x.pageno, x.data, sum(x.apart) OVER (ORDER BY x.pageno) AS run FROM (
              SELECT l.pageno, l.data, CASE WHEN lag(l.pageno) OVER w = l.pageno - 1 AND length(lag(l.data) OVER w) = size THEN 0 ELSE 1 END AS apart
              FROM pg_largeobject l WHERE l.loid = s.object AND l.pageno BETWEEN page AND least(last, page::int8 + {{pages}} - 1) WINDOW w AS (ORDER BY l.pageno)) x) y
          GROUP BY y.run ORDER BY y.run LOOP
          bytes := bytes + length(p.data);
          IF bytes > most THEN
            RAISE EXCEPTION 'the transaction changes more than % bytes (writeset_bytes)', most USING ERRCODE = 'program_limit_exceeded', HINT = 'Split it into smaller transactions.';
          END IF;
          img := record_send(ROW(s.object, {{fill}}, p.first, NULL, NULL, p.data)::tutti.large);
          RETURN NEXT;
        END LOOP;
        EXIT WHEN page::int8 + {{pages}} > last;
        page := page + {{pages}};
      END LOOP;
    END LOOP;
  END LOOP;
  IF NOT alone THEN
    RETURN QUERY EXECUTE captured USING n, 9223372036854775807;
  END IF;
END $tutti$;
ALTER FUNCTION tutti.large_steps OWNER TO tutti_owner;
ALTER FUNCTION tutti.collect_large OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.large_steps, tutti.collect_large FROM PUBLIC;
