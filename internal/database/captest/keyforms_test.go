package captest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/pgtest"
)

var (
	keyPairs = flag.Int("keypairs", 300, "equal, and unequal, pairs of keys of each type in TestKeyForms")
	keySeed  = flag.Uint64("keyseed", 1, "seed of TestKeyForms")
)

// keyType is a type with the values that are tried.
type keyType struct {
	name   string // as SQL
	values values
	fast   bool // it is on the list
}

// scalarTypes are all that PostgreSQL 15 compares in an index by default, as TestKeyForms checks, but for those made of
// others.
func scalarTypes() []keyType {
	zoned := []string{"2006-01-02 15:04:05.999999Z07:00", "Mon Jan _2 15:04:05.999999 2006 -07:00"}
	ends := []string{"infinity", "-infinity", "4713-01-01 BC", "2000-01-01", "1999-12-31"}
	return []keyType{
		{"bool", values{some: pick("t", "f"), same: func(_ *rand.Rand,
			v string) string {
			return map[string]string{"t": "yes", "f": "off"}[v]
		}}, true},
		{"bytea", hexes(5, func(b []byte) string { return `\x` + hexText(b) }, nil), true},
		{`"char"`, values{some: pick("a", "A", "", " ", `\200`)}, true},
		{"name", words(8), true},
		{"int2", integers(16), true}, {"int4", integers(32), true}, {"int8", integers(64), true},
		{"text", words(8), true}, {"varchar", words(8), true}, {"varchar(30)", words(8), true},
		{"bpchar", words(8), true}, {"char(30)", words(8), true},
		{"oid", unsigned(32), true}, {"xid8", unsigned(64), true},
		{"pg_lsn", values{some: func(r *rand.Rand) string {
			return fmt.Sprintf("%X/%X", r.IntN(3), r.IntN(3)<<r.IntN(30))
		}}, true},
		{"float4", floats(32), true}, {"float8", floats(64), true},
		{"numeric", decimals, true}, {"numeric(40,5)", values{some: integers(64).some, near: integers(64).near}, true},
		{"money", values{some: func(r *rand.Rand) string {
			return fmt.Sprintf("%d.%02d", r.Int64N(1<<uint(1+r.IntN(50)))-1<<20, r.IntN(3))
		}, near: func(_ *rand.Rand, v string) string { return "-" + strings.TrimPrefix(v, "-") }}, true},
		{"date", moments([]string{"2006-01-02", "Jan 2 2006"}, 1<<33, ends...), true},
		{"time", moments([]string{"15:04:05.999999"}, 1<<20, "24:00", "00:00", "12:00"), true},
		{"time(0)", moments([]string{"15:04:05.999999"}, 1<<20, "24:00", "00:00", "12:00"), true},
		{"timetz", moments([]string{"15:04:05.999999Z07:00"}, 1<<17, "24:00+00", "00:00+00", "12:00+01", "11:00+00",
			"13:00+02"), true},
		{"timestamp", moments([]string{"2006-01-02 15:04:05.999999"}, 1<<40, ends...), true},
		{"timestamptz", moments(zoned, 1<<36, ends...), true}, {"timestamptz(0)", moments(zoned, 1<<36, ends...), true},
		{"uuid", hexes(16, uuidText, upper), true},
		{"inet", addresses(false), true}, {"cidr", addresses(true), true},
		{"macaddr", hexes(6, macText, upper), true}, {"macaddr8", hexes(8, macText, upper), true},
		{"bit(7)", bitStrings(7), true}, {"varbit", bitStrings(0), true},
		{"mood", values{some: pick("sad", "ok", "happy")}, true},
		{"citext", words(8), true}, {"whole", integers(32), true}, {"cents", decimals, true}, {"label", words(6), true},

		{"interval", spans, false}, {"jsonb", documents, false},
		{"tid", values{some: pick("(0,1)", "(1,0)", "(0,2)", "(65536,1)")}, false},
		{"oidvector", values{some: pick("1 2", "2 1", "", "1", "1 2 3")}, false},
		{"tsvector", values{some: pick("a b", "a:1 b:2", "a:1,2 b", "'a b'", "", "b a"),
			same: func(_ *rand.Rand, v string) string { return v + " " }}, false},
		{"tsquery", values{some: pick("a & b", "a | b", "!a", "a:*", "a:A", "b & a", "a <-> b")}, false},
		{"regclass", values{some: pick("pg_class", "pg_type", "pg_am", "pg_proc")}, false},
		{"pair", values{some: func(r *rand.Rand) string {
			return fmt.Sprintf("(%s,%s)", pick("1.0", "1", "1.00", "-1", "")(r), pick("a", "A", "", `""`)(r))
		}}, false},
		{"hstore", values{some: pick("a=>1", "a=>2", "b=>1", "a=>1, b=>2", "b=>2, a=>1", "")}, false},
	}
}

