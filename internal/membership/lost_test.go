package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestLostByLearner: a member that was demoted votes again before the others are removed: it is the only one left.
func TestLostByLearner(t *testing.T) {
	server := pgtest.Shared(t)
	name := server.NewDatabase(t)
	server.Exec(t, name, "CREATE SCHEMA tutti", memberTable,
		"INSERT INTO tutti.member VALUES (1, 'a', 'a:1', '', true, 0, 0, false, 'learner', 0, ''), "+
			"(2, 'b', 'b:1', '', true, 0, 0, false, NULL, NULL, NULL)")
	c := &config.Config{Cluster: "c", Member: 1, DataDir: t.TempDir(), Listen: "a:2", MemberListen: "a:1",
		Secret: "sixteen characters", Members: []config.Member{{Member: 1, Name: "a", Address: "a:1"}, {Member: 2,
			Name: "b", Address: "b:1"}}}
	if err := errors.Join(c.Validate(), c.Lose([]uint32{2}), c.ReadLost()); err != nil {
		t.Fatal(err)
	}
	r, err := Read(t.Context(), server.ConnString(name))
	if err != nil {
		t.Fatal(err)
	}
	c.Becomes(r)
	conn, asked := server.Connect(t, name), ""
	x := Lost{Config: c, Log: slog.New(slog.DiscardHandler), ConnString: server.ConnString(name),
		Ready: func() bool { return true }}
	x.Order = func(m semantics.Membership) *wire.SQLError {
		asked += fmt.Sprint(m.Does.Procedure(), " ", m.Name, " ")
		note := func(ctx context.Context, _ uint64, sql string, args ...any) error {
			_, err := conn.Exec(ctx, sql, args...)
			return err
		}
		r, result, err := Carry(t.Context(), Options{Config: c, Conn: conn, Note: note}, 5, 5, session.Definition{
			Cluster:  semantics.Cluster{Membership: m},
			Settings: []session.Setting{{Name: session.RoleSetting, Value: "postgres"}}})
		if err != nil || result.Err != nil {
			t.Fatal(err, result.Err)
		}
		c.Becomes(r)
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if x.Run(ctx); c.Losing() || asked != "promote_member a remove_member b " {
		t.Errorf("some are on the list: %v; asked for %s", c.Losing(), asked)
	}
}

// TestLost: a member that goes on alone has the others removed as soon as it can, until nobody is on the
// list but itself; until then they are on none of its lists.
func TestLost(t *testing.T) {
	server := pgtest.Shared(t)
	name := server.NewDatabase(t)
	server.Exec(t, name, "CREATE SCHEMA tutti", memberTable)
	conn := server.Connect(t, name)
	dir := t.TempDir()
	file := filepath.Join(dir, "node.toml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf("cluster = 'c'\nmember = 1\ndata_dir = '%s'\nlisten = 'a:2'\n"+
		"member_listen = 'a:1'\nsecret = 'sixteen characters'\n[[members]]\nmember = 1\nname = 'a'\naddress = "+
		"'a:1'\n[[members]]\nmember = 2\nname = 'b'\naddress = 'b:1'\n[[members]]\nmember = 3\nname = 'c'\n"+
		"address = 'c:1'\n", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Lose([]uint32{2, 3}); err != nil {
		t.Fatal(err)
	}
	if err := c.ReadLost(); err != nil {
		t.Fatal(err)
	}
	c.Becomes(nil)
	note := func(ctx context.Context, _ uint64, sql string, args ...any) error {
		_, err := conn.Exec(ctx, sql, args...)
		return err
	}
	var asked []string
	ready := false
	x := Lost{Config: c, Log: slog.New(slog.DiscardHandler), ConnString: server.ConnString(name),
		Ready: func() bool { ready = !ready; return !ready }}
	x.Order = func(m semantics.Membership) *wire.SQLError {
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
		c.Becomes(r)
		return nil
	}
	if got := shown(c.Roster()); !strings.HasPrefix(got, "1=a@a:1 | 2=b@b:1 3=c@c:1 ") {
		t.Errorf("its first list is %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	x.Run(ctx)
	if got := strings.Join(asked, " "); c.Losing() || got != "b c c" {
		t.Errorf("some are on the list: %v; asked to remove %s", c.Losing(), got)
	}
	if a := Addresses(c, []uint32{1, 2, 3}); len(a) != 0 {
		t.Errorf("it talks to %v", a)
	}
	r, err := Read(t.Context(), x.ConnString)
	if err != nil || !strings.HasPrefix(shown(r), "1=a@a:1 | 2=b@b:1 3=c@c:1 ") {
		t.Errorf("in the end the list is %s, %v", shown(r), err)
	}
}
