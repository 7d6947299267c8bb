package captest

import (
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/writeset"
)

// The client's settings must not reach the images.
var hostile = []string{
	"SET LOCAL datestyle = 'German'", "SET LOCAL intervalstyle = 'sql_standard'",
	"SET LOCAL timezone = 'Asia/Kathmandu'",
	"SET LOCAL extra_float_digits = -15", "SET LOCAL bytea_output = 'escape'", "SET LOCAL client_encoding = 'LATIN1'",
}

func TestTypes(t *testing.T) {
	p := newPair(t,
		"CREATE EXTENSION citext", "CREATE EXTENSION hstore", "CREATE TYPE mood AS ENUM ('sad', 'ok')",
		"CREATE DOMAIN posint AS int CHECK (VALUE > 0)",
		"CREATE DOMAIN strictd AS text NOT NULL", "CREATE TYPE comp AS (a int, b text, m mood)",
		"CREATE TYPE rng AS RANGE (subtype = float8)",
		`CREATE TABLE ty(id posint PRIMARY KEY, m mood, ma mood[], c comp, ca comp[], d posint[], r int4range, mr nummultirange, ur rng, j json, jb jsonb, f float8, f4 float4, n numeric,
			b bytea, ts timestamptz, d8 date, iv interval, tx text, ci citext, u uuid, i inet, p point, tsv tsvector, h hstore, x xml, bi bit(3), ch char(5), o oid, mo money, a2 int[][])`,
		"CREATE TABLE reg(id int PRIMARY KEY, c regclass, t regtype, ts timestamptz, f float8, b bytea, iv interval, "+
			"tx text)",
		"CREATE TABLE strict(id int PRIMARY KEY, s strictd, gen int GENERATED ALWAYS AS (id * 2) STORED, ident int "+
			"GENERATED ALWAYS AS IDENTITY, dropme int, z text)",
		"ALTER TABLE strict DROP COLUMN dropme",
		`CREATE SCHEMA "Odd ""Schema"`, `CREATE TABLE "Odd ""Schema"."T'a;ble$tutti$"("Id one" int, "select" text, `+
			`"a""b\c" text, PRIMARY KEY ("select", "Id one"))`,
		"CREATE TABLE onlykey(id int PRIMARY KEY)",
		"CREATE TABLE gen(a int, id int GENERATED ALWAYS AS (a) STORED PRIMARY KEY)")
	if p.tables.Capture("public", "ty").Binary() != true || p.tables.Capture("public", "reg").Binary() {
		t.Fatal("formats are wrong")
	}
	values :=
		`('ok', '{sad,NULL}', '(1,"x ""y"" \\z",sad)', '{"(1,a,ok)",NULL}', '{1,2}', '[1,5)', '{[1,2),[5,)}', '[1.5,2.5]', '{"b": 1,  "a": [1]}', '{"b": 1, "a": null}',
		'NaN', '-0', 'Infinity', '\x00ff', '2024-02-29 12:00:00.123456+00', 'infinity', '1 year -3 days 04:05:06.789', E'tab\t"q" ,()\\ äöü', 'CiTe', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
		'10.0.0.0/8', '(1,2)', 'a:1 b:2', 'k=>v', '<a/>', '101', 'ab', 4000000000, '12.34', '{{1,2},{3,4}}')`
	p.tx("INSERT INTO ty SELECT 1, v.* FROM (VALUES "+cast(values)+") v", "INSERT INTO ty(id) VALUES (2)")
	p.tx("INSERT INTO ty SELECT 3, v.* FROM (VALUES " + cast(values) + ") v")
	p.tx("INSERT INTO reg VALUES (1, 'ty', 'comp', '2024-02-29 12:00:00.123456+00', 0.1::float8 + 0.2, '\\x00ff', '1 " +
		"year -3 days 04:05:06.789', 'q\"(,)\\ ü'), (2, NULL, NULL, NULL, NULL, NULL, NULL, '')")
	p.equal()
	settings := append([]string{}, hostile...)
	p.tx(append(settings, "UPDATE ty SET f = f, tx = tx || U&'\\00fc', j = '{\"\\u00e4\": 1}' WHERE id = 1",
		"UPDATE reg SET tx = tx || U&'\\00fc', f = f / 3 WHERE id = 1", "DELETE FROM ty WHERE id = 2")...)
	p.equal()
	p.tx(append(settings, "UPDATE ty SET tx = 'a' WHERE id = 3", "UPDATE ty SET tx = U&'\\00e4' WHERE id = 3",
		"UPDATE reg SET tx = U&'\\00e4'", "UPDATE reg SET tx = tx || U&'\\00e4'")...)
	p.equal()
	p.tx("INSERT INTO strict(id, s) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
		`INSERT INTO "Odd ""Schema"."T'a;ble$tutti$" VALUES (1, 'a', 'b'), (2, 'c', 'd')`,
		"INSERT INTO onlykey VALUES (1), (2)", "INSERT INTO gen VALUES (1), (2)")
	p.tx("UPDATE strict SET s = 'z' WHERE id = 1", "DELETE FROM strict WHERE id = 2",
		`UPDATE "Odd ""Schema"."T'a;ble$tutti$" SET "a""b\c" = 'x'`,
		`DELETE FROM "Odd ""Schema"."T'a;ble$tutti$" WHERE "Id one" = 1`, "UPDATE onlykey SET id = id",
		"DELETE FROM onlykey WHERE id = 1", "UPDATE gen SET a = 5 WHERE a = 1",
		"UPDATE strict SET ident = DEFAULT WHERE id = 3")
	p.equal()
	p.tx("UPDATE strict SET z = repeat('tutti', 400000) WHERE id = 1",
		"INSERT INTO strict(id, s, z) SELECT 9, 'x', string_agg(md5(g::text), '') FROM generate_series(1, 40000) g")
	p.tx("UPDATE strict SET s = 'short' WHERE id = 9")
	p.equal()
}

