CREATE OR REPLACE FUNCTION tutti.describe() RETURNS pg_catalog.text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE wanted oid[];
BEGIN
  IF tutti.partial() THEN
    wanted := ARRAY({{locked_relations}});
    wanted := wanted || ARRAY(SELECT conrelid FROM pg_constraint WHERE contype = 'f' AND (
      strpos(current_setting('tutti.tags', true), '{{rename_tag}}') > 0 AND confrelid = ANY (wanted) OR confrelid IN ({{rekeyed_relations}}))) ||
      ARRAY(SELECT confrelid FROM pg_constraint WHERE contype = 'f' AND conrelid = ANY (wanted) AND tutti.mine(xmin));
    wanted := wanted || ARRAY(WITH RECURSIVE y(oid) AS (
        SELECT reltype FROM pg_class WHERE oid = ANY (wanted) AND reltype <> 0
        UNION SELECT n.oid FROM y CROSS JOIN LATERAL (
          SELECT typarray AS oid FROM pg_type t WHERE t.oid = y.oid AND typarray <> 0
          UNION ALL SELECT d.objid FROM pg_depend d WHERE d.refclassid = 'pg_type'::regclass AND d.refobjid = y.oid AND d.classid = 'pg_type'::regclass
          UNION ALL SELECT c.reltype FROM pg_depend d JOIN pg_class c ON c.oid = d.objid WHERE d.refclassid = 'pg_type'::regclass AND d.refobjid = y.oid AND d.classid = 'pg_class'::regclass AND c.reltype <> 0) n)
      SELECT coalesce(i.indrelid, d.objid) FROM y JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = y.oid AND d.classid = 'pg_class'::regclass LEFT JOIN pg_index i ON i.indexrelid = d.objid);
    RETURN tutti.describe_some(wanted);
  END IF;
  RETURN tutti.describe_all();
END $tutti$;
REVOKE ALL ON FUNCTION tutti.describe_all, tutti.describe_some, tutti.describe FROM PUBLIC;
