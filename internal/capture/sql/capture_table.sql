CREATE UNLOGGED TABLE IF NOT EXISTS tutti.{{name}} (
  xid pg_catalog.int8 NOT NULL, n pg_catalog.int8 NOT NULL, tab pg_catalog.bytea NOT NULL,
  op pg_catalog.int2 NOT NULL, ident pg_catalog.int8, keys pg_catalog._int8, img tutti.image,
  PRIMARY KEY (xid, n)
) WITH (autovacuum_enabled = false, toast_tuple_target = 8160);
ALTER TABLE tutti.{{name}} ALTER img TYPE tutti.image;
ALTER TABLE tutti.{{name}} OWNER TO tutti_owner;
REVOKE ALL ON tutti.{{name}} FROM PUBLIC;
