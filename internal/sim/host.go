package sim

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// hostOf is a member as a production session sees it, by role. Nobody asks for the roles that are left out.
func hostOf(s *served) session.Host {
	return session.Host{
		Control: control{s}, Order: order{s}, Snapshots: snapshots{s: s}, Intents: intents{s: s}, Rows: known{s},
		Deferred: deferred{s}, Plans: &s.m.knows.forms, Definitions: undefined{}, Channels: unheard{},
	}
}

// control is session.Control.
type control struct{ s *served }

func (h control) Enter(p session.Phase) *wire.SQLError {
	s, g := h.s, &h.s.guard
	if p != session.PhaseRunning {
		s.until(func() bool { return g.cancels == 0 })
	}
	g.wished, g.poked = false, false
	if p == session.PhaseSubmitted {
		g.writes, g.comes = true, false
	}
	if p == session.PhaseIdle {
		g.abort = g.fate
		s.m.knows.claims.End(&s.claim)
		s.releases()
	}
	if g.abort != nil {
		if p == session.PhaseRunning {
			g.phase = p
		}
		s.after = max(s.after, applyingLast(s.m))
		s.failed = true
		return g.abort
	}
	g.phase = p
	return nil
}

func (h control) Serves(on bool) {
	g := &h.s.guard
	if !on && g.comes { // nothing was submitted
		g.writes = false
	}
	g.comes = on && g.writes
}

// coming is how many of a member's sessions may soon submit something (engine.Submission.Others).
func (cs *callers) coming(m *member) (n int) {
	for _, s := range cs.of(m) {
		if s.guard.comes {
			n++
		}
	}
	for _, s := range m.sessions {
		if s.state == sessionRunning {
			n++
		}
	}
	return n
}

func (h control) Cancelled() bool {
	g := &h.s.guard
	return g.wished || g.resumes && g.want
}

func (h control) Resuming(on bool) {
	if h.s.guard.resumes = on; on {
		h.s.guard.want = false
	}
}

func (h control) Cancel()                   { h.s.interrupt() }
func (h control) Fate() *wire.SQLError      { return h.s.guard.fate }
func (h control) Dismissed() *wire.SQLError { return nil }
func (h control) Clock() int64              { return h.s.m.w.now / 1000 }

func (h control) Go(func()) (wait func(), over func() bool) {
	panic("sim: nothing runs beside a simulated session")
}

// Watch looks at the backend's answers itself; what f would read, the session does later.
func (h control) Watch(func()) (stop func(), over func() bool) {
	s := h.s
	s.guard.watch = true
	return func() { s.guard.watch = false }, func() bool { return len(s.b.out.buf) > 0 || s.b.out.closed }
}

// order is session.Order.
type order struct{ s *served }

func (h order) Base() uint64 {
	s := h.s
	s.begins()
	s.until(func() bool { return s.m.engine.Applied() >= s.after })
	s.after = 0
	s.beginsAgain()
	return s.m.engine.Applied()
}

func (h order) Applied() uint64 { return h.s.m.engine.Applied() }

func (h order) NewSeq() (slot uint32, incarnation, seq uint64) {
	h.s.m.seq++
	return h.s.slot, h.s.m.incarnation, h.s.m.seq
}

func (h order) Pass(ws *writeset.Writeset, limits session.Limits) *wire.SQLError {
	return h.s.passes(ws, limits)
}

func (h order) Explain(*writeset.Writeset) *wire.SQLError { return nil }
func (h order) BeginLarge() *wire.SQLError                { return nil }
func (h order) Exceeded()                                 {}

// Submit hands a transaction to the engine and waits for the decision.
func (h order) Submit(sub session.Submission) session.Decision {
	s, m := h.s, h.s.m
	x := s.attempt(&sub)
	held := m.engine.Applied()
	if progress := m.db.passedAt(sub.Order); m.begun > progress {
		held = max(progress, sub.Base)
	}
	defer s.hasPassed()
	return s.submit(engine.Submission{Kind: engine.KindCertified, Seq: sub.Seq, Slot: s.slot, Snapshot: sub.Snapshot,
		Base: sub.Base, Held: held, Order: sub.Order, AddBases: sub.AddBases, Writeset: sub.Writeset,
		Payload: sub.Writeset.Append(nil)}, x)
}

// submit is Submit of what is a transaction of the model by now.
func (s *served) submit(sub engine.Submission, x *attempt) session.Decision {
	m := s.m
	x.id = writeset.TxID{Member: m.id, Incarnation: m.incarnation, Seq: sub.Seq}
	s.handed = &handed{seq: sub.Seq, try: x}
	sub.Others = m.w.callers.coming(m)
	if !m.engine.Submit(sub) {
		m.w.stats.Refused++
		s.handed = nil
		return session.Decision{Err: wire.Errorf(wire.CodeConfigurationLimit, "too many transactions wait")}
	}
	m.w.truth.attempts[x.id], m.submitted[sub.Seq] = x, s
	m.w.stats.Served.Submitted++
	s.patience(s.handed, newWaiting(m, s.handed.seq))
	m.wake()
	began := m.w.now
	s.until(func() bool { return s.handed.decision != nil })
	d := *s.handed.decision
	if d.Commit {
		m.peers.took(m.w.now - began)
	}
	if !d.Commit {
		delete(m.submitted, sub.Seq)
		s.handed = nil
	}
	return d
}

