CREATE OR REPLACE FUNCTION pg_catalog.{{name}}({{types}}) RETURNS pg_catalog.{{returns}} LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE COST 1 AS $tutti$
DECLARE {{declare}}
BEGIN
  IF ({{count}} OPERATOR(pg_catalog.=) {{counted}}) IS NOT TRUE THEN PERFORM tutti.large_before(); END IF;{{body}}
END $tutti$;
