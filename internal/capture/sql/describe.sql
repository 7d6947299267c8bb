DROP FUNCTION IF EXISTS tutti.describe(); -- of earlier versions
-- Describes what a transaction has locked, of that barred against writers; all tables where that does not tell what it has changed.
CREATE OR REPLACE FUNCTION tutti.describe(locks pg_catalog._oid, barred pg_catalog._oid) RETURNS pg_catalog.text LANGUAGE plpgsql{{index_plans}}AS $tutti$
DECLARE wanted oid[] := locks; rekeyed oid[] := barred; indexed oid[]; moved bool := coalesce(strpos(current_setting('tutti.tags', true), '{{move_tag}}') > 0, false);
BEGIN
  IF tutti.partial() THEN
    -- Rekeyed: those whose rows foreign keys may know by another index, as it was made or has become that of a partition, or another name.
    IF moved OR strpos(current_setting('tutti.tags', true), '{{rename_tag}}') > 0 THEN
      rekeyed := wanted;
    END IF;
    IF moved THEN -- partitions below know by that name where an index is, and an index may have it in an expression
      indexed := ARRAY(WITH RECURSIVE below(oid) AS (SELECT w FROM unnest(wanted) w UNION SELECT h.inhrelid FROM below b JOIN pg_inherits h ON h.inhparent = b.oid)
        SELECT oid FROM below UNION SELECT i.indrelid FROM below b JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = b.oid AND d.classid = 'pg_class'::regclass
          JOIN pg_index i ON i.indexrelid = d.objid);
      wanted := wanted || indexed; rekeyed := rekeyed || indexed;
    END IF;
    IF moved OR strpos(current_setting('tutti.tags', true), '{{index_tag}}') > 0 THEN -- what the index at the top is called is told of all
      indexed := ARRAY(WITH RECURSIVE below(oid) AS (SELECT i.indexrelid FROM unnest(wanted) w JOIN pg_index i ON i.indexrelid = w
          UNION SELECT h.inhrelid FROM below b JOIN pg_inherits h ON h.inhparent = b.oid)
        SELECT i.indrelid FROM below b JOIN pg_index i ON i.indexrelid = b.oid);
      wanted := wanted || indexed; rekeyed := rekeyed || indexed;
    END IF;
    wanted := wanted || ARRAY(SELECT k.conrelid FROM unnest(rekeyed) r JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = r AND d.classid = 'pg_constraint'::regclass
        JOIN pg_constraint k ON k.oid = d.objid WHERE k.contype = 'f' AND k.confrelid = r) ||
      ARRAY(SELECT confrelid FROM pg_constraint WHERE contype = 'f' AND conrelid = ANY (wanted) AND tutti.mine(xmin));
    IF EXISTS (SELECT FROM pg_class c JOIN pg_type t ON t.oid = c.reltype JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid IN (t.oid, t.typarray)
        WHERE c.oid = ANY (wanted) AND (d.classid <> 'pg_type'::regclass OR d.objid <> t.typarray)) THEN -- their row types are of use to something
      wanted := wanted || ARRAY(WITH RECURSIVE y(oid) AS (
          SELECT reltype FROM pg_class WHERE oid = ANY (wanted) AND reltype <> 0
          UNION SELECT n.oid FROM y CROSS JOIN LATERAL (
            SELECT typarray AS oid FROM pg_type t WHERE t.oid = y.oid AND typarray <> 0
            UNION ALL SELECT d.objid FROM pg_depend d WHERE d.refclassid = 'pg_type'::regclass AND d.refobjid = y.oid AND d.classid = 'pg_type'::regclass
            UNION ALL SELECT c.reltype FROM pg_depend d JOIN pg_class c ON c.oid = d.objid WHERE d.refclassid = 'pg_type'::regclass AND d.refobjid = y.oid AND d.classid = 'pg_class'::regclass AND c.reltype <> 0) n)
        SELECT coalesce(i.indrelid, d.objid) FROM y CROSS JOIN LATERAL (SELECT * FROM pg_depend d WHERE d.refclassid = 'pg_type'::regclass AND d.refobjid = y.oid AND d.classid = 'pg_class'::regclass OFFSET 0) d LEFT JOIN pg_index i ON i.indexrelid = d.objid);
    END IF;
    RETURN tutti.describe_some(wanted, false, true);
  END IF;
  RETURN tutti.describe_all();
END $tutti$;
DROP FUNCTION IF EXISTS tutti.describe_some(pg_catalog._oid); -- of earlier versions
CREATE OR REPLACE FUNCTION tutti.describe_all() RETURNS pg_catalog.text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE tables oid[] := ARRAY(SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti'));
BEGIN
  IF cardinality(tables) <= {{few}} THEN -- the plans will do for the next definition
    RETURN tutti.describe_some(tables, true, true);
  END IF;
  RETURN tutti.describe_many(tables, true, true);
END $tutti$;
REVOKE ALL ON FUNCTION tutti.describe_all, tutti.describe FROM PUBLIC;
