CREATE OR REPLACE FUNCTION pg_catalog.{{name}}({{types}}) RETURNS pg_catalog.{{returns}}
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE COST 1 SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE r bool; c bool;
BEGIN
{{body}}END $tutti$;
ALTER FUNCTION pg_catalog.{{name}}({{types}}) OWNER TO tutti_owner;
