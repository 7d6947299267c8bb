-- Captures a table's rows as inserted, about so many at a time as a statement trigger does. command gives their number, identities, and
-- images with keys, between two places in the table.
CREATE OR REPLACE FUNCTION tutti.recapture(name pg_catalog.text, header pg_catalog.bytea, command pg_catalog.text) RETURNS pg_catalog.void LANGUAGE plpgsql{{text_settings}}{{bulk_extras}} AS $tutti$
DECLARE pages int8 := pg_relation_size(name::regclass) / current_setting('block_size')::int8; at int8 := 0; step int8 := 8; c int8; k int8[]; m bytea; sum int8 := 0;
  stamp int8 := ((extract(epoch FROM clock_timestamp()) * 1000000)::int8 << {{run_bits}}) | (pg_stat_get_xact_tuples_inserted(tutti.captures()::regclass) & ((1::int8 << {{run_bits}}) - 1));
BEGIN
  WHILE at < pages LOOP
    EXECUTE command INTO c, k, m USING format('(%s,0)', at)::tid, format('(%s,0)', least(at + step, 4294967294))::tid;
    at := at + step;
    CONTINUE WHEN c = 0;
    PERFORM tutti.put(header, {{op}}::int2, stamp, k, m);
    sum := sum + length(m);
    IF EXISTS (SELECT FROM tutti.token t WHERE least(t.bytes_max, {{most}}) < sum) THEN
      RAISE EXCEPTION 'the transaction changes more than % bytes (writeset_bytes)', (SELECT least(t.bytes_max, {{most}}) FROM tutti.token t) USING ERRCODE = 'program_limit_exceeded', HINT = 'Split it into smaller transactions.';
    END IF;
    step := greatest(1, least(step * 16, step * {{bulk_bytes}} / greatest(1, length(m))));
  END LOOP;
END $tutti$;
REVOKE ALL ON FUNCTION tutti.recapture FROM PUBLIC;
