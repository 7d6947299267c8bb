package grants

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/schemalock"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// member is one member of a cluster whose words arrive at once, or not at all.
type member struct {
	grants  *Grants
	locks   *Locks
	turns   *Turns
	gate    *admission.Gate
	applied atomic.Uint64
	ordered atomic.Uint64
	beside  atomic.Uint64 // a definition that goes on beside the order; zero: none does
	ended   atomic.Bool
	log     bytes.Buffer
	metrics metrics.Database
	running sync.WaitGroup

	mu       sync.Mutex
	blockers map[uint32][]uint32 // by backend
	position uint64
	posErr   error
	gone     bool                              // the session's backend
	lost     func(to uint32, answer bool) bool // nil: nothing is
	reach    map[uint32]Reach                  // Alive where nothing is said
}

// cluster makes members 1 to n, each in its life 5.
func cluster(t *testing.T, n uint32) map[uint32]*member {
	all := map[uint32]*member{}
	c := config.Config{}
	for i := uint32(1); i <= n; i++ {
		c.Members = append(c.Members, config.Member{Member: i})
	}
	for i := uint32(1); i <= n; i++ {
		m := &member{gate: admission.NewGate(), blockers: map[uint32][]uint32{}, reach: map[uint32]Reach{}}
		own := c
		own.Member = i
		o := Options{
			Config: &own, Log: slog.New(slog.NewTextHandler(&m.log, nil)), Metrics: &m.metrics, Life: 5,
			Clock:   admission.Time,
			Applied: m.applied.Load, Complete: m.complete, Ordered: m.ordered.Load,
			Await: m.gate.Await, Wake: m.gate.Wake,
			RowTurns: func() bool { return true },
			Ending:   m.ended.Load, Go: m.running.Go,
			Reach: func(of uint32) Reach {
				m.mu.Lock()
				defer m.mu.Unlock()
				if r, ok := m.reach[of]; ok {
					return r
				}
				return Reach{Alive: true}
			},
			Send: func(to uint32, answer bool, word []byte) bool {
				switch m.mu.Lock(); {
				case m.lost != nil && m.lost(to, answer):
					m.mu.Unlock()
					return true
				default:
					m.mu.Unlock()
				}
				if answer {
					all[to].grants.Answered(i, word)
				} else {
					all[to].grants.Hear(i, word)
				}
				return true
			},
			Position: func(context.Context) (uint64, error) { return m.position, m.posErr },
			Gone:     func(context.Context, uint32) (bool, error) { return m.gone, nil },
			Blockers: func(_ context.Context, pid uint32) ([]uint32, error) {
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.blockers[pid], nil
			},
		}
		m.grants = New(o)
		m.locks, m.turns = m.grants.Locks, m.grants.Turns
		all[i] = m
		t.Cleanup(func() { m.ended.Store(true); m.grants.End(); m.running.Wait() })
	}
	return all
}

// complete is up to where the order is applied but for a definition that goes on beside it.
func (m *member) complete() uint64 {
	if beside := m.beside.Load(); beside > 0 {
		return min(m.applied.Load(), beside-1)
	}
	return m.applied.Load()
}

// client is a session whose transaction can be interrupted.
type client struct {
	pid    uint32
	wishes atomic.Bool
	why    atomic.Pointer[wire.SQLError]
	moves  atomic.Uint64
	silent atomic.Bool
}

func (c *client) Interrupted() *wire.SQLError { return c.why.Load() }
func (c *client) Wishes() bool                { return c.wishes.Load() }
func (c *client) PID() uint32                 { return c.pid }
func (c *client) Moves() (uint64, bool)       { return c.moves.Load(), c.silent.Load() }

// session makes one at a member.
func (m *member) session(pid uint32) (*Session, *client) {
	c := &client{pid: pid}
	return m.grants.Session(c), c
}

// wrote is what a transaction has written that has changed tables.
func wrote(keys ...uint64) *writeset.Writeset {
	w := &writeset.Writeset{}
	for _, k := range keys {
		w.Tables = append(w.Tables, writeset.Table{Schema: "public", Key: k})
	}
	return w
}

// begin calls f on a goroutine. Done is closed when it has returned.
func begin(f func()) (done <-chan struct{}) {
	over := make(chan struct{})
	go func() { defer close(over); f() }()
	return over
}

