package sim

import (
	"slices"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/writeset"
)

type outcome uint8

const (
	outcomeUnknown outcome = iota
	outcomeOK
	outcomeFail // certainly not committed
)

type sessionState uint8

const (
	sessionIdle sessionState = iota
	sessionRunning
	sessionSubmitted
	sessionCommitting
	sessionDead
)

// modelSession is one client connection with its backend, in one life of a node.
type modelSession struct {
	m      *member
	c      *client
	slot   uint32
	state  sessionState
	broken bool // its backend is gone

	// one transaction
	a               *attempt
	t               *tx
	base            uint64
	seq             uint64
	pc              int
	task            *engine.Task
	ahead           bool   // collected, before the client has said COMMIT
	progress, order uint64 // of the database when its rows were collected
	wait            *waiting
	grants          *grants.Session // nil: the run has no definers
	thread          *thread         // in which it waits for others; nil: it does not
	waitsFor        *attempt        // that waits in it, or did
	failed, holds   bool            // its last transaction; and this one has a schema lock
	handedAt        int64           // when it was handed to the order
	sub             engine.Submission
	defining        *defining // what it has handed to the order, of a definition; nil: nothing
	added           func()    // see adder.over; nil if nobody waits for that
}

// run starts an attempt.
func (s *modelSession) run(a *attempt) {
	s.a, s.pc, s.task, s.seq, s.ahead = a, 0, nil, 0, false
	s.state = sessionRunning
	s.begins(func() { s.start(a) })
}

// start begins the transaction.
func (s *modelSession) start(a *attempt) {
	if a.unseen != nil {
		s.runBlind()
		return
	}
	if a.define != nil && s.grants != nil {
		s.defines()
		return
	}
	if d := a.define; d != nil {
		s.later(s.m.inDatabase(func() {
			if s.state == sessionRunning && s.a == a {
				s.base = s.m.engine.Applied()
				ws := d.writeset(s.m.db.at(catalogKey, s.m.db.visible))
				s.later(func() { s.submit(engine.KindStatement, ws, ws.Append(nil)) })
			}
		}))
		return
	}
	begin := s.m.inDatabase(func() {
		if s.state != sessionRunning || s.a != a {
			return
		}
		s.base = s.m.engine.Applied()
		a.base = s.base
		s.t = s.m.db.begin(s, a.repeat)
		if s.m.w.o.Planted == "base-read-late" {
			s.later(func() { s.base = s.m.engine.Applied() })
		}
		s.later(s.step)
	})
	switch {
	case a.alone != nil:
		s.excludes(begin)
	case a.repeat:
		s.m.snapshot(begin)
	default:
		begin()
	}
}

// later continues the attempt after the time a statement takes, if it still runs.
func (s *modelSession) later(f func()) {
	a := s.a
	s.m.w.after(s.m.w.rnd.between(10, s.m.w.swarm.statementMax)*s.m.db.slowness(), s.m.inDatabase(func() {
		if s.a == a && s.state == sessionRunning {
			f()
		}
	}))
}

// step executes the script's statements until one must wait.
func (s *modelSession) step() {
	if s.pc == len(s.a.script) {
		s.collect()
		return
	}
	if x := s.a.alone; x != nil && !x.locks && !x.turn && s.pc == len(s.a.script)-1 {
		s.takesTurn()
		return
	}
	switch s.a.script[s.pc].execute(s) {
	case stepDone:
		s.pc++
		s.later(s.step)
	case stepFailed:
		s.fail()
	case stepWaits:
		if deadlocked(s.t) {
			s.m.w.stats.Deadlocks++
			s.fail()
		}
	}
}

// fail rolls an attempt back that was never proposed.
func (s *modelSession) fail() {
	if s.t != nil {
		s.t.rollback()
	}
	s.finish(outcomeFail)
}

// collect takes the writeset and hands it to the order.
func (s *modelSession) collect() {
	if len(s.t.changes)+len(s.a.adds) == 0 {
		s.t.rollback()
		s.finish(outcomeOK)
		return
	}
	s.a.changes = nil
	for _, c := range s.t.changes {
		s.a.changes = append(s.a.changes, c.change)
	}
	s.a.locked = s.t.locked
	for _, l := range s.t.locked {
		if !slices.ContainsFunc(s.t.changes, func(c tagged) bool { return c.key == l.key }) && s.m.w.o.Planted != "locks-forgotten" {
			s.a.changes = append(s.a.changes, l)
		}
	}
	s.a.changes = append(s.a.changes, s.a.adds...)
	changes := s.a.changes
	if s.m.w.o.Planted == "rows-taken-for-one" {
		changes = takenForOne(changes)
	}
	ws := encode(changes, s.a.tag)
	if s.m.w.o.Planted == "key-skipped" && len(ws.Keys) > 0 {
		ws.Keys = ws.Keys[1:]
	}
	if s.a.alone != nil {
		s.a.alone.stamp(ws)
	}
	if s.a.strict {
		ws.Pin(nil, s.a.looked(s.m.w.o.Planted == "absent-reads-forgotten"))
	}
	s.progress, s.order = s.m.db.progress, s.m.db.collect()
	submit := func() { s.submit(engine.KindCertified, ws, ws.Append(nil)) }
	if sw := &s.m.w.swarm; !s.m.w.rnd.chance(sw.aheadPerMille) {
		submit()
	} else { // the client has yet to say COMMIT
		a := s.a
		s.ahead = true
		s.m.w.after(s.m.w.rnd.between(10, sw.statementMax+sw.thinkMax), s.m.in(func() {
			if s.a == a && s.state == sessionRunning {
				submit()
			}
		}))
	}
}

