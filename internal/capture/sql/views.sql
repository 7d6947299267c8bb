CREATE OR REPLACE FUNCTION tutti.fresh_rows() RETURNS pg_catalog.jsonb LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT coalesce(jsonb_object_agg(c.oid, pg_stat_get_xact_tuples_inserted(c.oid) + pg_stat_get_xact_tuples_updated(c.oid) + pg_stat_get_xact_tuples_deleted(c.oid)), '{}')
  FROM pg_class c WHERE c.oid IN ({{locked}}) AND c.relkind = 'r' AND c.relpersistence <> 't' AND NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND g.tgname = '{{trigger}}')
$tutti$;
CREATE OR REPLACE FUNCTION tutti.views_stand() RETURNS pg_catalog.bool LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE then_ jsonb; now_ jsonb;
BEGIN
  IF coalesce(current_setting('tutti.fresh', true), '') IN ('', '{}') THEN RETURN true; END IF;
  then_ := current_setting('tutti.fresh'); now_ := tutti.fresh_rows();
  IF EXISTS (SELECT FROM jsonb_each(then_) t WHERE now_ ? t.key AND now_ -> t.key <> t.value) THEN
    RAISE EXCEPTION 'a function has filled a materialized view and then changed rows of a table that it has made' USING ERRCODE = '0A000', HINT = 'Fill the view by a statement of its own.';
  END IF;
  PERFORM set_config('tutti.fresh', '', true);
  RETURN true;
END $tutti$;
