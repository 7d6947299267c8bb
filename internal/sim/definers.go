package sim

import (
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/schemalock"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// definers are the clients that define tables in blocks, or lock them for all members, and what all sessions of a run
// do by production's schema locks and turns. Some runs have none.
type definers struct {
	w            *world
	on           bool
	rnd          *random
	lane         lane
	deafPerMille int
	lives        []*schemas
	locks        map[schemalock.ID]*lockSeen
	runs         runner // the coroutine that runs
}

// definersSalt spreads the seeds that have definers.
const definersSalt = 0xdef1

// definerBugs are those that are about them. To find others the seeds are what they were without.
var definerBugs = []string{
	"grant-given-twice", "grant-before-decided", "grant-over-at-once", "grant-outlives-holder", "reserved-passes-all",
	"grant-taken-meanwhile", "grant-overtaken", "grant-of-another-round", "grant-not-seen", "turn-not-seen",
	"turn-not-given-back",
	"intent-granted-early", "intent-circles-unseen", "intent-lost", "intent-outlives-owner",
}

func newDefiners(w *world) *definers {
	d := &definers{w: w, rnd: newRandom(mix(w.seed ^ definersSalt)), locks: map[schemalock.ID]*lockSeen{},
		lives: make([]*schemas, len(w.members))}
	d.on = mix(w.seed^definersSalt)%3 == 0 && w.truth.voting.joins == nil &&
		(w.o.Planted == "" || slices.Contains(definerBugs, w.o.Planted))
	d.lane = newLane(newRandom(mix(w.seed^definersSalt^0x6c)), len(w.members))
	if d.on && w.swarm.patience == 0 {
		w.swarm.patience = 300_000
	}
	d.deafPerMille = []int{0, 10, 100}[d.rnd.intn(3)]
	return d
}

// grace is how long after healing every member must have committed: longer where a transaction may be blocked for long.
func (d *definers) grace() int64 {
	if d.on {
		return grace + 5*blockedMost
	}
	return grace
}

// givesUp reports whether sessions of a member end their wait for the order: while there are faults, and where somebody
// else may wait for them, while the member is one that is not healed.
func (d *definers) givesUp(m *member) bool {
	w := d.w
	return w.faulty || d.on && w.phase == phaseMajority && !slices.Contains(w.core, m)
}

// begin lets them begin.
func (d *definers) begin() {
	if !d.on {
		return
	}
	for i := range []int{2, 3, 6}[d.rnd.intn(3)] {
		c := &client{w: d.w, home: d.w.members[i%len(d.w.members)], defines: true}
		c.newProcess()
		d.w.clients = append(d.w.clients, c)
		c.next()
	}
}

// stop ends all coroutines.
func (d *definers) stop() {
	for _, x := range d.lives {
		if x != nil {
			for _, t := range x.threads {
				t.over = true
				t.co.stop()
			}
		}
	}
}

// quiet reports whether nobody waits for locks or turns, and nothing keeps anybody, nor slows him, and all know
// who listens.
func (d *definers) quiet(list []*member) bool {
	if slices.ContainsFunc(list, func(m *member) bool { return m.peers.slows() || !m.listens.quiet(list) }) {
		return false
	}
	return !d.on || !slices.ContainsFunc(list, func(m *member) bool { return !m.w.definers.of(m).quiet() })
}

// script is a client's next transaction.
func (d *definers) script(c *client) *attempt {
	if c.defines {
		return d.draw()
	}
	return d.w.newScript()
}

// exclusion is what a transaction wants for itself.
type exclusion struct {
	tables []table
	all    bool // it does not say what it defines
	locks  bool // it is a LOCK TABLE, and defines nothing
	noWait bool
	turn   bool   // it has taken its turn
	outrun uint64 // by what it was last (modelSession.again)
	seen   uint64 // what its member had applied when it was outrun, had its turn, and had its locks still
}

// draw is the next transaction of a definer: it writes rows of its tables anew, all of them or half, or locks the
// tables and writes to some.
func (d *definers) draw() *attempt {
	w, r := d.w, d.rnd
	w.tags++
	x := &exclusion{locks: r.chance(400), noWait: r.chance(300), all: r.chance(50)}
	a := &attempt{tag: w.tags, alone: x}
	switch r.intn(3) {
	case 0:
		x.tables = []table{tAccount}
	case 1:
		x.tables = []table{tParent, tCounter}
	default:
		x.tables = []table{tAccount, tCounter}
	}
	share := 200 // of the rows, in thousandths
	if !x.locks {
		share = []int{500, 1000}[r.intn(2)]
	}
	for _, t := range x.tables {
		for id := range rowsOf[t] {
			if r.chance(share) {
				a.script = append(a.script, statementOf{verbTouch, rowKey{t, id}, 0})
			}
		}
	}
	for i := range a.script {
		j := i + r.intn(len(a.script)-i)
		a.script[i], a.script[j] = a.script[j], a.script[i]
	}
	return a
}

// definitionsTable stands for all definitions in a writeset (capture.SchemaName).
var definitionsTable = writeset.Table{Schema: capture.SchemaName, Name: "definition", Key: tableKey(tables)}

// extent is what a transaction defines.
func (x *exclusion) extent() *writeset.Writeset { return extentOf(x.tables, x.all) }

func extentOf(of []table, all bool) *writeset.Writeset {
	ws := &writeset.Writeset{Barrier: all, Tables: []writeset.Table{definitionsTable}}
	for _, t := range of {
		ws.Tables = append(ws.Tables, modelTable(t))
	}
	return ws
}

// stamp adds to a transaction's writeset that nobody else may have been in its tables.
func (x *exclusion) stamp(ws *writeset.Writeset) {
	for _, t := range x.tables {
		ws.Keys = append(ws.Keys, writeset.Key{Hash: tableKey(t), Mode: writeset.Exclusive})
	}
	if !x.locks {
		holdsDefinitions(ws)
	}
}

// waitsIn runs a part of the attempt that waits for others. The attempt goes on in it, unless it was ended meanwhile.
func (s *modelSession) waitsIn(f func()) {
	x, a := s.m.w.definers.of(s.m), s.a
	s.waitsFor = a
	var t *thread
	t = x.begins(func() {
		f()
		if s.thread == t {
			s.thread = nil
		}
		if s.a != a {
			s.releases(0)
		}
	})
	s.thread = t
}

// still reports whether the attempt for which a thread waits still runs.
func (s *modelSession) still() bool { return s.a == s.waitsFor && s.state == sessionRunning }

// releases gives back what the session's transaction has of locks and turns. Ordinal is its place in the order.
func (s *modelSession) releases(ordinal uint64) {
	if s.grants == nil || !s.m.up {
		return
	}
	x := s.m.w.definers.of(s.m)
	x.decided(s)
	s.holds = false
	s.grants.End(ordinal)
	s.grants.EndTurn()
	x.endsTurn(s)
	x.wake()
}

// excludes asks for the lock of a transaction, and then goes on.
func (s *modelSession) excludes(then func()) {
	x, a := s.m.w.definers.of(s.m), s.a
	s.waitsIn(func() {
		began := s.m.w.now
		late, failure := false, (*wire.SQLError)(nil)
		if !a.alone.locks {
			if failure = s.grants.Hold(extentOf(a.alone.tables[:1], false), nil); failure == nil {
				late = s.m.w.now-began >= lockPatience // it has gone on without
				began = s.m.w.now
				failure = s.grants.Hold(a.alone.extent(), nil)
			}
		} else {
			var keys []uint64
			for _, t := range a.alone.tables {
				keys = append(keys, tableKey(t))
			}
			late, failure = s.grants.HoldTables(keys, a.alone.noWait, 3000)
		}
		if !s.still() {
			return
		}
		s.holds = true
		if failure != nil || late && a.alone.locks {
			s.fail()
			return
		}
		if !late {
			x.holds(x.expects.asked[s.thread], began)
		}
		then()
	})
}

// takesTurn waits for the turn of a transaction that defines something, and then goes on.
func (s *modelSession) takesTurn() {
	x, a := s.m.w.definers.of(s.m), s.a
	a.alone.turn = true
	s.waitsIn(func() {
		x.asksTurn(s)
		began := s.m.w.now
		sub := &session.Submission{}
		failure := s.grants.Alone(sub, grants.SeenMax)
		if !s.still() {
			return
		}
		if failure != nil {
			s.fail()
			return
		}
		x.takesTurn(s, intent.Own)
		x.hasSeen(s, began)
		s.later(s.step)
	})
}

// passes waits until nothing blocks the transaction, and then goes on.
func (s *modelSession) passes(ws *writeset.Writeset, then func()) {
	if s.grants == nil {
		then()
		return
	}
	x := s.m.w.definers.of(s.m)
	s.waitsIn(func() {
		began := s.m.w.now
		failure := s.grants.Pass(ws, nil)
		switch {
		case !s.still():
			if failure == nil {
				s.grants.Passed()
			}
		case failure != nil:
			s.m.w.stats.Waits.Lost++
			s.fail()
		default:
			x.passes(s, ws, began, s.holds)
			then()
		}
	})
}

// hasPassed is called when the order has decided about the session's transaction, or will not get it.
func (s *modelSession) hasPassed() {
	if s.grants == nil {
		return
	}
	s.m.w.definers.of(s.m).decided(s)
	s.grants.Passed()
	s.m.w.definers.of(s.m).wake()
}

// begins comes before a transaction, and calls then when it may begin.
func (s *modelSession) begins(then func()) {
	if s.grants == nil {
		then()
		return
	}
	s.waitsIn(func() {
		s.grants.Begins()
		s.grants.BeginsAgain(s.failed)
		if s.failed = false; s.still() {
			then()
		}
	})
}

// defining is a definition that takes its place in the order by itself, each time that it is handed to it.
type defining struct {
	over, outdated bool
	outcome        outcome
}

const (
	looksMax    = 5 // of a definition at its tables
	looksBeside = 2
)

// defines has a definition look up its tables, wait for its turn, and be ordered, again and again.
func (s *modelSession) defines() {
	x, m, d := s.m.w.definers.of(s.m), s.m, s.a.define
	s.waitsIn(func() {
		for looks := 1; s.still(); looks++ {
			hurried{m}.Rest(5*time.Millisecond, nil)
			s.base = m.engine.Applied()
			catalog := m.db.at(catalogKey, m.db.visible)
			ws := d.writeset(catalog)
			extent := extentOf(d.tables(catalog), d.all)
			if s.grants.PassDefinition(extent, nil) != nil || !s.still() {
				break
			}
			of, handed := &defining{}, false
			x.asksTurn(s)
			m.w.definers.turns(s, looks > looksBeside, func() session.Result {
				if !s.still() {
					return session.Result{}
				}
				x.takesTurn(s, intent.Ordered)
				s.defining, handed = of, true
				s.submitNow(engine.KindStatement, ws, ws.Append(nil))
				m.w.definers.runs.until(func() bool { return of.over })
				x.endsTurn(s)
				if of.outdated {
					return session.Result{Err: wire.Errorf(wire.CodeTuttiOutdated, "defined again")}
				}
				return session.Result{}
			})
			switch {
			case !handed:
			case !s.still():
			case !of.outdated || looks == looksMax:
				s.finish(of.outcome)
				return
			default:
				m.w.stats.Waits.Outdated++
			}
		}
		if s.still() {
			s.fail()
		}
	})
}

// turns is Turns.Define of the session's member.
func (d *definers) turns(s *modelSession, inVain bool, define func() session.Result) {
	s.m.w.definers.of(s.m).grants.Define(s.grants, session.Definition{InVain: inVain}, define)
}

// ends takes the outcome of what a definition has handed to the order; false if it is another transaction's.
func (s *modelSession) ends(o outcome) bool {
	d := s.defining
	if d == nil || s.state == sessionDead {
		return false
	}
	d.over, d.outcome, s.defining = true, o, nil
	if s.thread.wake(); s.broken {
		return false
	}
	s.state = sessionRunning
	return true
}

// isOutdated notes why a definition was not carried out.
func (s *modelSession) isOutdated(v certify.Verdict) {
	if s.defining != nil {
		s.defining.outdated = v.Reason == certify.Outdated
	}
}
