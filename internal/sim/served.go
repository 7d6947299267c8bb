package sim

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// served is a client's connection to a member: a production session in a coroutine, with the model of its backend. It
// plays what internal/node has around a session.
type served struct {
	m     *member
	c     *caller
	a     *attempt // that the client runs
	slot  uint32
	co    *coroutine
	b     *backend
	in    inlet // from the client
	guard guarded

	waiting bool // the coroutine has handed over
	woken   bool // it is on the agenda
	gone    bool // the session has ended, or its member's life

	debt    time.Duration   // see admission.Throttle.Slow
	tells   int64           // when what it has told last arrives
	after   uint64          // the ordinal that its next transaction must see
	entered bool            // it holds the next group back, see EnterSnapshot
	shape   int64           // of rows when its transaction first wrote
	grants  *grants.Session // nil: the run has no definers
	failed  bool            // its last transaction has lost
	claim   intent.Claim    // what its transaction does to which tables
	handed  *handed         // its submission under way; nil: none
}

// handed is a submission that the log decides on.
type handed struct {
	seq      uint64
	try      *attempt
	decision *session.Decision
	task     *engine.Task // once it is decided that it commits
	t        *tx          // that commits; nil: it is blind
	missed   bool         // it is blind, and has not found its row
	applied  bool         // its rows were applied for it
	shown    bool         // its backend has committed
}

// guarded is how a session may be interrupted; it plays node's guard.
type guarded struct {
	phase         session.Phase
	abort, fate   *wire.SQLError
	poked, watch  bool
	cancels       int  // signals on their way
	wished        bool // the client has asked to cancel what runs in this phase
	writes, comes bool // its last transaction was submitted; the next one may be soon
	resumes, want bool // something is done again; and the client has asked to cancel it
}

// errBroken is what a closed connection gives.
var errBroken = errors.New("sim: the connection is closed")

// inlet is one direction of a connection, as the session reads it.
type inlet struct {
	s      *served
	buf    []byte
	closed bool
	client bool // reads time out when the session is poked
}

// Read waits for bytes.
func (p *inlet) Read(dst []byte) (int, error) {
	poked := func() bool { return p.client && p.s.guard.poked }
	p.s.until(func() bool { return len(p.buf) > 0 || p.closed || poked() })
	switch {
	case poked():
		return 0, os.ErrDeadlineExceeded
	case len(p.buf) == 0:
		return 0, io.EOF
	}
	n := copy(dst, p.buf)
	p.buf = p.buf[n:]
	return n, nil
}

// outlet is what the session writes to its client.
type outlet struct{ s *served }

func (o outlet) Write(p []byte) (int, error) {
	s := o.s
	if s.in.closed {
		return 0, errBroken
	}
	told := append([]byte(nil), p...)
	s.tells = max(s.tells, s.m.w.now+s.m.w.rnd.between(1, 50)) // in order
	s.m.w.agenda.push(s.tells, func() { s.c.hears(s, told) })
	return len(p), nil
}

// connect connects a client to a member.
func connect(m *member, c *caller) *served {
	m.slots++
	s := &served{m: m, c: c, slot: m.slots}
	s.in.s, s.in.client = s, true
	s.b = newBackend(s)
	x := session.New(session.Options{
		Client: wire.NewReader(&s.in, wire.FrontendLimits()), ClientOut: wire.NewWriter(outlet{s}),
		Server: wire.NewReader(&s.b.out, wire.BackendLimits()), ServerOut: wire.NewWriter(s.b),
		Host: hostOf(s), Collector: collector{s}.roles(), Planned: m.w.callers.planned, Strict: true,
		Direct: directOf, ReadThrough: readThroughOf, HoldBytesMax: 1 << 10,
	})
	s.co = newCoroutine(func() {
		err := x.Run()
		m.w.say("%v: the session of slot %d ends: %v", m, s.slot, err)
		s.leave()
	})
	m.w.callers.all = append(m.w.callers.all, s)
	if m.w.definers.on {
		s.grants = m.w.definers.of(m).grants.Session(tells{s})
	}
	s.waiting = true
	s.wake()
	return s
}

// until hands over until something is so. Only the session itself may call it.
func (s *served) until(is func() bool) {
	for !is() {
		s.waiting = true
		s.co.pause()
		s.waiting = false
	}
}

// wake has the session look again at what it waits for.
func (s *served) wake() {
	if s.gone || s.woken || !s.waiting {
		return
	}
	s.woken = true
	s.m.w.after(0, s.m.in(func() {
		if s.woken = false; !s.gone {
			s.waiting, s.m.w.callers.runs, s.m.w.definers.runs = false, s, s
			s.co.resume()
		}
	}))
}

// leave ends a session from within: both connections are closed.
func (s *served) leave() {
	s.gone = true
	s.ends()
	s.b.die()
	s.m.w.after(1, func() { s.c.lost(s) })
}

// ends lets go what the session holds of its member.
func (s *served) ends() {
	if s.entered {
		s.entered = false
		s.m.w.after(0, s.m.in(func() { gateLeft(s.m) }))
	}
	s.m.knows.claims.End(&s.claim)
	s.releases()
	if h := s.handed; h != nil && h.task == nil {
		delete(s.m.submitted, h.seq)
		s.handed = nil
	}
}

