CREATE OR REPLACE FUNCTION tutti.native_setval(pg_catalog.regclass, pg_catalog.int8, pg_catalog.bool) RETURNS pg_catalog.int8 LANGUAGE internal VOLATILE STRICT AS 'setval3_oid';
CREATE OR REPLACE FUNCTION tutti.sequence_name(seq pg_catalog.oid) RETURNS pg_catalog.text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = seq
$tutti$;
CREATE OR REPLACE FUNCTION tutti.sequence_position(seq pg_catalog.oid, OUT last pg_catalog.int8, OUT called pg_catalog.bool) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  EXECUTE 'SELECT last_value, is_called FROM ' || tutti.sequence_name(seq) INTO last, called;
END $tutti$;
-- An ALTER SEQUENCE that fires no event triggers. Those of users are not silenced where there are none: PostgreSQL would forget all plans.
CREATE OR REPLACE FUNCTION tutti.alter_sequence(s pg_catalog.oid, what pg_catalog.text, v pg_catalog.int8) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET {{ddl_setting}} = '{{ddl_own}}' AS $tutti$
DECLARE q text := format('ALTER SEQUENCE %s %s %s', tutti.sequence_name(s), what, v);
BEGIN
  IF {{events_query}} THEN
    PERFORM tutti.unseen(q);
  ELSE
    EXECUTE q;
  END IF;
END $tutti$;
-- Whether PostgreSQL itself shall begin again at the end of these bounds: the sequence cycles, and they are all that the member has.
CREATE OR REPLACE FUNCTION tutti.cycles_within(r tutti.sequences, l pg_catalog.int8, h pg_catalog.int8) RETURNS pg_catalog.bool LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE me int4; o record;
BEGIN
  IF NOT r.cycles THEN RETURN false; END IF;
  SELECT member INTO me FROM tutti.sequencing;
  o := tutti.own_chunk(r, me, true, r.bottom);
  RETURN coalesce(o.lo = l AND o.hi = h, false) AND (tutti.own_chunk(r, me, true, h::numeric + 1)).at IS NULL;
END $tutti$;
-- Says in pg_sequence and in the row between which bounds values are given. Either only writes what is new.
CREATE OR REPLACE FUNCTION tutti.bound_sequence(s pg_catalog.oid, l pg_catalog.int8, h pg_catalog.int8) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE c bool := tutti.cycles_within(r, l, h) FROM tutti.sequences r WHERE r.seq = s;
BEGIN
  UPDATE pg_sequence SET seqmin = l, seqmax = h, seqcycle = c WHERE seqrelid = s AND (seqmin <> l OR seqmax <> h OR seqcycle <> c);
  UPDATE tutti.sequences SET lo = l, hi = h WHERE seq = s AND (lo <> l OR hi <> h);
END $tutti$;
-- Where a sequence goes on that shall be at (v, called): there, if v is the member's own and so is what follows; else at
-- its first own value afterwards, or the first of all if it cycles. At is NULL if there is none.
CREATE OR REPLACE FUNCTION tutti.own_position(r tutti.sequences, v pg_catalog.int8, called pg_catalog.bool, OUT at pg_catalog.int8, OUT lo pg_catalog.int8, OUT hi pg_catalog.int8, OUT is_called pg_catalog.bool)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE i numeric; me int4; o record;
BEGIN
  SELECT member INTO me FROM tutti.sequencing;
  SELECT seqincrement INTO STRICT i FROM pg_sequence WHERE seqrelid = r.seq;
  o := tutti.own_chunk(r, me, i > 0, v);
  IF o.at IS NULL AND r.cycles THEN
    o := tutti.first_own(r, me, i > 0);
  END IF;
  is_called := called AND o.at = v;
  IF is_called AND v + i NOT BETWEEN o.lo AND o.hi AND (tutti.own_chunk(r, me, i > 0, v + i)).at IS NOT NULL THEN
    o := tutti.own_chunk(r, me, i > 0, v + i); is_called := false;
  END IF;
  at := o.at; lo := o.lo; hi := o.hi;
