CREATE OR REPLACE FUNCTION tutti.put_serializable(new_tab pg_catalog.bytea, new_op pg_catalog.int2, new_ident pg_catalog.int8,
  new_keys pg_catalog._int8, new_img pg_catalog.bytea) RETURNS pg_catalog.void LANGUAGE plpgsql AS $tutti$
BEGIN
  EXECUTE pg_catalog.concat('INSERT INTO tutti.capture_s', pg_catalog.mod(pg_catalog.pg_backend_pid(), {{serializable_tables}}),
    ' VALUES (pg_catalog.txid_current(), $6, $1, $2, $3, $4, $5)')
    USING new_tab, new_op, new_ident, new_keys, new_img, {{number}};
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.put(new_tab pg_catalog.bytea, new_op pg_catalog.int2, new_ident pg_catalog.int8,
  new_keys pg_catalog._int8, new_img pg_catalog.bytea) RETURNS pg_catalog.void LANGUAGE plpgsql AS $tutti$
DECLARE s pg_catalog.int8;
BEGIN
  s := {{window}};
{{insert_chain}}END $tutti$;
ALTER FUNCTION tutti.put_serializable OWNER TO tutti_owner;
ALTER FUNCTION tutti.put OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.put_serializable FROM PUBLIC;
REVOKE ALL ON FUNCTION tutti.put FROM PUBLIC;