// looked are the rows that a transaction has looked for.
func (a *attempt) looked(foundOnly bool) (rows []writeset.Pinned) {
	for _, r := range a.reads {
		if r.tag != 0 || !foundOnly {
			t := modelTable(r.key.t)
			rows = append(rows, writeset.Pinned{Table: t, Identity: r.key.identity()})
		}
	}
	return rows
}

// held is up to where the transaction has surely seen what it wrote (engine E8): everything
// applied now, if nothing of others was applied since the rows were collected.
func (s *modelSession) held() uint64 {
	if s.m.begun > s.progress && s.m.w.o.Planted != "held-at-commit" {
		return s.progress
	}
	return s.m.engine.Applied()
}

func (s *modelSession) submit(kind engine.Kind, ws *writeset.Writeset, payload []byte) {
	s.passes(ws, func() { s.submitNow(kind, ws, payload) })
}

// submitNow is submit of what is let pass.
func (s *modelSession) submitNow(kind engine.Kind, ws *writeset.Writeset, payload []byte) {
	s.m.seq++
	s.seq = s.m.seq
	if s.a.alone != nil {
		s.a.alone.seen = 0
	}
	if s.t != nil {
		s.t.marks = []mark{{s.slot, engine.Mark{Incarnation: s.m.incarnation, Seq: s.seq}}}
	}
	sub := engine.Submission{Kind: kind, Seq: s.seq, Slot: s.slot, Snapshot: s.a.repeat, Base: s.base, Held: s.held(),
		Others: s.m.w.callers.coming(s.m), Order: s.order, AddBases: s.a.addBases, Writeset: ws, Payload: payload}
	if kind != engine.KindCertified {
		sub.Snapshot, sub.Writeset = false, nil
	}
	s.hand(sub)
}

// hand hands a submission to the order.
func (s *modelSession) hand(sub engine.Submission) {
	s.state, s.handedAt, s.sub = sessionSubmitted, s.m.w.now, sub
	if !s.m.engine.Submit(sub) {
		s.m.w.stats.Refused++
		s.fail()
		return
	}
	s.a.id = writeset.TxID{Member: s.m.id, Incarnation: s.m.incarnation, Seq: s.seq}
	s.m.w.truth.attempts[s.a.id] = s.a
	s.m.submitted[s.seq] = s
	if s.m.w.o.Planted == "acknowledged-early" {
		s.a.outcome = outcomeOK
	}
	s.wait = newWaiting(s.m, s.seq)
	s.looks()
	s.m.wake()
}

// looks puts the next look at the wait on the agenda.
func (s *modelSession) looks() {
	a := s.a
	s.wait.next(func() {
		if s.a == a && s.state == sessionSubmitted && s.m.w.definers.givesUp(s.m) {
			s.giveUp()
		}
	})
}

// giveUp ends the wait for the log: what was not proposed is certainly not committed, of the
// rest the outcome is open and the session ends.
func (s *modelSession) giveUp() {
	m, t := s.m, s.t
	switch how := s.wait.look(); {
	case how == replica.NotOrdered:
		m.w.stats.TimedOut++
		s.fail()
	case how == replica.GoOn: // the answer is on its way, or it still leaves
		s.looks()
	case t == nil:
		m.w.stats.TimedOut++
		if s.a.unseen != nil {
			m.engine.Orphan(s.seq)
			s.broken = true
		}
		s.finish(outcomeUnknown)
	default:
		m.w.stats.TimedOut++
		m.engine.Orphan(s.seq)
		s.broken, s.a.orphan = true, true
		m.w.after(m.w.rnd.between(1, 3000), t.d.in(func() { t.rollback() }))
		if m.w.o.Planted == "given-up-is-failed" {
			s.finish(outcomeFail)
			return
		}
		s.finish(outcomeUnknown)
	}
}

// submitter is who waits for the log's decision.
type submitter interface {
	aborted(engine.Aborted)
	decided(engine.Task)    // it is certified, and to commit now
	wasApplied(missed bool) // its rows are in the database; or it is blind, and has missed one
}

// owner is whose transaction is in a database.
type owner interface{ inTheWay() }

