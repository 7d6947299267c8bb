CREATE OR REPLACE FUNCTION tutti.ask(action pg_catalog.text, mode pg_catalog.int4, form pg_catalog.int4, class pg_catalog.int8, object pg_catalog.int8) RETURNS pg_catalog.bool
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE n int8; k int8; a int4 := 0;
BEGIN
  n := 1 + mod((extract(epoch from clock_timestamp()) * 1000000)::int8, {{number_max}} - 1);
  k := ({{tag}}::int8 << 48) | (pg_backend_pid()::int8 << {{pid_shift}}) | (n << {{number_shift}});
  RAISE INFO USING ERRCODE = '{{lock_state}}', MESSAGE = concat_ws(' ', action, (pg_backend_pid()::int8 << {{asker_shift}}) | n, mode, form, class, object);
  WHILE tutti.native_try_shared(k) LOOP
    PERFORM tutti.native_unlock_shared(k);
    IF tutti.native_try_shared(k + 3) THEN
      PERFORM tutti.native_unlock_shared(k + 3), pg_sleep(0.001);
    ELSE
      PERFORM tutti.native_lock_shared(k + 3);
      PERFORM tutti.native_unlock_shared(k + 3);
    END IF;
  END LOOP;
  FOR i IN 1..2 LOOP
    IF tutti.native_try_shared(k + i) THEN
      PERFORM tutti.native_unlock_shared(k + i);
    ELSE
      a := a + i;
    END IF;
  END LOOP;
  IF a = 2 THEN
    RAISE EXCEPTION USING ERRCODE = 'deadlock_detected', MESSAGE = 'deadlock detected',
      DETAIL = 'Sessions of this and other nodes wait for advisory locks in a circle.', HINT = 'See SHOW tutti.locks.';
  ELSIF a = 3 THEN
    RAISE EXCEPTION USING ERRCODE = 'cannot_connect_now', MESSAGE = 'the advisory lock could not be taken: this node has no contact with a majority of the cluster',
      HINT = 'See SHOW tutti.status. Try again later, or at another node.';
  END IF;
  RETURN a = 0;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.unreserved(key pg_catalog.int8) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  IF key >> 48 = {{tag}} THEN
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = concat('the advisory lock ', key, ' is reserved for Tutti');
  END IF;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.replicated() RETURNS pg_catalog.bool LANGUAGE sql STABLE AS $tutti$
  SELECT coalesce(pg_catalog.current_setting('{{session_setting}}', true) OPERATOR(pg_catalog.=) 'on', false)
$tutti$;
CREATE OR REPLACE FUNCTION tutti.elsewhere() RETURNS pg_catalog.bool LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  IF current_setting('{{session_setting}}', true) = '{{defines}}' THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'a definition cannot take advisory locks outside a transaction block',
      HINT = 'Run it in a transaction block.';
  END IF;
  RETURN coalesce(current_setting('{{session_setting}}', true) = '{{applies}}', false);
END $tutti$;
REVOKE ALL ON FUNCTION tutti.elsewhere() FROM PUBLIC;
ALTER FUNCTION tutti.elsewhere() OWNER TO tutti_owner;
CREATE OR REPLACE FUNCTION tutti.worker() RETURNS pg_catalog.bool LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  RETURN tutti.replicated() AND coalesce((SELECT a.leader_pid IS NOT NULL FROM pg_stat_get_activity(pg_backend_pid()) a), false);
END $tutti$;
REVOKE ALL ON FUNCTION tutti.worker() FROM PUBLIC;
CREATE OR REPLACE FUNCTION tutti.confirmed(mode pg_catalog.int4, form pg_catalog.int4, class pg_catalog.int8, object pg_catalog.int8) RETURNS pg_catalog.bool LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  RETURN EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' AND l.granted AND l.objsubid = confirmed.form
    AND l.classid = confirmed.class::oid AND l.objid = confirmed.object::oid AND l.mode = CASE confirmed.mode WHEN 1 THEN 'ShareLock' ELSE 'ExclusiveLock' END);
END $tutti$;
REVOKE ALL ON FUNCTION tutti.confirmed FROM PUBLIC;
ALTER FUNCTION tutti.confirmed OWNER TO tutti_owner;
GRANT EXECUTE ON FUNCTION tutti.worker() TO tutti_owner;
ALTER FUNCTION tutti.ask OWNER TO tutti_owner;
ALTER FUNCTION tutti.unreserved OWNER TO tutti_owner;
ALTER FUNCTION tutti.replicated OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.ask, tutti.unreserved, tutti.replicated FROM PUBLIC;
