package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// database makes a database with these statements.
func database(t *testing.T, statements ...string) (conn *pgx.Conn, url string) {
	s := pgtest.Shared(t)
	conn = s.Connect(t, s.NewDatabase(t))
	for _, sql := range statements {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return conn, conn.Config().ConnString()
}

const keyed = "CREATE TABLE keyed(a int, b text COLLATE \"C\", c text, PRIMARY KEY (a, b)); " +
	"INSERT INTO keyed SELECT i / 10, 'it''s ' || i, repeat('x', i) FROM generate_series(1, 257) i"

// TestPartsAreTheTable: the parts of a table by its key hold each row once, and add up to what the whole adds up to.
func TestPartsAreTheTable(t *testing.T) {
	_, url := database(t, keyed)
	ctx := context.Background()
	conn, err := link.Connect(ctx, url, "tutti test", Settings)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	list := fmt.Sprintf(walks, auditRowsMin, auditRowsMax, auditBytes, auditFetch, checkedOIDs)
	r, err := conn.Exec(ctx, list).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var tables []walk
	if err := json.Unmarshal(r[0].Rows[0][0], &tables); err != nil || len(tables) != 1 || len(tables[0].Key) != 2 {
		t.Fatalf("the tables are %+v (%v)", tables, err)
	}
	a := New(Replica{ConnString: url})
	defer a.Close()
	if err := a.begin(ctx, url); err != nil {
		t.Fatal(err)
	}
	rows, sum, parts := int64(0), new(big.Int), 0
	for p := (part{Table: tables[0].Table, Key: tables[0].Key}); ; p.After = p.UpTo {
		p.UpTo, err = auditBound(ctx, conn, &p, 100)
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.read(ctx, &p)
		n, ok := new(big.Int).SetString(s.Sum, 10)
		if err != nil || !ok {
			t.Fatalf("%+v: %v", s, err)
		}
		rows, sum, parts = rows+s.Rows, sum.Add(sum, n), parts+1
		if p.UpTo == nil {
			break
		}
	}
	a.end(ctx)
	whole, err := Sums(ctx, conn)
	if err != nil || len(whole) != 1 {
		t.Fatalf("%+v, %v", whole, err)
	}
	if parts != 3 || rows != 257 || whole[0].Rows != rows || whole[0].Sum != sum.String() {
		t.Errorf("%d parts of %d rows add up to %v, the whole is %+v", parts, rows, sum, whole[0])
	}
}

// TestSnapshotOfAPart: what is committed behind the snapshot does not count (AU1), and the next one has it.
func TestSnapshotOfAPart(t *testing.T) {
	conn, url := database(t, "CREATE TABLE heap(a int); INSERT INTO heap SELECT generate_series(1, 30)")
	ctx := context.Background()
	a := New(Replica{ConnString: url})
	defer a.Close()
	read := func() int64 {
		t.Helper()
		s, err := a.read(ctx, &part{Table: "public.heap"})
		if err != nil {
			t.Fatal(err)
		}
		return s.Rows
	}
	if err := a.begin(ctx, url); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "DELETE FROM heap WHERE a > 20"); err != nil {
		t.Fatal(err)
	}
	if n := read(); n != 30 {
		t.Errorf("%d rows are read, 30 were there", n)
	}
	a.end(ctx)
	if err := a.begin(ctx, url); err != nil {
		t.Fatal(err)
	}
	if n := read(); n != 20 {
		t.Errorf("%d rows are read in the next snapshot, 20 are there", n)
	}
	a.end(ctx)
}

// TestSumsTellCopiesApart: order does not matter, a row, a value and a large object do.
func TestSumsTellCopiesApart(t *testing.T) {
	conn, url := database(t, "CREATE TABLE copied(a int, b text); INSERT INTO copied VALUES (1, 'x'), (2, NULL)")
	ctx := context.Background()
	c, err := link.Connect(ctx, url, "tutti test", Settings)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	sums := func() string {
		t.Helper()
		s, err := Sums(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(s)
	}
	first := sums()
	for _, x := range []struct {
		sql  string
		same bool
	}{
		{"DELETE FROM copied WHERE a = 1; INSERT INTO copied VALUES (1, 'x')", true},
		{"UPDATE copied SET b = '' WHERE a = 2", false},
		{"UPDATE copied SET b = NULL WHERE a = 2", true},
		{"INSERT INTO copied VALUES (2, NULL)", false},
		{"DELETE FROM copied WHERE ctid IN (SELECT max(ctid) FROM copied WHERE a = 2)", true},
		{"SELECT lo_from_bytea(12345, 'x')", false},
	} {
		if _, err := conn.Exec(ctx, x.sql); err != nil {
			t.Fatal(err)
		}
		if got := sums(); (got == first) != x.same {
			t.Errorf("after %s: %s, before %s", x.sql, got, first)
		}
	}
}
