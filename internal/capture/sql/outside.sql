DROP FUNCTION IF EXISTS tutti.outside(pg_catalog.bool, pg_catalog.bool); -- of earlier versions
DROP FUNCTION IF EXISTS tutti.outside(pg_catalog.bool, pg_catalog.bool, pg_catalog.bool, pg_catalog._oid);
-- Known: what was before is known, these names.
CREATE OR REPLACE FUNCTION tutti.outside(known pg_catalog.bool, before pg_catalog._text, made pg_catalog.bool, locks pg_catalog._oid) RETURNS pg_catalog._text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = on SET enable_mergejoin = on AS $tutti$
DECLARE
  had bool := before <> '{}';
  tags text[] := CASE WHEN known AND tutti.partial() THEN string_to_array(ltrim(current_setting('tutti.tags', true), ','), ',') END;
  silent bool := current_setting('server_version_num')::int4 < 160000; -- later ones refuse it
  own text[]; -- what a tree has that calls one of PostgreSQL's that does something outside
  runs text[]; -- or runs a text
  -- The transaction has made, or changed, what may do so, as nothing did before.
  fresh bool := made AND known AND NOT had AND current_setting('tutti.tags', true) <> '' AND current_setting('tutti.tags', true) !~ 'EXTENSION|LANGUAGE';
  confined bool := fresh AND tags IS NOT NULL;
  news oid[] := '{}'; -- functions that it has made, or changed, if fresh
  kinds text[]; functions bool[]; oids oid[]; names text[]; -- what does so by itself
  found text[] := CASE WHEN silent THEN '{h}' ELSE '{}' END;