func hexText(b []byte) string { return fmt.Sprintf("%x", b) }

// keyTypes are scalarTypes and what is made of them.
func keyTypes() []keyType {
	list := scalarTypes()
	canonical := []string{"bool", "int2", "int4", "int8", "text", "varchar", "varchar(30)", "oid", "uuid", "mood"}
	of := map[string]values{}
	for _, t := range list {
		of[t.name] = t.values
		if t.name != "whole" && t.name != "cents" && t.name != "label" && t.name != "hstore" && t.name != "pair" &&
			t.name != "oidvector" {
			list = append(list, keyType{t.name + "[]", arrays(t.values), slices.Contains(canonical, t.name)})
		}
	}
	list = append(list, keyType{"label[]", arrays(of["label"]), false}, keyType{"labels", arrays(of["label"]), true})
	for _, x := range [][2]string{{"int4range", "int4"}, {"int8range", "int8"}, {"numrange", "numeric"},
		{"daterange", "date"}, {"tsrange", "timestamp"}, {"tstzrange", "timestamptz"}} {
		v := of[x[1]]
		if x[1] != "numeric" {
			v = values{some: v.some}
		}
		if x[1][:3] == "int" { // whose ends would overflow
			v = values{some: pick("1", "2", "-1", "-2", "0")}
		}
		list = append(list, keyType{x[0], ranges(v, false), false},
			keyType{strings.Replace(x[0], "range", "multirange", 1), ranges(v, true), false})
	}
	return list
}

// TestKeyForms: of types on the list two values have equal identities exactly if PostgreSQL says that they are equal.
// Of all others, values with equal identities are equal, and the slower way is taken. Many pairs: go test
// ./internal/database/captest -run TestKeyForms -keypairs 100000
func TestKeyForms(t *testing.T) {
	s := pgtest.Shared(t)
	p := &pair{t: t, a: s.Connect(t, s.NewDatabase(t))}
	p.install(p.a)
	types := keyTypes()
	ddl := []string{"SET backtrace_functions = 'tutti_on'", "CREATE EXTENSION citext", "CREATE EXTENSION hstore",
		"CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')", "CREATE DOMAIN whole AS int CHECK (VALUE <> 77)",
		"CREATE DOMAIN cents AS numeric", "CREATE DOMAIN label AS text", "CREATE DOMAIN labels AS text[]",
		"CREATE TYPE pair AS (a numeric, b text)"}
	for i, k := range types {
		ddl = append(ddl, fmt.Sprintf("CREATE TABLE k%d(k %s PRIMARY KEY, v int)", i, k.name))
	}
	for _, sql := range ddl {
		p.exec(p.a, sql)
	}
	tables := p.describe()
	p.coversAllTypes(types)
	for i, k := range types {
		t.Run(k.name, func(t *testing.T) {
			d := tables["k"+strconv.Itoa(i)]
			if d.Whole() != k.fast {
				t.Fatalf("expressible: %v", d.Whole())
			}
			p.t = t
			r := rand.New(rand.NewPCG(*keySeed, uint64(i)))
			p.tryPairs(d, []string{k.name}, k.fast, *keyPairs, func() (a, b []string) {
				x, y := k.values.pair(r)
				return []string{x}, []string{y}
			})
		})
	}
}

// TestKeyFormsOfEmptyArrays: an array of no elements that has a dimension, as an int2vector has, is not the empty
// array. It cannot be written as text.
func TestKeyFormsOfEmptyArrays(t *testing.T) {
	s := pgtest.Shared(t)
	p := &pair{t: t, a: s.Connect(t, s.NewDatabase(t))}
	p.install(p.a)
	p.exec(p.a, "SET backtrace_functions = 'tutti_on'; CREATE TABLE e(k int2[] PRIMARY KEY)")
	d := p.describe()["e"]
	for other, want := range map[string]bool{"''::int2vector::int2[]": false, "'{}'::int2[]": true,
		"array_remove('{1}'::int2[], 1::int2)": true} {
		var equal, same bool
		p.scan(p.a, fmt.Sprintf("SELECT x.k = y.k, %s = %s FROM (SELECT '{}'::int2[] AS k OFFSET 0) x, (SELECT %s AS "+
			"k OFFSET 0) y", d.IdentitySQL("x"), d.IdentitySQL("y"), other), &equal, &same)
		if equal != want || same != want {
			t.Errorf("%s: equal %v, one identity %v, want %v", other, equal, same, want)
		}
	}
}