// patience bounds how long a session waits for the log.
func (s *served) patience(h *handed, wait *waiting) {
	m := s.m
	wait.next(func() {
		if s.handed != h || h.decision != nil || !m.w.definers.givesUp(m) {
			return
		}
		switch wait.look() {
		case replica.NotOrdered:
			m.w.stats.TimedOut++
			s.decide(session.Decision{
				Err: wire.Errorf(wire.CodeCannotConnectNow, "it could not be put into the order")})
		case replica.Unknown:
			m.w.stats.TimedOut++
			m.engine.Orphan(h.seq)
			h.try.orphan = true
			s.decide(session.Decision{
				Err: wire.Errorf(wire.CodeStatementUnknown, "the outcome is not known").AsFatal()})
		default:
			s.patience(h, wait)
		}
	})
}

// Committed ends a submission that was decided.
func (h order) Committed(_ uint64, ok bool) {
	s, m := h.s, h.s.m
	x := s.handed
	if x.t != nil && (x.t.state == txLogged || x.t.state == txCommitted) {
		s.until(func() bool { return x.shown }) // whatever the session has heard of it
		ok = true
	} else if ok {
		m.w.violation("%v: a session says that its backend has committed, which it has not", m)
	}
	task := *x.task
	delete(m.submitted, x.seq)
	m.w.after(0, m.in(func() {
		if len(x.try.adds) > 0 {
			m.addsNoMore()
		}
		if !ok {
			m.submitted[x.seq] = s
			m.commitLost(task)
			return
		}
		m.knows.applied([]engine.Task{task}, nil)
		m.commitDone()
	}))
	if !ok {
		s.until(func() bool { return x.applied })
		delete(m.submitted, x.seq)
	}
	s.handed = nil
	s.slowed()
}

// rests waits for so many microseconds.
func (s *served) rests(micros int64) {
	until := s.m.w.now + micros
	s.m.w.after(micros, s.m.in(s.wake))
	s.until(func() bool { return s.m.w.now >= until })
}

// snapshots is session.Snapshots.
type snapshots struct {
	session.Snapshots
	s *served
}

func (h snapshots) EnterSnapshot() (uint64, *wire.SQLError) {
	s := h.s
	s.until(func() bool { return s.interrupted() != nil || gateOpen(s.m) })
	if doom := s.interrupted(); doom != nil {
		return 0, doom
	}
	s.entered = true
	s.m.gate.entered++
	s.a.base = s.m.engine.Applied()
	return s.a.base, nil
}

func (h snapshots) LeaveSnapshot() {
	h.s.entered = false
	h.s.m.w.after(0, h.s.m.in(func() { gateLeft(h.s.m) }))
}

func (h snapshots) SerialRuns(bool) *wire.SQLError { return nil }
func (h snapshots) SerialApart()                   {}

// intents is session.Intents: what the transactions of a member do to which tables.
type intents struct {
	session.Intents
	s *served
}

func (h intents) GiveBack() {
	if h.s.grants != nil {
		h.s.grants.GiveBack()
	}
}

func (h intents) Contended() bool { return h.s.grants != nil && h.s.grants.Contended() }

func (h intents) LostAt(rows []uint64) {
	if h.s.grants != nil {
		h.s.grants.LostAt(rows)
	}
}

func (h intents) TakeTurns(rows []uint64) *wire.SQLError { return h.s.grants.TakeTurns(rows) }

// Defines need not wait: nobody maintains anything.
func (h intents) Defines(session.Limits) *wire.SQLError { return nil }

// Stays need not wait: no definition of the model's is a barrier.
func (h intents) Stays(uint64, bool, session.Limits) (bool, *wire.SQLError) { return false, nil }

func (h intents) Writing(table string) {
	h.s.m.knows.claims.Note(&h.s.claim, intent.Write, table)
}

// known is session.Rows, over the row cache that the member feeds.
type known struct{ s *served }

func (h known) Known(what session.Adds) (session.Counted, bool) {
	k := &h.s.m.knows
	return k.values.Known(what.Row, k.m.engine.Applied())
}

func (h known) Learn(row session.Counted) { h.s.m.knows.learn(row) }

func (h known) There(_, identity uint64) (there, resting bool) {
	return h.s.m.knows.rows.There(modelTableID, identity, h.s.m.w.now)
}

func (h known) LeaveAlone(identities []uint64) {
	k := &h.s.m.knows
	k.rows.Rest(h.s.m.w.now, identities...)
	for _, id := range identities { // it has the place of the back-off now
		k.missed[id%knownRestMax] = missedBlindly{}
	}
}

// deferred is session.Deferred.
type deferred struct{ s *served }

