package grants

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
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
	if sub.Order != 70 || sub.Seen != 9 {
		t.Errorf("it has seen what was written up to %d, and was ordered up to %d", sub.Order, sub.Seen)
	}
	sub.Order, sub.Seen = 80, 12
	if s.Alone(&sub, SeenMax); sub.Order != 80 || sub.Seen != 12 {
		t.Errorf("it had seen more, up to 80 and 12, and now up to %d and %d", sub.Order, sub.Seen)
	}
	sub.Seen, m.position, m.gone = 0, 90, true
	if s.Alone(&sub, SeenMax); sub.Order != 80 || sub.Seen != 0 {
		t.Errorf("its backend has ended, and it has seen what was written up to %d, and was ordered up to %d",
			sub.Order, sub.Seen)
	}
	m.posErr, m.gone = errors.New("nobody knows"), false
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

// TestStays (TU4): a definition to which all lose waits for open transactions that cannot be done again, be it one that
// runs at its place in the order; who comes to that point meanwhile waits for it, and is outdated behind it, unless it
// has seen it.
func TestStays(t *testing.T) {
	bars := &writeset.Writeset{Barrier: true}
	for name, barrier := range map[string]func(m *member, s *Session){
		"a transaction": func(m *member, s *Session) {
			if e := s.Alone(&session.Submission{Writeset: bars}, SeenMax); e != nil {
				t.Error(e)
			}
			s.End(6)
			s.EndTurn()
		},
		"a definition": func(m *member, s *Session) {
			m.turns.Define(s, session.Definition{Extent: bars}, func() session.Result { return session.Result{} })
		},
	} {
		m := cluster(t, 1)[1]
		m.applied.Store(5)
		first, _ := m.session(10)
		second, _ := m.session(11)
		definer, _ := m.session(12)
		third, _ := m.session(13)
		stays := func(s *Session, base uint64, want bool) {
			if outdated, e := s.Stays(base, false, nil); e != nil || outdated != want {
				t.Errorf("%s: what has seen %d is outdated: %v, %v", name, base, outdated, e)
			}
		}
		stays(first, 3, false)
		stays(second, 3, false)
		if e := first.Alone(&session.Submission{Writeset: &writeset.Writeset{}}, SeenMax); e != nil {
			t.Fatal(e)
		}
		if n := len(m.turns.manager.Holders(intent.Stays)); n != 0 {
			t.Errorf("%s: the manager has %d who stay, and there is nobody for whom that matters", name, n)
		}
		over := begin(func() { barrier(m, definer) })
		waits(t, over, name)
		late := begin(func() { stays(third, 4, true) })
		waits(t, late, "who comes behind "+name)
		first.EndTurn()
		waits(t, over, name)
		m.ordered.Store(6)
		second.EndTurn()
		waits(t, late, "who comes behind "+name+" that is not called applied")
		m.applied.Store(6)
		ends(t, over, name)
		ends(t, late, "who comes behind "+name)
		stays(second, 6, false)
	}
}