// TestKeyFormsTogether: the same of keys of several columns, whose values are also those of others of the key.
func TestKeyFormsTogether(t *testing.T) {
	s := pgtest.Shared(t)
	p := &pair{t: t, a: s.Connect(t, s.NewDatabase(t))}
	p.install(p.a)
	for _, sql := range []string{"SET backtrace_functions = 'tutti_on'", "CREATE EXTENSION citext",
		"CREATE EXTENSION hstore", "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')", "CREATE DOMAIN whole AS int",
		"CREATE DOMAIN cents AS numeric",
		"CREATE DOMAIN label AS text", "CREATE DOMAIN labels AS text[]"} {
		p.exec(p.a, sql)
	}
	var fast []keyType
	for _, k := range keyTypes() {
		if k.fast {
			fast = append(fast, k)
		}
	}
	r := rand.New(rand.NewPCG(*keySeed, 99))
	columns := make([][]keyType, 25)
	for i := range columns {
		for n := range 2 + i%3 {
			k := fast[r.IntN(len(fast))]
			if n > 0 && i%2 == 0 {
				k = columns[i][0] // of one type, so that values can change their places
			}
			columns[i] = append(columns[i], k)
		}
		var defs, names []string
		for n, k := range columns[i] {
			defs, names = append(defs, fmt.Sprintf("k%d %s", n, k.name)), append(names, fmt.Sprint("k", n))
		}
		p.exec(p.a, fmt.Sprintf("CREATE TABLE k%d(%s, PRIMARY KEY (%s))", i, strings.Join(defs, ", "),
			strings.Join(names, ", ")))
	}
	tables := p.describe()
	for i, kinds := range columns {
		var names []string
		for _, k := range kinds {
			names = append(names, k.name)
		}
		p.tryPairs(tables["k"+strconv.Itoa(i)], names, true, *keyPairs/2, func() (a, b []string) {
			same := r.IntN(2) == 0
			for _, k := range kinds {
				x, y := k.values.pair(r)
				if same && k.values.same != nil {
					y = k.values.same(r, x)
				} else if same {
					y = x
				}
				a, b = append(a, x), append(b, y)
			}
			if i%2 == 0 && r.IntN(3) == 0 {
				b = slices.Clone(a)
				n := r.IntN(len(b) - 1)
				b[n], b[n+1] = b[n+1], b[n]
			}
			return a, b
		})
	}
}

// describe are all tables, by name.
func (p *pair) describe() map[string]*capture.TableDesc {
	p.t.Helper()
	var text string
	p.scan(p.a, capture.DescribeQuery(), &text)
	c, err := capture.DecodeDescribe([]byte(text))
	if err != nil {
		p.t.Fatal(err)
	}
	tables := map[string]*capture.TableDesc{}
	for i := range c.Tables {
		tables[c.Tables[i].Name] = &c.Tables[i]
	}
	return tables
}

// tryPairs draws pairs of keys of a table until so many were equal, and so many not, and fails if their identities tell
// otherwise. The values of the columns are given as text.
func (p *pair) tryPairs(d *capture.TableDesc, types []string, exact bool, want int, draw func() (a, b []string)) {
	p.t.Helper()
	columns := d.Columns[:len(types)]
	var sources, keysA, keysB, equal, shown []string
	for i, c := range columns {
		sources = append(sources, fmt.Sprintf("$%d::text[], $%d::text[]", 2*i+1, 2*i+2))
		keysA = append(keysA, fmt.Sprintf("(p.a%d)::%s AS %s", i, types[i], capture.Quote(c.Name)))
		keysB = append(keysB, fmt.Sprintf("(p.b%d)::%s AS %s", i, types[i], capture.Quote(c.Name)))
		equal = append(equal, fmt.Sprintf("x.%[1]s = y.%[1]s", capture.Quote(c.Name)))
		shown = append(shown, fmt.Sprintf("a%[1]d, b%[1]d", i))
	}
	same := fmt.Sprintf("(%s) = (%s)", d.IdentitySQL("x"), d.IdentitySQL("y"))
	wrong := "equal <> same"
	if !exact {
		wrong = "same AND NOT equal"
	}
	sql := fmt.Sprintf(`WITH tried AS (SELECT %s, %s AS equal, %s AS same FROM unnest(%s) AS p(%s)
		CROSS JOIN LATERAL (SELECT %s OFFSET 0) AS x CROSS JOIN LATERAL (SELECT %s OFFSET 0) AS y)
		SELECT count(*) FILTER (WHERE equal), count(*) FILTER (WHERE NOT equal),
		coalesce((SELECT string_agg(format('%%s is equal: %%s', concat_ws(' | ', %s), equal), E'\n') FROM (SELECT * FROM tried WHERE %s LIMIT 5) w), '') FROM tried`,
		strings.Join(shown, ", "), strings.Join(equal, " AND "), same, strings.Join(sources, ", "),
		strings.Join(shown, ", "), strings.Join(keysA, ", "), strings.Join(keysB, ", "),
		strings.Join(shown, ", "), wrong)
	for equals, others := 0, 0; equals < want || others < want; {
		args := make([]any, 2*len(types))
		lists := make([][]string, 2*len(types))
		for range min(20_000, 2*want) {
			a, b := draw()
			for i := range types {
				lists[2*i], lists[2*i+1] = append(lists[2*i], a[i]), append(lists[2*i+1], b[i])
			}
		}
		for i := range args {
			args[i] = lists[i]
		}
		var e, o int
		var bad string
		if err := p.a.QueryRow(ctx, sql, args...).Scan(&e, &o, &bad); err != nil {
			p.t.Fatalf("%v: %s", types, explain(err))
		}
		if bad != "" {
			p.t.Fatalf("%v: identities do not tell equal values from others (-keyseed %d):\n%s", types, *keySeed, bad)
		}
		if equals, others = equals+e, others+o; e == 0 || o == 0 {
			p.t.Fatalf("%v: of the values that are tried %d pairs are equal, and %d are not", types, e, o)
		}
	}
}

