package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestValues: whatever value of whatever type is written, by whatever way, into tables of whatever storage and indexes,
// it is at all members or refused; no member ends or halts, and copies are equal. Values are made by PostgreSQL's own
// functions, of what the server says there is. TUTTI_TEST_SECONDS says for how long, TUTTI_TEST_SEED with which
// numbers.
func TestValues(t *testing.T) {
	c := use(t)
	seed, err := strconv.ParseUint(os.Getenv("TUTTI_TEST_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("TUTTI_TEST_SEED=%d", seed)
	setup := c.Connect(1)
	setup.Do("CREATE SCHEMA val", "SET search_path = val, public")
	t.Cleanup(func() { setup.Do("DROP SCHEMA val CASCADE") })
	extensions := []string{"hstore", "citext", "ltree", "cube", "isn", "seg", "intarray", "pg_trgm", "btree_gist",
		"btree_gin", "bloom"}
	if os.Getenv("TUTTI_TEST_SECONDS") == "" {
		extensions = extensions[:2] // each takes its time
	}
	for _, x := range extensions {
		setup.Do("CREATE EXTENSION " + x + " SCHEMA val") // where it is missing this test is no test
	}
	setup.Do(valueTypes...)
	g := newValueWriter(t, c, seed)
	const enough = 50 // statements
	until := time.Now().Add(seconds(4 * time.Second))
	for n := 0; time.Now().Before(until) || g.done < enough && time.Now().Before(until.Add(sqlTimeout)); n++ {
		g.round(n)
		if n%20 == 19 {
			g.settled()
		}
	}
	g.settled()
	t.Logf("%d statements, %d were refused by Tutti, %d failed otherwise, %d tables", g.done, g.refused, g.failed,
		g.tables)
	if g.done < enough {
		t.Errorf("only %d statements worked", g.done)
	}
}

var valueTypes = []string{
	"CREATE TYPE val.mood AS ENUM ('sad', 'ok', 'ha''ppy')", "CREATE DOMAIN val.posint AS int CHECK (VALUE > 0)",
	"CREATE DOMAIN val.word AS varchar(20) NOT NULL DEFAULT ''",
	"CREATE DOMAIN val.moment AS timestamptz(0)", "CREATE DOMAIN val.moments AS val.moment[]",
	"CREATE TYPE val.pair AS (a int, b text)", "CREATE TYPE val.deep AS (p val.pair, m val.mood, c circle, z " +
		"timestamptz(0)[])",
	"CREATE TYPE val.floats AS RANGE (subtype = float8)", "CREATE TYPE val.moods AS RANGE (subtype = val.mood)",
	"CREATE TYPE val.times AS RANGE (subtype = timetz)",
	`CREATE FUNCTION val.casts(value text, type text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN EXECUTE ` +
		`format('SELECT %L::%s', value, type); RETURN true; EXCEPTION WHEN OTHERS THEN RETURN false; END $$`,
	`CREATE FUNCTION val.nest(n int) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$ DECLARE j jsonb := '1'; BEGIN ` +
		`FOR i IN 1 .. n LOOP j := jsonb_build_array(j); END LOOP; RETURN j; END $$`,
	`CREATE FUNCTION val.noise(n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT string_agg(md5(g::text), '') ` +
		`FROM generate_series(1, n) g $$`,
	"CREATE TABLE val.squeezed(k int, t text COMPRESSION lz4)",
	"INSERT INTO val.squeezed SELECT g, repeat('0123456789abcdefghij', 1500 * g) FROM generate_series(1, 20) g",
}

// literals are tried for every type.
var literals = []string{"", " ", "0", "1", "-1", "1.5", "-0", "NaN", "Infinity", "-Infinity", "infinity", "-infinity",
	"1e131071", "1e-16383", "9223372036854775807", "-9223372036854775808", "2147483647", "-2147483648", "32767",
	"4294967295", "1e308", "5e-324", "1e38", "true", "f", "a", "sad", "ha'ppy", "\\x00ff", "\\x", "abc def", "äöü🚀",
	"zz\\\"q", "{}", "[]", "{1,2}", "{NULL}", "{a,b}", "[0:1]={1,2}", "[-5:-4]={a,b}", "[2147483646:2147483646]={1}",
	"{{1,2},{3,4}}",
	"294276-12-31 23:59:59.999999+00", "294276-12-31 23:59:59+00", "4713-01-01 00:00:00 BC",
	"4714-11-24 00:00:00+00 BC", "5874897-12-31", "4714-11-24 BC", "2000-02-29", "1999-12-31 23:59:59.5", "24:00:00",
	"23:59:59.999999+15:59", "00:00:00-15:59:59",
	"178000000 years", "-178000000 years", "1 mon -1 day 00:00:01", "106751991 days 04:00:54.775807", "(1,2)",
	"(NaN,Infinity)", "[(0,0),(1,1)]", "((0,0),(1,1),(2,0))", "<(0,0),1>", "<(NaN,0),Infinity>", "{1,0,3}",
	"(0,0),(-0,NaN)", "[(1,1)]",
	"127.0.0.1", "10.0.0.0/8", "::1/128", "fe80::/10", "08:00:2b:01:02:03", "08:00:2b:01:02:03:04:05",
	"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "101", "B", "0101010101", "$1.50", "-92233720368547758.08",
	"empty", "[1,2)", "(,)", "[,5]", "(1,1)", "{[1,2),[5,)}", "[a,b]", "[2000-01-01,infinity]",
	"[-infinity,294276-12-31]", "[sad,ok]", "a:1A b:2,3B", "a & !b", "a <-> b | c:*A", "'a b' & ''", "<a/>", "text",
	"<?xml version='1.0'?><a>&lt;</a>", "<!DOCTYPE a><a/>", "<a", "a=>1, b=>NULL",
	`{"a": [1, null, "x\u0041"], "b": {"c": 1e400}}`, `[1,2,{"a":-0.0}]`, `"\ud83d\ude00"`, "1.0", "null",
	"$.a[*] ? (@ > 1)", "strict $", "Top.Science", "*.a{1,2}", "978-0-393-04002-9", "1 .. 2", "~1", "<5", "(0,0)",
	"16/B374D848", "FFFFFFFF/FFFFFFFF", "10:20:10,14,15", "(0,1)", "(4294967295,65535)",
	"pg_class", "val.squeezed", "int4", "lower(text)", "+(int,int)", "english", "pg_catalog", "public", "postgres",
	"simple", "C", "(1,x)", "(,)", `("(1,y)",sad,"<(0,0),1>","{now}")`, "postgres=r/postgres"}

// extras are what no function of the catalog makes; %s are values of the type.
var extras = map[string][]string{
	"xml": {`xmlelement(name a, E'\x01')`, `xmlelement(name "a b", 'x')`,
		"xmlforest(1 AS a, NULL AS b)", "xmlpi(name php, 'x')", "xmlcomment('x')",
		"xmlconcat('<a/>'::xml, '<?xml version=''1.1'' standalone=''yes''?><b/>'::xml)",
		"xmlroot('<a/>'::xml, version '1.1', standalone yes)", "xmlelement(name a, xmlattributes(chr(7) AS b))"},
	"tsquery": {"plainto_tsquery('english', 'the')", "phraseto_tsquery('english', 'the a')",
		"to_tsquery('english', 'a & cat')", "websearch_to_tsquery('english', '-the \"cat in the hat\"')",
		"querytree(%s)::tsquery", "tsquery_phrase(%s, %s, 16384)"},
	"tsvector": {"to_tsvector('english', val.noise(50))",
		"array_to_tsvector(ARRAY[repeat('x', 3000), 'a'])", "array_to_tsvector(ARRAY['b', 'a', 'a'])", "%s || %s",
		"setweight(%s, 'A')"},
	"timestamp with time zone": {"'294276-12-31 23:59:59.9+00'::timestamptz",
		"'294276-12-31 23:59:59.9+00'::timestamptz(0)", "clock_timestamp()",
		"make_timestamptz(294276, 12, 31, 23, 59, 59.9)"},
	"time with time zone": {"timetz '00:00+00' AT TIME ZONE interval '20:00'",
		"%s AT TIME ZONE interval '-15:59:59'"},
	"circle": {"circle(point(0, 0), -1)", "circle(point(0, 0), 'NaN')", "%s * point(0, -1)"},
	"jsonb": {"val.nest(50)", "val.nest(300)", "val.nest(20000)",
		"jsonb_build_object('a', val.noise(200))", "to_jsonb(%s)", "jsonb_set('{}', '{a}', %s)"},
	"json": {"val.nest(300)::text::json", "to_json(val.nest(20000))",
		"json_build_array(1, NULL, 'x')", "row_to_json(ROW(1, 'a'))"},
	"text": {"val.noise(50)", "val.noise(90)", "val.noise(300)",
		"repeat('0123456789abcdefghij', 30000)", "repeat(%s, 5000)", "(SELECT t FROM val.squeezed WHERE k = 20)",
		"(SELECT t FROM val.squeezed WHERE k = 3)"},
	"bytea": {"val.noise(100)::bytea", "decode(repeat('00', 9000), 'hex')", "set_byte(%s, 0, 255)"},
	"numeric": {"1e1000 / 3", "repeat('9', 131072)::numeric", "('1.' || repeat('1', 16383))::numeric",
		"%s * 1e-500", "2.0 ^ 4000", "%s / 7"},
	"pg_node_tree": {"(SELECT adbin FROM pg_attrdef LIMIT 1)"},
	"pg_ndistinct": {"(SELECT stxdndistinct FROM pg_statistic_ext_data LIMIT 1)"},
	"regclass": {"'pg_class'::regclass",
		"(SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'squeezed')", "4294967295::oid::regclass"},
	"aclitem": {"makeaclitem(10, 10, 'SELECT', true)", "makeaclitem(4000000, 10, 'SELECT', true)"},
	"polygon": {"polygon(100, '<(0,0),1>'::circle)"}, "val.mood": {"enum_first(NULL::val.mood)"},
	"daterange": {"daterange('5874897-12-31', '5874897-12-31', '[]')", "daterange('2000-01-01', 'infinity', '[]')"},
	"tstzrange": {"tstzrange(NULL, '294276-12-31 23:59:59.9+00'::timestamptz(0))"},
	"hstore":    {"hstore(%s::text, val.noise(80))"}, "ltree": {"text2ltree(repeat('a.', 3000) || 'b')"},
	"bit varying": {"repeat('1', 9)::bit varying", "%s << 3", "~ %s"},
	"int4range":   {"int4range(1, 2147483647, '[]')", "int4range(NULL, 2147483646, '[]')"},
	"cube":        {"cube(array_fill(1.5::float8, '{100}'))"}, "interval": {"interval '1 day' * 1e9", "%s * -1.5"},
}

type valueFunction struct {
	call string
	args []string
}

// valueWriter makes statements.
type valueWriter struct {
	t         *testing.T
	c         *Cluster
	r         *rand.Rand
	types     []string
	varlena   map[string]bool
	functions map[string][]valueFunction
	known     map[string][]string // type → literals that it takes
	s         *Conn
	last      []string // statements of the round

	done, refused, failed, tables int
}

func newValueWriter(t *testing.T, c *Cluster, seed uint64) *valueWriter {
	g := &valueWriter{t: t, c: c, r: rand.New(rand.NewPCG(seed, 1)), varlena: map[string]bool{},
		functions: map[string][]valueFunction{}, known: map[string][]string{}}
	g.reconnect()
	rows, err := g.s.Query(context.Background(),
		`SELECT format_type(oid, NULL), typlen = -1 FROM pg_type WHERE typtype IN ('b', 'd', 'e', 'r', 'm', 'c') AND typisdefined
		AND (typrelid = 0 OR typname IN ('pair', 'deep')) AND typcategory <> 'X' AND typname !~ '^_' AND (oid < 16384 OR typnamespace = 'val'::regnamespace) AND typname NOT IN ('gtsvector', 'unknown') ORDER BY oid`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		var long bool
		if err := rows.Scan(&name, &long); err != nil {
			t.Fatal(err)
		}
		g.types, g.varlena[name] = append(g.types, name), long
	}
	rows, err = g.s.Query(context.Background(),
		`SELECT format_type(prorettype, NULL), quote_ident(n.nspname) || '.' || quote_ident(proname), ARRAY(SELECT format_type(a, NULL) FROM unnest(proargtypes) a)
		FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE prokind = 'f' AND NOT proretset AND provolatile = 'i' AND pronargs BETWEEN 1 AND 4 AND nspname IN ('pg_catalog', 'val')
		AND proname !~ '(recv|send|in|out|sel|joinsel|support|hash|accum|combine|serialize|_final|transfn|sortsupport|planstats)$' AND proname NOT IN ('repeat', 'lpad', 'rpad', 'nest', 'noise', 'casts') ORDER BY 1, 2, 3`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var of string
		var f valueFunction
		if err := rows.Scan(&of, &f.call, &f.args); err != nil {
			t.Fatal(err)
		}
		if _, ok := g.varlena[of]; ok {
			g.functions[of] = append(g.functions[of], f)
		}
	}
	if err := rows.Err(); err != nil || len(g.types) < 50 || len(g.functions["text"]) < 20 {
		t.Fatalf("%d types, %d functions of text: %v", len(g.types), len(g.functions["text"]), err)
	}
	return g
}

func (g *valueWriter) reconnect() {
	g.s = g.c.Connect(1 + g.r.IntN(g.c.Size()))
	g.s.Do("SET search_path = val, public; SET statement_timeout = '20s'")
}

func oneOf[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// literal is one that a type takes; empty if there is none.
func (g *valueWriter) literal(of string) string {
	list, ok := g.known[of]
	if !ok {
		if err := g.s.QueryRow(context.Background(),
			"SELECT coalesce(array_agg(l), '{}') FROM unnest($1::text[]) l WHERE val.casts(l, $2)", literals,
			of).Scan(&list); err != nil {
			g.t.Fatal(err)
		}
		g.known[of] = list
	}
	if len(list) == 0 {
		return ""
	}
	return "'" + strings.ReplaceAll(oneOf(g.r, list), "'", "''") + "'::" + of
}

// value is an expression of a type.
func (g *valueWriter) value(of string, depth int) string {
	if inner, ok := strings.CutSuffix(of, "[]"); ok {
		v := g.value(inner, depth-1)
		return fmt.Sprintf(oneOf(g.r, []string{"ARRAY[%s]", "ARRAY[ARRAY[%s]]", "array_fill(%s, '{2,2}', '{-1,5}')",
			"array_fill(%s, '{2}', '{2147483640}')", "ARRAY[NULL, %s]", "array_remove(ARRAY[NULL, %s], NULL)",
			"array_fill(%s, '{0}')"}), v) + "::" + of
	}
	if x := extras[of]; len(x) > 0 && (g.r.IntN(3) == 0 || g.literal(of) == "") {
		v := oneOf(g.r, x)
		for strings.Contains(v, "%s") {
			v = strings.Replace(v, "%s", g.value(of, 0), 1)
		}
		return "(" + v + ")"
	}
	if depth > 0 && len(g.functions[of]) > 0 && g.r.IntN(5) < 3 {
		f := oneOf(g.r, g.functions[of])
		args := make([]string, len(f.args))
		for i, a := range f.args {
			args[i] = g.value(a, depth-1)
		}
		return f.call + "(" + strings.Join(args, ", ") + ")"
	}
	if v := g.literal(of); v != "" {
		return v
	}
	return "NULL::" + of
}

// try runs a text. What fails must fail cleanly.
func (g *valueWriter) try(sql string) bool {
	g.last = append(g.last, sql)
	return g.took(g.s.Try(sql))
}

func (g *valueWriter) took(err error) bool {
	if err == nil {
		g.done++
		return true
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code == "57P03" || pg.Code == "40003" || g.s.IsClosed() {
		g.fatal(err)
	}
	if g.failed++; strings.Contains(pg.Detail, "other member") || strings.Contains(pg.Detail, "another member") ||
		strings.Contains(pg.Message, "at node") || strings.Contains(pg.Message, "other members") {
		g.refused++
	}
	if os.Getenv("TUTTI_TEST_VALUES") != "" {
		g.t.Logf("%s: %.300s: %.200s", pg.Code, g.last[len(g.last)-1], pg.Message)
	}
	return false
}

func (g *valueWriter) fatal(err error) {
	g.t.Helper()
	for _, q := range g.last {
		g.t.Logf("%.1000s", q)
	}
	out, _ := g.c.Tool("status") // to be shown
	g.t.Fatalf("%v\n%s", Explain(err), out)
}

// round makes a table and writes to it in several ways.
func (g *valueWriter) round(n int) {
	g.last = nil
	if n%7 == 6 {
		g.s.Close(context.Background())
		g.reconnect()
	}
	of := oneOf(g.r, g.types)
	if g.r.IntN(4) == 0 {
		of = oneOf(g.r, slices.Sorted(maps.Keys(extras)))
	}
	if g.r.IntN(5) == 0 {
		of += "[]"
	}
	g.try(fmt.Sprintf("SET default_toast_compression = '%s'", oneOf(g.r, []string{"pglz", "lz4"})))
	more := oneOf(g.r, []string{"", "", "", ", c regclass", ", g " + of + " GENERATED ALWAYS AS (v) STORED",
		", CHECK (v IS NULL OR v IS NOT NULL)", ", i int GENERATED ALWAYS AS IDENTITY", ", w val.posint DEFAULT 1"})
	key := oneOf(g.r, []string{"k int PRIMARY KEY", "k int PRIMARY KEY", "k int PRIMARY KEY", "k int",
		"k bigint UNIQUE NOT NULL"})
	g.tables++
	table := fmt.Sprintf("val.t%d", g.tables)
	if !g.try(fmt.Sprintf("CREATE TABLE %s(%s, v %s%s)", table, key, of, more)) {
		return
	}
	defer func() { g.try("DROP TABLE IF EXISTS " + table) }()
	if g.r.IntN(3) == 0 {
		g.try(fmt.Sprintf("ALTER TABLE %s ALTER v SET STORAGE %s", table,
			oneOf(g.r, []string{"PLAIN", "MAIN", "EXTERNAL", "EXTENDED"})))
		g.try(fmt.Sprintf("ALTER TABLE %s ALTER v SET COMPRESSION %s", table, oneOf(g.r, []string{"pglz", "lz4"})))
	}
	if g.r.IntN(2) == 0 {
		g.try(fmt.Sprintf("CREATE INDEX ON %s USING %s (v%s)", table,
			oneOf(g.r, []string{"btree", "hash", "gin", "gist", "spgist", "brin", "bloom"}),
			oneOf(g.r, []string{"", "", "", ") INCLUDE (v"})))
	}
	for i := range 3 {
		g.write(table, of, key, i)
	}
}

// write writes one value in several ways.
func (g *valueWriter) write(table, of, key string, i int) {
	v := g.value(of, 2)
	k := 100*i + 1
	g.try(fmt.Sprintf("INSERT INTO %s(k, v) VALUES (%d, %s)", table, k, v))
	g.try(fmt.Sprintf("INSERT INTO %s(k, v) SELECT %d + n, %s FROM generate_series(1, 40) n", table, k, g.value(of, 1)))
	if g.varlena[of] && g.r.IntN(4) == 0 {
		g.try(fmt.Sprintf("INSERT INTO %s(k, v) SELECT %d + k, t::%s FROM val.squeezed WHERE k %% 7 = 1", table, k+50,
			of))
	}
	g.try(fmt.Sprintf("UPDATE %s SET v = %s WHERE k = %d", table, g.value(of, 2), k))
	if g.r.IntN(4) == 0 {
		g.try(fmt.Sprintf("BEGIN; INSERT INTO %s(k, v) VALUES (%d, %s); ALTER TABLE %s ADD COLUMN IF NOT EXISTS more "+
			"%s DEFAULT %s; UPDATE %s SET v = %s WHERE k = %d; COMMIT", table, k+90, g.value(of, 1), table, of,
			g.value(of, 0), table, g.value(of, 1), k+90))
		if g.s.PgConn().TxStatus() != 'I' {
			g.s.Do("ROLLBACK")
		}
	}
	ctx := context.Background()
	var text *string
	if err := g.s.QueryRow(ctx, "SELECT ("+v+")::text").Scan(&text); err == nil && text != nil && len(*text) < 1<<20 {
		update := fmt.Sprintf("UPDATE %s SET v = $1 WHERE k = $2", table)
		for range 5 { // it becomes blind, where it can
			g.last = append(g.last, update+": "+*text)
			_, err := g.s.PgConn().ExecParams(ctx, update, [][]byte{[]byte(*text), []byte(strconv.Itoa(k))}, nil, nil,
				nil).Close()
			g.took(err)
		}
		name := fmt.Sprintf("p%d", g.done+g.failed)
		if _, err := g.s.PgConn().Prepare(ctx, name, update, nil); err == nil {
			for range 5 {
				g.last = append(g.last, "prepared "+update+": "+*text)
				g.took(g.s.PgConn().ExecPrepared(ctx, name, [][]byte{[]byte(*text), []byte(strconv.Itoa(k))}, nil,
					nil).Read().Err)
			}
		}
		line := strings.NewReplacer("\\", "\\\\", "\t", "\\t", "\n", "\\n", "\r", "\\r").Replace(*text)
		g.last = append(g.last, "COPY "+table+": "+line)
		_, err := g.s.PgConn().CopyFrom(ctx, strings.NewReader(fmt.Sprintf("%d\t%s\n%d\t%s\n", k+95, line, k+96, line)),
			"COPY "+table+"(k, v) FROM STDIN")
		g.took(err)
	}
	if g.r.IntN(3) == 0 {
		g.try(fmt.Sprintf("DELETE FROM %s WHERE k %% 3 = 0", table))
	}
}

// settled checks that all members have all, and the same.
func (g *valueWriter) settled() {
	g.t.Helper()
	want := g.c.Size()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(pollInterval) {
		out, err := g.c.Tool("status")
		if err == nil && strings.Count(out, "synced") == want && !strings.Contains(out, "halted") {
			break
		}
		if time.Now().After(deadline) || strings.Contains(out, "halted") {
			g.fatal(fmt.Errorf("%w\n%s", err, out))
		}
	}
	if out, err := g.c.Tool("check"); err != nil {
		g.fatal(fmt.Errorf("%w\n%s", err, out))
	}
}
