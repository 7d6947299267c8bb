DO $tutti$ DECLARE f pg_catalog.regprocedure; n pg_catalog.text;
BEGIN
  FOR f, n IN SELECT p.oid, p.proname FROM pg_catalog.pg_proc p WHERE p.oid OPERATOR(pg_catalog.<) 12000::pg_catalog.oid AND p.proname OPERATOR(pg_catalog.~) '^pg_(try_)?advisory_' LOOP
    EXECUTE pg_catalog.concat('ALTER FUNCTION ', f, ' RENAME TO tutti_', n);
  END LOOP;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.native_unlock_all() RETURNS pg_catalog.void LANGUAGE internal VOLATILE STRICT AS 'pg_advisory_unlock_all';
ALTER FUNCTION tutti.native_unlock_all() OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.native_unlock_all() FROM PUBLIC;
