package capture

import (
	"fmt"
	"strings"
)

// What a statement does outside of its database (it sends something to another server, writes a file, starts a program) is not undone by ROLLBACK, so a statement that may do so
// must not be run again. PostgreSQL tells of no function whether it does. So the functions are found that may: some of PostgreSQL's, those in C and in languages that are not
// trusted, which can do everything, but for extensions that are known to do nothing of the kind; and whatever calls them, as far as the catalog tells: functions whose text has the
// name, tables with triggers, defaults, checks, policies or indexes that do, views.

// OutsideFunctions are those of PostgreSQL's own, and of adminpack, which are in its schema.
var OutsideFunctions = []string{"lo_export", "pg_logical_emit_message", "pg_file_write", "pg_file_sync", "pg_file_rename", "pg_file_unlink"}

// OutsideAll stands for everything: an operator or a cast may be meant by any text.
const OutsideAll = "*"

// PostgreSQL 15 lets its own writers of large objects write in a READ ONLY transaction, where nobody notices. The text
// of no statement may name them. So a function that calls one runs a text that it has put together. Functions that may
// run such texts are found in the same way. Where one is called, the collect step looks for what was written.

// HidingFunctions are those of PostgreSQL's own that run a text, or select from views whose names they are given.
var HidingFunctions = []string{
	"cursor_to_xml", "database_to_xml", "database_to_xml_and_xmlschema", "query_to_xml", "query_to_xml_and_xmlschema",
	"query_to_xmlschema", "schema_to_xml", "schema_to_xml_and_xmlschema", "table_to_xml", "table_to_xml_and_xmlschema",
	"ts_rewrite", "ts_stat",
}

// What comes before each name that tutti.outside tells. HidesPrefix without a name says that nothing refuses such
// writes here.
const (
	OutsidePrefix = "o"
	HidesPrefix   = "h"
)

// Reach is what a statement may do that the transaction it is run in does not show.
type Reach struct {
	Outside bool // something outside of the database, which ROLLBACK does not undo
	Hides   bool // a large object is written by PostgreSQL's own functions
	MayHide bool // nothing refuses that, in what is not known here
}

// hidingExtensions are those of insideExtensions that run texts which they are given.
var hidingExtensions = []string{"tablefunc", "xml2"}

// insideExtensions have functions in C that do nothing outside of the database.
var insideExtensions = []string{"autoinc", "bloom", "btree_gin", "btree_gist", "citext", "cube", "dict_int", "dict_xsyn", "earthdistance", "fuzzystrmatch", "hstore", "hypopg",
	"insert_username", "intagg", "intarray", "isn", "lo", "ltree", "moddatetime", "pageinspect", "pg_buffercache", "pg_freespacemap", "pg_stat_statements", "pg_trgm", "pg_visibility",
	"pg_walinspect", "pgcrypto", "pgrowlocks", "pgstattuple", "plpgsql", "postgis", "postgis_raster", "postgis_topology", "postgres_fdw", "refint", "seg", "sslinfo", "tablefunc", "tcn",
	"tsm_system_rows", "tsm_system_time", "unaccent", "uuid-ossp", "vector", "xml2"}

// outsideFunction installs tutti.outside: the names, in lower case, of functions and relations that may do something outside of the database, but for OutsideFunctions themselves.
// NULL: as before. Known: what was before is known, had: there were some.
func outsideFunction() string {
	list := func(names []string) string { return "'" + strings.Join(names, "','") + "'" }
	return fmt.Sprintf(outsideSQL, list(OutsideFunctions), list(insideExtensions), strings.Join(OutsideFunctions, "|"),
		list(HidingFunctions), list(hidingExtensions), strings.Join(HidingFunctions, "|"))
}

