-- What a rule's query and the views below it call that is not the same at each member, and what to do about it:
-- functions that are VOLATILE, PostgreSQL's own that tell the time or what is of one server, and words that do.
DROP FUNCTION IF EXISTS tutti.volatile_below(pg_catalog.oid);
CREATE OR REPLACE FUNCTION tutti.unsteady_below(rel pg_catalog.oid, OUT what pg_catalog.text, OUT hint pg_catalog.text) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $tutti$
  WITH RECURSIVE below(oid, action) AS (
    SELECT r.ev_class, r.ev_action::text FROM pg_rewrite r WHERE r.ev_class = rel AND r.ev_type = '1'
    UNION SELECT r.ev_class, r.ev_action::text FROM below b CROSS JOIN LATERAL regexp_matches(b.action, ':relid ([0-9]+)', 'g') m
      JOIN pg_class c ON c.oid = m[1]::oid AND c.relkind = 'v' JOIN pg_rewrite r ON r.ev_class = c.oid AND r.ev_type = '1')
  SELECT 'calls ' || p.oid::regprocedure, CASE WHEN p.oid < 16384 THEN 'Use a view.' ELSE 'Mark the function STABLE or IMMUTABLE, if it is, or use a view.' END
  FROM below b CROSS JOIN LATERAL regexp_matches(b.action, ':(?:funcid|opfuncid|aggfnoid|winfnoid) ([0-9]+)', 'g') m JOIN pg_proc p ON p.oid = m[1]::oid
    WHERE p.provolatile = 'v' OR p.oid < 16384 AND (p.proname = 'age' AND p.pronargs = 1 OR p.proname IN ('now', 'transaction_timestamp', 'statement_timestamp',
      'mxid_age', 'txid_current', 'txid_current_if_assigned', 'txid_current_snapshot', 'pg_current_xact_id', 'pg_current_xact_id_if_assigned', 'pg_current_snapshot',
      'pg_backend_pid', 'pg_postmaster_start_time', 'pg_conf_load_time', 'inet_client_addr', 'inet_client_port', 'inet_server_addr', 'inet_server_port'))
  UNION ALL SELECT 'calls ' || (ARRAY['CURRENT_DATE', 'CURRENT_TIME', 'CURRENT_TIME', 'CURRENT_TIMESTAMP', 'CURRENT_TIMESTAMP', 'LOCALTIME', 'LOCALTIME', 'LOCALTIMESTAMP', 'LOCALTIMESTAMP'])[m[1]::int4 + 1], 'Use a view.'
    FROM below b CROSS JOIN LATERAL regexp_matches(b.action, '{SQLVALUEFUNCTION :op ([0-8]) ', 'g') m
  UNION ALL SELECT 'reads foreign table ' || c.oid::regclass, 'Use a view, or copy its rows into a table.'
    FROM below b CROSS JOIN LATERAL regexp_matches(b.action, ':relid ([0-9]+)', 'g') m JOIN pg_class c ON c.oid = m[1]::oid AND c.relkind = 'f'
  LIMIT 1
$tutti$;
-- The first type within a value of another one that a B-tree cannot compare.
CREATE OR REPLACE FUNCTION tutti.unordered_within(whole pg_catalog.oid) RETURNS pg_catalog.regtype LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $tutti$
  WITH RECURSIVE part(oid) AS (
    SELECT whole
    UNION SELECT n.oid FROM part p JOIN pg_type y ON y.oid = p.oid
      LEFT JOIN pg_attribute a ON a.attrelid = y.typrelid AND a.attnum > 0 AND NOT a.attisdropped
      CROSS JOIN LATERAL (VALUES (y.typbasetype), (CASE WHEN y.typcategory = 'A' THEN y.typelem END), (a.atttypid)) n(oid)
      WHERE n.oid <> 0)
  SELECT y.oid::regtype FROM part p JOIN pg_type y ON y.oid = p.oid AND y.typtype = 'b' AND y.typcategory <> 'A'
  WHERE NOT EXISTS (SELECT FROM pg_opclass o WHERE o.opcmethod = (SELECT m.oid FROM pg_am m WHERE m.amname = 'btree') AND o.opcdefault
    AND o.opcintype IN (SELECT y.oid UNION ALL SELECT k.casttarget FROM pg_cast k
      WHERE k.castsource = y.oid AND k.castmethod = 'b' AND k.castcontext = 'i'))
  LIMIT 1
