package node

import (
	"time"

	"github.com/tuttidb/tutti/internal/advisory"
	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/clients"
	"github.com/tuttidb/tutti/internal/deferred"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/halt"
	"github.com/tuttidb/tutti/internal/membership"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/pending"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/snapshots"
	"github.com/tuttidb/tutti/internal/speakers"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// host is the node as one session sees it; it has every role of session.Host.
type host struct {
	n *life
	g *guards.Guard

	after uint64        // ordinal the next transaction must see: of the last one, or of what it lost to
	debt  time.Duration // see admission.Throttle.Slow
	clock metrics.CommitClock

	advisory  *advisory.Session // its advisory locks; nil if it has never asked for one
	snapshots *snapshots.Session
	listens   listenSet

	writes bool // the last transaction did
	turn   bool // this one has one, see admission.Turns
	large  bool // it is one of few, see admission.Larges
	must   bool // see Blind
	beaten int  // so often its transactions have lost to blind ones, one after the other
	won    bool
	lost   bool
	grants *grants.Session
	rows   *deferred.Session

	seen   uint64      // how many long definitions the transaction has seen
	missed *replay.Job // the last one had to see this one, too
}

// newHost makes one of a session.
func newHost(l *life, g *guards.Guard) *host {
	h := &host{n: l, g: g, listens: listenSet{l: l}}
	h.grants = l.grants.Session(control{g, h})
	h.rows = l.rows.Session(func() bool { return h.Interrupted() != nil })
	h.snapshots = l.snapshots.Session(control{g, h})
	return h
}

// rolesOf is a host as its session takes it.
func rolesOf(h *host) session.Host {
	return session.Host{
		Control: control{h.g, h}, Order: h, Snapshots: h.snapshots, Intents: intents{h.grants, h}, Rows: h.rows,
		Deferred: h, Plans: &h.n.plans, Definitions: h,
		Status: h.n.shows, Channels: &h.listens, Advisory: h, Procedures: talk{speakers.New(speakersOf(h)), h},
		Sequences: sequences{h.n},
	}
}

// Base also waits until the session's last transaction, or the winner of its conflict, counts
// as applied: a retry that does not see the winner loses again, for certain, and a
// transaction that does not see its predecessor's foreign key checks loses to those.
func (h *host) Base() uint64 {
	h.endTurn()
	h.grants.Begins()
	if h.after > 0 {
		awaits(h.n, flow.WaitOwnCommit, func() bool {
			return h.n.order.core.Applied() >= h.after || h.n.course.ending()
		})
		h.after = 0
	}
	if h.missed != nil {
		wait := h.n.metrics.Waits.Begin(flow.WaitLong)
		h.n.awaitLong(h.missed)
		wait.End()
		h.missed = nil
	}
	h.grants.BeginsAgain(h.lost)
	h.seen = h.n.db.jobs.Seen()
	if h.writes {
		h.n.flow.turns.Take(h.n.course.done)
		h.turn = true
	}
	h.clock.Begin()
	h.writes, h.won, h.lost = false, false, false
	return h.n.order.core.Applied()
}

// Applied is the last ordinal up to which all is visible, definitions included.
func (h *host) Applied() uint64 { return h.n.complete() }

func (l *life) complete() uint64 {
	applied := l.order.core.Applied() // before the look at what is not complete
	if g := l.db.jobs.Under(); g != nil {
		return min(applied, g.Task.Ordinal-1)
	}
	return applied
}

// endTurn tells how the session's transaction ended, if it had a turn.
func (h *host) endTurn() {
	if h.turn {
		h.n.flow.turns.Give(h.won, h.lost && !h.won)
		h.turn = false
	}
}

// Deferrable reports whether anything in the database may fire at COMMIT.
func (h *host) Deferrable() bool { return h.n.db.tables.Load().Deferrable() }

// Interrupted is why the session's transaction waits in vain, if it does: it has lost, its client has cancelled that,
// or the member stops.
func (h *host) Interrupted() *wire.SQLError {
	switch doom := h.g.Lost(); {
	case doom != nil:
		return doom
	case h.g.Wishes():
		return replay.ErrCanceled()
	case h.n.course.ending():
		return outcome.Ending()
	}
	return nil
}

func (h *host) NewSeq() (uint32, uint64, uint64) {
	h.clock.Ask()
	return h.g.Slot(), h.n.id.incarnation, h.n.order.seq.Add(1)
}

func (h *host) Enter(p session.Phase) *wire.SQLError {
	if p == session.PhaseWaiting {
		h.clock.Waits()
	}
	doom := h.g.Enter(p)
	if h.advisory != nil && h.advisory.Expired() {
		doom = advisory.ErrLocksLost()
	}
	if doom != nil {
		h.after = h.n.submitted.running.Last()
		h.writes, h.lost = true, true
	}
	if p == session.PhaseIdle {
		h.endTurn()
		h.snapshots.End()
		h.endLock()
		h.grants.EndTurn()
		h.endLarge()
		h.rows.End()
	}
	return doom
}

// submission is what the engine gets of a session's.
func (h *host) submission(sub *session.Submission, payload []byte) engine.Submission {
	// At Order the backend held its row locks. If nothing foreign was applied since, they were held
	// at what is applied now; else only what was applied then is certain, or what was
	// applied before its first statement (E8).
	held := sub.Base
	if !sub.Writeset.Blind() { // which holds none
		held = h.n.order.core.Applied()
		if progress := h.n.db.applier.Passed.Before(sub.Order); h.n.db.applier.Begun.Load() > progress {
			held = max(progress, sub.Base)
		}
	}
	return engine.Submission{Kind: engine.KindCertified, Seq: sub.Seq, Slot: h.g.Slot(), Snapshot: sub.Snapshot,
		Serial: sub.Serial, Vouched: sub.Vouched, Base: sub.Base, Held: held, Order: sub.Order, Seen: sub.Seen,
		Since: h.advisory.Since(), AddBases: sub.AddBases, Writeset: sub.Writeset, Payload: payload}
}

// Submit hands the writeset to the engine and waits for the decision.
func (h *host) Submit(sub session.Submission) session.Decision {
	d, w := h.submit(sub)
	for n, by := 1, uint64(0); w != nil && w.Outrun && w.Ordinal > by && n < outrunMax; n++ {
		by = w.Ordinal
		d, w = h.submit(sub)
	}
	h.grants.Passed()
	if !d.Commit {
		h.serialDecided(w, w != nil && h.n.submitted.waiters.Given(w))
	}
	return d
}

// outrunMax is how often a transaction with definitions is handed to the order at most, each time behind the definition
// that came first. In between it is tried again at another member (TR3).
const outrunMax = 100

// submit is Submit; it gives the waiter, too, if the engine may have the submission.
func (h *host) submit(sub session.Submission) (session.Decision, *pending.Waiter) {
	id := writeset.TxID{Member: h.n.config.Member, Incarnation: h.n.id.incarnation, Seq: sub.Seq}
	payload, d := outgoing(h, &sub)
	if d.Err != nil {
		return d, nil
	}
	keys, err := h.decoded(sub.Writeset, payload)
	if err != nil {
		return session.Decision{Err: wire.Errorf(wire.CodeInternalError,
			"the transaction's changes cannot be ordered: %v", err)}, nil
	}
	began := time.Now()
	h.writes = true
	w := h.n.submitted.waiters.Add(h.g, sub)
	defer underWay(h, sub.Seq)()
	s := h.submission(&sub, payload)
	s.Keys, s.Others = keys, h.g.Others()
	tick, news, unpace := h.n.order.paces.Begin(&s, h.n.config.Limits.GroupBytes)
	defer unpace()
	ok := h.n.order.core.Do(func(e *engine.Engine) {
		switch {
		case !h.must && s.Writeset.Blind() && e.Shuns(s.Writeset):
			w.Shunned = true
			w.Decision <- session.Decision{Retry: true}
		case !e.Submit(s):
			h.n.metrics.Limits.Pending.Add(1)
			w.Decision <- session.Decision{Err: outcome.Pending()}
		}
	})
	if !ok {
		return session.Decision{Err: outcome.Unknown(id, outcome.Restarts)}, nil
	}
	wait, over, stop := h.n.submitted.patience.Begin()
	defer stop()
	w.Patience = wait
	for {
		select {
		case d := <-w.Decision:
			concluded(h, w, &d)
			if d.Commit && tick == nil { // a large one takes its time
				h.n.flow.throttle.Took(time.Since(began))
			}
			return d, w
		case <-tick:
			h.n.letGo(sub.Seq)
		case <-news:
			h.n.letGo(sub.Seq)
		case <-over:
			h.n.submitted.patience.Look(w)
		case <-h.n.course.done:
			return h.lastDecision(id, w)
		}
	}
}

// concluded takes what the log has decided on a submission.
func concluded(h *host, w *pending.Waiter, d *session.Decision) {
	h.after = max(h.after, w.Ordinal) // a blind transaction does not wait for it
	decided(h, d)
	if h.shun(w); d.Commit {
		h.beaten = 0
		return
	}
	h.n.submitted.waiters.Remove(w.Sub.Seq)
}

// lastDecision is what a session is told when the life ends while it waits: the decision, if that came together with
// the end.
func (h *host) lastDecision(id writeset.TxID, w *pending.Waiter) (session.Decision, *pending.Waiter) {
	select {
	case d := <-w.Decision:
		return d, w
	default:
		return session.Decision{Err: outcome.Unknown(id, outcome.Restarts)}, nil
	}
}

// decoded makes of a large writeset what the others will read, here and not where it would hold up the
// order. What it was made of before is not held in memory any longer.
func (h *host) decoded(ws *writeset.Writeset, payload []byte) (*engine.Keys, error) {
	if len(payload) <= h.n.config.Limits.BatchBytes {
		return nil, nil
	}
	*ws = writeset.Writeset{} // two of them would be in memory
	own, err := writeset.Decode(payload)
	if err != nil {
		return nil, err
	}
	*ws = *own
	return engine.NewKeys(ws), nil
}

// Committed reports the backend's own COMMIT. If that failed, the executor applies the
// rows; wait for it, so that the client reads its own writes, as after a change of the schema, which
// the next transaction must know. While some member lags too much
// the session is held back here, see admission.Throttle.Slow.
func (h *host) Committed(seq uint64, ok bool) {
	w := h.n.submitted.waiters.Get(seq)
	w.Commits(ok)
	h.serialDecided(w, !ok)
	if !ok || len(w.Sub.Writeset.Steps) > 0 {
		wait := h.n.metrics.Waits.Begin(flow.WaitApplied)
		select {
		case <-w.Applied:
		case <-h.n.course.done:
		}
		// Whoever begins behind the answer has seen the names that it has given.
		h.n.flow.gate.Await(func() bool {
			return h.n.order.core.Applied() >= w.Ordinal || h.n.course.ending() || h.n.course.halted.Load() != nil
		})
		wait.End()
	}
	slowed(h)
}

// Explain names the conflict between a transaction that blocked the executor and the
// group that is being applied.
func (h *host) Explain(ws *writeset.Writeset) *wire.SQLError {
	return h.n.words.Explain(ws, h.n.submitted.running.Remote())
}

// aborted hands a lost certification to its session.
func (l *life) aborted(a engine.Aborted) {
	if a.Orphan {
		l.submitted.waiters.Settled(a.Seq)
		return
	}
	l.submitted.definitions.Answer(a.Seq, outcome.Undefined(a.Verdict))
	w := l.submitted.waiters.Get(a.Seq)
	if a.Verdict.Reason == certify.TooOld && (w == nil || !w.Sub.Writeset.Adds()) {
		l.metrics.Limits.Keys.Add(1)
	}
	if w != nil {
		l.rows.Lost(w.Sub.Writeset, a.Verdict)
		l.words.Count(w.Sub.Writeset, a.Verdict)
		w.Beaten = a.Blind
		w.Outrun = !a.Foretold && a.Verdict.Reason == certify.KeyConflict &&
			a.Verdict.Key.Hash == capture.DefinitionsKey
		w.Ordinal = a.Verdict.WinnerOrdinal
		w.Decision <- session.Decision{Retry: true, Err: l.words.Lost(w.Sub.Writeset, a.Verdict)}
	}
}

// Define orders a statement and waits until it has run here.
func (h *host) Define(d session.Definition) session.Result {
	l := h.n
	if d.Extent.Shared && l.id.group != mainGroup {
		if l = l.tenure.life(mainGroup); l == nil {
			return session.Result{Err: errNotReady()}
		}
		if x := l.course.halted.Load(); x != nil {
			return session.Result{Err: halt.Refused(l.id.database, x)}
		}
		d.Base = l.complete()
	}
	e := l.tenure.mayChange(h.n, d.Database)
	if e == nil {
		e = l.tenure.mayChangeMembers(d.Membership)
	}
	if e == nil {
		e = membership.MayRecord(l.config, l.tenure.standing, d.Record)
	}
	if e != nil {
		return session.Result{Err: e}
	}
	if d.Membership.Does != semantics.NoMember {
		d.Extent.Shared = false // other databases need not meet it: nothing of theirs is changed
		d.Began = l.tenure.began()
	}
	if d.Record.Does != semantics.NoRecord {
		d.Extent.Shared, d.Record = false, membership.Complete(l.config, d.Record)
	}
	if e := h.Enter(session.PhaseRunning); e != nil { // the client may cancel what it waits for
		return session.Result{Err: e}
	}
	defer h.Enter(session.PhaseIdle)
	if e := h.losesBy(h.grants.PassDefinition(d.Extent, d.Limits)); e != nil {
		return session.Result{Err: e}
	}
	d.ByVoters = d.Database.Does == semantics.CreatesDatabase &&
		l.tenure.standing.Understand(bootstrap.FirstVoters)
	r := l.grants.Turns.Define(h.grants, d, func() session.Result { return l.define(d, h.g) })
	if r.Err == nil && d.Database.Does == semantics.CreatesDatabase {
		l.tenure.awaitDatabase(d.Database.Name)
	}
	return r
}

// Verifier makes what PostgreSQL would store.
func (h *host) Verifier(password, role string, useMD5 bool) string {
	return clients.Verifier(password, role, useMD5)
}

// Main reports whether the session is in the main database.
func (h *host) Main() bool { return h.n.id.group == mainGroup }

func (l *life) define(d session.Definition, g *guards.Guard) session.Result {
	return l.defineAs(l.txid(l.order.seq.Add(1)), d, g)
}

func (l *life) defineAs(id writeset.TxID, d session.Definition, g *guards.Guard) session.Result {
	result, over := l.submitted.definitions.Begin(id.Seq)
	defer over()
	ws := *d.Extent
	ws.Steps = []writeset.Step{{Definition: replay.EncodeDefinition(d)}}
	payload := ws.Append(nil)
	full := false
	ok := l.order.core.Call(func(e *engine.Engine) {
		full = !e.Submit(engine.Submission{Kind: engine.KindStatement, Seq: id.Seq, Base: d.Base, Payload: payload})
	})
	if full {
		l.metrics.Limits.Pending.Add(1)
		return session.Result{Err: wire.Errorf(wire.CodeConfigurationLimit,
			"too many transactions wait to be ordered (pending_items)")}
	}
	if ok {
		g.Defining(func() { l.cancelDefinition(id.Seq) })
		defer g.Defining(nil)
		if g != nil && g.Wishes() { // the cancel came just before
			l.cancelDefinition(id.Seq)
		}
		r := l.submitted.patience.AwaitDefinition(id, result)
		if r.Err != nil && r.Err.Code == wire.CodeTuttiOutdated {
			l.catchUp()
		}
		return r
	}
	return outcome.UnknownStatement(id, outcome.Restarts)
}

// catchUp waits until all that is decided is applied here: who looks sooner finds what was outdated.
func (l *life) catchUp() {
	var decided uint64
	l.order.core.Call(func(e *engine.Engine) { decided = e.Ordinal() })
	l.flow.gate.Await(func() bool { return l.order.core.Applied() >= decided || l.course.ending() })
	l.db.jobs.Await(l.course.ending)
}
