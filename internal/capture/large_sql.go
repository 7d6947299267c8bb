package capture

// largeTables: OIDs are drawn such that no two members draw the same, as long as a sequence has not gone around.
const largeTables = `
CREATE TABLE IF NOT EXISTS tutti.large (object pg_catalog.oid, what pg_catalog.int2, page pg_catalog.int4, last pg_catalog.int4, owner pg_catalog.text, data pg_catalog.bytea);
ALTER TABLE tutti.large OWNER TO tutti_owner;
REVOKE ALL ON tutti.large FROM PUBLIC;
CREATE SEQUENCE IF NOT EXISTS tutti.large_n MINVALUE 0 MAXVALUE @oids CYCLE;
ALTER SEQUENCE tutti.large_n OWNER TO tutti_owner;
CREATE OR REPLACE FUNCTION tutti.large_oid() RETURNS pg_catalog.oid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE o oid; m int8;
BEGIN
  SELECT mod(s.member, @classes) INTO m FROM tutti.sequencing s;
  LOOP
    o := (16384 + nextval('tutti.large_n') * @classes + coalesce(m, 0))::oid;
    IF NOT EXISTS (SELECT FROM pg_largeobject_metadata l WHERE l.oid = o) THEN
      RETURN o;
    END IF;
  END LOOP;
END $tutti$;
ALTER FUNCTION tutti.large_oid OWNER TO tutti_owner;
`

// largeNotes: anybody may call tutti.large_note. So it notes nothing but what this transaction has done in fact, which
// takes the rights to do it: the page, or the object, is this transaction's. That an object is gone by its own doing is
// looked up by the collect step. To write an object locks its row as the applier does: from then on until this
// transaction ends, no other member's change of the object comes in between, see the base in ARCHITECTURE.
//
// The first and the last byte come in; of what was cut, the length.
const largeNotes = `
CREATE OR REPLACE FUNCTION tutti.large_note(object pg_catalog.oid, what pg_catalog.int2, first pg_catalog.int8, last pg_catalog.int8) RETURNS pg_catalog.void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
DECLARE t text := current_setting('@tx', true); size int8 := current_setting('block_size')::int8 / 4; here bool; own bool; changed bool := current_setting('transaction_isolation') <> 'read committed';
BEGIN
  @begun
  IF current_setting('@session', true) IN ('@applies', '@defines') THEN
    RAISE EXCEPTION 'a definition cannot write large objects' USING ERRCODE = 'feature_not_supported', HINT = 'Write them by statements of their own.';
  ELSIF t = '@direct' THEN
    PERFORM set_config('@tx', 'on', true);
  ELSIF t = '@inside' THEN
    PERFORM tutti.enter_inside();
  ELSIF t IN ('on', '@bulk') THEN
  ELSE
    RAISE EXCEPTION 'large object % was written outside a Tutti transaction', object USING ERRCODE = '@outside', HINT = 'Connect to Tutti, not to the database behind it.';
  END IF;
  SELECT true, tutti.mine(m.xmin) INTO here, own FROM pg_largeobject_metadata m WHERE m.oid = object;
  IF what IN (@wrote, @cut) THEN
    first := first / size; last := CASE what WHEN @cut THEN @end ELSE last / size END;
    own := coalesce(own, false) OR (SELECT count(*) FROM (SELECT FROM pg_largeobject p WHERE p.loid = object AND p.pageno BETWEEN first AND last AND tutti.mine(p.xmin) LIMIT 1) x) = 1;
    IF own THEN
      PERFORM FROM pg_largeobject_metadata m WHERE m.oid = object FOR NO KEY UPDATE;
      own := FOUND;
      changed := NOT FOUND;
    END IF;
  ELSIF what = @gone THEN
    own := here IS NULL;
  ELSIF what <> @made THEN
    own := false;
  END IF;
  IF own IS NOT TRUE AND changed THEN -- since the transaction's snapshot, which PostgreSQL does not look at to write large objects
    RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = 'serialization_failure';
  ELSIF own IS NOT TRUE THEN
    RAISE EXCEPTION 'large object % was not written', object USING ERRCODE = 'insufficient_privilege';
  END IF;
  PERFORM tutti.put('', @op::int2, object::int8, ARRAY[what, first, last]::int8[], NULL), set_config('@flag', 'on', true), set_config('@counted', @count, true), set_config('@seen', concat(@count, '/', @marks), false);
END $tutti$;
-- Something was written by other functions than ours since the last of them, or before the first; or it was undone, or was an earlier transaction's. PostgreSQL keeps its
-- lock for pages, and none for an object that is made.
CREATE OR REPLACE FUNCTION tutti.large_seen() RETURNS pg_catalog.bool LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT @count IN ('0', split_part(x, '/', 1)) AND concat('0', split_part(x, '/', 2))::int8 <= @marks FROM (SELECT coalesce(current_setting('@seen', true), '') AS x) s
$tutti$;
CREATE OR REPLACE FUNCTION tutti.large_before() RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  IF coalesce(current_setting('@counted', true), '') <> '' OR NOT tutti.large_seen() THEN
    PERFORM set_config('@odd', 'on', true);
  END IF;
  PERFORM set_config('@counted', @count, true);
END $tutti$;

`