// coversAllTypes fails if PostgreSQL compares a type in indexes by default that is not tried.
func (p *pair) coversAllTypes(types []keyType) {
	p.t.Helper()
	var names []string
	for _, k := range types {
		names = append(names, k.name)
	}
	// Not for unique indexes: what is hashed alone.
	var missing []string
	rows, err := p.a.Query(ctx,
		`SELECT DISTINCT y.typname::text FROM pg_opclass o JOIN pg_am m ON m.oid = o.opcmethod JOIN pg_type y ON y.oid = o.opcintype
		WHERE m.amname IN ('btree', 'hash') AND o.opcdefault AND y.typtype <> 'p' AND NOT (m.amname = 'hash' AND NOT EXISTS (SELECT FROM pg_opclass b JOIN pg_am n ON n.oid = b.opcmethod
			WHERE n.amname = 'btree' AND b.opcdefault AND b.opcintype = o.opcintype))
		AND y.oid <> ALL (SELECT n::regtype::oid FROM unnest($1::text[]) AS n)`, names)
	if err != nil {
		p.t.Fatal(err)
	}
	for rows.Next() {
		var n string
		if err := rows.Scan(&n); err != nil {
			p.t.Fatal(err)
		}
		missing = append(missing, n)
	}
	if len(missing) > 0 || rows.Err() != nil {
		p.t.Fatalf("types that are not tried: %v, %v", missing, rows.Err())
	}
}

// TestLooseCollations: texts that a collation takes for equal have equal identities, and types whose hash does not
// follow it take the slower way.
func TestLooseCollations(t *testing.T) {
	s := pgtest.Shared(t)
	p := &pair{t: t, a: s.Connect(t, s.NewDatabase(t))}
	p.install(p.a)
	p.exec(p.a, "SET backtrace_functions = 'tutti_on'")
	if _, err := p.a.Exec(ctx, "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = "+
		"false)"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("this PostgreSQL has no ICU: %v", err)
	}
	p.exec(p.a, "CREATE EXTENSION citext")
	types := []keyType{{`text COLLATE loose`, words(8), true}, {`varchar(40) COLLATE loose`, words(8), true},
		{`char(40) COLLATE loose`, words(8), false},
		{`name COLLATE loose`, words(8), false}, {`citext COLLATE loose`, words(8), false},
		{`text[] COLLATE loose`, arrays(words(8)), false}}
	for i, k := range types {
		p.exec(p.a, fmt.Sprintf("CREATE TABLE k%d(k %s PRIMARY KEY)", i, k.name))
	}
	tables := p.describe()
	for i, k := range types {
		d := tables["k"+strconv.Itoa(i)]
		if d.Whole() != k.fast {
			t.Fatalf("%s: expressible: %v", k.name, d.Whole())
		}
		r := rand.New(rand.NewPCG(*keySeed, uint64(i)))
		p.tryPairs(d, []string{k.name}, k.fast, *keyPairs, func() (a, b []string) {
			x, y := k.values.pair(r)
			return []string{x}, []string{y}
		})
	}
}
