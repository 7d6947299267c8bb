package node

import (
	"net"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestIntentsEndByTheClient: who waits for its turn stops at once when its client cancels that, when the time is over
// that the client gives it, or when its transaction has lost.
func TestIntentsEndByTheClient(t *testing.T) {
	late := wire.Errorf(wire.CodeLockNotAvailable, "late")
	lost := wire.Errorf(wire.CodeSerializationFailure, "lost")
	for name, c := range map[string]struct {
		ends func(g *guard)
		most int64 // milliseconds
		want string
	}{
		"a cancel":              {(*guard).cancelClient, 0, wire.CodeQueryCanceled},
		"limits":                {func(*guard) {}, 20, late.Code},
		"the applier's victory": {func(g *guard) { g.kill(lost) }, 0, lost.Code},
		"the session's end":     {func(g *guard) { g.end(lost) }, 0, lost.Code},
	} {
		t.Run(name, func(t *testing.T) {
			l := &life{gate: admission.NewGate(), core: core.New(core.Options{}), done: make(chan struct{}),
				began: time.Now()}
			l.holds.init()
			x := &l.holds.intents
			x.looked = time.Now().Add(time.Hour) // there is no PostgreSQL to ask for circles
			first, _ := x.ask(0, nil, intent.Own, 0)
			client, other := net.Pipe()
			defer client.Close()
			defer other.Close()
			g := newGuard(0, 0, client, func() {}, func() {})
			h := &host{n: l, g: g}
			g.enter(session.PhaseRunning)
			time.AfterFunc(30*time.Millisecond, func() { c.ends(g) })
			began := time.Now()
			limits := func(locks bool) (int64, *wire.SQLError) { return c.most, late }
			_, failure := x.intend(l, h, 0, intent.Own, limits)
			if failure == nil || failure.Code != c.want || time.Since(began) > intentPatience/2 {
				t.Errorf("after %v: %v, want %s", time.Since(began), failure, c.want)
			}
			x.release(first)
		})
	}
}
