DO $tutti$ DECLARE f pg_catalog.regprocedure;
BEGIN
  FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.oid OPERATOR(pg_catalog.<) 12000::pg_catalog.oid AND p.proname OPERATOR(pg_catalog.=) ANY ('{setval,pg_sequence_parameters}'::pg_catalog._name) LOOP
    EXECUTE pg_catalog.concat('ALTER FUNCTION ', f, ' RENAME TO tutti_', (SELECT p.proname FROM pg_catalog.pg_proc p WHERE p.oid OPERATOR(pg_catalog.=) f::pg_catalog.oid));
  END LOOP;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.place(s pg_catalog.regclass, v pg_catalog.int8, called pg_catalog.bool, who pg_catalog.name) RETURNS pg_catalog.bool{{own_settings}}AS $tutti$
DECLARE r tutti.sequences; o record; c text; up bool;
BEGIN
  GET DIAGNOSTICS c = PG_CONTEXT;
  IF split_part(c, E'\n', 2) !~ '^PL/pgSQL function setval\(regclass,bigint,boolean\) line '
    OR EXISTS (SELECT FROM pg_proc WHERE proname = 'setval' AND pronamespace <> 'pg_catalog'::regnamespace) OR current_setting('transaction_read_only') = 'on' THEN
    RETURN false;
  END IF;
  SELECT * INTO r FROM tutti.sequences WHERE seq = s FOR SHARE;
  IF NOT FOUND OR NOT has_sequence_privilege(who, s, 'UPDATE') THEN
    RETURN false;
  END IF;
  IF v < r.bottom OR v > r.top THEN
    RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = format('setval: value %s is out of bounds for sequence "%s" (%s..%s)', v, (SELECT relname FROM pg_class WHERE oid = s), r.bottom, r.top);
  END IF;
  SELECT seqincrement > 0 INTO STRICT up FROM pg_sequence WHERE seqrelid = s;
  o := tutti.own_position(r, v, called);
  IF o.lo = r.lo AND o.hi = r.hi THEN
    PERFORM tutti.native_setval(s, o.at, o.is_called);
  ELSIF o.at IS NOT NULL AND (CASE WHEN up THEN o.lo > r.hi ELSE o.hi < r.lo END) THEN
    PERFORM tutti.bound_sequence(s, o.lo, o.hi), tutti.native_setval(s, o.at, o.is_called);
  ELSE
    PERFORM tutti.restart_sequence(s, v, called);
  END IF;
  RETURN true;
END $tutti$;
CREATE OR REPLACE FUNCTION pg_catalog.setval(pg_catalog.regclass, pg_catalog.int8, pg_catalog.bool) RETURNS pg_catalog.int8 LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE COST 1 AS $tutti$
BEGIN
  IF NOT tutti.place($1, $2, $3, CURRENT_USER) THEN
    PERFORM pg_catalog.tutti_setval($1, $2, $3);
  END IF;
  RETURN $2;
END $tutti$;
CREATE OR REPLACE FUNCTION pg_catalog.setval(pg_catalog.regclass, pg_catalog.int8) RETURNS pg_catalog.int8 LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE COST 1 AS $tutti$
  SELECT pg_catalog.setval($1, $2, true)
$tutti$;
CREATE OR REPLACE FUNCTION pg_catalog.pg_sequence_parameters(sequence_oid pg_catalog.oid, OUT start_value pg_catalog.int8, OUT minimum_value pg_catalog.int8, OUT maximum_value pg_catalog.int8, OUT increment pg_catalog.int8,
  OUT cycle_option pg_catalog.bool, OUT cache_size pg_catalog.int8, OUT data_type pg_catalog.oid) LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $tutti$
  SELECT p.start_value, s.seqmin, s.seqmax, p.increment, s.seqcycle, p.cache_size, p.data_type
  FROM pg_catalog.tutti_pg_sequence_parameters($1) p, tutti.pg_sequence() s WHERE s.seqrelid OPERATOR(pg_catalog.=) $1
$tutti$;
