package grants

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestTurns (TU1): transactions that define something are alone until they end, definitions at their place in the order
// only beside those; one of an index lets others go on while it is built.
func TestTurns(t *testing.T) {
	m := cluster(t, 1)[1]
	s, _ := m.session(10)
	own, _ := m.session(11)
	if e := s.Alone(&session.Submission{}, SeenMax); e != nil {
		t.Fatal(e)
	}
	alone := begin(func() {
		if e := own.Alone(&session.Submission{}, SeenMax); e != nil {
			t.Error(e)
		}
	})
	waits(t, alone, "a second transaction")
	s.EndTurn()
	ends(t, alone, "a second transaction")
	both := make(chan struct{}) // two definitions run at the same time
	var defines [2]<-chan struct{}
	for i := range defines {
		definer, _ := m.session(20 + uint32(i))
		defines[i] = begin(func() {
			m.turns.Define(definer, session.Definition{}, func() session.Result {
				if i == 0 {
					both <- struct{}{}
				} else {
					<-both
				}
				return session.Result{}
			})
		})
	}
	waits(t, defines[0], "a definition beside a transaction")
	own.EndTurn()
	ends(t, defines[0], "a definition")
	ends(t, defines[1], "another one")
	m.turns.Define(s, session.Definition{Index: session.Index{Name: "i"}}, func() session.Result {
		if e := own.Alone(&session.Submission{}, SeenMax); e != nil {
			t.Error(e)
		}
		own.EndTurn()
		return session.Result{}
	})
	if n := len(m.turns.clients) + len(m.turns.waiting); n != 0 {
		t.Errorf("%d owners are left", n)
	}
}

// TestTurnsEndByTheClient (TU3): who waits for a turn stops at once when its transaction has lost, or its client's
// limits have come. A definition does not run then.
func TestTurnsEndByTheClient(t *testing.T) {
	late, lost := wire.Errorf(wire.CodeLockNotAvailable, "late"), wire.Errorf(wire.CodeSerializationFailure, "lost")
	m := cluster(t, 1)[1]
	first, _ := m.session(10)
	if e := first.Alone(&session.Submission{}, SeenMax); e != nil {
		t.Fatal(e)
	}
	for name, c := range map[string]struct {
		most int64
		ends func(*client)
		want *wire.SQLError
	}{
		"an interruption": {0, func(c *client) { c.why.Store(lost) }, lost},
		"limits":          {20, func(*client) {}, late},
	} {
		s, client := m.session(11)
		time.AfterFunc(10*time.Millisecond, func() { c.ends(client) })
		over := begin(func() {
			if e := s.Alone(&session.Submission{Limits: most(c.most, late)}, SeenMax); e != c.want {
				t.Errorf("a transaction, by %s: %v", name, e)
			}
			s.EndTurn()
			d := session.Definition{Limits: most(c.most, late)}
			r := m.turns.Define(s, d, func() session.Result { return session.Result{Tag: "it runs"} })
			if r.Err != c.want || r.Tag != "" {
				t.Errorf("a definition, by %s: %+v", name, r)
			}
		})
		ends(t, over, name)
	}
}

// TestAloneHasSeen (TU2): in its turn a transaction waits for what is ordered to be applied, but not for longer than it
// may, and has seen what PostgreSQL had by then.
func TestAloneHasSeen(t *testing.T) {
	m := cluster(t, 1)[1]
	m.ordered.Store(9)
	m.position = 70
	s, _ := m.session(10)
	sub := session.Submission{Order: 60}
	alone := begin(func() {
		if e := s.Alone(&sub, SeenMax); e != nil {
			t.Error(e)
		}
	})
	waits(t, alone, "a transaction that has not seen all")
	m.beside.Store(4)
	m.applied.Store(9)
	waits(t, alone, "a transaction beside a definition that goes on")
	m.beside.Store(0)
	ends(t, alone, "a transaction that has seen all")
	if sub.Order != 70 {
		t.Errorf("it has seen what was written up to %d", sub.Order)
	}
	sub.Order = 80
	if s.Alone(&sub, SeenMax); sub.Order != 80 {
		t.Errorf("it had seen more, up to 80, and now up to %d", sub.Order)
	}
	m.posErr = errors.New("nobody knows")
	m.ordered.Store(10)
	began := time.Now()
	e := s.Alone(&sub, 20*time.Millisecond)
	if took := time.Since(began); e != nil || sub.Order != 80 || took < 20*time.Millisecond || took > time.Second {
		t.Errorf("after %s: %v, up to %d", took, e, sub.Order)
	}
}

// TestCircle (TU3): a session does not wait for its turn while PostgreSQL has the one whose turn it is wait for it.
func TestCircle(t *testing.T) {
	m := cluster(t, 1)[1]
	first, _ := m.session(10)
	second, _ := m.session(11)
	if e := first.Alone(&session.Submission{}, SeenMax); e != nil {
		t.Fatal(e)
	}
	goes := begin(func() {
		if e := second.Alone(&session.Submission{}, SeenMax); e != nil {
			t.Error(e)
		}
	})
	waits(t, goes, "a session")
	m.mu.Lock()
	m.blockers[10] = []uint32{99, 11}
	m.mu.Unlock()
	ends(t, goes, "a session in a circle")
	if log := m.log.String(); !strings.Contains(log, "pid=11 why=deadlock held_by=[10]") {
		t.Errorf("the log says %s", log)
	}
}

// TestDefinedInVain: a definition that was looked up in vain again waits, out of its turn, until it would be alone and
// has seen all; not if that was the first time, nor in another database's order.
func TestDefinedInVain(t *testing.T) {
	m, elsewhere := cluster(t, 1)[1], cluster(t, 1)[1]
	outdated := wire.Errorf(wire.CodeTuttiOutdated, "outdated")
	s, client := m.session(10)
	define := func(in *Turns, vain bool) session.Result {
		return in.Define(s, session.Definition{InVain: vain}, func() session.Result {
			return session.Result{Err: outdated}
		})
	}
	m.ordered.Store(9)
	elsewhere.ordered.Store(9)
	began := time.Now()
	for _, r := range []session.Result{define(m.turns, false), define(elsewhere.turns, true)} {
		if took := time.Since(began); r.Err != outdated || took > SeenMax/2 {
			t.Errorf("after %s it says %v", took, r.Err)
		}
	}
	vain := begin(func() {
		if r := define(m.turns, true); r.Err != outdated {
			t.Errorf("it says %v", r.Err)
		}
	})
	waits(t, vain, "a definition in vain")
	m.applied.Store(9)
	ends(t, vain, "a definition in vain that has seen all")
	m.ordered.Store(10)
	lost := wire.Errorf(wire.CodeSerializationFailure, "lost")
	time.AfterFunc(10*time.Millisecond, func() { client.why.Store(lost) })
	if r := define(m.turns, true); r.Err != lost {
		t.Errorf("it has lost while it waited, and says %v", r.Err)
	}
	if s.turn != 0 || len(m.turns.clients) != 0 {
		t.Error("it keeps its turn")
	}
}