// waits fails unless something is not over after a moment.
func waits(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
		t.Fatalf("%s did not wait", what)
	case <-time.After(30 * time.Millisecond):
	}
}

// ends fails unless something is over soon.
func ends(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Second):
		t.Fatalf("%s still waits", what)
	}
}

// most are limits of a client.
func most(milliseconds int64, why *wire.SQLError) func(bool) (int64, *wire.SQLError) {
	return func(bool) (int64, *wire.SQLError) { return milliseconds, why }
}

// TestLock (H1, H2, H3): a lock is granted when those are decided that had passed, and had when all is applied that the
// others had ordered by then. Until its transaction has ended, and is applied, what has written to its tables waits at
// the others, and nothing else does.
func TestLock(t *testing.T) {
	all := cluster(t, 3)
	definer, _ := all[1].session(10)
	writer, _ := all[2].session(20)
	other, _ := all[3].session(30)
	if e := writer.Pass(wrote(7), nil); e != nil {
		t.Fatal(e)
	}
	had := begin(func() {
		if e := definer.Hold(wrote(7, 8), nil); e != nil {
			t.Error(e)
		}
	})
	waits(t, had, "the lock, for a transaction that has passed,")
	all[2].ordered.Store(40)
	writer.Passed()
	waits(t, had, "the lock, for what the others have ordered,")
	all[1].applied.Store(40)
	ends(t, had, "the lock")
	if !all[2].locks.Block(wrote(8)) || all[2].locks.Block(wrote(9)) || all[1].locks.Block(wrote(7)) {
		t.Error("it blocks others than those of other members that have written to its tables")
	}
	if e := other.Pass(wrote(9), nil); e != nil {
		t.Error(e)
	}
	passes := begin(func() {
		if e := writer.Pass(wrote(7), nil); e != nil {
			t.Error(e)
		}
	})
	waits(t, passes, "a writer")
	definer.End(50)
	waits(t, passes, "a writer, for what the lock was for,")
	all[2].applied.Store(50)
	all[2].gate.Wake()
	ends(t, passes, "a writer, when that is applied,")
	if n := all[2].metrics.Flow.HeldBack.Load(); n != 1 {
		t.Errorf("%d transactions were blocked", n)
	}
}

// TestLockIsGivenBack: who gives it back lets the others go on, and so does who is not applied anywhere.
func TestLockIsGivenBack(t *testing.T) {
	all := cluster(t, 2)
	definer, _ := all[1].session(10)
	for name, end := range map[string]func(){"given back": definer.GiveBack, "rolled back": func() { definer.End(0) }} {
		if e := definer.Hold(wrote(7), nil); e != nil || !all[2].locks.Block(wrote(7)) {
			t.Fatalf("%s: there is no lock: %v", name, e)
		}
		if end(); all[2].locks.Block(wrote(7)) {
			t.Errorf("%s, and it blocks", name)
		}
	}
}

// TestPassEnds (H5): who is blocked stops when the transaction has lost, its client cancels or its limits come; if it
// has lost it says so by 40001.
func TestPassEnds(t *testing.T) {
	late, lost := wire.Errorf(wire.CodeLockNotAvailable, "late"), wire.Errorf(wire.CodeSerializationFailure, "lost")
	all := cluster(t, 2)
	definer, _ := all[1].session(10)
	if e := definer.Hold(wrote(7), nil); e != nil {
		t.Fatal(e)
	}
	for name, c := range map[string]struct {
		most int64
		ends func(*client)
		want *wire.SQLError
	}{
		"limits": {20, func(*client) {}, late},
		"a cancel": {0, func(c *client) {
			c.why.Store(lost)
			all[2].gate.Wake()
		}, lost},
	} {
		s, client := all[2].session(20)
		passes := begin(func() {
			if e := s.Pass(wrote(7), most(c.most, late)); e != c.want {
				t.Errorf("%s: %v", name, e)
			}
		})
		time.AfterFunc(10*time.Millisecond, func() { c.ends(client) })
		ends(t, passes, name)
	}
}