// cast gives the values the types of table ty.
func cast(values string) string {
	types := strings.Fields("mood mood[] comp comp[] posint[] int4range nummultirange rng json jsonb float8 float4 " +
		"numeric bytea timestamptz date interval text citext uuid inet point tsvector hstore xml bit(3) char(5) oid " +
		"money int[]")
	var out strings.Builder
	n, quoted := 0, false
	for i := range len(values) {
		c := values[i]
		if c == '\'' {
			quoted = !quoted
		}
		if !quoted && (c == ',' || c == ')') {
			out.WriteString("::" + types[n])
			n++
		}
		out.WriteByte(c)
	}
	return out.String()
}

func TestPartitionsAndInheritance(t *testing.T) {
	p := newPair(t, "CREATE TABLE pt(id int, k int, x text, PRIMARY KEY (id, k)) PARTITION BY RANGE (k)",
		"CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (10)",
		"CREATE TABLE pt2(x text, gone int, k int NOT NULL, id int NOT NULL)", "ALTER TABLE pt2 DROP COLUMN gone",
		"ALTER TABLE pt ATTACH PARTITION pt2 FOR VALUES FROM (10) TO (20)",
		"CREATE TABLE sub PARTITION OF pt FOR VALUES FROM (20) TO (40) PARTITION BY LIST (k)",
		"CREATE TABLE sub1 PARTITION OF sub DEFAULT",
		"CREATE TABLE top(id int PRIMARY KEY, a int)", "CREATE TABLE bottom(b int, PRIMARY KEY (id)) INHERITS (top)")
	p.tx("INSERT INTO pt SELECT g, g, 'x' FROM generate_series(0, 39) g")
	p.equal()
	p.tx("UPDATE pt SET k = 15, x = 'moved' WHERE id = 3", "UPDATE pt SET x = 'there' WHERE id = 3")
	p.tx("UPDATE pt SET k = 35 WHERE id = 4", "UPDATE pt SET k = 4 WHERE id = 4",
		"DELETE FROM pt WHERE k BETWEEN 18 AND 22")
	p.equal()
	p.tx("TRUNCATE pt", "INSERT INTO pt VALUES (1, 1, 'again')")
	p.equal()
	p.tx("INSERT INTO top VALUES (1, 1)", "INSERT INTO bottom VALUES (1, 2, 3), (2, 2, 3)")
	p.tx("UPDATE top SET a = a + 1")
	p.tx("UPDATE ONLY top SET a = 100", "DELETE FROM top WHERE id = 2")
	p.equal()
}