END $tutti$;
-- Makes (v, called) the position if v is the member's own, else its first own value after that. It is part of the
-- transaction: if the position changes, the sequence is locked and gets a new file.
CREATE OR REPLACE FUNCTION tutti.restart_sequence(s pg_catalog.oid, v pg_catalog.int8, called pg_catalog.bool) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE r tutti.sequences; o record; p record;
BEGIN
  SELECT * INTO STRICT r FROM tutti.sequences WHERE seq = s;
  o := tutti.own_position(r, v, called);
  IF o.at IS NULL THEN
    SELECT CASE WHEN seqincrement > 0 THEN r.top ELSE r.bottom END INTO STRICT o.at FROM pg_sequence WHERE seqrelid = s;
    o.lo := o.at; o.hi := o.at; o.is_called := true;
  END IF;
  p := tutti.sequence_position(s);
  IF p.last <> o.at OR p.called <> o.is_called THEN
    PERFORM tutti.bound_sequence(s, r.bottom, r.top);
    IF r.lo > r.hi AND tutti.mine((SELECT xmin FROM pg_class WHERE oid = s)) THEN -- made in this transaction, with which it would go
      PERFORM tutti.native_setval(s, o.at, o.is_called);
    ELSE
      PERFORM tutti.alter_sequence(s, 'RESTART WITH', o.at);
      IF o.is_called THEN
        PERFORM tutti.native_setval(s, o.at, true);
      END IF;
    END IF;
  END IF;
  PERFORM tutti.bound_sequence(s, o.lo, o.hi);
END $tutti$;
-- The sequences of users that a member cuts, and of these the ones without a row.
CREATE OR REPLACE FUNCTION tutti.new_sequences(home pg_catalog.int4) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE q record; me record;
BEGIN
  SELECT * INTO me FROM tutti.sequencing;
  FOR q IN SELECT s.*, c.relname FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti')
      AND NOT EXISTS (SELECT FROM tutti.sequences r WHERE r.seq = s.seqrelid) ORDER BY s.seqrelid LOOP
    INSERT INTO tutti.sequences SELECT x.* FROM tutti.cut_sequence(q.seqrelid, coalesce(home, me.member), me.steps, q.seqincrement, q.seqstart, q.seqmin, q.seqmax, q.seqcycle) x;
  END LOOP;
  FOR q IN SELECT r.seq, r.steps FROM tutti.sequences r WHERE r.steps < me.member LOOP
    RAISE EXCEPTION 'sequence % was made for % members, and this is member %', tutti.sequence_name(q.seq), q.steps, me.member
      USING HINT = 'Give all members the same sequence_step from the beginning.';
  END LOOP;
