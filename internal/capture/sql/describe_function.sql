CREATE OR REPLACE FUNCTION tutti.describe_{{name}} RETURNS pg_catalog.text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off{{settings}} AS $tutti$
#variable_conflict use_column
BEGIN
  RETURN ({{query}});
END $tutti$;
