package catalog

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestSetval: the position is exact at the owner of the value, and the first own one elsewhere; what PostgreSQL refuses
// is refused alike.
func TestSetval(t *testing.T) {
	m := newCluster(t, 2)
	m.ddl("CREATE SEQUENCE q")
	for _, x := range []struct {
		sql  string
		a, b int64
	}{
		{"SELECT setval('q', 500)", 501, chunk + 1},
		{"SELECT setval('q', 500, false)", 500, chunk + 1},
		{"SELECT setval('q', 16777300)", 16*chunk + 1, chunk + 85},
		{"ALTER SEQUENCE q RESTART", 1, chunk + 1},
		{"SELECT setval('q', 5000000000000)", 5000000000000 - 5000000000000%(16*chunk) + 16*chunk + 1,
			5000000000000 - 5000000000000%(16*chunk) + 16*chunk + chunk + 1},
		{"DO $$ BEGIN PERFORM setval('q', 7); END $$", 8, chunk + 1},
	} {
		m.ddl(x.sql)
		if a, b := m.next(0, "q"), m.next(1, "q"); a != x.a || b != x.b {
			t.Errorf("%s: %d and %d, want %d and %d", x.sql, a, b, x.a, x.b)
		}
	}
	// What goes back to an earlier chunk and is taken back would run from there through the chunks of others.
	m.ddl("SELECT setval('q', 5000000000000)")
	c := m.conns[1]
	far := m.next(1, "q")
	if _, err := c.Exec(ctx, "BEGIN; SELECT setval('q', 7); ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if v := m.next(1, "q"); v != far+1 {
		t.Errorf("after %d and a setval that was taken back: %d", far, v)
	}
	m.ddl("SELECT setval('q', 7)")
	m.next(1, "q")
	role := pgx.Identifier{"r_" + c.Config().Database}.Sanitize()
	if _, err := c.Exec(ctx, "SET backtrace_functions = 'tutti_on'; CREATE ROLE "+role+"; SET ROLE "+role); err != nil {
		t.Fatal(err)
	}
	for sql, code := range map[string]string{"SELECT setval('q', 1)": "42501",
		"SELECT tutti.place('q', 1, true, 'postgres')": "00000", "SELECT tutti.advance_sequence('q', 1)": "42501",
		"SELECT tutti.open_sequences('ALTER SEQUENCE', 'q restart', NULL, true, 'x')": "39P03",
		"SELECT tutti.settle_sequences('', 1)":                                        "39P03"} {
		_, err := c.Exec(ctx, sql)
		var pg *pgconn.PgError
		if errors.As(err, &pg); (pg == nil) != (code == "00000") || pg != nil && pg.Code != code {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if _, err := c.Exec(ctx, "RESET ROLE; DROP ROLE "+role); err != nil {
		t.Fatal(err)
	}
	if v := m.next(1, "q"); v != chunk+2 {
		t.Errorf("a role without rights moved the sequence to %d", v)
	}
	if _, err := c.Exec(ctx, "SELECT setval('q', 0)"); err == nil ||
		!strings.Contains(err.Error(), `setval: value 0 is out of bounds for sequence "q" (1..9223372036854775807)`) {
		t.Errorf("%v", err)
	}
}

// TestStartElsewhere: a clone has its donor's sequences, and leaves out what its lost databases may have given.
// After a crash all go on further ahead.
func TestStartElsewhere(t *testing.T) {
	m := newCluster(t, 3)
	m.ddl("CREATE SEQUENCE q; CREATE SEQUENCE small MAXVALUE 1000; CREATE SEQUENCE short AS int")
	a := m.next(0, "q")
	m.start(m.conns[0], 1, 1000)
	b := m.next(0, "q")
	m.copies = 1
	m.start(m.conns[0], 5, 0)
	c := m.next(0, "q")
	m.copies = 2
	m.start(m.conns[1], 5, 0)
	if v := m.next(1, "q"); v != 36*chunk+1 {
		t.Errorf("the second copy of member 5 gives %d", v)
	}
	if v := m.next(1, "short"); v != 36*chunk+1 {
		t.Errorf("the second copy of member 5 gives %d", v)
	}
	m.copies = 8
	m.start(m.conns[2], 5, 0)
	if v := m.next(2, "q"); v != 132*chunk+1 {
		t.Errorf("the eighth copy of member 5 gives %d", v)
	}
	if v, err := m.try(2, "short"); err == nil {
		t.Errorf("the eighth copy of member 5 gives %d, which one before may have given", v)
	}
	if a != 1 || b != 1002 || c != 20*chunk+1 {
		t.Fatalf("values are %d, %d, %d", a, b, c)
	}
	if v, err := m.try(0, "small"); err == nil {
		t.Fatalf("a sequence jumped over its MAXVALUE and gave %d", v)
	}
}