// TestMaintains (TU5): what maintains tables, and was in the way, waits for transactions that write and for
// definitions, and those that come later for it. It rests before it is run again and again.
func TestMaintains(t *testing.T) {
	m := cluster(t, 1)[1]
	writer, _ := m.session(10)
	definer, _ := m.session(11)
	vacuum, c := m.session(12)
	if _, e := writer.Stays(0, false, nil); e != nil {
		t.Fatal(e)
	}
	if e := definer.Alone(&session.Submission{Writeset: &writeset.Writeset{}}, SeenMax); e != nil {
		t.Fatal(e)
	}
	maintains := func(try int) <-chan struct{} {
		return begin(func() {
			if e := vacuum.Maintains(try, nil); e != nil {
				t.Error(e)
			}
		})
	}
	over := maintains(1)
	waits(t, over, "a VACUUM")
	writer.EndTurn()
	waits(t, over, "a VACUUM beside a definition")
	definer.EndTurn()
	ends(t, over, "a VACUUM")
	late := begin(func() {
		m.turns.Define(definer, session.Definition{}, func() session.Result { return session.Result{} })
	})
	waits(t, late, "a definition behind it")
	stays := begin(func() { _, _ = writer.Stays(0, false, nil) })
	waits(t, stays, "a transaction behind it")
	defines := begin(func() { _ = definer.Defines(nil) })
	waits(t, defines, "a definition outside of blocks behind it")
	vacuum.EndTurn()
	ends(t, late, "a definition behind it")
	ends(t, stays, "a transaction behind it")
	ends(t, defines, "a definition outside of blocks behind it")
	writer.EndTurn()
	over = maintains(1)
	waits(t, over, "a VACUUM beside a definition outside of blocks")
	if e := definer.Alone(&session.Submission{Writeset: &writeset.Writeset{Barrier: true}}, SeenMax); e != nil {
		t.Fatal(e)
	}
	waits(t, over, "a VACUUM beside one in its turn")
	definer.EndTurn()
	ends(t, over, "a VACUUM beside a definition outside of blocks")
	vacuum.EndTurn()
	began := time.Now()
	ends(t, maintains(3), "a VACUUM that rests")
	if took := time.Since(began); took < 2*maintainRest {
		t.Errorf("it has rested for %s", took)
	}
	vacuum.EndTurn()
	c.why.Store(wire.Errorf(wire.CodeQueryCanceled, "canceled"))
	if e := vacuum.Maintains(8, nil); e == nil || e.Code != wire.CodeQueryCanceled {
		t.Errorf("it rests on: %v", e)
	}
}

// quick has blocks and definitions wait for each other for a moment only.
func quick(t *testing.T) {
	most, stillFor, silentFor, againFor, pass := blocks.most, stillMax, silentMax, againMax, passMax
	blocks.most, stillMax, silentMax = 1200*time.Millisecond, 600*time.Millisecond, 300*time.Millisecond
	againMax, passMax = silentMax, silentMax
	t.Cleanup(func() {
		blocks.most, stillMax, silentMax, againMax, passMax = most, stillFor, silentFor, againFor, pass
	})
}

// TestStaysAgain (TU4): a definition waits for a moment for a transaction that is done again if it loses, and not for
// one that waits for a lock of the definition.
func TestStaysAgain(t *testing.T) {
	quick(t)
	m := cluster(t, 1)[1]
	writer, _ := m.session(10)
	bars := func(pid uint32) (took time.Duration) {
		began := time.Now()
		s, _ := m.session(pid)
		if e := s.Alone(&session.Submission{Writeset: &writeset.Writeset{Barrier: true}}, SeenMax); e != nil {
			t.Error(e)
		}
		s.EndTurn()
		return time.Since(began)
	}
	for _, again := range []bool{true, false} {
		if _, e := writer.Stays(0, again, nil); e != nil {
			t.Fatal(e)
		}
		if took, most := bars(11), map[bool]time.Duration{true: againMax, false: stillMax}[again]; took < most ||
			took > most+againMax*2/3 {
			t.Errorf("a definition has waited for %s, and not %s", took, most)
		}
		writer.EndTurn()
		if n := len(m.turns.again); n != 0 {
			t.Errorf("%d are left", n)
		}
	}
	if _, e := writer.Stays(0, false, nil); e != nil {
		t.Fatal(e)
	}
	late := begin(func() { bars(11) })
	time.Sleep(againMax / 10)
	second, _ := m.session(13)
	began := time.Now()
	if _, e := second.Stays(0, true, nil); e != nil {
		t.Fatal(e)
	}
	if took := time.Since(began); took < passMax || took > stillMax {
		t.Errorf("it has waited for %s for a definition that waits", took)
	}
	second.EndTurn()
	writer.EndTurn()
	ends(t, late, "a definition")
	m.blockers[10] = []uint32{99, 12}
	if _, e := writer.Stays(0, false, nil); e != nil {
		t.Fatal(e)
	}
	if took := bars(12); took > againMax {
		t.Errorf("a definition has waited for %s for one that waits for it", took)
	}
}