// largeCollect: tutti.large_steps says what the notes came to, object by object, and behind which captured row that
// comes; tutti.collect_large returns the captured rows with it. An object's pages are as they are now, which is as
// they were written last, if its row is locked. n tells where something happened.
const largeCollect = `
CREATE OR REPLACE FUNCTION tutti.large_steps(captures pg_catalog.text, OUT at pg_catalog.int8, OUT object pg_catalog.oid, OUT what pg_catalog.int2, OUT ranges pg_catalog.int8multirange)
RETURNS SETOF pg_catalog.record LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
BEGIN
  RETURN QUERY EXECUTE format('WITH notes AS MATERIALIZED (
      SELECT c.n, c.ident::oid AS object, c.keys[1] AS what, c.keys[2] AS first, c.keys[3] AS last FROM %s c WHERE c.xid = txid_current() AND c.op = @op),
    locked AS MATERIALIZED (SELECT l.objid FROM pg_locks l WHERE EXISTS (SELECT FROM notes WHERE what = @gone)
      AND l.pid = pg_backend_pid() AND l.locktype = ''object'' AND l.classid = ''pg_largeobject''::regclass AND l.mode = ''AccessExclusiveLock'' AND l.granted),
    objects AS (
      SELECT x.object, (array_agg(x.what ORDER BY x.n))[1] <> @made AS was, EXISTS (SELECT FROM pg_largeobject_metadata m WHERE m.oid = x.object) AS is_there,
        min(x.n) AS begun, max(x.n) FILTER (WHERE x.what = @made) AS made, min(x.n) FILTER (WHERE x.what = @gone) AS gone, max(x.n) FILTER (WHERE x.what = @gone) AS gone_last,
        coalesce(range_agg(int8range(x.first, x.last, ''[]'')) FILTER (WHERE x.what IN (@wrote, @cut)), ''{}'') AS ranges
      FROM notes x WHERE x.what <> @gone OR x.object IN (SELECT objid FROM locked) GROUP BY x.object)
    SELECT CASE WHEN is_there THEN gone ELSE gone_last END, object, @drop::int2, ''{}''::int8multirange FROM objects WHERE was AND gone IS NOT NULL
    UNION ALL SELECT made, object, @make::int2, ''{[0,@end]}'' FROM objects WHERE is_there AND made IS NOT NULL AND (NOT was OR gone IS NOT NULL)
    UNION ALL SELECT begun, object, @clear::int2, ranges FROM objects WHERE is_there AND was AND gone IS NULL
    ORDER BY 1, 3 DESC', captures);
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.collect_large(captures pg_catalog.text,
  OUT op pg_catalog.int2, OUT ident pg_catalog.int8, OUT keys pg_catalog._int8, OUT tab pg_catalog.bytea, OUT img pg_catalog.bytea)
RETURNS SETOF pg_catalog.record LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
DECLARE s record; r int8range; p record; size int4 := current_setting('block_size')::int4 / 4; most int8; bytes int8 := 0; page int4; last int4; n int8 := -9223372036854775808; alone bool;
  captured text := format('SELECT c.op, c.ident, c.keys, c.tab, c.img::bytea FROM %s c WHERE c.xid = txid_current() AND c.n > $1 AND c.n <= $2 AND c.op <> @op ORDER BY c.n', captures);
BEGIN
  SELECT max(k.bytes_max) INTO most FROM tutti.token k;
  EXECUTE format('SELECT NOT EXISTS (SELECT FROM %s c WHERE c.xid = txid_current() AND c.op <> @op)', captures) INTO alone;
  FOR s IN SELECT * FROM tutti.large_steps(captures) LOOP
    IF NOT alone AND s.at > n THEN
      RETURN QUERY EXECUTE captured USING n, s.at;
      n := s.at;
    END IF;
    op := 1; ident := NULL; keys := ARRAY[hashoidextended(s.object, @key)]; tab := @header;
    IF s.what <> @clear THEN
      img := record_send(ROW(s.object, s.what, NULL, NULL, (SELECT pg_get_userbyid(m.lomowner)::text FROM pg_largeobject_metadata m WHERE m.oid = s.object), NULL)::tutti.large);
      RETURN NEXT;
    END IF;
    FOR r IN SELECT unnest(s.ranges) LOOP
      page := lower(r); last := upper(r) - 1;
      img := record_send(ROW(s.object, @clear, page, last, NULL, NULL)::tutti.large);
      RETURN NEXT;
      LOOP
        SELECT min(l.pageno) INTO page FROM pg_largeobject l WHERE l.loid = s.object AND l.pageno BETWEEN page AND last;
        EXIT WHEN page IS NULL;
        FOR p IN SELECT min(y.pageno) AS first, string_agg(y.data, '' ORDER BY y.pageno) AS data FROM (
            SELECT x.pageno, x.data, sum(x.apart) OVER (ORDER BY x.pageno) AS run FROM (
              SELECT l.pageno, l.data, CASE WHEN lag(l.pageno) OVER w = l.pageno - 1 AND length(lag(l.data) OVER w) = size THEN 0 ELSE 1 END AS apart
              FROM pg_largeobject l WHERE l.loid = s.object AND l.pageno BETWEEN page AND least(last, page::int8 + @pages - 1) WINDOW w AS (ORDER BY l.pageno)) x) y
          GROUP BY y.run ORDER BY y.run LOOP
          bytes := bytes + length(p.data);
          IF bytes > most THEN
            RAISE EXCEPTION 'the transaction changes more than % bytes (writeset_bytes)', most USING ERRCODE = 'program_limit_exceeded', HINT = 'Split it into smaller transactions.';
          END IF;
          img := record_send(ROW(s.object, @fill, p.first, NULL, NULL, p.data)::tutti.large);
          RETURN NEXT;
        END LOOP;
        EXIT WHEN page::int8 + @pages > last;
        page := page + @pages;
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
`

