CREATE UNLOGGED TABLE IF NOT EXISTS tutti.inside (xid pg_catalog.int8 NOT NULL) WITH (autovacuum_enabled = false);
ALTER TABLE tutti.inside OWNER TO tutti_owner;
REVOKE ALL ON tutti.inside FROM PUBLIC;
CREATE INDEX IF NOT EXISTS inside_xid ON tutti.inside (xid);
CREATE UNLOGGED TABLE IF NOT EXISTS tutti.said (pid pg_catalog.int4, conversation pg_catalog.text COLLATE "C", n pg_catalog.int4, command pg_catalog.text NOT NULL, PRIMARY KEY (pid, conversation, n));
ALTER TABLE tutti.said OWNER TO tutti_owner;
REVOKE ALL ON tutti.said FROM PUBLIC;
CREATE OR REPLACE FUNCTION tutti.enter_inside() RETURNS pg_catalog.void LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '0' AS $tutti$
DECLARE k pg_catalog.int8 := ({{tag}}::pg_catalog.int8 OPERATOR(pg_catalog.<<) 48) OPERATOR(pg_catalog.|) (pg_catalog.pg_backend_pid()::pg_catalog.int8 OPERATOR(pg_catalog.<<) {{shift}}) OPERATOR(pg_catalog.|) {{holds}}::pg_catalog.int8;
BEGIN
  PERFORM tutti.native_lock_shared(k), tutti.native_unlock_shared(k);
  INSERT INTO tutti.inside VALUES (pg_catalog.txid_current());
  PERFORM pg_catalog.set_config('{{tx}}', 'on', true);
  RAISE INFO USING ERRCODE = '{{entered}}', MESSAGE = CASE WHEN pg_catalog.transaction_timestamp() OPERATOR(pg_catalog.>) pg_catalog.statement_timestamp() THEN 'later' ELSE '{{first}}' END;
END $tutti$;
ALTER FUNCTION tutti.enter_inside OWNER TO tutti_owner;
-- A procedure may say that it is in a transaction of Tutti's, where its COMMIT would be none of its own, and so may the function of an index in ANALYZE. But those have begun before
-- their statement.
CREATE OR REPLACE FUNCTION tutti.entered() RETURNS pg_catalog.void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
BEGIN
  IF current_setting('{{tx}}', true) = '{{procedure}}' OR transaction_timestamp() = statement_timestamp() AND current_query() !~* E'^(\\s|/\\*.*?\\*/|--[^\n]*\n)*(call|do|vacuum|analyze|reindex|cluster)\\M' OR EXISTS (SELECT FROM tutti.inside i WHERE i.xid = txid_current()) THEN
    RETURN;
  END IF;
  RAISE EXCEPTION 'a procedure has changed a setting of Tutti''s: its writes could escape replication' USING ERRCODE = 'feature_not_supported', HINT = 'Leave settings that begin with tutti. alone.';
END $tutti$;
ALTER FUNCTION tutti.entered OWNER TO tutti_owner;
CREATE OR REPLACE FUNCTION tutti.commit_inside() RETURNS trigger LANGUAGE plpgsql AS $tutti$
DECLARE c pg_catalog.text;
BEGIN
  GET DIAGNOSTICS c = PG_CONTEXT;
  IF c OPERATOR(pg_catalog.~) E'^[^\n]*\n(?!PL/)' THEN
    SET CONSTRAINTS tutti.commit_inside DEFERRED;
    PERFORM tutti.enter_inside();
    RETURN NULL;
  ELSIF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) ANY ('{repeatable read,serializable}'::pg_catalog._text) THEN
    RAISE EXCEPTION 'a procedure cannot commit what it has written in %', pg_catalog.upper(pg_catalog.current_setting('transaction_isolation')) USING ERRCODE = '0A000',
      HINT = 'Commit from the client, or use READ COMMITTED.';
  END IF;
  SET CONSTRAINTS ALL IMMEDIATE;
  PERFORM tutti.converse();
  RETURN NULL;
END $tutti$;
DO $tutti$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid OPERATOR(pg_catalog.=) 'tutti.inside'::pg_catalog.regclass) THEN
    CREATE CONSTRAINT TRIGGER commit_inside AFTER INSERT ON tutti.inside DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tutti.commit_inside();
    UPDATE pg_catalog.pg_trigger SET tgisinternal = true WHERE tgrelid OPERATOR(pg_catalog.=) 'tutti.inside'::pg_catalog.regclass; -- nothing to show
  END IF;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.converse() RETURNS pg_catalog.void LANGUAGE plpgsql SECURITY DEFINER{{text}} SET lock_timeout = '0' AS $tutti$
DECLARE id text; proof text; spoken int4 := 0; looks int4; c text; r record; k int8;
BEGIN
  GET DIAGNOSTICS c = PG_CONTEXT;
  IF split_part(c, E'\n', 3) !~ '^PL/pgSQL function tutti\.commit_inside\(\) line ' THEN
    RAISE EXCEPTION 'tutti.converse is not for clients' USING ERRCODE = 'insufficient_privilege';
  END IF;
  id := (extract(epoch from clock_timestamp()) * 1000000)::int8::text;
  SELECT left(encode(sha256(convert_to(id, 'UTF8') || k.secret), 'hex'), 2 * {{proof}}) INTO proof FROM tutti.token k;
  PERFORM tutti.native_xact_lock(({{tag}}::int8 << 48) | (pg_backend_pid()::int8 << {{shift}}) | {{talks}});
  RAISE INFO USING ERRCODE = '{{state}}', MESSAGE = concat_ws(' ', id, proof, 'commit');
  LOOP
    spoken := spoken + 1;
    looks := 0;
    c := NULL;
    WHILE c IS NULL LOOP
      BEGIN
        LOOP
          SELECT s.command INTO c FROM tutti.said s WHERE s.pid = pg_backend_pid() AND s.conversation = id AND s.n = spoken;
          EXIT WHEN FOUND;
          looks := looks + 1;
          k := ({{tag}}::int8 << 48) | (pg_backend_pid()::int8 << {{shift}}) | (spoken % {{waits}});
          IF NOT tutti.native_try_shared(k) THEN
            PERFORM tutti.native_lock_shared(k), tutti.native_unlock_shared(k);
          ELSE
            PERFORM tutti.native_unlock_shared(k), CASE WHEN looks > 30 THEN pg_sleep(least(looks / 30, 10) * 0.001) END;
          END IF;
        END LOOP;
      EXCEPTION WHEN query_canceled THEN
        IF spoken = 1 THEN
          RAISE;
        END IF;
        RAISE INFO USING ERRCODE = '{{state}}', MESSAGE = concat_ws(' ', id, proof, 'cancelled', SQLERRM);
      END;
    END LOOP;
    IF c = '{{go}}' THEN
      RETURN;
    ELSIF c = '{{fail}}' THEN
      RAISE EXCEPTION 'the transaction cannot commit here' USING ERRCODE = 'feature_not_supported', HINT = 'Connect to Tutti, and CALL the procedure there.';
    END IF;
    FOR r IN EXECUTE c LOOP
      RAISE INFO USING ERRCODE = '{{state}}', MESSAGE = concat_ws(' ', id, proof, 'row', encode(record_send(r), 'hex'));
    END LOOP;
    RAISE INFO USING ERRCODE = '{{state}}', MESSAGE = concat_ws(' ', id, proof, 'done');
  END LOOP;
END $tutti$;
