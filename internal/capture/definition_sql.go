package capture

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/writeset"
)

// What a transaction does to the schema is captured, too: an event trigger notes the text of each
// definition, wherever it came from, in tutti.definitions. Before anything else of the transaction,
// or at the latest before the collect step, the session has it followed up (FollowQuery, Follow):
// triggers and sequences are made to fit, and what was noted joins the captured rows in their order.

const (
	// definedSetting is 'on' while something noted was not followed up.
	definedSetting = "tutti.defined"
	// DefinedState is the SQLSTATE of the INFO that says so.
	DefinedState = "TT002"
	// FilledNotice is its message if the rows of a table have got values of their own.
	FilledNotice = "a table was filled anew"
	// HeirState is the SQLSTATE of the INFO that says that a temporary table inherits from a permanent one.
	HeirState = "TT007"

	opDefinition = 6   // image: see Definition
	opFrozen     = 7   // image: an encoded writeset that stands for all before it
	opTouched    = 8   // image: JSON, an array of touched tables
	opRead       = 9   // image: JSON, an array of schema and name of tables that were read, SERIALIZABLE
	opEmptied    = 10  // image: JSON, schema and name of a table of which all rows follow
	opUnfollowed = 101 // the only row of a collect step that must be repeated once Follow was run
)

// CarriedSettings are the settings under which a definition runs at every member. They shape what its
// text means; the rest is each member's own business. lc_monetary, lc_numeric and lc_time are not among them: a member
// whose machine does not have a locale could carry out no definition.
var CarriedSettings = []string{
	"search_path", "DateStyle", "IntervalStyle", "TimeZone", "bytea_output", "extra_float_digits",
	"check_function_bodies", "standard_conforming_strings", "escape_string_warning", "xmloption",
	"default_table_access_method", "default_toast_compression", "row_security", "client_min_messages",
	"default_text_search_config", "xmlbinary", "array_nulls", "transform_null_equals",
	"plpgsql.extra_warnings", "plpgsql.extra_errors", "plpgsql.variable_conflict", // unset until PL/pgSQL is loaded
}

// Definition is what is noted of a definition.
type Definition struct {
	SQL      string            `json:"sql"`
	Tag      string            `json:"tag"`
	Role     string            `json:"role"`
	Settings map[string]string `json:"settings"`
	// Dropped are schema and name of the tables that went away. It holds tutti.large if the definition may be about
	// large objects, or roles that may own some.
	Dropped [][2]string `json:"dropped"`
	// Filled are, of an ALTER TABLE that its member has run, the values that the columns it added have in
	// the rows that were there. Rewritten: they have one of its own each, and all rows follow.
	Filled    map[string]*string `json:"filled,omitempty"`
	Rewritten bool               `json:"rewritten,omitempty"`
	// Typed: it may have changed the columns of a relation whose row type columns elsewhere have.
	Typed bool `json:"typed,omitempty"`
	// Moved is what it was about, if it may have given a table, or a part of one, another name.
	Moved *Moved `json:"moved,omitempty"`
	// Emptied are schema and name of a table whose rows follow; there is no SQL then.
	Emptied [][2]string `json:"emptied,omitempty"`
}

// Moved are the tables of an ALTER TABLE, by the names they have behind it.
type Moved struct {
	// Tables are the renamed ones, those below them and all that refer to them: a key has names in it.
	Tables  [][2]string `json:"tables"`
	Renamed [][2]string `json:"renamed"`
	// Rows: columns elsewhere have rows of a renamed one.
	Rows bool `json:"rows,omitempty"`
}

// known gives the tables whose rows or keys are known by a name that the definition has altered, by both names. It is
// false if nobody can tell them.
func (d *Definition) known() (names [][2]string, ok bool) {
	if d.Moved == nil {
		return nil, false
	}
	table, whole, ok := semantics.Renames(d.SQL)
	if !ok || whole && (d.Moved.Rows || len(d.Moved.Renamed) != 1) {
		return nil, false
	}
	names = d.Moved.Tables
	if whole {
		names = append(slices.Clone(names), [2]string{d.Moved.Renamed[0][0], table})
	}
	return names, true
}

// barrier reports whether it may change what the captured rows of other tables mean than those it
// locked or dropped, or their names.
func (d *Definition) barrier() bool {
	switch {
	case d.Typed:
		return true
	case strings.HasPrefix(d.SQL, toastRenaming):
		return false
	case d.Tag == "ALTER TABLE":
		_, known := d.known()
		return !known && d.renames()
	case d.Tag == "ALTER DOMAIN":
		return d.renames()
	case d.Tag == "ALTER TYPE":
		return !addsValue.MatchString(d.SQL)
	}
	return !slices.Contains(tableTags, d.Tag) && !slices.Contains(apartTags, d.Tag)
}