END $tutti$;
-- A node starts: all sequences go on by gap values, or to the member's own if that is another than it was.
CREATE OR REPLACE FUNCTION tutti.start_sequences(new_member pg_catalog.int4, new_steps pg_catalog.int4, gap pg_catalog.int8, copies pg_catalog.int4) RETURNS pg_catalog.void{{own_settings}}AS $tutti$
DECLARE r tutti.sequences; i numeric; v numeric; cached int8; jump numeric; p record; o record; was int4; cloned bool;
BEGIN
  SELECT member INTO was FROM tutti.sequencing;
  cloned := was <> new_member;
  INSERT INTO tutti.sequencing (member, steps) VALUES (new_member, new_steps) ON CONFLICT (one) DO UPDATE SET member = EXCLUDED.member, steps = EXCLUDED.steps;
  DELETE FROM tutti.sequences q WHERE NOT EXISTS (SELECT FROM pg_sequence s WHERE s.seqrelid = q.seq);
  PERFORM tutti.new_sequences(1);
  FOR r IN SELECT * FROM tutti.sequences ORDER BY seq LOOP
    SELECT seqincrement, seqcache INTO i, cached FROM pg_sequence WHERE seqrelid = r.seq;
    p := tutti.sequence_position(r.seq);
    jump := CASE WHEN gap > 0 THEN gap + (cached - 1)::numeric * current_setting('max_connections')::int8 ELSE 0 END;
    v := p.last + jump * i; -- each session may have taken as many at once as it caches
    IF gap > 0 THEN -- what the crash has undone may have been the step to that chunk, and values of it
      SELECT * INTO o FROM tutti.own_chunk(r, new_member, i > 0, v);
      v := coalesce(CASE WHEN o.at <> v THEN o.at + jump * i END, v);
    END IF;
    IF cloned THEN -- the databases that were lost may have given values of the first chunks, one each
      SELECT * INTO o FROM tutti.own_chunk(r, new_member, i > 0, v);
      FOR lost IN 1 .. copies LOOP
        EXIT WHEN o.at IS NULL;
        SELECT * INTO o FROM tutti.own_chunk(r, new_member, i > 0, CASE WHEN i > 0 THEN o.hi::numeric + 1 ELSE o.lo::numeric - 1 END);
        IF o.at IS NOT NULL THEN
          v := o.at; p.called := false;
        ELSIF lost > 1 AND NOT r.cycles THEN
          v := CASE WHEN i > 0 THEN r.top ELSE r.bottom END; p.called := true;
        END IF;
      END LOOP;
    END IF;
    IF v > r.top OR v < r.bottom THEN
      p.called := true;
    END IF;
    PERFORM tutti.restart_sequence(r.seq, greatest(r.bottom, least(r.top, v))::int8, p.called);
  END LOOP;
END $tutti$;
-- A definition is about to run: what it may concern gets its declared bounds. Where a definition of another
-- member is repeated, the position here says nothing about whether it may succeed: START stands for it.
CREATE OR REPLACE FUNCTION tutti.open_sequences(tag pg_catalog.text, query pg_catalog.text, named pg_catalog.oid, repeats pg_catalog.bool, who pg_catalog.name) RETURNS pg_catalog.void{{own_settings}}AS $tutti$
DECLARE r tutti.sequences; s record; p record; changes bool; q text := lower(query); me int4;
BEGIN
  SELECT member INTO me FROM tutti.sequencing;
  IF me IS NULL OR (SELECT count(*) FROM pg_event_trigger_ddl_commands()) IS NULL THEN RETURN; END IF; -- fails outside of a definition
  changes := tag IN ('ALTER SEQUENCE', 'ALTER TABLE') AND q ~ '\m(as|increment|maxvalue|minvalue|start|restart|cache|cycle|no|type|set)\M';
  IF tag = 'ALTER TABLE' AND NOT changes OR tag LIKE 'CREATE %' AND q !~ '\mlike\M' THEN RETURN; END IF;
  FOR r IN SELECT x.* FROM tutti.sequences x JOIN pg_class c ON c.oid = x.seq
    LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = x.seq AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i'
    LEFT JOIN pg_class t ON t.oid = d.refobjid
    WHERE CASE WHEN tag = 'ALTER SEQUENCE' THEN coalesce(x.seq = named, strpos(q, lower(replace(c.relname, '"', '""'))) > 0)
      WHEN t.oid IS NULL THEN false
      WHEN tag = 'ALTER TABLE' AND named IS NOT NULL THEN d.refobjid = named OR d.refobjid IN (
        WITH RECURSIVE below(o) AS (SELECT named UNION SELECT inhrelid FROM pg_inherits JOIN below ON inhparent = o) SELECT o FROM below)
      ELSE strpos(q, lower(replace(t.relname, '"', '""'))) > 0 END
    ORDER BY x.seq FOR UPDATE OF x LOOP
    UPDATE pg_sequence SET seqmin = r.bottom, seqmax = r.top, seqcycle = r.cycles WHERE seqrelid = r.seq AND (seqmin <> r.bottom OR seqmax <> r.top OR seqcycle <> r.cycles);
    IF NOT changes OR NOT pg_has_role(who, (SELECT relowner FROM pg_class WHERE oid = r.seq), 'USAGE') THEN CONTINUE; END IF;
    SELECT seqincrement, seqstart INTO s FROM pg_sequence WHERE seqrelid = r.seq;
    p := tutti.sequence_position(r.seq);
    IF r.cycles AND r.lo < r.hi THEN -- whose values are whose may depend on what changes
      UPDATE tutti.sequences SET lo = r.hi, hi = r.lo WHERE seq = r.seq;
    END IF;
    IF repeats THEN
      PERFORM tutti.alter_sequence(r.seq, 'INCREMENT BY', s.seqincrement); -- the lock
      p := tutti.sequence_position(r.seq);
      UPDATE tutti.sequences SET held = p.last, held_called = p.called WHERE seq = r.seq AND held IS NULL;
      PERFORM tutti.alter_sequence(r.seq, 'RESTART WITH', s.seqstart);
      PERFORM tutti.native_setval(r.seq, s.seqstart, true);
    ELSIF r.home <> me AND NOT p.called THEN
      PERFORM tutti.alter_sequence(r.seq, 'RESTART WITH', s.seqstart);
    END IF;
  END LOOP;