// TestStaysTooLong (TU4): a definition waits for a transaction in which nothing happens for a while, and for
// flow.WaitBlocks for one in which something does. So does who comes behind it. The next one does not wait for that
// transaction, but for others.
func TestStaysTooLong(t *testing.T) {
	quick(t)
	for name, most := range map[string]time.Duration{"silent": silentMax, "still": stillMax, "busy": blocks.most} {
		m := cluster(t, 1)[1]
		stays := func(pid uint32) (*Session, *client) {
			s, c := m.session(pid)
			if _, e := s.Stays(0, false, nil); e != nil {
				t.Error(e)
			}
			return s, c
		}
		bars := func(pid uint32) *Session {
			s, _ := m.session(pid)
			if e := s.Alone(&session.Submission{Writeset: &writeset.Writeset{Barrier: true}}, SeenMax); e != nil {
				t.Error(e)
			}
			return s
		}
		_, client := stays(10)
		client.silent.Store(name == "silent")
		began := time.Now()
		late := begin(func() { bars(11).EndTurn() })
		waits(t, late, name+": a definition")
		behind := begin(func() {
			s, _ := stays(12)
			s.EndTurn()
		})
		waits(t, behind, name+": who comes behind it")
		for over := false; !over; {
			select {
			case <-late:
				over = true
			case <-time.After(10 * time.Millisecond):
				if name == "busy" {
					client.moves.Add(1)
				}
			}
		}
		if took := time.Since(began); took < most || took > most+silentMax {
			t.Errorf("%s: a definition waited for %s", name, took)
		}
		ends(t, behind, name+": who comes behind it")
		began = time.Now()
		bars(13).EndTurn()
		last, _ := stays(14)
		again := begin(func() { bars(15).EndTurn() })
		waits(t, again, name+": a definition, for another one,")
		last.EndTurn()
		ends(t, again, name+": a definition, for another one,")
		if took := time.Since(began); took > silentMax {
			t.Errorf("%s: definitions waited again for one for which one had waited, %s", name, took)
		}
	}
}

// TestStaysInItsTurn (TU4): a definition waits for longer for a transaction that waits for its turn, or has it.
func TestStaysInItsTurn(t *testing.T) {
	quick(t)
	m := cluster(t, 1)[1]
	alone := func(s *Session, barrier bool) {
		if e := s.Alone(&session.Submission{Writeset: &writeset.Writeset{Barrier: barrier}}, SeenMax); e != nil {
			t.Error(e)
		}
	}
	first, _ := m.session(10)
	second, _ := m.session(11)
	definer, _ := m.session(12)
	if _, e := second.Stays(0, false, nil); e != nil {
		t.Fatal(e)
	}
	blocks.most = 4 * stillMax
	alone(first, false)
	turn := begin(func() { alone(second, false) })
	waits(t, turn, "a transaction")
	over := begin(func() { alone(definer, true) })
	time.Sleep(4 * stillMax / 3)
	waits(t, over, "a definition")
	first.EndTurn()
	ends(t, turn, "a transaction")
	time.Sleep(stillMax / 3)
	waits(t, over, "a definition")
	second.EndTurn()
	ends(t, over, "a definition")
}

// TestCircleOfMembers (TU4): definitions of two members that wait for blocks there, which are kept out of the order
// each by the other one's schema lock, do not wait for long.
func TestCircleOfMembers(t *testing.T) {
	quick(t)
	all := cluster(t, 2)
	var definers, writers [3]*Session
	for i := 1; i <= 2; i++ {
		definers[i], _ = all[uint32(i)].session(10)
		writers[i], _ = all[uint32(i)].session(20)
		if e := definers[i].Hold(wrote(uint64(i)), nil); e != nil {
			t.Fatal(e)
		}
	}
	var passes [3]<-chan struct{}
	for i := 1; i <= 2; i++ {
		if _, e := writers[i].Stays(0, false, nil); e != nil {
			t.Fatal(e)
		}
		passes[i] = begin(func() {
			if e := writers[i].Pass(wrote(uint64(3-i)), nil); e != nil {
				t.Error(e)
			}
			writers[i].EndTurn()
		})
		waits(t, passes[i], "a writer")
	}
	for i := 1; i <= 2; i++ {
		go func() {
			bars := &session.Submission{Writeset: &writeset.Writeset{Barrier: true}}
			if e := definers[i].Alone(bars, SeenMax); e != nil {
				t.Error(e)
			}
			definers[i].End(0)
			definers[i].EndTurn()
		}()
	}
	for i := 1; i <= 2; i++ {
		ends(t, passes[i], "a writer")
	}
}