// addsValue: rows that were captured before do not have the new value.
var addsValue = regexp.MustCompile(`(?i)^\s*alter\s+type\s+\S+\s+add\s+value\b`)

// toastRenaming begins what tutti.renamed_toast gives: no captured row means anything else by it.
const toastRenaming = "DO 'DECLARE was text := pg_catalog.current_setting(''allow_system_table_mods'');"

// validates reports whether all it does is to look at a table's rows and say that a constraint holds for them, which
// PostgreSQL does beside writers. The constraint is older, as the lock shows that making it takes, so what they write
// meets it.
func (d *Definition) validates() bool {
	return d.Tag == "ALTER TABLE" && len(d.Emptied) == 0 && validation.MatchString(d.SQL)
}

var validation = func() *regexp.Regexp {
	const name = `("[^"]+"|[a-z_][a-z0-9_$]*)`
	return regexp.MustCompile(`(?i)^\s*alter\s+table\s+(if\s+exists\s+)?(only\s+)?` + name + `(\s*\.\s*` + name +
		`)?(\s*\*)?\s+validate\s+constraint\s+` + name + `\s*;?\s*$`)
}()

// renames reports whether something may have another name behind it.
func (d *Definition) renames() bool { return renames.MatchString(d.SQL) }

var renames = regexp.MustCompile(`(?i)\b(rename|schema)\b`)

// SteadyTag is that of a setval which calls nothing that writes.
const SteadyTag = "SELECT"

// tableTags are the tags of definitions that change what captured rows mean of no other tables than
// those they lock.
var tableTags = []string{
	"CREATE TABLE", "CREATE TABLE AS", "SELECT INTO", "ALTER TABLE", "DROP TABLE", "CREATE INDEX", "DROP INDEX",
	"CREATE VIEW", "DROP VIEW",
	"CREATE MATERIALIZED VIEW", "REFRESH MATERIALIZED VIEW", "DROP MATERIALIZED VIEW", "CREATE SEQUENCE",
	"ALTER SEQUENCE", "DROP SEQUENCE",
	"CREATE FUNCTION", "CREATE PROCEDURE", "CREATE AGGREGATE", "CREATE SCHEMA", "CREATE TYPE", "CREATE DOMAIN",
	"CREATE TRIGGER", "DROP TRIGGER", "CREATE RULE", "DROP RULE", "COMMENT", "GRANT", "REVOKE", "ALTER LARGE OBJECT",
	SteadyTag,
}

// apartTags are tags of further definitions that change no description of a table but of those they lock:
// what they drop along with it, they lock.
var apartTags = func() (tags []string) {
	for _, what := range []string{"FUNCTION", "PROCEDURE", "ROUTINE", "AGGREGATE", "CAST", "CONVERSION",
		"EVENT TRIGGER", "FOREIGN DATA WRAPPER", "FOREIGN TABLE", "LANGUAGE",
		"POLICY", "RULE", "SERVER", "STATISTICS", "TEXT SEARCH CONFIGURATION", "TEXT SEARCH DICTIONARY",
		"TEXT SEARCH PARSER", "TEXT SEARCH TEMPLATE", "TRANSFORM", "TRIGGER", "USER MAPPING"} {
		tags = append(tags, "CREATE "+what, "ALTER "+what, "DROP "+what)
	}
	for _, what := range []string{"OPERATOR", "OPERATOR CLASS", "OPERATOR FAMILY", "COLLATION", "ACCESS METHOD"} {
		tags = append(tags, "CREATE "+what, "DROP "+what)
	}
	return append(tags, "ALTER OPERATOR", "ALTER DEFAULT PRIVILEGES", "DROP SCHEMA", "DROP TYPE", "DROP DOMAIN",
		"SECURITY LABEL", renameTag, ownedTag)
}()

// Redescribes reports whether the definitions of a transaction may have changed the description of a table that it
// does not hold.
func Redescribes(w *writeset.Writeset) (bool, error) {
	for _, s := range w.Steps {
		var d Definition
		if s.Definition == nil {
			continue
		}
		if err := json.Unmarshal(s.Definition, &d); err != nil {
			return false, fmt.Errorf("capture: a noted definition: %w", err)
		}
		if !slices.Contains(tableTags, d.Tag) && !slices.Contains(apartTags, d.Tag) || d.barrier() || d.renames() {
			return true, nil
		}
	}
	return false, nil
}

// NoteTags are statements that note what the definitions of a transaction were, as their own transaction has it noted.
func NoteTags(w *writeset.Writeset) (out []string, err error) {
	for _, s := range w.Steps {
		if s.Definition == nil {
			continue
		}
		var d Definition
		if err := json.Unmarshal(s.Definition, &d); err != nil {
			return nil, fmt.Errorf("capture: a noted definition: %w", err)
		}
		out = append(out, fmt.Sprintf("SELECT tutti.note_tag(%s, %s)", escaped(d.Tag), escaped(d.SQL)))
	}
	return out, nil
}