// aborted is verdict, and what follows for others.
func (s *modelSession) aborted(a engine.Aborted) {
	if a.Blind {
		s.m.shun(s.a)
	}
	if !a.Foretold && s.outrun(a.Verdict) {
		s.again(a.Verdict.WinnerOrdinal)
		return
	}
	s.verdict(a.Verdict)
}

func (s *modelSession) decided(t engine.Task) {
	s.hasPassed()
	s.m.peers.took(s.m.w.now - s.handedAt)
	s.m.commitLocal(s, t)
}

func (s *modelSession) wasApplied(missed bool) {
	if u := s.a.unseen; u != nil {
		if u.missed = missed; missed {
			s.a.ops = nil
		}
	}
	s.finish(outcomeOK)
}

// verdict is the log's no.
func (s *modelSession) verdict(v certify.Verdict) {
	if v.Commit() {
		panic("sim: an abort that commits")
	}
	// What a removed member had sent of a transaction is gone; under its number no other comes back.
	if v.Reason == certify.Malformed && s.m.id != s.m.w.truth.voting.removal.member {
		s.m.w.violation("%v: the log garbled transaction %v", s.m, s.a.id)
	}
	if s.m.w.stats.Kills == 0 && !s.a.repeat && s.a.unseen == nil && v.Winner.Member == s.m.id && v.Key.Mode == writeset.Update && !s.m.w.truth.added(v.Winner, v.Key.Hash) {
		s.m.w.refusals = append(s.m.w.refusals, refusal{s.m.id, encode(s.a.changes, s.a.tag), s.a.alone, s.base,
			s.m.engine.Ordinal()})
	}
	s.isOutdated(v)
	s.m.knows.loses(s.a, v)
	if s.t != nil {
		s.t.rollback()
	}
	s.finish(outcomeFail)
}

// finish ends an attempt and lets the client go on.
func (s *modelSession) finish(o outcome) {
	delete(s.m.submitted, s.seq)
	if s.ends(o) {
		return
	}
	a, ordinal := s.a, uint64(0)
	if s.task != nil && o == outcomeOK {
		ordinal = s.task.Ordinal
	}
	s.a, s.t, s.task = nil, nil, nil
	s.failed = o == outcomeFail
	s.releases(ordinal)
	switch {
	case s.state == sessionDead:
	case s.broken:
		s.leave()
	default:
		s.state = sessionIdle
	}
	s.c.finished(a, o)
}

// inTheWay is called when the session's transaction blocks the applier.
func (s *modelSession) inTheWay() {
	switch s.state {
	case sessionRunning:
		s.m.w.stats.Victims++
		if s.m.w.o.Planted == "cancel-arrives-late" {
			s.m.w.after(s.m.w.rnd.between(1, 3000), s.m.in(func() {
				if s.state == sessionRunning || s.state == sessionSubmitted {
					s.fail()
				}
			}))
			return
		}
		s.fail()
	case sessionSubmitted:
		if s.strikes() {
			s.m.w.stats.Kills++
			s.kill()
			return
		}
		switch way, t := s.m.engine.Unblock(s.seq, true); way {
		case engine.Withdrawn:
			s.m.w.stats.Withdrawn++
			s.fail()
		case engine.Foretold:
			s.m.w.stats.Foretold++
			s.m.wake()
		case engine.Joins:
			s.m.w.stats.Early++
			s.m.w.truth.learnEarly(t)
			s.m.commitLocal(s, t)
		case engine.Ends:
			s.m.w.stats.Ended++
			s.kill()
		}
	}
}

// strikes draws whether the backend of a session that is in the way dies by itself, before anybody ends it: what waits for its locks then overtakes it, and it does not
// know (engine E8).
func (s *modelSession) strikes() bool {
	w := s.m.w
	return w.faulty && w.swarm.terminatePerMille > 0 && !s.broken && w.rnd.chance(200)
}

// kill is the death of the backend. The session notices when it needs it next: once its rows
// are collected, that is after the decision.
func (s *modelSession) kill() {
	if s.broken {
		return
	}
	s.broken = true
	switch s.state {
	case sessionIdle:
		s.leave()
	case sessionRunning:
		if s.ahead {
			s.t.rollback()
		} else {
			s.fail()
		}
	case sessionSubmitted:
		if s.t != nil {
			s.t.rollback()
		}
	case sessionCommitting:
		if task := *s.task; s.t.rollback() {
			if s.added != nil {
				s.added()
			}
			s.m.commitLost(task)
		}
	}
}

// leave ends the connection.
func (s *modelSession) leave() {
	s.state, s.c.s = sessionDead, nil
	for i, o := range s.m.sessions {
		if o == s {
			s.m.sessions = append(s.m.sessions[:i], s.m.sessions[i+1:]...)
			return
		}
	}
}

// lost is the death of the node.
func (s *modelSession) lost() {
	state := s.state
	s.state = sessionDead
	s.c.s = nil
	switch state {
	case sessionRunning:
		s.finish(outcomeFail)
	case sessionSubmitted, sessionCommitting:
		s.finish(outcomeUnknown)
	}
}
