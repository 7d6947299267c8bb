package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// A direct statement returns what the trigger would have captured, in a RETURNING clause, so that
// nothing has to be written down and read again. It is possible where nothing but the statement
// itself can write to the table (TableDesc.Plain), and the statement calls no user-written code.
//
// The trigger keeps still only while the session says that there may be direct statements, and for the
// text of such a statement on its table. If anything else captures a row, direct
// statements are captured, too, until the transaction ends; they tell so.
//
// Every direct statement names a function without which it cannot be planned, and which goes with
// the first change to what its RETURNING clause was made from: no stale statement can run.

// DirectMark begins the text of every direct statement, MarkStart that of those that are captured as a whole, too.
// Clients' texts must not contain it.
const (
	DirectMark = MarkStart + "direct*/ "
	MarkStart  = "/*tutti "
)

// DirectSetting is TransactionSetting's value for direct statements, and for clients' statements between them whose
// texts are known and tell that they write nothing. The first row that is captured makes 'on' of it.
const DirectSetting = "quiet_direct"

// quietStart begins the values of TransactionSetting that may keep triggers still, and no others.
const quietStart = "q"

// direct reports whether there can be direct statements on the table.
func (t *TableDesc) direct() bool {
	for i := range t.Columns {
		if c := &t.Columns[i]; !c.Binary || c.Domain || c.OID >= firstUserOID {
			return false
		}
	}
	for i := range t.Indexes {
		if x := &t.Indexes[i]; !x.expressible() || x.evaluated() || slices.Contains(x.Uses, 0) {
			return false
		}
	}
	return t.Plain
}

// directFunction is the function direct statements name; PostgreSQL replaces it by its result
// when it plans them.
const directFunction = "CREATE OR REPLACE FUNCTION %s() RETURNS pg_catalog.bool LANGUAGE sql IMMUTABLE PARALLEL " +
	"RESTRICTED AS 'SELECT true'"

// Direct says how a statement on one table is run directly. It is not changed.
type Direct struct {
	before, after string
	op            writeset.Op
	oid           uint32
	header        []byte
}

// SQL is a statement's text, without RETURNING or WITH, made direct. It returns DirectColumns, which must be asked for
// in binary, and behind them what returns lists, if that is not empty.
func (d *Direct) SQL(text, returns string) string {
	if returns != "" {
		returns = ", " + returns
	}
	return d.before + text + d.after + returns
}

// DirectSQL is the query that tells which table a direct statement on a relation would change, whether the session may
// read it, has the right to what the statement does, and nobody has redefined what directs use, nor written functions
// of the names that it calls; and whether nothing is computed from the table's rows (CHECK constraints, indexes of
// expressions, or with a condition). It returns one row of schema, name and two booleans, and as JSON the columns that
// must not be changed unseen (see Blind), NULL if none can be, and those that are NULL if an INSERT does not name them;
// or no row; in text. The relation is an SQL name.
func DirectSQL(relation, right string, calls []string) string {
	return fmt.Sprintf(directSQL, literal(right), literal("{"+strings.Join(calls, ",")+"}"), literal(relation))
}

// plainOperators is SQL for whether nobody has written an operator or a cast. Those of users' types count: they can be
// meant where an operand's type is not known.
const plainOperators = `NOT EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid ` +
	`OPERATOR(pg_catalog.=) p.prolang
    WHERE l.lanname OPERATOR(pg_catalog.<>) ALL ('{internal,c}'::pg_catalog._name) AND p.oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid AND (
      EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oprcode::pg_catalog.oid OPERATOR(pg_catalog.=) p.oid)
      OR EXISTS (SELECT FROM pg_catalog.pg_cast k WHERE k.castfunc OPERATOR(pg_catalog.=) p.oid)))`

// unblindSQL is SQL for the columns of a table c whose new values may not fit: they are in an index that is none of a
// B-tree of columns of fixed sizes. It is NULL where not even a row may, because something large of it cannot be stored
// outside of it (name has 64 bytes), or text would have to be converted.
const unblindSQL = `CASE WHEN pg_catalog.current_setting('server_encoding') OPERATOR(pg_catalog.=) 'UTF8'
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.>) 0::pg_catalog.int2
      AND (a.attlen OPERATOR(pg_catalog.>) 32::pg_catalog.int2 OR a.attlen OPERATOR(pg_catalog.<) 0::pg_catalog.int2 AND a.attstorage OPERATOR(pg_catalog.=) 'p'::pg_catalog."char")
      AND NOT a.attisdropped)
  THEN (SELECT COALESCE(pg_catalog.json_agg(DISTINCT a.attname), '[]'::pg_catalog.json) FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_class x ON x.oid OPERATOR(pg_catalog.=) i.indexrelid JOIN pg_catalog.pg_am m ON m.oid OPERATOR(pg_catalog.=) x.relam
    JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.=) ANY (i.indkey::pg_catalog._int2)
    WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND (m.amname OPERATOR(pg_catalog.<>) 'btree'::pg_catalog.name OR EXISTS (SELECT FROM pg_catalog.pg_attribute b
      WHERE b.attrelid OPERATOR(pg_catalog.=) x.oid AND b.attlen OPERATOR(pg_catalog.<) 0::pg_catalog.int2))) END`

