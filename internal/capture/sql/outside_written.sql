-- What clients have written: expressions by relation, and the code of functions.
trees(rel, tree) AS MATERIALIZED (
  -- what partial definitions have made is of relations that they have locked
  SELECT * FROM ({{trees}}) t WHERE NOT confined UNION ALL SELECT * FROM ({{trees}}) t(rel, tree) WHERE confined AND t.rel = ANY (locks)
), code(oid, name, text, unread) AS MATERIALIZED (
  SELECT p.oid, p.proname, lower(concat(p.prosrc, p.prosqlbody) COLLATE "C"), silent AND l.lanname NOT IN ('sql', 'plpgsql') FROM {{functions}} p JOIN pg_language l ON l.oid = p.prolang
    WHERE l.lanname NOT IN ('internal', 'c') AND p.pronamespace <> 'tutti'::regnamespace
      AND NOT (p.pronamespace = 'pg_catalog'::regnamespace AND p.proname IN ({{own_functions}})) -- they note what they write
)
