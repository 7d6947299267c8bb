package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Querier is what *pgx.Conn and pgx.Tx have in common. It must be a superuser's.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// settings are what our own statements need; the planner's are the applier's otherwise.
var settings = [][2]string{
	{"search_path", "pg_catalog"}, {capture.DDLSetting, capture.DDLOwn}, {"check_function_bodies", "off"},
	{"jit", "off"}, {"enable_seqscan", "on"}, {"enable_hashjoin", "on"}, {"enable_mergejoin", "on"},
	{"enable_material", "on"},
}

// own are a column that tells the caller's settings, and columns that set the ones our own statements need,
// transaction-local. Back is the statement that gives the caller its own again.
func own() (columns string, back func(old []string) string) {
	var ask, set []string
	for _, s := range settings {
		ask = append(ask, fmt.Sprintf("coalesce(pg_catalog.current_setting('%s', true), '')", s[0]))
		set = append(set, fmt.Sprintf("pg_catalog.set_config('%s', '%s', true)", s[0], s[1]))
	}
	return "ARRAY[" + strings.Join(ask, ", ") + "], " + strings.Join(set, ", "), func(old []string) string {
		var reset []string
		for i, s := range settings {
			reset = append(reset, fmt.Sprintf("pg_catalog.set_config('%s', '%s', true)", s[0],
				strings.ReplaceAll(old[i], "'", "''")))
		}
		return "SELECT " + strings.Join(reset, ", ")
	}
}

// ownTo takes the columns of own: the first one, which is made before the others.
func ownTo(old *[]string) []any {
	to := make([]any, 1+len(settings))
	to[0] = old
	return to
}

// within runs f with the settings our own statements need, transaction-local. F ends with the statement back, which
// gives the caller its own again. It must be called in an open transaction.
func within(ctx context.Context, q Querier, f func(back string) error) error {
	columns, back := own()
	var old []string
	if err := q.QueryRow(ctx, "SELECT "+columns).Scan(ownTo(&old)...); err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	return f(back(old))
}