const outsideSQL = `
CREATE OR REPLACE FUNCTION tutti.outside(known pg_catalog.bool, had pg_catalog.bool) RETURNS pg_catalog._text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on SET enable_hashjoin = on SET enable_mergejoin = on AS $tutti$
DECLARE
  tags text[] := CASE WHEN known AND tutti.partial() THEN string_to_array(ltrim(current_setting('tutti.tags', true), ','), ',') END;
  silent bool := current_setting('server_version_num')::int4 < 160000; -- later ones refuse it
  own text[]; -- what a tree has that calls one of PostgreSQL's that does something outside
  runs text[]; -- or runs a text
  found text[] := CASE WHEN silent THEN '{h}' ELSE '{}' END;
BEGIN
  IF tags <@ '{CREATE INDEX,DROP INDEX,CREATE SEQUENCE,ALTER SEQUENCE,DROP SEQUENCE,DROP TABLE,COMMENT,GRANT,REVOKE}'
     OR NOT had AND tags <@ '{CREATE TABLE,ALTER TABLE,DROP TABLE,CREATE INDEX,DROP INDEX,CREATE TRIGGER,DROP TRIGGER,CREATE SEQUENCE,ALTER SEQUENCE,DROP SEQUENCE,DROP VIEW,COMMENT,GRANT,REVOKE}' THEN
    RETURN NULL;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_proc WHERE oid >= 16384 AND pronamespace <> 'tutti'::regnamespace)
     AND NOT EXISTS (SELECT FROM pg_class WHERE oid >= 16384 AND relkind <> 't' AND relnamespace NOT IN ('tutti'::regnamespace, 'pg_toast'::regnamespace))
     AND NOT EXISTS (SELECT FROM pg_operator WHERE oid >= 16384) AND NOT EXISTS (SELECT FROM pg_cast WHERE oid >= 16384) THEN
    RETURN found; -- a new database: to plan what follows takes as long as all the rest
  END IF;
  SELECT array_agg(concat('funcid ', oid, ' ')) FILTER (WHERE proname IN (%[1]s)), array_agg(concat('funcid ', oid, ' ')) FILTER (WHERE silent AND proname NOT IN (%[1]s)) INTO own, runs
    FROM pg_proc WHERE (proname IN (%[1]s, %[4]s) OR starts_with(proname, 'tutti_lo')) AND pronamespace = 'pg_catalog'::regnamespace AND oid < 16384;
  WITH RECURSIVE trees(rel, tree) AS MATERIALIZED (
    SELECT ev_class, concat(ev_qual, ev_action) FROM pg_rewrite WHERE oid >= 16384
    UNION ALL SELECT adrelid, adbin::text FROM pg_attrdef WHERE oid >= 16384
    UNION ALL SELECT conrelid, conbin::text FROM pg_constraint WHERE conbin IS NOT NULL AND conrelid <> 0 AND oid >= 16384
    UNION ALL SELECT a.attrelid, k.conbin::text FROM pg_constraint k JOIN pg_attribute a ON a.atttypid = k.contypid WHERE k.conbin IS NOT NULL AND k.contypid <> 0 AND k.oid >= 16384
    UNION ALL SELECT indrelid, concat(indexprs, indpred) FROM pg_index WHERE (indexprs IS NOT NULL OR indpred IS NOT NULL) AND indexrelid >= 16384
    UNION ALL SELECT polrelid, concat(polqual, polwithcheck) FROM pg_policy
    UNION ALL SELECT tgrelid, tgqual::text FROM pg_trigger WHERE tgqual IS NOT NULL
  ), code(oid, name, text, unread) AS MATERIALIZED (
    SELECT p.oid, p.proname, lower(concat(p.prosrc, p.prosqlbody) COLLATE "C"), silent AND l.lanname NOT IN ('sql', 'plpgsql') FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
      WHERE p.oid >= 16384 AND l.lanname NOT IN ('internal', 'c') AND p.pronamespace <> 'tutti'::regnamespace
  ), item(kind, function, oid, name) AS ( -- else a relation
    SELECT k.kind, true, p.oid, p.proname::text FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang CROSS JOIN LATERAL (
        SELECT 'o' AS kind WHERE NOT l.lanpltrusted AND l.lanname <> 'internal' UNION ALL SELECT 'h' WHERE silent) k
      WHERE p.oid >= 16384 AND p.pronamespace <> 'tutti'::regnamespace AND (l.lanname = 'internal' OR l.lanname = 'c'
        AND NOT EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
          AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname IN (%[2]s) AND NOT (k.kind = 'h' AND e.extname IN (%[5]s)))
        OR l.lanname <> 'c' AND NOT l.lanpltrusted)
    UNION SELECT 'o', true, c.oid, c.name FROM code c WHERE (strpos(c.text, 'lo_export') + strpos(c.text, 'pg_logical_emit_') + strpos(c.text, 'pg_file_') > 0 AND c.text ~ '\m(%[3]s)\M')
      OR EXISTS (SELECT FROM unnest(own) o WHERE strpos(c.text, o) > 0) OR (strpos(c.text, 'copy') > 0 AND c.text ~ '\mcopy\M[^;]*\m(to|program)\M')
    UNION SELECT 'h', true, c.oid, c.name FROM code c WHERE c.unread OR silent AND (c.text ~ '\m(execute|%[6]s)\M|tutti_lo' OR EXISTS (SELECT FROM unnest(runs) o WHERE strpos(c.text, o) > 0))
    UNION SELECT k.kind, false, t.rel, r.relname FROM trees t JOIN pg_class r ON r.oid = t.rel CROSS JOIN (VALUES ('o', own), ('h', runs)) k(kind, called)
      WHERE EXISTS (SELECT FROM unnest(k.called) o WHERE strpos(t.tree, o) > 0)
    UNION SELECT 'h', false, 0::oid, '*' FROM pg_proc p WHERE silent AND p.oid < 16384 AND starts_with(p.proname, 'tutti_lo') AND p.pronamespace = 'pg_catalog'::regnamespace
      AND (EXISTS (SELECT FROM pg_operator WHERE oprcode = p.oid) OR EXISTS (SELECT FROM pg_cast WHERE castfunc = p.oid))
    UNION SELECT 'h', true, p.oid, p.proname::text FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid WHERE silent AND p.oid >= 16384 AND EXISTS (SELECT FROM unnest(runs) o
      WHERE o IN (concat('funcid ', aggtransfn::oid, ' '), concat('funcid ', aggfinalfn::oid, ' '), concat('funcid ', aggcombinefn::oid, ' '), concat('funcid ', aggmtransfn::oid, ' ')))
    UNION SELECT i.kind, n.* FROM item i CROSS JOIN LATERAL (
      SELECT true, c.oid, c.name::text FROM code c
        WHERE (strpos(c.text, lower(i.name COLLATE "C")) > 0 AND c.text ~ concat('\m', regexp_replace(lower(i.name COLLATE "C"), '([^[:alnum:]_])', '\\\1', 'g'), '\M'))
          OR (i.function AND strpos(c.text, concat('funcid ', i.oid, ' ')) > 0)
      UNION ALL SELECT true, p.oid, p.proname::text FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid WHERE i.function AND i.oid IN (aggtransfn, aggfinalfn, aggcombinefn, aggmtransfn, aggminvtransfn, aggmfinalfn)
      UNION ALL SELECT false, r.oid, r.relname::text FROM pg_class r WHERE i.function AND r.oid IN (
        SELECT tgrelid FROM pg_trigger WHERE tgfoid = i.oid UNION ALL SELECT rel FROM trees WHERE strpos(tree, concat('funcid ', i.oid, ' ')) > 0)
      UNION ALL SELECT false, r.oid, r.relname::text FROM pg_class r WHERE NOT i.function AND r.oid IN (
        SELECT inhparent FROM pg_inherits WHERE inhrelid = i.oid UNION ALL SELECT confrelid FROM pg_constraint WHERE contype = 'f' AND conrelid = i.oid
        UNION ALL SELECT w.ev_class FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = i.oid)
      UNION ALL SELECT false, 0::oid, '` + OutsideAll + `' FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE i.function AND p.oid = i.oid AND l.lanname <> 'c'
        AND (EXISTS (SELECT FROM pg_operator WHERE oprcode = i.oid) OR EXISTS (SELECT FROM pg_cast WHERE castfunc = i.oid))
    ) n
  )
  SELECT coalesce(array_agg(DISTINCT concat(kind, lower(name COLLATE "C"))), '{}') || found INTO found FROM item;
  RETURN found;
END $tutti$;
REVOKE ALL ON FUNCTION tutti.outside FROM PUBLIC;
`
