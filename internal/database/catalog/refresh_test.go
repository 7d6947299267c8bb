package catalog

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestWithin: our own statements run with our own settings, whatever those of the session are,
// and leave them as they were.
func TestWithin(t *testing.T) {
	s := pgtest.Shared(t)
	conn := s.Connect(t, s.NewDatabase(t))
	for name, value := range apply.SessionSettings() {
		if _, err := conn.Exec(ctx, "SELECT set_config($1, $2, false)", name, value); err != nil {
			t.Fatal(err)
		}
	}
	const all = `SELECT array_to_string(array_agg(coalesce(current_setting(name, true), '') ORDER BY n), ' ')
		FROM unnest($1::text[]) WITH ORDINALITY AS s(name, n)`
	var names []string
	want := ""
	for _, o := range settings {
		names = append(names, o[0])
		want += o[1] + " "
	}
	look := func() (v string) {
		if err := conn.QueryRow(ctx, all, names).Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before, inside := look(), ""
	if err := within(ctx, tx, func() error { inside = look(); return nil }); err != nil {
		t.Fatal(err)
	}
	if after := look(); inside+" " != want || after != before || before == inside {
		t.Errorf("before %q, inside %q, afterwards %q", before, inside, after)
	}
	if err := within(ctx, tx, func() error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestFollowKnowsItsTriggers: after a definition a table is as ready for direct statements as after a
// start, and the tables it has not touched are as they were.
func TestFollowKnowsItsTriggers(t *testing.T) {
	m := newMembers(t, 1)
	var known *Tables
	for _, sql := range []string{"CREATE TABLE a (id int PRIMARY KEY, v int)", "CREATE TABLE b (v int)", "ALTER TABLE a ADD w int"} {
		m.in(m.conns[0], func(tx pgx.Tx) (err error) {
			if _, err = tx.Exec(ctx, "SET LOCAL tutti.ddl = 'on'; SET LOCAL tutti.tx = 'on'; "+sql); err == nil {
				known, err = Follow(ctx, tx, known)
			}
			return err
		})
		for name, op := range map[string]writeset.Op{"a": writeset.OpUpdate, "b": writeset.OpInsert} {
			d := known.Capture("public", name)
			if d == nil {
				continue
			}
			if _, ok := d.Direct(op, "x", []string{"v"}); !ok {
				t.Errorf("after %s statements on %s cannot be direct", sql, name)
			}
		}
	}
	if known.Capture("public", "a") == nil || known.Capture("public", "b") == nil {
		t.Error("a table was forgotten")
	}
}

// TestInstallOverAnOlderBuild: what an older build has left under names that are not used any more is gone, so that nothing
// is noted twice.
func TestInstallOverAnOlderBuild(t *testing.T) {
	m := newMembers(t, 1)
	c := m.conns[0]
	of := func() (n int) {
		if err := c.QueryRow(ctx, "SELECT count(*) FROM pg_event_trigger").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	now := of()
	for name, event := range map[string]string{"tutti_ddl": "ddl_command_end", "tutti_drop": "sql_drop", "tutti_begin": "ddl_command_start", "tutti_rewrite": "table_rewrite"} {
		if _, err := c.Exec(ctx, "CREATE EVENT TRIGGER "+name+" ON "+event+" EXECUTE FUNCTION tutti.ddl()"); err != nil {
			t.Fatal(err)
		}
	}
	m.in(c, func(tx pgx.Tx) error { return Install(ctx, tx) })
	if got := of(); got != now {
		t.Errorf("%d event triggers, want %d", got, now)
	}
}