// TestLoserIsFirst (H5): who has lost to a lock waits before it begins again, is let pass, and the next lock waits for
// it. Who has not lost is not waited for.
func TestLoserIsFirst(t *testing.T) {
	all := cluster(t, 2)
	definer, _ := all[1].session(10)
	writer, client := all[2].session(20)
	if e := definer.Hold(wrote(7), nil); e != nil {
		t.Fatal(e)
	}
	client.why.Store(wire.Errorf(wire.CodeSerializationFailure, "lost"))
	if e := writer.Pass(wrote(7), nil); e == nil {
		t.Fatal("it has lost, and passes")
	}
	client.why.Store(nil)
	writer.Begins()
	begins := begin(func() { writer.BeginsAgain(true) })
	waits(t, begins, "one that has lost, before it begins again,")
	definer.End(0)
	ends(t, begins, "its beginning")
	next := begin(func() {
		if e := definer.Hold(wrote(7), nil); e != nil {
			t.Error(e)
		}
	})
	waits(t, next, "the next lock")
	if e := writer.Pass(wrote(7), nil); e != nil {
		t.Error("it is blocked again:", e)
	}
	writer.Passed()
	ends(t, next, "the next lock")
	definer.End(0)
	writer.Begins()
	writer.BeginsAgain(false)
	if e := definer.Hold(wrote(7), nil); e != nil || !all[2].locks.Block(wrote(7)) {
		t.Error("a lock waits for one that has not lost:", e)
	}
}

// TestLoserComesSoon (H5): a lock waits for one that has lost as soon as that begins again, however long it then waits
// for something else. It does not wait for long for one that then does nothing.
func TestLoserComesSoon(t *testing.T) {
	t.Parallel()
	all := cluster(t, 2)
	definer, _ := all[1].session(10)
	writer, client := all[2].session(20)
	if e := definer.Hold(wrote(7), nil); e != nil {
		t.Fatal(e)
	}
	client.why.Store(wire.Errorf(wire.CodeSerializationFailure, "lost"))
	writer.Pass(wrote(7), nil)
	client.why.Store(nil)
	writer.Begins()
	time.Sleep(300 * time.Millisecond)
	definer.End(0)
	next := begin(func() { definer.HoldTables([]uint64{7}, false, 0) })
	waits(t, next, "the next lock")
	writer.BeginsAgain(true)
	waits(t, next, "the next lock, for what has begun,")
	select {
	case <-next:
	case <-time.After(2 * time.Duration(schemalock.AgainMax)):
		t.Error("the lock waits for one that does nothing")
	}
}

// TestDefinitionComesInTurn: a definition that waits for its place in the order goes on before a lock that was asked
// for later.
func TestDefinitionComesInTurn(t *testing.T) {
	all := cluster(t, 2)
	first, _ := all[1].session(10)
	second, _ := all[1].session(11)
	definer, _ := all[2].session(20)
	if e := first.Hold(wrote(7), nil); e != nil {
		t.Fatal(e)
	}
	passes := begin(func() {
		if e := definer.PassDefinition(wrote(7), nil); e != nil {
			t.Errorf("a definition fails: %v", e)
		}
	})
	waits(t, passes, "a definition")
	next := begin(func() { second.HoldTables([]uint64{7}, false, 0) })
	waits(t, next, "the next lock")
	first.End(0)
	ends(t, passes, "the definition")
	ends(t, next, "the next lock")
}

// TestYield: a transaction that waits with its locks loses to one that is tried here. A definition that waits for its
// place in the order has none, and goes on.
func TestYield(t *testing.T) {
	all := cluster(t, 2)
	definer, _ := all[1].session(10)
	writer, _ := all[2].session(20)
	if e := definer.Hold(wrote(7), nil); e != nil {
		t.Fatal(e)
	}
	passes := begin(func() {
		if e := writer.Pass(wrote(7), nil); e == nil || e.Code != wire.CodeSerializationFailure {
			t.Errorf("a transaction does not yield: %v", e)
		}
	})
	waits(t, passes, "a transaction")
	defines := begin(func() {
		other, _ := all[2].session(21)
		if e := other.PassDefinition(wrote(7), nil); e != nil {
			t.Errorf("a definition yields: %v", e)
		}
	})
	all[2].locks.Yield(1, 5, true)
	ends(t, passes, "a transaction that yields")
	waits(t, defines, "a definition")
	definer.End(0)
	ends(t, defines, "a definition")
}

