-- What clients have written: expressions by relation, and the code of functions.
trees(rel, tree) AS MATERIALIZED (
  {{trees}}
), code(oid, name, text, unread) AS MATERIALIZED (
  SELECT p.oid, p.proname, lower(concat(p.prosrc, p.prosqlbody) COLLATE "C"), silent AND l.lanname NOT IN ('sql', 'plpgsql') FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
    WHERE p.oid >= 16384 AND (NOT fresh OR age(p.xmin) <= 0) AND l.lanname NOT IN ('internal', 'c') AND p.pronamespace <> 'tutti'::regnamespace
      AND NOT (p.pronamespace = 'pg_catalog'::regnamespace AND p.proname IN ({{own_functions}})) -- they note what they write
)