const directSQL = `SELECT n.nspname, c.relname, pg_catalog.has_table_privilege(c.oid, 'SELECT') AND ` +
	`pg_catalog.has_table_privilege(c.oid, %s)
  AND pg_catalog.current_setting('client_encoding') OPERATOR(pg_catalog.=) 'UTF8'
  AND (pg_catalog.current_schemas(true))[1] OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.name
  AND ` + plainOperators + `
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid AND p.proname OPERATOR(pg_catalog.=) ANY (%s::pg_catalog._name)),
  NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conrelid OPERATOR(pg_catalog.=) c.oid AND k.contype OPERATOR(pg_catalog.=) 'c')
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)),
  ` + unblindSQL + `, (SELECT COALESCE(pg_catalog.json_agg(a.attname), '[]'::pg_catalog.json) FROM pg_catalog.pg_attribute a
    WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.>) 0::pg_catalog.int2 AND NOT a.attisdropped
    AND NOT a.attnotnull AND NOT a.atthasdef AND a.attidentity OPERATOR(pg_catalog.=) ''::pg_catalog."char")
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
  WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%s)::pg_catalog.oid`

// Direct makes statements of an operation direct, if that is possible: INSERT with nothing but
// VALUES, UPDATE of the columns in sets, or DELETE. alias is the name the statement has
// for the table, named is what it names as columns; calls says that there are functions of clients'.
func (t *TableDesc) Direct(op writeset.Op, alias string, sets, named []string, calls bool) (*Direct, bool) {
	g := generate(t)
	if !g.direct || !g.installed(t) || !t.has(named) {
		return nil, false
	}
	row := Quote(alias)
	code := triggerCode{t}
	k := code.keys(row, row)
	ident, keys, image := t.IdentitySQL(row), "NULL::pg_catalog._int8", code.image(row+".*")
	switch op {
	case writeset.OpInsert:
		keys = array(k.fresh, k.foreign, k.extra)
	case writeset.OpUpdate:
		if t.Key() == nil || t.setsKey(&k, sets) {
			return nil, false
		}
	case writeset.OpDelete:
		if t.Key() == nil || t.Referenced {
			return nil, false
		}
		keys, image = array(k.stale), code.keyImage(row)
	default:
		return nil, false
	}
	setting := "pg_catalog.current_setting('" + TransactionSetting + "')"
	if calls {
		setting = noticed()
	}
	return &Direct{
		before: DirectMark,
		after: fmt.Sprintf("\nRETURNING %s.tableoid, %s, (%s)::pg_catalog._int8, %s, "+
			"pg_catalog.pg_current_wal_insert_lsn(),"+
			" %s, pg_catalog.current_setting('transaction_isolation'), pg_catalog.current_setting('row_security'), "+
			"pg_catalog.pg_my_temp_schema(), tutti.%s(), CURRENT_USER, pg_catalog.current_setting('search_path')",
			row, ident, keys, image, setting, g.directName()),
		op: op, oid: t.OID, header: []byte(code.headerText()),
	}, true
}

// steadyTypes are types whose strings are read alike at all times and under all settings, by their OIDs, and
// steadyNames their names.
var (
	// bool to jsonb
	steadyTypes = []uint32{16, 17, 18, 19, 20, 21, 23, 25, 26, 114, 700, 701, 1042, 1043, 1560, 1562, 1700, 2950, 3802,
		650, 829, 869} // addresses
	steadyNames = []string{"bool", "bytea", "int2", "int4", "int8", "text", "json", "jsonb", "float4", "float8",
		"bpchar", "varchar", "bit", "varbit", "numeric"}
)

// Steady reports whether strings of the types of these columns (nil: of all), of types by their names, and of types by
// their OIDs are read alike at all times and under all settings.
func (t *TableDesc) Steady(columns, casts []string, types []uint32) bool {
	return !slices.ContainsFunc(t.Columns, func(c Column) bool {
		return !slices.Contains(steadyTypes, c.OID) && (columns == nil || slices.Contains(columns, c.Name))
	}) && !slices.ContainsFunc(casts, func(name string) bool { return !slices.Contains(steadyNames, name) }) &&
		!slices.ContainsFunc(types, func(oid uint32) bool { return oid != 0 && !slices.Contains(steadyTypes, oid) })
}

// systemColumns are those that every table has.
var systemColumns = []string{"ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"}