// cut is the end of the member's life: the session ends where it is.
func (s *served) cut() {
	if s.gone {
		return
	}
	s.gone, s.entered, s.handed, s.claim = true, false, nil, intent.Claim{}
	s.b.dead = true
	s.m.w.after(0, s.co.stop)
	s.m.w.after(s.m.w.rnd.between(1, 100), func() { s.c.lost(s) })
}

// tag is that of the transaction which the client runs.
func (s *served) tag() uint64 { return s.a.tag }

// commits reports whether the backend carries out what was put off until its transaction commits.
func (s *served) commits() bool { return s.handed != nil && s.handed.task != nil }

// poke makes a read from the client time out.
func (s *served) poke() {
	s.guard.poked = true
	s.wake()
}

// kill dooms the transaction if the session alone can still end it.
func (s *served) kill(why *wire.SQLError) {
	g := &s.guard
	if g.phase != session.PhaseWaiting && g.phase != session.PhaseRunning {
		return
	}
	if g.abort == nil {
		g.abort = why
	}
	s.poke()
	if g.phase == session.PhaseRunning {
		s.interrupt()
	}
}

// interrupt cancels what the backend executes, some time later.
func (s *served) interrupt() {
	s.guard.cancels++
	s.m.w.after(s.m.w.rnd.between(1, 300), s.m.in(func() {
		s.guard.cancels--
		s.b.cancel()
		s.wake()
	}))
}

// cancelClient carries out what the client asks for.
func (s *served) cancelClient() {
	g := &s.guard
	g.want = g.resumes
	switch g.phase {
	case session.PhaseRunning:
		g.wished = true
		s.interrupt()
		s.wake()
	case session.PhaseSubmitted:
		if h := s.handed; h != nil && s.m.engine.Withdraw(h.seq) {
			s.decide(session.Decision{
				Err: wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to user request")})
		}
	}
}

// interrupted is why the transaction waits in vain; nil if it does not.
func (s *served) interrupted() *wire.SQLError {
	if s.guard.abort == nil && s.guard.wished {
		return wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to user request")
	}
	return s.guard.abort
}

// backendDied notes that the backend is gone. The session sees it when it needs it next.
func (s *served) backendDied() {
	if s.guard.watch {
		s.poke()
	}
}

func errLost() *wire.SQLError {
	return wire.Errorf(wire.CodeSerializationFailure, "could not serialize access due to concurrent update")
}

// inTheWay is called when the session's transaction blocks the applier; it plays node's unblock.
func (s *served) inTheWay() {
	m, h := s.m, s.handed
	if s.guard.phase != session.PhaseSubmitted {
		m.w.stats.Victims++
		s.kill(errLost())
		return
	}
	if h == nil || h.decision != nil {
		return
	}
	switch way, t := m.engine.Unblock(h.seq, true); way {
	case engine.Withdrawn:
		m.w.stats.Withdrawn++
		s.after = max(s.after, applyingLast(m))
		s.decide(session.Decision{Retry: true, Err: errLost()})
	case engine.Foretold:
		m.w.stats.Foretold++
		m.wake()
	case engine.Joins:
		m.w.stats.Early++
		m.w.truth.learnEarly(t)
		s.decided(t)
	case engine.Ends:
		m.w.stats.Ended++
		s.b.die()
	}
}

// decide hands the log's decision to the session.
func (s *served) decide(d session.Decision) {
	s.handed.decision = &d
	s.wake()
}

// decided has the session commit what is certified.
func (s *served) decided(t engine.Task) {
	h := s.handed
	s.m.group.left++
	if h.task = &t; len(h.try.adds) > 0 {
		s.m.group.adds++
	}
	h.t = s.b.t
	s.after = max(s.after, t.Ordinal)
	s.decide(session.Decision{Commit: true})
}

// aborted is the log's no.
func (s *served) aborted(a engine.Aborted) {
	h := s.handed
	s.m.knows.loses(h.try, a.Verdict)
	s.after = max(s.after, a.Verdict.WinnerOrdinal)
	s.decide(session.Decision{Retry: true, Err: errLost()})
	if a.Blind {
		s.m.shun(h.try)
	}
}

// wasApplied tells the session that its rows were applied for it: those of a blind transaction, or of one that its
// backend could not commit.
func (s *served) wasApplied(missed bool) {
	h := s.handed
	if h == nil {
		return
	}
	if h.missed, h.applied = missed, true; h.decision == nil {
		s.decide(session.Decision{Commit: true})
		return
	}
	s.wake()
}

// shown notes that the backend has committed.
func (s *served) shown(t *tx) {
	if h := s.handed; h != nil && h.t == t {
		h.shown = true
		s.wake()
	}
}

// attempt makes a try of what is submitted.
func (s *served) attempt(sub *session.Submission) *attempt {
	a := s.a
	changes, tag := decode(sub.Writeset)
	if tag != a.tag {
		s.m.w.violation("%v: a session submits rows of transaction %d while its client runs %d", s.m, tag, a.tag)
	}
	x := &attempt{tag: a.tag, process: a.process, home: a.home, of: a, repeat: sub.Snapshot, base: sub.Base,
		addBases: sub.AddBases, shape: s.shape, start: a.start}
	for _, c := range changes {
		if c.op == writeset.OpAdd {
			x.adds = append(x.adds, c)
		}
	}
	x.changes = changes
	return x
}
