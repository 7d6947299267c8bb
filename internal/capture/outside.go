package capture

import (
	"strings"
)

// What a statement does outside of its database (it sends something to another server, writes a file, starts a program)
// is not undone by ROLLBACK, so a statement that may do so must not be run again. PostgreSQL tells of no function
// whether it does. So the functions are found that may: some of PostgreSQL's, those in C and in languages that are not
// trusted, which can do everything, but for extensions that are known to do nothing of the kind; and whatever calls
// them, as far as the catalog tells: functions whose text has the name, tables with triggers, defaults, checks,
// policies or indexes that do, views.

// OutsideFunctions are those of PostgreSQL's own, and of adminpack, which are in its schema.
var OutsideFunctions = []string{"lo_export", "pg_logical_emit_message", "pg_file_write", "pg_file_sync",
	"pg_file_rename", "pg_file_unlink"}

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
var insideExtensions = []string{"autoinc", "bloom", "btree_gin", "btree_gist", "citext", "cube", "dict_int",
	"dict_xsyn", "earthdistance", "fuzzystrmatch", "hstore", "hypopg",
	"insert_username", "intagg", "intarray", "isn", "lo", "ltree", "moddatetime", "pageinspect", "pg_buffercache",
	"pg_freespacemap", "pg_stat_statements", "pg_trgm", "pg_visibility",
	"pg_walinspect", "pgcrypto", "pgrowlocks", "pgstattuple", "plpgsql", "postgis", "postgis_raster",
	"postgis_topology", "postgres_fdw", "refint", "seg", "sslinfo", "tablefunc", "tcn",
	"tsm_system_rows", "tsm_system_time", "unaccent", "uuid-ossp", "vector", "xml2"}

// inPlace are the names of Tutti's functions that stand in the place of PostgreSQL's, in its schema. They write nothing
// that is not noted.
func inPlace() []string {
	names := []string{"setval", "pg_sequence_parameters", "pg_prepared_statement", "pg_advisory_unlock_all"}
	for _, f := range largeFunctions {
		names = append(names, f.name)
	}
	for _, suffix := range []string{"", "_shared"} {
		for _, lock := range []string{"lock", "xact_lock", "unlock"} {
			names = append(names, "pg_advisory_"+lock+suffix)
		}
		for _, try := range []string{"lock", "xact_lock"} {
			names = append(names, "pg_try_advisory_"+try+suffix)
		}
	}
	return names
}

// outsideFunction installs tutti.outside: the names, in lower case, of functions and relations that may do something
// outside of the database, but for OutsideFunctions themselves. NULL: as before. Known: what was before is known, had:
// there were some, made: what has changed since is this transaction's, locks: the tables that were changed.
func outsideFunction() string {
	trees := strings.TrimSpace(expand("trees.sql", nil))
	// With conditions apart from each other PostgreSQL reads for the second one only what is asked for.
	const functions = "(SELECT * FROM pg_proc WHERE oid >= 16384 AND NOT fresh UNION ALL SELECT * FROM pg_proc " +
		"WHERE oid = ANY (news))"
	list := func(names []string) string { return "'" + strings.Join(names, "','") + "'" }
	return install("outside.sql", words{
		"outside_names":     list(OutsideFunctions),
		"hiding_names":      list(HidingFunctions),
		"inside_extensions": list(insideExtensions),
		"hiding_extensions": list(hidingExtensions),
		"outside_pattern":   strings.Join(OutsideFunctions, "|"),
		"hiding_pattern":    strings.Join(HidingFunctions, "|"),
		"outside_all":       OutsideAll,
		"own_functions":     list(inPlace()),
		"trees":             trees,
		"functions":         functions,
		"written": fragment("outside_written.sql", words{"trees": trees, "functions": functions,
			"own_functions": list(inPlace())}),
	})
}