// Install creates or updates schema tutti and the triggers of all tables, in q's open
// transaction.
func Install(ctx context.Context, q Querier) error {
	there, err := installed(ctx, q)
	if err != nil {
		return fmt.Errorf("catalog: looking for schema tutti: %w", err)
	}
	err = within(ctx, q, func(back string) error {
		install := capture.LetNone
		if !there {
			install = capture.Schema()
		}
		if _, err := q.Exec(ctx, install+";\n"+back); err != nil {
			return fmt.Errorf("catalog: installing schema tutti: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return Refresh(ctx, q)
}

// installed reports whether schema tutti is as this build would install it.
func installed(ctx context.Context, q Querier) (there bool, err error) {
	if err := q.QueryRow(ctx, capture.HasInstalled).Scan(&there); err != nil || !there {
		return false, err
	}
	err = q.QueryRow(ctx, capture.InstalledQuery()).Scan(&there)
	return there, err
}

// Refresh brings the capture triggers of all user tables up to date, in q's open transaction.
// Call it after every schema change.
func Refresh(ctx context.Context, q Querier) error {
	_, err := Follow(ctx, q, nil)
	return err
}

// Follow is Refresh after definitions in q's open transaction, and Describe. Only the tables that they
// changed are looked at, if that can be told; the others are as in before.
func Follow(ctx context.Context, q Querier, before *Tables) (after *Tables, err error) {
	f, err := Look(ctx, q, before)
	if err != nil {
		return nil, err
	}
	return f.Install(ctx)
}

// Followed is what definitions in an open transaction have left, before its tables have the triggers they should have.
type Followed struct {
	// Changed is for capture.Beyond; nil if nothing was known before.
	Changed []byte

	q      Querier
	before *Tables
	tables capture.Catalog
	beside besides
	back   string // what gives the caller its own settings again
}

// Look is the first part of Follow, and Install the second one. First are statements that go before.
func Look(ctx context.Context, q Querier, before *Tables, first ...string) (*Followed, error) {
	columns, back := own()
	var old []string
	ask := asking{before: before, first: first, query: capture.DescribeLocked, of: "tutti.locked()", made: true,
		more: columns + ", ", to: ownTo(&old)}
	if before == nil { // to install schema tutti is a definition as well, and has touched no table
		ask.query, ask.of = describeAll, noTables
	}
	f := &Followed{q: q, before: before}
	var err error
	if f.tables, f.beside, err = describe(ctx, q, ask); err != nil {
		return nil, err
	}
	f.Changed = f.beside.changed
	f.back = back(old)
	return f, nil
}

// Install gives the tables their triggers.
func (f *Followed) Install(ctx context.Context) (*Tables, error) {
	statements := append(capture.Refresh(f.tables), capture.SettleSequences,
		"SELECT set_config('tutti.tags', '', true), set_config('tutti.gone', '', true)")
	if f.beside.events { // else not: PostgreSQL would forget the plan of the description
		statements = []string{capture.Unseen(statements)}
	}
	if _, err := f.q.Exec(ctx, strings.Join(append(statements, f.back), ";\n")); err != nil {
		return nil, fmt.Errorf("catalog: installing capture triggers: %w", err)
	}
	f.tables.Installed()
	return tables(f.tables, f.beside, f.before)
}

// asking is what describe asks.
type asking struct {
	before    *Tables  // what is known, or nil
	first     []string // statements that go before
	query, of string   // that describes tables, and what gives it these and what was changed
	args      []any
	made      bool   // this transaction has changed them
	more      string // columns that go before
	to        []any  // where they go
}

// describe runs a query that describes tables, and asks what else is wanted. The query is prepared, as it comes again.
func describe(ctx context.Context, q Querier, ask asking) (c capture.Catalog, b besides, err error) {
	deferrable, granted, outside, before := false, false, []string{}, ask.before
	if before != nil {
		deferrable, granted, outside = before.deferrable, before.granted(), before.outside.list()
	}
	query := fmt.Sprintf("SELECT %s(%s), b.*, tutti.outside(%[4]t, $%[5]d, %[6]t, locks), changed, "+
		"tutti.narrow(%[6]t, locks) FROM %[3]s, tutti.besides(%[4]t, %[7]t, %[8]t, locks) b",
		ask.more, ask.query, ask.of, before != nil, len(ask.args)+1, ask.made, deferrable, granted)
	if _, err := q.Prepare(ctx, query, query); err != nil {
		return capture.Catalog{}, besides{}, fmt.Errorf("catalog: describing tables: %w", err)
	}
	var batch pgx.Batch
	for _, sql := range ask.first {
		batch.Queue(sql)
	}
	var text string
	batch.Queue(query, append(slices.Clip(ask.args), outside)...).QueryRow(func(row pgx.Row) error {
		return row.Scan(append(ask.to, &text, &b.deferrable, &b.views, &b.rights, &b.events, &b.code, &b.outside,
			&b.changed, &b.narrow)...)
	})
	if err := q.SendBatch(ctx, &batch).Close(); err != nil {
		return capture.Catalog{}, besides{}, fmt.Errorf("catalog: describing tables: %w", err)
	}
	c, err = capture.DecodeDescribe([]byte(text))
	return c, b, err
}

// Tables is what is known of the tables of one database; it is not safe for changes. A schema
// change makes it stale.
type Tables struct {
	byName     map[[2]string]*table
	deferrable bool
	views      map[string]bool // names of what can be selected from and is no table
	rights     map[string]bool // names of what has rights on columns
	events     bool
	code       bool
	anySchema  func() map[string]*table
	outside    *outside
	line       *line
}

// line is of catalogs that follow each other by definitions of which each concerned only the tables that it was seen to
// change.
type line struct{ _ byte }

// Holds reports whether what was known of a table as of another catalog is so as of this one: no definition in between
// concerned it.
func (t *Tables) Holds(before any, schema, name string) bool {
	was, ok := before.(*Tables)
	if !ok || was.line != t.line {
		return false
	}
	x := t.byName[[2]string{schema, name}]
	return x != nil && x == was.byName[[2]string{schema, name}]
}

// Anew is the same, but nothing that was known as of t is so as of it: who may do what has changed.
func (t *Tables) Anew() *Tables {
	anew := *t
	anew.line = &line{}
	return &anew
}

// Deferrable reports whether the database has constraints or triggers that may fire at COMMIT,
// those on temporary tables aside.
func (t *Tables) Deferrable() bool { return t.deferrable }

// View reports whether a view, materialized view or foreign table has this name, in whatever schema, or a table
// with rights on columns: some of whose system columns not everybody may read.
func (t *Tables) View(name string) bool { return t.views[name] || t.rights[name] }

// granted reports whether clients have granted rights on columns. There are two tables of which PostgreSQL and Tutti
// have.
func (t *Tables) granted() bool {
	for name := range t.rights {
		if name != "pg_subscription" && name != "mark" {
			return true
		}
	}
	return false
}

// EventTriggers reports whether there are some of users.
func (t *Tables) EventTriggers() bool { return t.events }

// Code reports whether there are functions that clients have written, or extensions have brought, which may be called
// unseen: by views, operators, triggers.
func (t *Tables) Code() bool { return t.code }

// besides is what is asked together with a description, see capture.
type besides struct {
	deferrable    bool
	views, rights []string // nil: as before
	events        bool     // there are event triggers of users, which what we do is no business of
	outside       []string // see capture.OutsideFunctions; nil: as before
	code          *bool    // see Code; nil: as before
	changed       []byte   // see Followed
	narrow        bool     // the definitions concern nothing but the tables that are described
}

type table struct {
	capture capture.TableDesc
	apply   apply.Table
	words   bool // columns can hold text
	sure    bool // all values arrive as they are sent, see capture.TableDesc.Sure
}

// Describe reads the tables of the database, in q's open transaction.
func Describe(ctx context.Context, q Querier) (*Tables, error) {
	return describeTables(ctx, q, asking{query: describeAll, of: noTables})
}

const (
	describeAll = "SELECT tutti.describe_all()"
	noTables    = "(SELECT NULL::pg_catalog._oid AS locks, '[]'::pg_catalog.text AS changed) AS nothing"
)

// DescribeSome reads some tables, given by schema and name, in q's open transaction; the others are as in
// before. First are statements that say by which definitions they were changed (capture.NoteTags), if that is known.
func DescribeSome(ctx context.Context, q Querier, before *Tables, some [][2]string, first ...string) (*Tables, error) {
	schemas, names := make([]string, len(some)), make([]string, len(some))
	for i, t := range some {
		schemas[i], names[i] = t[0], t[1]
	}
	return describeTables(ctx, q, asking{before: before, first: first, query: capture.DescribeSome,
		of: capture.SomeTables, args: []any{schemas, names}})
}

func describeTables(ctx context.Context, q Querier, ask asking) (t *Tables, err error) {
	err = within(ctx, q, func(back string) error {
		c, b, err := describe(ctx, q, ask)
		if err != nil {
			return err
		}
		if _, err := q.Exec(ctx, back); err != nil {
			return fmt.Errorf("catalog: %w", err)
		}
		t, err = tables(c, b, ask.before)
		return err
	})
	return t, err
}

// tables makes a description usable; what a partial one leaves out is taken from before.
func tables(c capture.Catalog, b besides, before *Tables) (*Tables, error) {
	t := &Tables{byName: make(map[[2]string]*table, len(c.Tables)), line: &line{}, deferrable: b.deferrable,
		events: b.events}
	if c.Partial && before != nil {
		t.byName = before.besides(c)
	}
	named := func(names []string) map[string]bool {
		out := make(map[string]bool, len(names))
		for _, n := range names {
			out[n] = true
		}
		return out
	}
	if t.views = named(b.views); b.views == nil {
		t.views = before.views
	}
	if t.rights = named(b.rights); b.rights == nil {
		t.rights = before.rights
	}
	if b.code != nil {
		t.code = *b.code
	} else {
		t.code = before.code
	}
	if t.outside = newOutside(b.outside); b.outside == nil && before != nil {
		t.outside = before.outside
	}
	if c.Partial && before != nil && b.narrow && t.code == before.code {
		t.line = before.line
	}
	for _, d := range c.Tables {
		a := applyTable(&d)
		if err := a.Validate(); err != nil {
			return nil, err
		}
		t.byName[[2]string{d.Schema, d.Name}] = &table{capture: d, apply: a, words: d.Words(), sure: d.Sure()}
	}
	t.anySchema = sync.OnceValue(t.findAnySchema)
	return t, nil
}

// besides are the tables that a partial description does not describe: it may have another name for one, and tell that
// some are gone.
func (t *Tables) besides(c capture.Catalog) map[[2]string]*table {
	other := make(map[uint32]bool, len(c.Tables)+len(c.Gone))
	for _, d := range c.Tables {
		other[d.OID] = true
	}
	for _, g := range c.Gone {
		other[g.OID] = true
	}
	out := maps.Clone(t.byName)
	maps.DeleteFunc(out, func(_ [2]string, x *table) bool { return other[x.capture.OID] })
	return out
}

// Unkeyed reports whether a table can be captured as a whole and none of the columns belongs to a key of it. Without
// a schema it may be any of this name.
func (t *Tables) Unkeyed(schema, name string, columns []string) bool {
	x := t.named(schema, name)
	return x != nil && x.capture.Key() != nil && x.capture.Whole() && !slices.ContainsFunc(columns, x.capture.Keyed)
}

// Piecewise reports whether a table cannot be captured as a whole. Without a schema it may be any of this name. One
// that is not known may be captured as a whole.
func (t *Tables) Piecewise(schema, name string) bool {
	x := t.named(schema, name)
	return x != nil && !x.capture.Whole()
}

// named finds a table, without a schema any of this name; nil if there is none.
func (t *Tables) named(schema, name string) *table {
	if schema == "" {
		return t.anySchema()[name]
	}
	return t.byName[[2]string{schema, name}]
}

// findAnySchema finds a table for each name.
func (t *Tables) findAnySchema() map[string]*table {
	out := make(map[string]*table, len(t.byName))
	for name, x := range t.byName { // order-free: the first schema is taken
		if other := out[name[1]]; other == nil || name[0] < other.capture.Schema {
			out[name[1]] = x
		}
	}
	return out
}

// largeObjects is the table whose rows are carried out.
var largeObjects = apply.Instead(capture.SchemaName, capture.LargeName, capture.LargeApply)

func applyTable(d *capture.TableDesc) apply.Table {
	a := apply.Table{Schema: d.Schema, Name: d.Name, Portable: d.Portable(), Root: d.Root}
	at := make(map[int]int, len(d.Columns))
	for i, c := range d.Columns {
		a.Columns = append(a.Columns, apply.Column{Name: c.Name, Generated: c.Generated, Always: c.Always,
			Integer: c.Integer(), Long: c.Integer() && c.OID == 20})
		at[c.Num] = i
	}
	if x := d.Key(); x != nil {
		for _, p := range x.Parts {
			a.Key = append(a.Key, apply.KeyColumn{Column: at[p.Num], Equal: p.Equal})
		}
	}
	return a
}

// Apply is the apply.Lookup of these tables.
func (t *Tables) Apply(w writeset.Table) *apply.Table {
	if w.Schema == capture.SchemaName && w.Name == capture.LargeName {
		return largeObjects
	}
	if x := t.byName[[2]string{w.Schema, w.Name}]; x != nil {
		return &x.apply
	}
	return nil
}

// Capture returns the description of a table, or nil.
func (t *Tables) Capture(schema, name string) *capture.TableDesc {
	if x := t.byName[[2]string{schema, name}]; x != nil {
		return &x.capture
	}
	return nil
}

// Coded reports whether storing a writeset's rows runs code that clients have written, see
// capture.TableDesc.
func (t *Tables) Coded(ws *writeset.Writeset) bool {
	for _, w := range ws.Tables {
		if x := t.byName[[2]string{w.Schema, w.Name}]; x != nil && x.capture.Coded {
			return true
		}
	}
	return false
}

// Read reports whether other members can read all rows in. Where they cannot it says why, with the
// table. Rows of tables that are not known are passed over: the definitions that made them come with them.
func (t *Tables) Read(ws *writeset.Writeset) (capture.Verdict, writeset.Table, capture.BadText) {
	out := capture.Readable
	for i := range ws.Steps {
		if rows := ws.Steps[i].Rows; rows != nil {
			if v, w, bad := t.Read(rows); v == capture.Unreadable {
				return v, w, bad
			} else if v > out {
				out = v
			}
		}
	}
	known := make([]*table, len(ws.Tables))
	for i, w := range ws.Tables {
		if x := t.byName[[2]string{w.Schema, w.Name}]; x != nil && x.words {
			known[i] = x
		}
	}
	for i := range ws.Rows {
		r := &ws.Rows[i]
		if known[r.Table] == nil || r.All() {
			continue
		}
		w := ws.Tables[r.Table]
		if v, bad := known[r.Table].capture.Read(w.Format, r.Record()); v == capture.Unreadable {
			return v, w, bad
		} else if v > out {
			out = v
		}
	}
	return out, writeset.Table{}, capture.BadText{}
}

// ByOID returns the description of the table with an OID of the local database, or nil.
func (t *Tables) ByOID(oid uint32) *capture.TableDesc {
	for _, x := range t.byName { // order-free: OIDs are unique
		if x.capture.OID == oid {
			return &x.capture
		}
	}
	return nil
}

// KeyText renders the key of a row image of table w, see capture.KeyText.
func (t *Tables) KeyText(w writeset.Table, image []byte) (columns, values string, ok bool) {
	d := t.Capture(w.Schema, w.Name)
	if d == nil {
		return "", "", false
	}
	return capture.KeyText(d, w.Format, image)
}
