package membership

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestLost: a member that goes on alone has the others removed as soon as it can, until nobody is on the
// list but itself; until then they are on none of its lists.
func TestLost(t *testing.T) {
	server := pgtest.Shared(t)
	name := server.NewDatabase(t)
	server.Exec(t, name, "CREATE SCHEMA tutti", memberTable)
	conn := server.Connect(t, name)
	c := &config.Config{Member: 1, SequenceStep: 16, DataDir: t.TempDir(),
		Members: append(first[:2:2], config.Member{Member: 3, Name: "c", Address: "c:1"})}
	if err := c.MarkForced(); err != nil {
		t.Fatal(err)
	}
	note := func(ctx context.Context, _ uint64, sql string, args ...any) error {
		_, err := conn.Exec(ctx, sql, args...)
		return err
	}
	var asked []string
	ready := false
	x := Lost{Config: c, Log: slog.New(slog.DiscardHandler), ConnString: server.ConnString(name),
		Ready: func() bool { ready = !ready; return !ready }}
	x.Remove = func(m semantics.Membership) *wire.SQLError {
		asked = append(asked, m.Name)
		if len(asked) == 2 {
			return wire.Errorf(wire.CodeTuttiOutdated, "not yet")
		}
		r, result, err := Carry(t.Context(), Options{Config: c, Conn: conn, Note: note}, 5, 5, session.Definition{
			Cluster:  semantics.Cluster{Membership: m},
			Began:    append(began(), session.FirstMember{Number: 3, Name: "c", Address: "c:1"}),
			Settings: []session.Setting{{Name: session.RoleSetting, Value: "postgres"}}})
		if err != nil || result.Err != nil {
			t.Fatal(err, result.Err)
		}
		x.From(r)
		return nil
	}
	if got := shown(x.From(nil)); !strings.HasPrefix(got, "1=a@a:1 | 2=b@b:1 3=c@c:1 ") {
		t.Errorf("its first list is %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	x.Run(ctx)
	if got := strings.Join(asked, " "); c.Forced() || got != "b c c" {
		t.Errorf("the mark is there: %v; asked to remove %s", c.Forced(), got)
	}
	r, err := Read(t.Context(), x.ConnString)
	if err != nil || !strings.HasPrefix(shown(r), "1=a@a:1 | 2=b@b:1 3=c@c:1 ") || x.From(r) != r {
		t.Errorf("in the end the list is %s, %v", shown(r), err)
	}
}
