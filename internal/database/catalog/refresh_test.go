package catalog

import (
	"errors"
	"testing"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/pgtest"
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
