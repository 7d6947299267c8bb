CREATE TABLE IF NOT EXISTS tutti.sequencing (
  one pg_catalog.bool PRIMARY KEY DEFAULT true CHECK (one), member pg_catalog.int4 NOT NULL, steps pg_catalog.int4 NOT NULL
);
ALTER TABLE tutti.sequencing OWNER TO tutti_owner;
CREATE TABLE IF NOT EXISTS tutti.sequences (
  seq pg_catalog.oid PRIMARY KEY, home pg_catalog.int4 NOT NULL, steps pg_catalog.int4 NOT NULL,
  up pg_catalog.bool NOT NULL, anchor pg_catalog.numeric NOT NULL, first_width pg_catalog.numeric NOT NULL, width pg_catalog.numeric NOT NULL,
  bottom pg_catalog.int8 NOT NULL, top pg_catalog.int8 NOT NULL, lo pg_catalog.int8 NOT NULL, hi pg_catalog.int8 NOT NULL,
  held pg_catalog.int8, held_called pg_catalog.bool
);
ALTER TABLE tutti.sequences OWNER TO tutti_owner;
ALTER TABLE tutti.sequences ADD COLUMN IF NOT EXISTS cycles pg_catalog.bool NOT NULL DEFAULT false;
DROP FUNCTION IF EXISTS tutti.cut_sequence(pg_catalog.oid, pg_catalog.int4, pg_catalog.int4, pg_catalog.int8, pg_catalog.int8, pg_catalog.int8, pg_catalog.int8);
-- What a new sequence's row says: how its values are cut, from its definition alone. One that cycles has one chunk for each
-- member, in which it cycles.
CREATE OR REPLACE FUNCTION tutti.cut_sequence(seq pg_catalog.oid, home pg_catalog.int4, steps pg_catalog.int4, increment pg_catalog.int8, start pg_catalog.int8, bottom pg_catalog.int8, top pg_catalog.int8,
  cycles pg_catalog.bool)
RETURNS tutti.sequences LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE r tutti.sequences; n numeric; wide numeric := abs(increment::numeric);
BEGIN
  n := div(CASE WHEN increment > 0 THEN top::numeric - start ELSE start::numeric - bottom END, wide) + 1;
  r.seq := seq; r.home := home; r.steps := steps; r.up := increment > 0; r.anchor := start;
  r.first_width := CASE WHEN n < {{small_share}} * steps OR cycles AND steps = 1 THEN n WHEN cycles OR n < {{small}} THEN div(n, 2) ELSE {{chunk}} END;
  IF cycles AND r.first_width < n THEN
    r.width := div(n - r.first_width, steps - 1);
    r.first_width := n - r.width * (steps - 1);
  ELSE
    r.width := greatest(1, least({{chunk}}, div(n - r.first_width, {{shares}} * steps)));
  END IF;
  r.width := r.width * wide; r.first_width := r.first_width * wide; r.cycles := cycles;
  r.bottom := bottom; r.top := top; r.lo := top; r.hi := bottom; -- no bounds of its own yet
  RETURN r;
END $tutti$;
-- The first value of the member's own at or after v, in the direction of the increment, and its chunk's bounds;
-- NULL if there is none.
CREATE OR REPLACE FUNCTION tutti.own_chunk(s tutti.sequences, member pg_catalog.int4, forward pg_catalog.bool, v pg_catalog.numeric,
  OUT at pg_catalog.int8, OUT lo pg_catalog.int8, OUT hi pg_catalog.int8) LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE c numeric; d numeric; a numeric; b numeric; w numeric;
BEGIN
  IF (CASE WHEN forward THEN v > s.top ELSE v < s.bottom END) THEN RETURN; END IF;
  w := CASE WHEN forward THEN greatest(v, s.bottom) ELSE least(v, s.top) END;
  c := CASE WHEN s.up THEN w - s.anchor ELSE s.anchor - w END;
  c := CASE WHEN c < s.first_width THEN 0 ELSE 1 + div(c - s.first_width, s.width) END;
  d := mod(mod(member - s.home - c, s.steps) + s.steps, s.steps);
  b := CASE WHEN s.up THEN s.top::numeric - s.anchor ELSE s.anchor - s.bottom END;
  IF d <> 0 AND NOT (s.cycles AND b < s.first_width AND b < {{small_share}} * s.steps * (SELECT abs(q.seqincrement::numeric) FROM pg_sequence q WHERE q.seqrelid = s.seq)) THEN -- too small to be shared, but for those that repeat anyway
    c := c + CASE WHEN forward = s.up THEN d ELSE d - s.steps END;
    IF c < 0 THEN RETURN; END IF;
  END IF;
  a := CASE WHEN c > 0 THEN s.first_width + (c - 1) * s.width END; -- chunk 0 has what lies before START, too
  b := s.first_width + c * s.width - 1;
  IF s.up THEN
    a := greatest(s.anchor + a, s.bottom); b := least(s.anchor + b, s.top);
  ELSE
    d := least(s.anchor - a, s.top); a := greatest(s.anchor - b, s.bottom); b := d;
  END IF;
  IF a > b THEN RETURN; END IF;
  lo := a; hi := b; at := CASE WHEN forward THEN greatest(w, a) ELSE least(w, b) END;
END $tutti$;
-- Where a sequence that cycles begins again.
CREATE OR REPLACE FUNCTION tutti.first_own(s tutti.sequences, member pg_catalog.int4, forward pg_catalog.bool, OUT at pg_catalog.int8, OUT lo pg_catalog.int8, OUT hi pg_catalog.int8)
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT o.* FROM tutti.own_chunk(s, member, forward, CASE WHEN forward THEN s.bottom ELSE s.top END) o
$tutti$;
REVOKE ALL ON FUNCTION tutti.cut_sequence, tutti.own_chunk, tutti.first_own FROM PUBLIC;
