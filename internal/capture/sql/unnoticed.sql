CREATE OR REPLACE FUNCTION tutti.unnoticed() RETURNS pg_catalog.text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
DECLARE t text := current_setting('{{tx}}', true); found bool;
BEGIN
  IF t <> '{{direct}}' OR pg_current_xact_id_if_assigned() IS NULL THEN
    RETURN t;
  END IF;
  EXECUTE format('SELECT EXISTS (SELECT FROM %s c WHERE c.xid = txid_current())', tutti.captures()) INTO found;
  RETURN concat(t, CASE WHEN found THEN '{{forged}}' WHEN {{counts}} <> 0 THEN '{{aside}}' END);
END $tutti$;
ALTER FUNCTION tutti.unnoticed OWNER TO tutti_owner;
