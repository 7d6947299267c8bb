package node

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestLoneliness: a client waits for a leader for a while, counted anew once there is one.
func TestLoneliness(t *testing.T) {
	var alone loneliness
	if alone.lasts(true) {
		t.Error("it lasts too long from the first moment on")
	}
	alone.since = alone.since.Add(-2 * leaderlessMax)
	if !alone.lasts(true) {
		t.Error("it never lasts too long")
	}
	if alone.lasts(false) || alone.lasts(true) || time.Since(alone.since) > leaderlessMax {
		t.Error("it is not counted anew once there was a leader")
	}
}

// TestDatabaseOfAClient: a client gets the database that it names, or of its user's name, once that is ready. Else it
// hears why: the node waits for others, the database is halted, or it is not known yet which there are.
func TestDatabaseOfAClient(t *testing.T) {
	tn := ordered(t, "shop")
	n, main, shop := tn.node, tn.named("main"), tn.named("shop")
	n.setTenure(nil)
	ask := func(params map[string]string) (*life, string) {
		l, e := n.database(context.Background(), &wire.Startup{Params: params})
		if e == nil {
			return l, ""
		}
		return l, e.Code + " " + e.Detail
	}
	named := func(name string) map[string]string { return map[string]string{"database": name} }
	recovers := func(said string) bool {
		return strings.Contains(said, "nobody leads") || strings.Contains(said, "is being applied")
	}
	why := "members b and c are not reached"
	n.waits.Store(&why)
	if _, said := ask(named("main")); said != wire.CodeCannotConnectNow+" "+why {
		t.Errorf("before its first log is made: %q", said)
	}
	n.waits.Store(nil)
	n.setTenure(tn)
	if l, said := ask(named("main")); l != nil || !recovers(said) {
		t.Errorf("before it is ready: %q", said)
	}
	if l, said := ask(named("other")); l != nil || said != wire.CodeCannotConnectNow+" " {
		t.Errorf("while it is not known which databases there are: %q", said)
	}
	main.course.serves()
	shop.course.serves()
	if l, said := ask(named("main")); l != main || said != "" {
		t.Errorf("the main database: %q", said)
	}
	if l, said := ask(map[string]string{"user": "shop"}); l != shop || said != "" {
		t.Errorf("the database of the user's name: %q", said)
	}
	shop.course.halts(&peers.Halt{Ordinal: 5, Reason: "no"})
	if _, said := ask(named("shop")); said != wire.CodeCannotConnectNow+" Entry 5: no" {
		t.Errorf("one that is halted: %q", said)
	}
	if l, said := ask(named("main")); l != main || said != "" {
		t.Errorf("beside one that is halted: %q", said)
	}
}

// TestCourse: what waits for a replica hears of it once, when it is ready, halted or ends.
func TestCourse(t *testing.T) {
	for name, c := range map[string]struct {
		f                      func(*course)
		ready, halted, endings bool
	}{
		"begins":    {func(*course) {}, false, false, false},
		"is ready":  {(*course).serves, true, false, false},
		"is halted": {func(c *course) { c.halts(&peers.Halt{}) }, false, true, false},
		"ends":      {func(c *course) { close(c.done) }, false, false, true},
	} {
		x := newCourse()
		c.f(x)
		closed := func(c chan struct{}) bool {
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		if x.ready.Load() != c.ready || closed(x.opened) != c.ready || (x.halted.Load() != nil) != c.halted ||
			closed(x.halting) != c.halted || x.ending() != c.endings {
			t.Errorf("one that %s is ready %v, halted %v, ending %v", name, x.ready.Load(), x.halted.Load(), x.ending())
		}
	}
}
