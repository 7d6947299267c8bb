-- What decides where a definition runs: whether all relations that it names are temporary; whether another session has a lock on one
-- of them, or on what describes it (GRANT, SELECT … FOR UPDATE), or on one below, and harmless ones do not count; whether this session
-- has temporary objects, or may not write; whether a relation is large, which one that is divided is; whether users have event triggers.
-- Reach is whether those below count, too: all of them (below), partitions, or none.
CREATE OR REPLACE FUNCTION tutti.around(named pg_catalog._oid, reach pg_catalog.text, harmless pg_catalog._text, divided pg_catalog.bool, OUT temporary pg_catalog.bool, OUT locked pg_catalog.bool, OUT private pg_catalog.bool, OUT large pg_catalog.bool, OUT watched pg_catalog.bool)
LANGUAGE plpgsql STABLE{{index_plans}}AS $tutti$
DECLARE every oid[] := ARRAY(SELECT oid FROM pg_class WHERE oid = ANY (named)); changers xid[];
BEGIN
  temporary := false; locked := false; large := false;
  IF every <> '{}' THEN
    IF reach <> 'none' THEN
      every := ARRAY(WITH RECURSIVE o(oid) AS (SELECT unnest(every)
          UNION SELECT h.inhrelid FROM o JOIN pg_inherits h ON h.inhparent = o.oid JOIN pg_class p ON p.oid = h.inhrelid WHERE reach = 'below' OR p.relispartition)
        SELECT oid FROM o);
    END IF;
    SELECT coalesce(bool_and(relpersistence = 't'), false), coalesce(bool_or(relpages > {{large_pages}} OR divided AND relkind = 'p'), false), array_agg(xmax) FILTER (WHERE xmax <> '0')
      INTO temporary, large, changers FROM pg_class WHERE oid = ANY (every);
    locked := EXISTS (SELECT FROM pg_locks l WHERE l.pid <> pg_backend_pid() AND (l.locktype = 'relation' AND l.relation = ANY (every) AND l.mode <> ALL (harmless)
      OR l.transactionid = ANY (changers)
      OR l.relation = 'pg_class'::regclass AND l.mode = 'RowShareLock' AND changers IS NOT NULL)); -- several have locked the row, of which one may be the lock's
  END IF;
  private := pg_my_temp_schema() <> 0 OR current_setting('transaction_read_only') = 'on';
  watched := {{events_query}};
END $tutti$;
GRANT EXECUTE ON FUNCTION tutti.around TO PUBLIC;