END $tutti$;
-- A definition has run: new sequences are cut, and those that it could change give values of the member's again.
CREATE OR REPLACE FUNCTION tutti.settle_sequences(tag pg_catalog.text, home pg_catalog.int4) RETURNS pg_catalog.void{{own_settings}}AS $tutti$
DECLARE r record; p record;
BEGIN
  IF NOT EXISTS (SELECT FROM tutti.sequencing) OR (SELECT count(*) FROM pg_event_trigger_ddl_commands()) IS NULL THEN RETURN; END IF;
  IF tag ~ '^(DROP|ALTER)' THEN
    DELETE FROM tutti.sequences q WHERE NOT EXISTS (SELECT FROM pg_sequence s WHERE s.seqrelid = q.seq);
  END IF;
  PERFORM tutti.new_sequences(home);
  FOR r IN SELECT q.*, s.seqmin, s.seqmax, s.seqcycle FROM tutti.sequences q JOIN pg_sequence s ON s.seqrelid = q.seq
    WHERE q.lo <> s.seqmin OR q.hi <> s.seqmax OR q.held IS NOT NULL
      OR s.seqcycle AND NOT q.cycles OR NOT s.seqcycle AND q.cycles AND q.lo = q.bottom AND q.hi = q.top LOOP -- bounds that a definition finds as they are
    p := tutti.sequence_position(r.seq);
    IF r.held IS NOT NULL AND p.called THEN -- it was not restarted
      p.last := greatest(r.seqmin, least(r.seqmax, r.held)); p.called := r.held_called OR p.last <> r.held;
    END IF;
    UPDATE tutti.sequences SET bottom = r.seqmin, top = r.seqmax, cycles = r.seqcycle, held = NULL, held_called = NULL WHERE seq = r.seq;
    PERFORM tutti.restart_sequence(r.seq, p.last, p.called);
  END LOOP;
END $tutti$;
-- TRUNCATE … RESTART IDENTITY fires no event trigger; it has locked the sequences.
CREATE OR REPLACE FUNCTION tutti.settle_restarted() RETURNS pg_catalog.void{{own_settings}}AS $tutti$
DECLARE s oid; p record;
BEGIN
  IF NOT EXISTS (SELECT FROM tutti.sequences) THEN RETURN; END IF;
  FOR s IN SELECT r.seq FROM tutti.sequences r JOIN pg_locks l ON l.relation = r.seq WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' LOOP
    p := tutti.sequence_position(s);
    PERFORM tutti.restart_sequence(s, p.last, p.called);
  END LOOP;
