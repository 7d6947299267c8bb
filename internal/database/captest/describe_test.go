package captest

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/tuttidb/tutti/internal/capture"
)

// TestDescribeSome: a table is described alike whether it is looked for alone, through indexes, or with all
// others.
func TestDescribeSome(t *testing.T) {
	p := newPair(t, "CREATE TABLE parent(id int PRIMARY KEY, u text UNIQUE)",
		"CREATE TABLE child(id int PRIMARY KEY, p int REFERENCES parent, q text REFERENCES parent(u) DEFERRABLE)",
		"CREATE DOMAIN positive AS int CHECK (VALUE > 0)", "CREATE TYPE mood AS ENUM ('a', 'b')",
		"CREATE FUNCTION own(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1'",
		"CREATE TABLE domains(id positive PRIMARY KEY, m mood, ms mood[])",
		"CREATE TABLE checked(id int PRIMARY KEY CHECK (own(id) > 0))",
		"CREATE TABLE defaulted(id int PRIMARY KEY, d int DEFAULT own(1))",
		"CREATE TABLE expressed(id int, t text)", "CREATE UNIQUE INDEX ON expressed (own(id), lower(t)) WHERE id > 5",
		"CREATE TABLE keyless(a int, b regclass)",
		"CREATE TABLE parted(id int PRIMARY KEY, x timestamptz) PARTITION BY RANGE (id)",
		"CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
		"CREATE TABLE based(id int)", "CREATE TABLE heir(x int) INHERITS (based)",
		"CREATE TABLE excluded(r int4range, EXCLUDE USING gist (r WITH &&))",
		"CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		"CREATE TABLE triggered(id int PRIMARY KEY)",
		"CREATE TRIGGER mine AFTER INSERT ON triggered EXECUTE FUNCTION noted()",
		"CREATE TABLE ruled(id int PRIMARY KEY)", "CREATE RULE r AS ON INSERT TO ruled DO ALSO NOTIFY x")
	describe := func(query string, args ...any) capture.Catalog {
		t.Helper()
		var text string
		if err := p.a.QueryRow(ctx, query, args...).Scan(&text); err != nil {
			t.Fatal(explain(err))
		}
		c, err := capture.DecodeDescribe([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	all := describe(describeAll)
	if all.Partial || len(all.Tables) != 13 {
		t.Fatalf("%d tables", len(all.Tables))
	}
	many := describe("SELECT tutti.describe_many(ARRAY(SELECT oid FROM pg_class), true, true)")
	if !reflect.DeepEqual(many, all) {
		t.Errorf("as many: %+v\nas few: %+v", many, all)
	}
	// Each statement of a function that is not STABLE sees what others have committed meanwhile.
	var stable int
	p.scan(p.a, "SELECT count(*) FROM pg_proc WHERE pronamespace = 'tutti'::regnamespace AND provolatile = 's' AND "+
		"proname IN ('describe_all', 'describe_some', 'describe_many')", &stable)
	if stable != 3 {
		t.Errorf("%d of 3 functions see one moment", stable)
	}
	special := 0
	for _, want := range all.Tables {
		one := describe(describeSome, []string{want.Schema}, []string{want.Name})
		if !one.Partial || len(one.Tables) != 1 || !reflect.DeepEqual(one.Tables[0], want) {
			a, _ := json.MarshalIndent(want, "", " ")
			b, _ := json.MarshalIndent(one, "", " ")
			t.Errorf("with all tables: %s\nalone: %s", a, b)
		}
		if !want.Plain {
			special++
		}
	}
	if special != 10 {
		t.Errorf("%d tables are not plain", special)
	}
	if c := describe(describeSome, []string{"public", "public"},
		[]string{"child", "gone"}); len(c.Tables) != 1 {
		t.Errorf("%d tables", len(c.Tables))
	}
}

// TestPlainTypes: what the description says of frequent types without asking is what it would be told.
func TestPlainTypes(t *testing.T) {
	p := newPair(t)
	var wrong, n int
	p.scan(p.a, "SELECT count(*) FILTER (WHERE tutti.key_form(oid, typcollation) <> 'own'), count(*) FROM pg_type "+
		"WHERE oid IN ("+capture.PlainTypes+")", &wrong, &n)
	if wrong != 0 || n != 12 {
		t.Errorf("%d of %d types are not what they are taken for", wrong, n)
	}
}

const (
	describeAll  = "SELECT tutti.describe_all()"
	describeSome = capture.DescribeSome + " FROM " + capture.SomeTables
)
