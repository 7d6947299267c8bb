-- Which types can travel in binary, and which can hold text: of those in reach, which comes before.
binary_types AS (
  SELECT r.root, bool_and(y.typsend <> 0 AND y.typreceive <> 0
    AND NOT (y.typnamespace = 'pg_catalog'::regnamespace AND y.typname LIKE 'reg%')) AS ok
  FROM reach r JOIN pg_type y ON y.oid = r.typ GROUP BY r.root
), words(oid) AS (
  SELECT r.root FROM reach r CROSS JOIN LATERAL (SELECT * FROM pg_type WHERE oid = r.typ {{apart}}) y WHERE y.oid IN ({{word_types}})
    OR y.oid >= 16384 AND y.typtype = 'b' AND (y.typcategory = 'S' OR y.typname IN ('hstore', 'ltree', 'lquery', 'ltxtquery'))
)