END $tutti$;
-- A nextval has found the bound reached: goes on to the next chunk of the member's. 'moved' says that it may be
-- repeated, 'spent' and the declared bound that the member has no more values, NULL that nobody has.
CREATE OR REPLACE FUNCTION tutti.advance_sequence(name pg_catalog.text, bound pg_catalog.int8) RETURNS pg_catalog.text{{own_settings}}AS $tutti$
DECLARE r tutti.sequences; s pg_sequence; p record; o record; n numeric; me int4; answer text; reached bool := false; others bool := false;
BEGIN
  SELECT member INTO me FROM tutti.sequencing;
  FOR r IN SELECT q.* FROM tutti.sequences q JOIN pg_class c ON c.oid = q.seq WHERE c.relname = name ORDER BY q.seq FOR UPDATE OF q LOOP
    SELECT * INTO STRICT s FROM pg_sequence WHERE seqrelid = r.seq;
    p := tutti.sequence_position(r.seq);
    n := p.last::numeric + CASE WHEN p.called THEN s.seqincrement ELSE 0 END;
    IF bound <> (CASE WHEN s.seqincrement > 0 THEN s.seqmax ELSE s.seqmin END) OR NOT p.called OR n BETWEEN s.seqmin AND s.seqmax THEN
      others := true; -- it was moved by somebody else meanwhile, or has only the name
      CONTINUE;
    END IF;
    reached := true;
    SELECT * INTO o FROM tutti.own_chunk(r, me, s.seqincrement > 0, n);
    IF o.at IS NULL AND r.cycles THEN -- it was altered to; who runs now goes by the bounds it has seen, so the sequence is locked
      SELECT * INTO o FROM tutti.first_own(r, me, s.seqincrement > 0);
      IF o.at IS NOT NULL THEN
        PERFORM tutti.restart_sequence(r.seq, o.at, false);
        answer := 'moved';
        CONTINUE;
      END IF;
    END IF;
    IF o.at IS NULL THEN
      IF r.first_width <= (CASE WHEN r.up THEN r.top - r.anchor ELSE r.anchor - r.bottom END) OR me <> r.home THEN
        answer := coalesce(answer, 'spent ' || CASE WHEN s.seqincrement > 0 THEN r.top ELSE r.bottom END);
      END IF;
      CONTINUE;
    END IF;
    PERFORM tutti.bound_sequence(r.seq, o.lo, o.hi), tutti.native_setval(r.seq, o.at, false);
    answer := 'moved';
  END LOOP;
  RETURN CASE WHEN others AND NOT reached THEN 'moved' ELSE answer END;
END $tutti$;
-- The relation an ALTER is about, as its session understands the name; NULL if that cannot be told.
CREATE OR REPLACE FUNCTION tutti.altered(query pg_catalog.text) RETURNS pg_catalog.oid LANGUAGE sql AS $tutti$
  SELECT pg_catalog.to_regclass((pg_catalog.regexp_match(query,
    '^\s*alter\s+(?:sequence|table)\s+(?:if\s+exists\s+)?(?:only\s+)?((?:"(?:[^"]|"")+"|[^\s".;&]+)(?:\s*\.\s*(?:"(?:[^"]|"")+"|[^\s".;&]+))?)(?:\s|$)', 'i'))[1])
$tutti$;
REVOKE ALL ON FUNCTION tutti.native_setval, tutti.alter_sequence, tutti.sequence_name, tutti.sequence_position, tutti.own_position, tutti.cycles_within, tutti.bound_sequence, tutti.restart_sequence, tutti.new_sequences, tutti.start_sequences, tutti.advance_sequence FROM PUBLIC;
CREATE OR REPLACE FUNCTION tutti.pg_sequence() RETURNS TABLE (seqrelid pg_catalog.oid, seqtypid pg_catalog.oid, seqstart pg_catalog.int8, seqincrement pg_catalog.int8,
  seqmax pg_catalog.int8, seqmin pg_catalog.int8, seqcache pg_catalog.int8, seqcycle pg_catalog.bool) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT s.seqrelid, s.seqtypid, s.seqstart, s.seqincrement, coalesce(r.top, s.seqmax), coalesce(r.bottom, s.seqmin), s.seqcache, coalesce(r.cycles, s.seqcycle)
  FROM pg_sequence s LEFT JOIN tutti.sequences r ON r.seq = s.seqrelid
$tutti$;
ALTER FUNCTION tutti.pg_sequence OWNER TO tutti_owner;
GRANT EXECUTE ON FUNCTION tutti.pg_sequence TO PUBLIC;
