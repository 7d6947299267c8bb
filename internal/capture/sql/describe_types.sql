-- The columns of tables, and all types that theirs are made of.
{{columns}}, reach(root, typ) AS (
  SELECT DISTINCT atttypid, atttypid FROM atts
  UNION
  SELECT r.root, e.next FROM reach r JOIN LATERAL (
    SELECT typbasetype AS next FROM pg_type WHERE oid = r.typ AND typbasetype <> 0
    UNION ALL SELECT typelem FROM pg_type WHERE oid = r.typ AND typelem <> 0
    UNION ALL SELECT a.atttypid FROM pg_type y JOIN pg_attribute a ON a.attrelid = y.typrelid
      WHERE y.oid = r.typ AND y.typrelid <> 0 AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL SELECT rngsubtype FROM pg_range WHERE rngtypid = r.typ OR rngmultitypid = r.typ
  ) e ON true
)