$tutti$;
-- A B-tree of rows or arrays compares their parts only when it has two entries, dead ones too. Members have different
-- dead entries, so one member might store a row that another cannot.
CREATE OR REPLACE FUNCTION tutti.refuse_unordered() RETURNS pg_catalog.void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE x record;
BEGIN
  IF current_setting('{{session}}', true) = '{{applies}}' THEN RETURN; END IF; -- its own member has looked
  FOR x IN SELECT a.atttypid::regtype AS whole, tutti.unordered_within(a.atttypid) AS part
    FROM (SELECT DISTINCT i.indexrelid, i.indclass FROM pg_event_trigger_ddl_commands() d
      JOIN pg_index i ON d.classid = 'pg_class'::regclass AND d.objid IN (i.indexrelid, i.indrelid)) i
    CROSS JOIN LATERAL unnest(i.indclass) WITH ORDINALITY o(oid, n)
    JOIN pg_opclass c ON c.oid = o.oid AND c.opcintype IN ('record'::regtype, 'anyarray'::regtype)
    JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'
    JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attnum = o.n
  LOOP
    IF x.part IS NOT NULL THEN
      RAISE EXCEPTION 'an index of type % cannot be replicated: its values hold values of type %, which has no order', x.whole, x.part
        USING ERRCODE = '0A000', HINT = 'Index expressions of parts that have an order.';
    END IF;
  END LOOP;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.refuse_drift(tag pg_catalog.text, query pg_catalog.text) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE f text; h text; rel oid;
BEGIN
  IF current_setting('{{session}}', true) = '{{applies}}' THEN RETURN; END IF; -- its own member has looked
  SELECT d.objid INTO rel FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_class'::regclass LIMIT 1;
  IF tag LIKE '%MATERIALIZED VIEW' THEN
    SELECT b.what, b.hint INTO f, h FROM tutti.unsteady_below(rel) b;
    IF f IS NOT NULL THEN
      RAISE EXCEPTION 'a materialized view whose query % would differ between members', f USING ERRCODE = '0A000', HINT = h;
    ELSIF starts_with(tag, 'CREATE') AND query ~* '''\s*(now|today|tomorrow|yesterday)\s*''' AND EXISTS (
        SELECT FROM pg_rewrite r WHERE r.ev_class = rel AND r.ev_action::text ~ format(':consttype (%s|%s|%s|%s|%s) ', 'date'::regtype::oid,
          'time'::regtype::oid, 'timetz'::regtype::oid, 'timestamp'::regtype::oid, 'timestamptz'::regtype::oid)) THEN
      RAISE EXCEPTION 'a materialized view with a literal such as ''now'' would differ between members' USING ERRCODE = '0A000', HINT = 'Write the time out.';
    END IF;
  ELSIF query ~* '\mtype\M' AND query ~* '\malter\M.*\malter\M' THEN
    SELECT p.oid::regprocedure INTO f FROM pg_proc p WHERE p.oid >= 16384 AND p.provolatile = 'v' AND p.prokind = 'f' AND p.pronamespace <> 'tutti'::regnamespace AND query ~* '\musing\M' AND (
        p.proname IN (SELECT coalesce(m[1], lower(m[2])) FROM regexp_matches(query, '(?:"([^"]+)"|([[:alpha:]_][[:alnum:]_$]*))\s*\(', 'g') m)
        OR EXISTS (SELECT FROM pg_operator o WHERE o.oprcode = p.oid AND strpos(query, o.oprname) > 0)) LIMIT 1;
    IF f IS NULL THEN
      SELECT p.oid::regprocedure INTO f FROM pg_attribute a JOIN pg_cast k ON k.casttarget = a.atttypid JOIN pg_proc p ON p.oid = k.castfunc
        WHERE a.attrelid = rel AND a.attnum > 0 AND p.oid >= 16384 AND p.provolatile = 'v' AND tutti.mine(a.xmin) LIMIT 1;
    END IF;
    IF f IS NOT NULL THEN
      RAISE EXCEPTION 'ALTER COLUMN … TYPE with % would fill rows differently at each member', f USING ERRCODE = '0A000',
        HINT = 'Mark the function STABLE or IMMUTABLE, if it is, or add a column, UPDATE it, and drop the old one.';
    END IF;
  ELSIF query ~* '\madd\M' AND current_setting('{{ddl}}') = '{{on}}' THEN -- in a block the rows travel
    SELECT p.oid::regprocedure INTO f FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid AND y.typtype = 'd' CROSS JOIN LATERAL regexp_matches(y.typdefaultbin::text, ':(?:funcid|opfuncid) ([0-9]+)', 'g') m
      JOIN pg_proc p ON p.oid = m[1]::oid WHERE a.attrelid = rel AND a.attnum > 0 AND NOT a.atthasdef AND p.provolatile = 'v' AND tutti.mine(a.xmin) LIMIT 1;
    IF f IS NOT NULL THEN
      RAISE EXCEPTION 'ADD COLUMN of a domain whose default calls % would fill rows differently at each member', f USING ERRCODE = '0A000', HINT = 'Give the column the same DEFAULT, or run the statement in a transaction block.';
    END IF;
  END IF;
END $tutti$;
GRANT EXECUTE ON FUNCTION tutti.refuse_drift, tutti.unsteady_below, tutti.refuse_unordered, tutti.unordered_within TO PUBLIC;
