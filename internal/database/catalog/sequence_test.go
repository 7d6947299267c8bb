package catalog

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/tuttidb/tutti/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var ctx = context.Background()

// No two members' first values can be equal, whatever is wanted, and each is the nearest one.
func TestClassesAreDisjoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.OneOf(rapid.Int64Range(1, 50), rapid.Int64Range(-50, -1)).Draw(t, "base")
		wanted := rapid.Int64Range(-2000, 2000).Draw(t, "wanted")
		step := rapid.IntRange(1, 20).Draw(t, "step")
		seen := make(map[int64]bool)
		for class := range step {
			v, ok := firstOf(wanted, base, int64(class), step)
			if !ok || classOf(v, base, step) != int64(class) || seen[v] {
				t.Fatalf("class %d of %d: %d", class, step, v)
			}
			if d := v - wanted; d%base != 0 || d/base < 0 || d/base >= int64(step) {
				t.Fatalf("class %d of %d: %d is not the first after %d by %d", class, step, v, wanted, base)
			}
			if next := v + base*int64(step); classOf(next, base, step) != int64(class) {
				t.Fatalf("%d leaves the class of %d", next, v)
			}
			seen[v] = true
		}
	})
}

type members struct {
	t     *testing.T
	conns []*pgx.Conn
}

func newMembers(t *testing.T, n int) *members {
	m := &members{t: t}
	s := pgtest.Shared(t)
	for range n {
		c := s.Connect(t, s.NewDatabase(t))
		m.conns = append(m.conns, c)
		m.in(c, func(tx pgx.Tx) error { return Install(ctx, tx) })
	}
	return m
}

func (m *members) in(c *pgx.Conn, f func(pgx.Tx) error) {
	m.t.Helper()
	tx, err := c.Begin(ctx)
	if err == nil {
		if err = f(tx); err == nil {
			err = tx.Commit(ctx)
		}
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// ddl runs the same statements everywhere and aligns, member i being number i+1.
func (m *members) ddl(sql string) {
	m.t.Helper()
	for i, c := range m.conns {
		m.in(c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL tutti.ddl = on; "+sql); err != nil {
				return err
			}
			if err := AlignSequences(ctx, tx, i+1, DefaultStep); err != nil {
				return err
			}
			return AlignSequences(ctx, tx, i+1, DefaultStep) // changes nothing
		})
	}
}

func (m *members) next(i int, seq string) (v int64) {
	m.t.Helper()
	if err := m.conns[i].QueryRow(ctx, "SELECT nextval($1::text::regclass)", seq).Scan(&v); err != nil {
		m.t.Fatal(err)
	}
	return v
}

func TestAlignSequences(t *testing.T) {
	m := newMembers(t, 3)
	m.ddl(`CREATE SEQUENCE up; CREATE SEQUENCE down INCREMENT -1; CREATE SEQUENCE tens INCREMENT 10 START 7; CREATE SEQUENCE "q u"; CREATE TABLE s(id serial, i int GENERATED ALWAYS AS IDENTITY);
		CREATE SEQUENCE rest START 100; CREATE SEQUENCE small AS smallint MAXVALUE 40`)
	seen := make(map[string]int)
	take := func(n int) {
		t.Helper()
		for range n {
			for i := range m.conns {
				for _, s := range []string{"up", "down", "tens", `"q u"`, "s_id_seq", "s_i_seq", "rest"} {
					k := fmt.Sprint(s, m.next(i, s))
					if seen[k]++; seen[k] > 1 {
						t.Fatalf("%s was given twice", k)
					}
				}
			}
		}
	}
	take(20)
	m.ddl("ALTER SEQUENCE up INCREMENT 3")
	m.ddl("ALTER SEQUENCE down RESTART WITH -5000; SELECT setval('rest', 90000)")
	take(20)
	for i := range m.conns {
		if v := m.next(i, "down"); v > -5000 {
			t.Fatalf("RESTART was forgotten: %d", v)
		}
		if v := m.next(i, "rest"); v <= 90000 || v > 90000+16*22 {
			t.Fatalf("setval was forgotten: %d", v)
		}
	}
	for range 2 {
		m.next(0, "small")
	}
	if _, err := m.conns[0].Exec(ctx, "SELECT nextval('small'), nextval('small')"); err == nil {
		t.Fatal("a sequence went beyond its MAXVALUE")
	}
	before := m.next(0, "up")
	m.in(m.conns[0], func(tx pgx.Tx) error { return JumpSequences(ctx, tx, 1000) })
	if v := m.next(0, "up"); v != before+3*16*1001 {
		t.Fatalf("jumped from %d to %d", before, v)
	}
	if _, err := m.conns[0].Exec(ctx, "SELECT nextval('small')"); err == nil {
		t.Fatal("a sequence jumped over its MAXVALUE and went on")
	}
	take(5)
}

// A clone's sequences are its donor's until it aligns them itself.
func TestAlignClone(t *testing.T) {
	m := newMembers(t, 1)
	m.ddl("CREATE SEQUENCE q")
	a := m.next(0, "q")
	m.in(m.conns[0], func(tx pgx.Tx) error { return AlignSequences(ctx, tx, 5, DefaultStep) })
	b := m.next(0, "q")
	m.in(m.conns[0], func(tx pgx.Tx) error { return AlignSequences(ctx, tx, 5, 32) })
	c := m.next(0, "q")
	if classOf(a, 1, 16) != 1 || classOf(b, 1, 16) != 5 || classOf(c, 1, 32) != 5 || a >= b || b >= c {
		t.Fatalf("values are %d, %d, %d", a, b, c)
	}
}

func TestCycleIsRefused(t *testing.T) {
	m := newMembers(t, 1)
	tx, err := m.conns[0].Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "SET LOCAL tutti.ddl = on; CREATE SEQUENCE c CYCLE"); err != nil {
		t.Fatal(err)
	}
	var cycle *CycleError
	if err := AlignSequences(ctx, tx, 1, DefaultStep); !errors.As(err, &cycle) || cycle.Hint() == "" {
		t.Fatalf("error is %v", err)
	}
}
