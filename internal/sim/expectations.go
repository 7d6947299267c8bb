package sim

import (
	"context"
	"slices"

	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/schemalock"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A node's times, simulated.
const (
	lockPatience = 2_000_000 / haste  // for a lock to be granted
	lockSilence  = 3_000_000 / haste  // after which one is over of which nothing is heard
	blockedMost  = 60_000_000 / haste // that a transaction is blocked
)

// lockSeen is a lock as the run knows it, from the words of its member.
type lockSeen struct {
	rounds  map[uint64]schemalock.Tables // what was asked for
	answers map[lockAnswer]lockGrant     // that came
	awaits  map[lockAnswer]bool          // who was asked, and can be heard
	holds   bool                         // its session was told that it has it
	over    bool
}

// lockAnswer is a member's answer to a round.
type lockAnswer struct {
	round  uint64
	member uint32
}

// lockGrant is what a life has said.
type lockGrant struct{ life, ordinal uint64 }

// grantSeen is a lock of another member that a life has granted.
type grantSeen struct {
	tables schemalock.Tables
	over   bool
	until  uint64 // it blocks until this is applied
}

// expectations is what the run knows of a life's locks and turns.
type expectations struct {
	granted map[schemalock.ID]*grantSeen
	heard   map[schemalock.ID]int64
	passed  map[any]*writeset.Writeset // what is let pass and not decided
	ordered map[runner]uint64          // what was told to who waits for it
	asked   map[runner]uint64          // the number of the lock that was asked for
	turns   map[*modelSession]intent.Mode
	without map[uint32]bool // who goes on without its turn, by slot
	asks    map[uint32]phase
}

func newExpectations() expectations {
	return expectations{granted: map[schemalock.ID]*grantSeen{}, heard: map[schemalock.ID]int64{},
		passed: map[any]*writeset.Writeset{}, turns: map[*modelSession]intent.Mode{}, without: map[uint32]bool{},
		asks: map[uint32]phase{}, ordered: map[runner]uint64{}, asked: map[runner]uint64{}}
}

// meets reports whether a transaction has written to one of the tables by its name.
func meets(x schemalock.Tables, ws *writeset.Writeset) bool {
	return slices.ContainsFunc(ws.Tables, func(t writeset.Table) bool {
		return t.Schema == "public" && slices.Contains(x.Keys, t.Key)
	})
}

// share reports whether two locks are about one table.
func share(x, y schemalock.Tables) bool {
	return slices.ContainsFunc(x.Keys, func(k uint64) bool { return slices.Contains(y.Keys, k) })
}

// noteSent takes a word that a member sends.
func (x *schemas) noteSent(to uint32, answer bool, word []byte) {
	locks := x.m.w.definers.locks
	if !answer {
		r := decodeWord[schemalock.Request](word)
		l := locks[x.lockID(r.Number)]
		if l == nil {
			l = &lockSeen{rounds: map[uint64]schemalock.Tables{}, answers: map[lockAnswer]lockGrant{},
				awaits: map[lockAnswer]bool{}}
			locks[x.lockID(r.Number)] = l
		}
		if l.over = l.over || r.Over; r.Round > 0 {
			l.rounds[r.Round] = r.Tables
			of, is := lockAnswer{r.Round, to}, x.reach(to)
			was, asked := l.awaits[of]
			l.awaits[of] = (is.Alive || is.Unheard) && (was || !asked)
			x.expects.asked[x.m.w.definers.runs] = r.Number
		}
		return
	}
	a := decodeWord[schemalock.Answer](word)
	if a.Taken {
		return
	}
	id := schemalock.ID{Member: to, Life: a.Life, Number: a.Number}
	x.grantsTo(id, locks[id], a)
}

// notAwaited is called when a member cannot be asked.
func (x *schemas) notAwaited(to uint32, word []byte) {
	r := decodeWord[schemalock.Request](word)
	x.m.w.definers.locks[x.lockID(r.Number)].awaits[lockAnswer{r.Round, to}] = false
}

// leavesOut is called when a member is not asked, or not again, as it is halted. Who asks does not wait for it any
// more, not even if it serves again before the others have granted the lock.
func (x *schemas) leavesOut(member uint32) {
	if l := x.m.w.definers.locks[x.lockID(x.expects.asked[x.m.w.definers.runs])]; l != nil {
		l.awaits[lockAnswer{l.last(), member}] = false
	}
}

// grantsTo is called when the life tells a member that it grants its lock.
func (x *schemas) grantsTo(id schemalock.ID, l *lockSeen, a schemalock.Answer) {
	w, m, tables := x.m.w, x.m, l.rounds[a.Round]
	for _, ws := range x.expects.passed { // order-free: whether there is one
		if meets(tables, ws) {
			w.violation("%v: grants lock %v while a transaction of its own is not decided that writes to its tables", m,
				id)
		}
	}
	_, again := l.answers[lockAnswer{a.Round, m.id}]
	of := w.members[id.Member-1]
	for other, o := range w.definers.locks { // order-free: whether there is one
		both := o.answers[lockAnswer{o.last(), id.Member}].life == id.Life && of.up && of.incarnation == id.Life
		if other.Member == m.id && other.Life == m.incarnation && o.holds && !o.over && both && !again && !l.over &&
			share(o.rounds[o.last()], tables) {
			w.violation("%v: grants lock %v while its own session has lock %v of the same table", m, id, other)
		}
	}
	g := x.expects.granted[id]
	if g == nil || g.over { // what came late asks for it again
		g = &grantSeen{}
		x.expects.granted[id] = g
	}
	w.stats.Waits.Granted++
	g.tables.Keys = append(slices.Clone(g.tables.Keys), tables.Keys...)
}

// last is the round that was asked last.
func (l *lockSeen) last() (round uint64) {
	for r := range l.rounds { // order-free: the greatest
		round = max(round, r)
	}
	return round
}

// noteHeard takes a word of a member's life that has come.
func (x *schemas) noteHeard(from uint32, life uint64, answer bool, word []byte) {
	if answer {
		a := decodeWord[schemalock.Answer](word)
		if l := x.m.w.definers.locks[x.lockID(a.Number)]; l != nil && a.Life == x.m.incarnation && !a.Taken {
			if of := (lockAnswer{a.Round, from}); l.answers[of].life == 0 {
				l.answers[of] = lockGrant{life, a.Ordinal}
			}
		}
		return
	}
	r := decodeWord[schemalock.Request](word)
	id := schemalock.ID{Member: from, Life: r.Life, Number: r.Number}
	if x.m.w.now-x.expects.heard[id] > lockSilence { // it was over by that, and may be asked for again
		delete(x.expects.granted, id)
	}
	if !r.Over {
		x.expects.heard[id] = x.m.w.now
	} else if g := x.expects.granted[id]; g != nil {
		g.over, g.until = true, r.Ordinal
	}
}

// passes is called when a transaction is let pass that has waited since a moment. Holds: its session has a lock.
func (x *schemas) passes(of any, ws *writeset.Writeset, since int64, holds bool) {
	w, m := x.m.w, x.m
	for id, g := range x.expects.granted { // order-free: whether there is one
		over := g.over && m.engine.Applied() >= g.until || w.now-x.expects.heard[id] > lockSilence
		if !over && !holds && w.now-since < blockedMost && meets(g.tables, ws) {
			w.violation("%v: lets a transaction pass that writes to a table of lock %v, which it has granted", m, id)
		}
	}
	x.expects.passed[of] = ws
}

// decided is called when the order has decided about what has passed, or will not get it.
func (x *schemas) decided(of any) { delete(x.expects.passed, of) }

// holds is called when a session is told that it has its lock, which it has asked for since a moment; late if that was
// too long, so that it may have gone on without.
func (x *schemas) holds(number uint64, since int64) (sure bool) {
	w, m := x.m.w, x.m
	l := w.definers.locks[x.lockID(number)]
	if l == nil || w.now-since >= lockPatience {
		return false
	}
	for _, o := range w.members {
		of := lockAnswer{l.last(), o.id}
		if !l.awaits[of] {
			continue
		}
		g, answered := l.answers[of]
		if !answered {
			w.violation("%v: a session has lock %d, which %v has not granted", m, number, o)
		}
		if m.engine.Applied() < g.ordinal {
			w.violation("%v: a session has lock %d at ordinal %d, and %v has granted it at %d", m, number,
				m.engine.Applied(), o, g.ordinal)
		}
	}
	x.alone(number, l)
	w.stats.Waits.Locks++
	l.holds = true
	return true
}

// alone checks that no session of another member has a lock of the same table, as far as each was granted by the
// other's present life.
func (x *schemas) alone(number uint64, l *lockSeen) {
	w, m := x.m.w, x.m
	for other, o := range w.definers.locks { // order-free: whether there is one
		of := w.members[other.Member-1]
		if other.Member != m.id && o.holds && !o.over && of.up && of.incarnation == other.Life &&
			l.answers[lockAnswer{l.last(), other.Member}].life == other.Life &&
			o.answers[lockAnswer{o.last(), m.id}].life == m.incarnation &&
			share(o.rounds[o.last()], l.rounds[l.last()]) {
			w.violation("%v: a session has lock %d, and one of %v has lock %d of the same table", m, number, of,
				other.Number)
		}
	}
}

// takesTurn is called when a session goes on that has waited for its turn.
func (x *schemas) takesTurn(s *modelSession, mode intent.Mode) {
	w, m := x.m.w, x.m
	if x.expects.without[s.slot] {
		return
	}
	w.stats.Waits.Turns++
	for o, has := range x.expects.turns { // order-free: whether there is one
		if o != s && (mode == intent.Own || has == intent.Own) {
			w.violation("%v: slots %d (%v) and %d (%v) define something at once", m, s.slot, mode, o.slot, has)
		}
	}
	x.expects.turns[s] = mode
}

// asksTurn is called when a session begins to wait for its turn.
func (x *schemas) asksTurn(s *modelSession) {
	delete(x.expects.without, s.slot)
	x.expects.asks[s.slot] = x.m.w.phase
}

// hasSeen is called when a transaction has its turn, for which it has waited since a moment (TU2 of grants).
func (x *schemas) hasSeen(s *modelSession, since int64) {
	w, m := x.m.w, x.m
	ordered, applied := x.expects.ordered[s.thread], m.engine.Applied()
	if w.now-since < micros(grants.SeenMax) && applied < ordered {
		w.violation("%v: slot %d has its turn at ordinal %d, and %d was ordered", m, s.slot, applied, ordered)
	}
}

// endsTurn ends it.
func (x *schemas) endsTurn(s *modelSession) { delete(x.expects.turns, s) }

// goesOn is called when a session goes on without its turn.
func (x *schemas) goesOn(slot uint32, why string) {
	w, m := x.m.w, x.m
	x.expects.without[slot] = true
	if why == intent.Deadlock.String() {
		w.stats.Waits.Circles++
		return
	}
	if x.expects.asks[slot] >= phaseAll {
		w.violation("%v: slot %d goes on without its turn, %s, though nothing is faulty", m, slot, why)
	}
	for o := range x.expects.turns { // order-free: whether there is one
		if pids, _ := x.blockers(context.Background(), o.slot); slices.Contains(pids, slot) {
			w.violation("%v: slot %d has waited for the turn of slot %d, which waits for it", m, slot, o.slot)
		}
	}
}

// quiet reports whether the life's sessions wait for nothing, and nothing keeps them.
func (x *schemas) quiet() bool {
	if len(x.expects.turns)+len(x.expects.passed) > 0 {
		return false
	}
	ws := modelWriteset()
	for t := range tables {
		ws.Tables = append(ws.Tables, modelTable(t))
	}
	return !x.grants.Block(ws)
}
