DO $tutti$ DECLARE f pg_catalog.regprocedure; n pg_catalog.text;
BEGIN
  FOR f, n IN SELECT p.oid, p.proname FROM pg_catalog.pg_proc p WHERE p.oid OPERATOR(pg_catalog.<) 12000::pg_catalog.oid AND p.proname OPERATOR(pg_catalog.=) ANY ({{names}}::pg_catalog._name)
    AND p.pronamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid LOOP
    EXECUTE pg_catalog.concat('ALTER FUNCTION ', f, ' RENAME TO tutti_', n);
  END LOOP;
END $tutti$;