// renameTag is what is noted of an ALTER TABLE … RENAME COLUMN. It changes the descriptions of tables that refer to the
// one it locks.
const renameTag = "RENAME COLUMN"

// moveTag is what is noted of an ALTER TABLE … RENAME TO or SET SCHEMA, and of whatever alters a view. The name is in
// the descriptions of what is below the table, of what refers to it, and of columns that have its rows.
const moveTag = "RENAME TABLE"

// indexTag is what is noted of an ALTER INDEX. What an index is called, it or the one that it has become a part of, is
// in the descriptions of the tables that have it and its parts, and of those with foreign keys to them. It locks none
// of them: it is a barrier to what members order beside it, but nothing else is described anew.
const indexTag = "ALTER INDEX"

func carriedJSON() string {
	var b strings.Builder
	for i, s := range CarriedSettings {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "'%s', pg_catalog.current_setting('%[1]s', true)", s)
	}
	return "pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(" + b.String() + "))"
}

// definitionSchema: the table clients insert into themselves, as the role they have, but only while a
// definition runs, because pg_event_trigger_ddl_commands() fails at any other time.
func definitionSchema() string {
	return install("definitions.sql", words{
		"shared_changed": sharedChanged(),
		"ddl":            DDLSetting,
		"ddl_on":         DDLOn,
		"ddl_own":        DDLOwn,
		"turn_setting":   TurnSetting,
		"ddl_turn":       DDLTurn,
		"carried":        carriedJSON(),
		"home_setting":   HomeSetting,
		"index_plans":    indexPlans,
		"ddl_setting":    DDLSetting,
		"own_settings":   ownSettings,
		"rename_tag":     renameTag,
		"move_tag":       moveTag,
		"extent_max":     extentMax,
		"heir_state":     HeirState,
		"tags": "{" + strings.Join(slices.Concat(tableTags, apartTags, []string{indexTag, moveTag}), ",") +
			"}",
		"bulk_mark":      BulkMark,
		"schema_name":    SchemaName,
		"large_name":     LargeName,
		"own_begin":      ownBegin,
		"tx":             TransactionSetting,
		"inside_setting": InsideSetting,
		"bulk_setting":   BulkSetting,
		"direct":         DirectSetting,
		"outside":        OutsideState,
		"defined":        definedSetting,
		"filled_notice":  FilledNotice,
		"state":          DefinedState,
		"text_settings":  textSettings,
	}) +
		install("steps.sql", words{
			"ddl_setting":         DDLSetting,
			"ddl_own":             DDLOwn,
			"capture_tables":      captureTables,
			"serializable_tables": serializableTables,
			"window":              window(),
			"number":              number("tutti.captures()"),
			"number_bits":         numberBits,
			"op_definition":       opDefinition,
			"op_frozen":           opFrozen,
			"large_setting":       largeSetting,
		})
}

// LetDetach lets the backend of process $1 end the detachment of a partition; LetNone forgets that.
const (
	LetDetach = "INSERT INTO tutti.detaching VALUES ($1) ON CONFLICT DO NOTHING"
	LetNone   = "DELETE FROM tutti.detaching"
)

// HomeSetting says, where a definition is repeated, at which member it was made: the home of its sequences.
const HomeSetting = "tutti.home"

// SettleSequences makes sequences that TRUNCATE … RESTART IDENTITY has restarted in this transaction give values
// of this member's. It must run as a superuser.
const SettleSequences = "SELECT tutti.settle_restarted()"

// PeekStatement returns what was captured so far, in the form of CollectStatement, and changes nothing.
// Its parameter is the token.
const PeekStatement = "SELECT op, ident, keys, tab, img FROM tutti.peek($1)"

// PeekParameterOIDs is its parameter's type.
func PeekParameterOIDs() []uint32 { return []uint32{20} }

// Proof is what tutti.privileged demands with a command.
func Proof(command string, secret []byte) []byte {
	sum := sha256.Sum256(append([]byte(command), secret...))
	return sum[:]
}

// PrivilegedStatement runs a command through tutti.privileged with the extended protocol: parameters
// Proof, command, a value the command may use as $1, and whether it returns something, in binary.
const PrivilegedStatement = "SELECT tutti.privileged($1, $2, $3, $4)"

// PrivilegedParameterOIDs are its parameter types.
func PrivilegedParameterOIDs() []uint32 { return []uint32{17, 17, 17, 16} }

// FreezeCommand puts $1, an encoded writeset, in place of all that was captured so far.
const FreezeCommand = "SELECT tutti.freeze($1)"

// NoteCommand notes a definition that fires no event trigger: $1 is a Definition in JSON.
const NoteCommand = "SELECT tutti.note($1)"