func TestKeyText(t *testing.T) {
	p := newPair(t, "CREATE TYPE mood AS ENUM ('sad', 'ok')",
		"CREATE TABLE k(a int, b text, c numeric, d timestamptz, e uuid, x int, m mood, PRIMARY KEY (a, b, c, d, e))",
		"CREATE TABLE r(a text, c regclass, n int, PRIMARY KEY (n, a))")
	w := p.tx("INSERT INTO k VALUES (5, 'x y', 1.50, '2024-01-02 03:04:05+00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')",
		`INSERT INTO r VALUES ('a "b", (c)\', 'k', 7)`)
	for i, want := range [][2]string{
		{"a, b, c, d, e", "5, x y, 1.50, 2024-01-02 03:04:05Z, a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		{"n, a", `7, a "b", (c)\`},
	} {
		c, v, ok := p.tables.KeyText(w.Tables[w.Rows[i].Table], w.Rows[i].Image)
		if !ok || c != want[0] || v != want[1] {
			t.Errorf("key is (%s)=(%s), want (%s)=(%s)", c, v, want[0], want[1])
		}
	}
	if _, _, ok := capture.KeyText(p.tables.Capture("public", "k"), writeset.FormatBinary, []byte{1}); ok {
		t.Error("a broken image has a key")
	}
}

func TestSchemaChanges(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, a int)")
	p.tx("INSERT INTO t VALUES (1, 1)")
	for _, c := range [][2]string{
		{"ALTER TABLE t ADD b text DEFAULT 'x'", "INSERT INTO t VALUES (2, 2, 'y')"},
		{"ALTER TABLE t DROP COLUMN a", "UPDATE t SET b = b || 'z'"},
		{"ALTER TABLE t RENAME TO t2", "INSERT INTO t2 VALUES (3, 'c')"},
		{"ALTER TABLE t2 ALTER id TYPE bigint", "UPDATE t2 SET b = 'w' WHERE id = 3"},
		{"ALTER TABLE t2 RENAME COLUMN b TO c", "DELETE FROM t2 WHERE id = 1"},
		{"CREATE UNIQUE INDEX ON t2(c)", "INSERT INTO t2 VALUES (4, 'unique')"},
		{"ALTER TABLE t2 DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (c)", "UPDATE t2 SET id = 44 WHERE c = 'unique'"},
		{"CREATE SCHEMA s; ALTER TABLE t2 SET SCHEMA s", "UPDATE s.t2 SET id = 45 WHERE c = 'unique'"},
		{"CREATE TABLE copied (LIKE s.t2 INCLUDING ALL)", "INSERT INTO copied VALUES (1, 'u')"},
		{"ALTER TABLE s.t2 DISABLE TRIGGER ALL", "UPDATE s.t2 SET id = 46 WHERE c = 'unique'"},
		{"DROP TABLE s.t2; CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t VALUES (1)"},
	} {
		p.ddl(c[0])
		if w := p.tx(c[1]); w.Empty() {
			t.Fatalf("after %s nothing was captured", c[0])
		}
		p.equal()
	}
	var n, tables int
	p.scan(p.a, "SELECT count(*), (SELECT count(*) FROM tutti.captured_tables) FROM pg_proc WHERE pronamespace = "+
		"'tutti'::regnamespace AND proname ~ '^(capture|final)_[0-9a-f]{16}(_[0-9a-f]{16}){0,2}$'", &n, &tables)
	if n != 2*tables || tables != 2 {
		t.Fatalf("%d functions are left for %d tables", n, tables)
	}
	p.install(p.a) // again: idempotent
}

// TestManyRights: a long list of who may do what to a database is read soon, and the same right is told once.
func TestManyRights(t *testing.T) {
	p := newPair(t)
	p.exec(p.a, "BEGIN; SET LOCAL backtrace_functions = 'tutti_own'; SET LOCAL statement_timeout = '10s'; "+
		"UPDATE pg_database SET datacl = array_fill(makeaclitem(10, 10, 'CONNECT', false), ARRAY[300000]) "+
		"WHERE datname = current_database()")
	var rights int
	p.scan(p.a, "SELECT jsonb_array_length(tutti.rights_on(d)) FROM pg_database d WHERE datname = current_database()",
		&rights)
	if rights != 1 {
		t.Errorf("%d rights", rights)
	}
	p.exec(p.a, "ROLLBACK")
}