func (h deferred) PutOff(adds []session.Adds) (rows []session.Counted, ok bool) {
	for _, a := range adds {
		row, ok := known(h).Known(a)
		if !ok {
			return nil, false
		}
		rows = append(rows, row)
	}
	for _, a := range adds {
		h.s.m.knows.claims.Note(&h.s.claim, intent.Add, a.Name)
	}
	return rows, true
}

func (h deferred) Added(seq, order uint64, err error) {
	if err != nil {
		h.s.m.w.violation("%v: %v", h.s.m, err)
	}
	h.s.m.engine.Added(seq, order)
}

func (h deferred) DefinedUpTo() uint64 { return h.s.m.engine.Applied() }

func (h deferred) Sees() uint64 {
	s := h.s
	s.until(func() bool { return s.m.engine.Applied() >= s.after })
	return s.m.engine.Applied()
}

// shunPause is how long a blind transaction waits before it asks again whether it may go, and shunTries how often.
const (
	shunPause = 2000
	shunTries = 15
)

// Blind orders a transaction that has seen nothing, and waits until it is carried out.
func (h deferred) Blind(sub session.Submission, must bool) (d session.Decision, done bool) {
	s, m := h.s, h.s.m
	inVain := func(int) bool { return true } // who would wait does not
	if m.knows.claims.Blind(&s.claim, namesOf(sub.Writeset.Tables), must, inVain) != intent.Goes {
		return d, false
	}
	if s.blocked(sub.Writeset) || s.passes(sub.Writeset, sub.Limits) != nil {
		return d, false
	}
	if (control(h)).Enter(session.PhaseSubmitted) != nil {
		s.hasPassed()
		return d, false
	}
	x := s.attempt(&sub)
	ws := x.blind(s, &sub)
	for tries := 0; !must && m.engine.Shuns(ws); tries++ {
		m.w.stats.Shunned++
		must = tries == shunTries
		s.rests(shunPause)
	}
	d = s.submit(engine.Submission{Kind: engine.KindCertified, Seq: sub.Seq, Slot: s.slot, Base: sub.Base,
		Held: sub.Base, Writeset: ws, Payload: ws.Append(nil)}, x)
	s.hasPassed()
	if !d.Commit {
		return d, true
	}
	missed := s.handed.missed
	delete(m.submitted, sub.Seq)
	s.handed = nil
	s.slowed()
	if missed {
		return session.Decision{Retry: true}, false
	}
	return d, true
}

// namesOf are tables as statements name them.
func namesOf(tables []writeset.Table) (names []string) {
	for i := range tables {
		for name, t := range tableNames {
			if modelTable(t).Key == tables[i].Key {
				names = append(names, name)
			}
		}
	}
	return names
}

// blind makes an attempt a blind one, and its writeset that of the model.
func (a *attempt) blind(s *served, sub *session.Submission) *writeset.Writeset {
	a.shape = 0
	for i := range a.changes {
		c := &a.changes[i]
		a.shape += int64(c.v.list[0]) - 1
	}
	a.unseen = &unseen{changes: a.changes}
	if a.of.tries++; a.of.tries > 1 { // versions are named by the transaction that has made them
		s.m.w.tags++
		a.tag = s.m.w.tags
	}
	ws := encode(a.changes, a.tag)
	for _, k := range sub.Writeset.Keys {
		if k.Hash != sub.Writeset.Tables[k.Table].Key {
			k.Table = 0
			ws.Keys = append(ws.Keys, k)
			s.m.w.stats.Held++
		}
	}
	return ws
}

// forms are session.Plans: what a member's sessions have found out about statements.
type forms struct {
	catalog any
	known   map[string][]session.Foreknown
}

func (f *forms) CachedPlans(catalog any, key []byte) []session.Foreknown {
	if f.catalog != catalog {
		return nil
	}
	return f.known[string(key)]
}

func (f *forms) CachePlan(catalog any, key []byte, k session.Foreknown) {
	if f.catalog != catalog || f.known == nil {
		f.catalog, f.known = catalog, map[string][]session.Foreknown{}
	}
	f.known[string(key)] = []session.Foreknown{k}
}

// undefined is session.Definitions of clients that define nothing.
type undefined struct{ session.Definitions }

func (undefined) Deferrable() bool { return false }
func (undefined) Main() bool       { return true }

// unheard is session.Channels of clients that do not listen.
type unheard struct{ session.Channels }

// What is found out about texts is found out once: to parse one takes longer than to simulate it.
var (
	directs  = map[string]*semantics.Direct{}
	reads    = map[string]*semantics.Glance{}
	textsMax = 1000
)

func directOf(sql string) (semantics.Direct, bool) {
	return remembered(directs, sql, semantics.DirectOf)
}
func readThroughOf(sql string) (semantics.Glance, bool) {
	return remembered(reads, sql, semantics.GlanceOf)
}

func remembered[T any](all map[string]*T, sql string, find func(string) (T, bool)) (T, bool) {
	v, seen := all[sql]
	if !seen {
		if x, ok := find(sql); ok {
			v = &x
		}
		if len(all) >= textsMax {
			clear(all)
		}
		all[sql] = v
	}
	if v == nil {
		var none T
		return none, false
	}
	return *v, true
}