// largeApply: pages are written as they are, as rows of the catalog: short ones and gaps are kept, which no function of
// PostgreSQL's would do. An object that should be there and is not, or the other way round, is passed over with a
// warning: a client who calls PostgreSQL's own functions by the names they have now can bring that about,
// and must not be able to end other members.
//
// tutti.settle_large puts PL/pgSQL in the place of what the extension lo has in C: that would pass our functions by.
const largeApply = `
CREATE OR REPLACE FUNCTION tutti.settle_large() RETURNS pg_catalog.void` + ownSettings + `AS $tutti$
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
  IF FOUND = (r.what = @make) THEN
    IF r.what <> @fill THEN
      RAISE WARNING 'large object % % here', r.object, CASE r.what WHEN @make THEN 'exists already' ELSE 'does not exist' END;
    END IF;
  ELSIF r.what = @make THEN
    IF EXISTS (SELECT FROM pg_roles a WHERE a.rolname = r.owner) THEN
      PERFORM set_config('role', r.owner, true);
      PERFORM tutti_lo_create(r.object);
      PERFORM set_config('role', old, true);
    ELSE
      RAISE WARNING 'role % does not exist here, who owns large object %', r.owner, r.object;
      PERFORM tutti_lo_create(r.object);
    END IF;
  ELSIF r.what = @drop THEN
    PERFORM tutti_lo_unlink(r.object);
  ELSIF r.what = @clear THEN
    DELETE FROM pg_largeobject p WHERE p.loid = r.object AND p.pageno BETWEEN r.page AND r.last;
  ELSE
    INSERT INTO pg_largeobject SELECT r.object, r.page + i, substring(r.data FROM i * size + 1 FOR size) FROM generate_series(0, greatest(0, (length(r.data) - 1) / size)) i;
  END IF;
END $tutti$;
REVOKE ALL ON FUNCTION tutti.large_apply FROM PUBLIC;
`