// TestWhoIsWaitedFor (H4): a lock waits for members that are heard, and for those of which nothing can be known yet;
// not for those that are gone or halted.
func TestWhoIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		reach Reach
		waits bool
	}{
		"alive": {Reach{Alive: true}, true}, "not heard yet": {Reach{Unheard: true}, true}, "gone": {Reach{}, false},
		"halted": {Reach{Alive: true, Halted: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := cluster(t, 2)
			definer, client := all[1].session(10)
			all[1].reach[2] = c.reach
			all[2].lost = func(uint32, bool) bool { return true }
			had := begin(func() { definer.Hold(wrote(7), nil) })
			if !c.waits {
				ends(t, had, "the lock")
				return
			}
			time.Sleep(Renewal + Renewal/4) // it is asked again
			waits(t, had, "the lock")
			client.why.Store(wire.Errorf(wire.CodeQueryCanceled, "canceled"))
			ends(t, had, "the lock, whose client has cancelled,")
		})
	}
}

// TestLockIsLate (H4): without an answer a definition goes on without after a while, or fails at its client's limits,
// and LOCK TABLE does at its own. What was not had does not block.
func TestLockIsLate(t *testing.T) {
	late := wire.Errorf(wire.CodeLockNotAvailable, "late")
	all := cluster(t, 2)
	all[2].lost = func(uint32, bool) bool { return true }
	definer, _ := all[1].session(10)
	if e := definer.Hold(wrote(7), most(-1, late)); e != late {
		t.Errorf("no time was left, and it says %v", e)
	}
	began := time.Now()
	if e := definer.Hold(wrote(7), most(20, late)); e != late || time.Since(began) > patience/2 {
		t.Errorf("the limits have come, and after %s it says %v", time.Since(began), e)
	}
	if is, e := definer.HoldTables([]uint64{8}, false, 20); !is || e != nil {
		t.Errorf("LOCK TABLE was in time: %v, %v", is, e)
	}
	all[2].mu.Lock()
	all[2].lost = nil
	all[2].mu.Unlock()
	if e := definer.Hold(wrote(10), nil); e != nil || !all[2].locks.Block(wrote(10)) {
		t.Errorf("there is no lock: %v", e)
	}
	all[2].mu.Lock()
	all[2].lost = func(uint32, bool) bool { return true }
	all[2].mu.Unlock()
	began = time.Now()
	if is, e := definer.HoldTables([]uint64{11}, false, 0); is || e != nil || time.Since(began) > 2*patience {
		t.Errorf("who has one waits for another one as for the first: %s, %v, %v", time.Since(began), is, e)
	}
	definer.End(0)
	if is, e := definer.HoldTables(nil, false, 20); is || e != nil {
		t.Errorf("a lock of nothing: %v, %v", is, e)
	}
	began = time.Now()
	if e := definer.Hold(wrote(9), nil); e != nil || time.Since(began) < patience {
		t.Errorf("without limits it gives up after %s and says %v", time.Since(began), e)
	}
	if all[2].locks.Block(wrote(7)) || all[2].locks.Block(wrote(8)) {
		t.Error("what was late blocks")
	}
}

// TestLockOfTwo: LOCK TABLE waits for another member's, and with NOWAIT it does not.
func TestLockOfTwo(t *testing.T) {
	all := cluster(t, 2)
	first, _ := all[1].session(10)
	second, _ := all[2].session(20)
	if late, e := first.HoldTables([]uint64{7}, false, 0); late || e != nil {
		t.Fatal(late, e)
	}
	if late, e := second.HoldTables([]uint64{7}, true, 0); !late || e != nil {
		t.Errorf("with NOWAIT it is late: %v, %v", late, e)
	}
	second.End(0)
	had := begin(func() {
		if late, e := second.HoldTables([]uint64{7}, false, 0); late || e != nil {
			t.Error(late, e)
		}
	})
	waits(t, had, "the second lock")
	first.End(0)
	ends(t, had, "the second lock")
}