BEGIN
  IF tags <@ '{CREATE INDEX,ALTER INDEX,DROP INDEX,CREATE SEQUENCE,ALTER SEQUENCE,DROP SEQUENCE,DROP TABLE,COMMENT,GRANT,REVOKE}'
     OR NOT had AND tags <@ '{DROP TABLE,DROP INDEX,DROP TRIGGER,DROP SEQUENCE,DROP VIEW,DROP FUNCTION,DROP PROCEDURE,DROP DOMAIN,DROP TYPE,DROP SCHEMA,CREATE SCHEMA,COMMENT,GRANT,REVOKE}' THEN
    RETURN NULL;
  END IF;
  IF NOT had AND tags <@ '{CREATE TABLE,ALTER TABLE,DROP TABLE,CREATE INDEX,ALTER INDEX,DROP INDEX,CREATE TRIGGER,DROP TRIGGER,CREATE SEQUENCE,ALTER SEQUENCE,DROP SEQUENCE,DROP VIEW,COMMENT,GRANT,REVOKE}' THEN
    IF NOT EXISTS (SELECT FROM ({{trees}}) t(rel, tree) WHERE t.rel = ANY (locks)) THEN
      RETURN NULL;
    END IF;
  END IF;
  SELECT array_agg(concat('funcid ', oid, ' ')) FILTER (WHERE proname IN ({{outside_names}})), array_agg(concat('funcid ', oid, ' ')) FILTER (WHERE silent AND proname NOT IN ({{outside_names}})) INTO own, runs
    FROM pg_proc WHERE (proname IN ({{outside_names}}, {{hiding_names}}) OR proname >= 'tutti_lo' AND proname < 'tutti_lp') AND pronamespace = 'pg_catalog'::regnamespace AND oid < 16384;
  IF had AND tags <@ '{CREATE TABLE,ALTER TABLE,DROP TABLE,CREATE INDEX,ALTER INDEX,DROP INDEX,CREATE TRIGGER,DROP TRIGGER,CREATE SEQUENCE,ALTER SEQUENCE,DROP SEQUENCE,COMMENT,GRANT,REVOKE}'
     AND NOT EXISTS (SELECT FROM pg_class WHERE oid = ANY (locks) AND lower(relname COLLATE "C") = ANY (before)) -- its parents, and the tables that it refers to, follow from it
     AND NOT EXISTS (SELECT FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid WHERE g.tgrelid = ANY (locks) AND lower(p.proname COLLATE "C") = ANY (before))
     AND NOT EXISTS (SELECT FROM ({{trees}}) t(rel, tree) WHERE t.rel = ANY (locks) AND (EXISTS (SELECT FROM unnest(own || runs) o WHERE strpos(t.tree, o) > 0)
       OR EXISTS (SELECT FROM pg_proc p WHERE p.oid >= 16384 AND lower(p.proname COLLATE "C") = ANY (before) AND strpos(t.tree, concat('funcid ', p.oid, ' ')) > 0))) THEN
    RETURN NULL; -- what these tables do is nothing of the kind
  END IF;
  IF fresh AND (tags <@ '{CREATE TABLE,CREATE TABLE AS,SELECT INTO,ALTER TABLE,CREATE INDEX,ALTER INDEX,CREATE VIEW,CREATE MATERIALIZED VIEW,CREATE DOMAIN,CREATE SEQUENCE,CREATE TRIGGER,CREATE RULE,CREATE POLICY,COMMENT,GRANT,REVOKE}') IS NOT TRUE THEN
    news := ARRAY(SELECT oid FROM pg_proc WHERE oid >= 16384 AND age(xmin) <= 0 AND pronamespace <> 'tutti'::regnamespace);
  END IF;
  IF NOT fresh AND NOT EXISTS (SELECT FROM pg_proc WHERE oid >= 16384 AND pronamespace <> 'tutti'::regnamespace AND NOT (pronamespace = 'pg_catalog'::regnamespace AND proname IN ({{own_functions}})))
     AND NOT EXISTS (SELECT FROM pg_operator WHERE oid >= 16384) AND NOT EXISTS (SELECT FROM pg_cast WHERE oid >= 16384)
     AND NOT EXISTS (SELECT FROM ({{trees}}) t(rel, tree) JOIN unnest(own || runs) o ON strpos(t.tree, o) > 0) THEN
    RETURN found; -- nobody has written anything: to plan what follows takes as long as the whole description
  END IF;
  WITH {{written}}
  SELECT array_agg(kind), array_agg(function), array_agg(oid), array_agg(name) INTO kinds, functions, oids, names FROM (
    SELECT k.kind, true, p.oid, p.proname::text FROM {{functions}} p JOIN pg_language l ON l.oid = p.prolang CROSS JOIN LATERAL (
        SELECT 'o' AS kind WHERE NOT l.lanpltrusted AND l.lanname <> 'internal' UNION ALL SELECT 'h' WHERE silent) k
      WHERE p.pronamespace <> 'tutti'::regnamespace AND (l.lanname = 'internal' OR l.lanname = 'c'
        AND NOT EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
          AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname IN ({{inside_extensions}}) AND NOT (k.kind = 'h' AND e.extname IN ({{hiding_extensions}})))
        OR l.lanname <> 'c' AND NOT l.lanpltrusted)
    UNION SELECT 'o', true, c.oid, c.name FROM code c WHERE (strpos(c.text, 'lo_export') + strpos(c.text, 'pg_logical_emit_') + strpos(c.text, 'pg_file_') > 0 AND c.text ~ '\m({{outside_pattern}})\M')
      OR EXISTS (SELECT FROM unnest(own) o WHERE strpos(c.text, o) > 0) OR (strpos(c.text, 'copy') > 0 AND c.text ~ '\mcopy\M[^;]*\m(to|program)\M')
    UNION SELECT 'h', true, c.oid, c.name FROM code c WHERE c.unread OR silent AND (c.text ~ '\m(execute|{{hiding_pattern}})\M|tutti_lo' OR EXISTS (SELECT FROM unnest(runs) o WHERE strpos(c.text, o) > 0))
    UNION SELECT k.kind, false, t.rel, r.relname FROM trees t JOIN pg_class r ON r.oid = t.rel CROSS JOIN (VALUES ('o', own), ('h', runs)) k(kind, called)
      WHERE EXISTS (SELECT FROM unnest(k.called) o WHERE strpos(t.tree, o) > 0)
    UNION SELECT 'h', false, 0::oid, '*' FROM pg_proc p WHERE silent AND p.oid < 16384 AND p.proname >= 'tutti_lo' AND p.proname < 'tutti_lp' AND p.pronamespace = 'pg_catalog'::regnamespace
      AND (EXISTS (SELECT FROM pg_operator WHERE oprcode = p.oid) OR EXISTS (SELECT FROM pg_cast WHERE castfunc = p.oid))
    UNION SELECT 'h', true, p.oid, p.proname::text FROM pg_aggregate a JOIN {{functions}} p ON p.oid = a.aggfnoid WHERE silent AND EXISTS (SELECT FROM unnest(runs) o
      WHERE o IN (concat('funcid ', aggtransfn::oid, ' '), concat('funcid ', aggfinalfn::oid, ' '), concat('funcid ', aggcombinefn::oid, ' '), concat('funcid ', aggmtransfn::oid, ' ')))
  ) item(kind, function, oid, name); -- else a relation
  IF kinds IS NULL THEN
    RETURN found;
  END IF;
  fresh := false; confined := false; news := '{}'; -- and what calls, or may mean, one that does, of whatever age
  WITH RECURSIVE {{written}}, item(kind, function, oid, name) AS (
    SELECT kind, function, oid, name COLLATE "C" FROM unnest(kinds, functions, oids, names) AS u(kind, function, oid, name)
    UNION SELECT i.kind, n.* FROM item i CROSS JOIN LATERAL (
      SELECT true, c.oid, c.name::text FROM code c
        WHERE (strpos(c.text, lower(i.name COLLATE "C")) > 0 AND c.text ~ concat('\m', regexp_replace(lower(i.name COLLATE "C"), '([^[:alnum:]_])', '\\\1', 'g'), '\M'))
          OR (i.function AND strpos(c.text, concat('funcid ', i.oid, ' ')) > 0)
      UNION ALL SELECT true, p.oid, p.proname::text FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid WHERE i.function AND i.oid IN (aggtransfn, aggfinalfn, aggcombinefn, aggmtransfn, aggminvtransfn, aggmfinalfn)
      UNION ALL SELECT false, r.oid, r.relname::text FROM pg_class r WHERE i.function AND r.oid IN (
        SELECT tgrelid FROM pg_trigger WHERE tgfoid = i.oid UNION ALL SELECT rel FROM trees WHERE strpos(tree, concat('funcid ', i.oid, ' ')) > 0)
      UNION ALL SELECT false, r.oid, r.relname::text FROM pg_class r WHERE NOT i.function AND r.oid IN (
        SELECT inhparent FROM pg_inherits WHERE inhrelid = i.oid UNION ALL SELECT confrelid FROM pg_constraint WHERE contype = 'f' AND conrelid = i.oid
        UNION ALL SELECT w.ev_class FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = i.oid)
      UNION ALL SELECT false, 0::oid, '{{outside_all}}' FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE i.function AND p.oid = i.oid AND l.lanname <> 'c'
        AND (EXISTS (SELECT FROM pg_operator WHERE oprcode = i.oid) OR EXISTS (SELECT FROM pg_cast WHERE castfunc = i.oid))
    ) n
  )
  SELECT coalesce(array_agg(DISTINCT concat(kind, lower(name COLLATE "C"))), '{}') || found INTO found FROM item;
  RETURN found;
END $tutti$;
REVOKE ALL ON FUNCTION tutti.outside FROM PUBLIC;