// largeGuard: where the counts say that something may have been written without a note, tutti.guard_large looks for it.
// They go with PostgreSQL's statistics, a second after a transaction; until then tutti.large_seen knows them, as long
// as those of tutti.mark have not begun anew. What definitions have changed (owner, rights) is noted otherwise, and what was frozen is not told any more.
const largeGuard = `
CREATE OR REPLACE FUNCTION tutti.guard_large() RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = on AS $tutti$
DECLARE found bool; written bool := EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation = 2613 AND mode = 'RowExclusiveLock');
BEGIN
  IF pg_current_xact_id_if_assigned() IS NULL OR concat(current_setting('@counted', true), current_setting('@odd', true)) = '' AND tutti.large_seen() THEN RETURN; END IF;
  EXECUTE format('WITH notes AS MATERIALIZED (SELECT c.op, c.ident::oid AS object, c.keys[1] AS what, c.keys[2] AS first, c.keys[3] AS last FROM %s c WHERE c.xid = txid_current() AND c.op IN (@op, @definition, @frozen))
    SELECT NOT EXISTS (SELECT FROM notes WHERE op <> @op) AND (
        EXISTS (SELECT FROM pg_largeobject_metadata m WHERE pg_stat_get_xact_tuples_inserted(2995) > 0 AND age(m.xmin) <= 0 AND tutti.mine(m.xmin) AND NOT EXISTS (SELECT FROM notes n WHERE n.object = m.oid))
        OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = ''object'' AND l.classid = 2613 AND l.mode = ''AccessExclusiveLock'' AND NOT EXISTS (SELECT FROM notes n WHERE n.object = l.objid)))
      OR $1 AND NOT EXISTS (SELECT FROM notes WHERE op = @frozen) AND EXISTS (SELECT FROM pg_largeobject p WHERE age(p.xmin) <= 0 AND tutti.mine(p.xmin) AND NOT EXISTS (SELECT FROM notes n WHERE n.object = p.loid AND (n.what = @made OR p.pageno BETWEEN n.first AND n.last)))',
    tutti.captures()) INTO found USING written;
  IF found THEN
    RAISE EXCEPTION 'a large object was written by other functions than those of their names' USING ERRCODE = '0A000', HINT = 'Call lo_create, lo_put, lowrite and so on by their names in SQL.';
  END IF;
  PERFORM set_config('@seen', concat(@count, '/', @marks), false);
END $tutti$;
ALTER FUNCTION tutti.guard_large OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.guard_large FROM PUBLIC;
`
