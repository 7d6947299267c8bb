DROP FUNCTION IF EXISTS tutti.collect(pg_catalog.int8, pg_catalog.int4, pg_catalog.int8, pg_catalog.int8);
DROP FUNCTION IF EXISTS tutti.collect(pg_catalog.int8, pg_catalog.int4, pg_catalog.int8, pg_catalog.int8, pg_catalog.bool);
CREATE OR REPLACE FUNCTION tutti.collect(to_token pg_catalog.int8, to_slot pg_catalog.int4, to_incarnation pg_catalog.int8, to_seq pg_catalog.int8, ahead pg_catalog.bool, anyway pg_catalog.bool,
  OUT op pg_catalog.int2, OUT ident pg_catalog.int8, OUT keys pg_catalog._int8, OUT tab pg_catalog.bytea, OUT img pg_catalog.bytea)
RETURNS SETOF pg_catalog.record LANGUAGE plpgsql SECURITY DEFINER ROWS 10 SET enable_seqscan = off AS $tutti$
#variable_conflict use_column
DECLARE s pg_catalog.int8;
BEGIN
  IF {{shared_changed}} THEN PERFORM tutti.note_shared(); END IF;
  IF pg_catalog.current_setting('{{defined_setting}}', true) OPERATOR(pg_catalog.=) 'on' THEN op := {{op_unfollowed}}; RETURN NEXT; RETURN; END IF;
  IF {{large_unnoted}} THEN PERFORM tutti.guard_large(); END IF;
  s := CASE WHEN ahead AND pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0::pg_catalog.oid THEN -2
    WHEN pg_catalog.set_config('tutti.tx', 'off', true) IS NULL OR pg_catalog.pg_current_xact_id_if_assigned() IS NULL THEN -1
    ELSE {{window}} END;
{{tables}}  END IF;
  IF s OPERATOR(pg_catalog.=) -2 THEN RETURN; END IF;
  IF s OPERATOR(pg_catalog.=) -1 AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.<>) ALL ('{read committed,read uncommitted}'::pg_catalog._text) THEN
    RETURN QUERY SELECT {{first_row}}; -- the session may not know
  END IF;
  IF s OPERATOR(pg_catalog.>=) 0 THEN
    IF NOT EXISTS (SELECT FROM tutti.token k WHERE k.token OPERATOR(pg_catalog.=) to_token) THEN
      RAISE EXCEPTION 'tutti.collect is not for clients' USING ERRCODE = '42501';
    END IF;
    IF s OPERATOR(pg_catalog.=) {{capture_tables}} THEN
      RETURN QUERY SELECT * FROM tutti.collect_serializable(to_slot, to_incarnation, to_seq);
    END IF;
  END IF;
  {{collect_end}}
END $tutti$;
