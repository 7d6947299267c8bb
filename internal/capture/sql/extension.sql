INSERT INTO pg_catalog.pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
  SELECT {{extension_oid}}, 'tutti', 10, 'pg_catalog'::pg_catalog.regnamespace, false, '1'
  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE oid OPERATOR(pg_catalog.=) {{extension_oid}}::pg_catalog.oid);