// has reports whether all of these are columns of the table. What is none is a function of the row, or the row itself,
// whose casts users may have written.
func (t *TableDesc) has(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		return !slices.Contains(systemColumns, name) &&
			!slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == name })
	})
}

// Intervals reports whether a column is an interval, whose fields ('5' is days for interval day) count for literals and
// not for parameters.
func (t *TableDesc) Intervals() bool {
	const interval = 1186
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.OID == interval })
}

// FindsOne reports whether a condition that pins these columns finds one row at most, or one for each of their values:
// whatever they are, there is one good plan.
func (t *TableDesc) FindsOne(columns []string) bool {
	return slices.ContainsFunc(t.Indexes, func(x Index) bool {
		return !x.Exclusion && x.Predicate == nil && !slices.ContainsFunc(x.Parts, func(p Part) bool {
			return !slices.ContainsFunc(t.Columns,
				func(c Column) bool { return c.Num == p.Num && slices.Contains(columns, c.Name) })
		})
	})
}

// setsKey reports whether a column in sets, or one the table does not have, is part of a key.
func (t *TableDesc) setsKey(k *keyLists, sets []string) bool {
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Generated { // from columns that may be set
			sets = append(slices.Clone(sets), c.Name)
		}
	}
	for _, name := range sets {
		i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
		if i < 0 || slices.Contains(k.uses, t.Columns[i].Num) {
			return true
		}
	}
	return false
}

// Returned is a row that a direct statement has returned.
type Returned struct {
	direct   *Direct
	ident    uint64
	keys     []rowKey
	image    []byte
	order    uint64
	captured bool
	forged   bool // something else was, although tutti.tx says no
	aside    bool // see asideSuffix
	level    string
	security string // row_security, without which no mark can be written
	temp     bool
	who      string // the role and the search_path, which decide what the statement may do, and to which table
}

// DirectColumns is how many columns of a direct statement's result are its own.
const DirectColumns = 12

// Read decodes a row a direct statement returned: its column values in binary. It copies what it
// keeps. A row of another table is an error: the statement's name means something else by now.
func (d *Direct) Read(cols [][]byte) (Returned, error) {
	if len(cols) != DirectColumns || len(cols[0]) != 4 || cols[1] != nil && len(cols[1]) != 8 || len(cols[3]) == 0 ||
		len(cols[4]) != 8 || len(cols[8]) != 4 {
		return Returned{}, errors.New("capture: a row of a direct statement is malformed")
	}
	if oid := binary.BigEndian.Uint32(cols[0]); oid != d.oid {
		return Returned{}, fmt.Errorf("capture: a direct statement has changed table %d instead of %d", oid, d.oid)
	}
	r := Returned{direct: d, image: slices.Clone(cols[3]), order: binary.BigEndian.Uint64(cols[4]),
		captured: !strings.HasPrefix(string(cols[5]), DirectSetting),
		forged:   string(cols[5]) == DirectSetting+forgedSuffix,
		aside:    string(cols[5]) == DirectSetting+asideSuffix, level: string(cols[6]), security: string(cols[7]),
		temp: binary.BigEndian.Uint32(cols[8]) != 0,
		who:  string(cols[10]) + "\x00" + string(cols[11])}
	if cols[1] != nil {
		r.ident = nonZero(binary.BigEndian.Uint64(cols[1]))
	}
	var err error
	r.keys, err = decodeBinaryKeys(cols[2])
	return r, err
}

// Captured reports whether the trigger has captured the row as well, and will capture what
// follows: it is not to be added.
func (r *Returned) Captured() bool { return r.captured }

// Forged reports whether a function has had rows captured and set tutti.tx as if it had not: then nobody knows in which
// order what was changed.
func (r *Returned) Forged() bool { return r.forged }

// Alone reports whether, up to this row, nothing is to be collected besides what direct statements
// have returned, nothing of temporary objects can be deferred, and a mark can be written. snapshot says whether the
// transaction is meant to be REPEATABLE READ; what became something else is not alone.
func (r *Returned) Alone(snapshot bool) bool {
	level := "read committed"
	if snapshot {
		level = "repeatable read"
	}
	return !r.captured && !r.forged && !r.aside && !r.temp && r.security == "on" && r.level == level
}

// Who tells under which role and search_path it was returned.
func (r *Returned) Who() string { return r.who }

// Size is about how many bytes the row takes.
func (r *Returned) Size() int { return len(r.image) + 16*len(r.keys) + 128 }

// AddReturned adds a row of a direct statement. They come first, in their own order.
func (c *Collector) AddReturned(r *Returned) error {
	c.order = r.order
	return c.change(captured{op: r.direct.op, ident: r.ident, keys: r.keys, header: r.direct.header, image: r.image},
		true)
}