// TestRenew (H4): a lock is over for a member to which its end was not told when nothing is heard of it any more, and
// not before.
func TestRenew(t *testing.T) {
	t.Parallel()
	all := cluster(t, 2)
	definer, _ := all[1].session(10)
	if e := definer.Hold(wrote(7), nil); e != nil {
		t.Fatal(e)
	}
	ctx, cancel := context.WithCancel(context.Background())
	running := []<-chan struct{}{}
	for _, m := range all {
		running = append(running, begin(func() { _ = m.grants.Renew(ctx) }))
	}
	time.Sleep(4 * time.Second)
	if !all[2].locks.Block(wrote(7)) {
		t.Error("it was told again, and is over")
	}
	all[1].mu.Lock()
	all[1].lost = func(uint32, bool) bool { return true }
	all[1].mu.Unlock()
	writer, _ := all[2].session(20)
	passes := begin(func() { writer.Pass(wrote(7), nil) })
	waits(t, passes, "a writer")
	select {
	case <-passes:
	case <-time.After(6 * time.Second):
		t.Error("nothing is heard of it, and it blocks")
	}
	cancel()
	for _, r := range running {
		ends(t, r, "the goroutine that renews")
	}
}

// TestGather (H4): who is not answered is asked again, until it can be heard no longer.
func TestGather(t *testing.T) {
	for _, c := range []struct {
		what          string
		told, unheard []bool // by attempts; the last goes on
		answers       int    // the attempt after which the member answers
		end           ending
		ordinal       uint64
		asked         int
	}{
		{"it answers", []bool{true}, []bool{false}, 1, granted, 7, 1},
		{"a word is lost", []bool{true}, []bool{false}, 2, granted, 7, 2},
		{"it cannot be heard", []bool{false}, []bool{false}, 0, granted, 0, 1},
		{"it can be heard no longer", []bool{true, false}, []bool{false}, 0, granted, 0, 2},
		{"it is not connected yet", []bool{false, true}, []bool{true}, 2, granted, 7, 2},
		{"it is never connected", []bool{false}, []bool{true}, 0, granted, 0, 2},
		{"it never answers", []bool{true}, []bool{true}, 0, late, 0, 2}, // at least
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			answers := newAnswers()
			at := func(x []bool, n int) bool { return x[min(n, len(x))-1] }
			n := 0
			ordinal, end := gather(admission.Time, answers, 4, []uint32{2}, func(member uint32) (told, unheard bool) {
				if n++; n == c.answers {
					answers.put(schemalock.Answer{Round: 3, Ordinal: 9, From: member}) // of what was asked before
					answers.put(schemalock.Answer{Round: 4, Ordinal: 7, From: member})
				}
				return at(c.told, n), at(c.unheard, n)
			}, admission.Time.Now()+2*Renewal+Renewal/2, func() bool { return false })
			if ordinal != c.ordinal || end != c.end || n < c.asked || n > c.asked && c.end != late {
				t.Errorf("ordinal %d, end %d, asked %d times; want %d, %d, %d", ordinal, end, n, c.ordinal, c.end,
					c.asked)
			}
		})
	}
}

// TestAnswers: an answer reaches who asks, as long as it asks; one to another life, or about another lock, reaches
// nobody. What cannot be read is said.
func TestAnswers(t *testing.T) {
	m := cluster(t, 1)[1]
	s, _ := m.session(10)
	answers := newAnswers()
	_, request, ask := m.locks.want(s, schemalock.Tables{Keys: []uint64{3}}, answers)
	if !ask {
		t.Fatal("nothing is asked for")
	}
	answer := func(number, life uint64) int {
		word, err := json.Marshal(schemalock.Answer{Number: number, Round: request.Round, Life: life, Ordinal: 7})
		if err != nil {
			t.Fatal(err)
		}
		m.grants.Answered(2, word)
		return len(answers.list)
	}
	if n := answer(request.Number, 4) + answer(request.Number+1, 5); n != 0 {
		t.Errorf("%d answers to somebody else are taken", n)
	}
	if n := answer(request.Number, 5); n != 1 {
		t.Fatalf("%d answers are taken", n)
	}
	if a := answers.take()[0]; a.From != 2 || a.Ordinal != 7 || a.Round != request.Round {
		t.Errorf("the answer is %+v", a)
	}
	m.locks.heard(request.Number)
	if n := answer(request.Number, 5); n != 0 {
		t.Error("an answer is taken that nobody waits for")
	}
	m.grants.Hear(2, []byte("{"))
	m.grants.Answered(2, []byte("{"))
	if n := bytes.Count(m.log.Bytes(), []byte("cannot be read")); n != 2 {
		t.Errorf("it is said %d times that a word cannot be read: %s", n, m.log.String())
	}
}
