package node

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A transaction that changes the schema runs at its member first, and loses to everything that others write to its
// tables meanwhile. So before it comes to a definition it has them hold back what they would write there (decision
// 0044):
//
//	H1  A member that has given a hold lets no transaction of its own that has written to one of the tables be
//	    handed to the order until the hold is over.
//	H2  It gives one when all such that it let pass before are decided, and tells up to where it knows the order.
//	H3  The definition runs when that is applied at its member. Its sessions keep each other out as in PostgreSQL.
//
// No member's decisions depend on it. What is lost, or takes too long, is gone on without, and certification decides.

const (
	holdPatience = 2 * time.Second        // for the others to give it, and for what they tell to be applied
	holdRenewal  = 500 * time.Millisecond // between two words of a hold that goes on
	holdSilence  = 3 * time.Second        // after which one is over of which nothing is heard
	// of a hold, for definitions of other tables, which would make its transaction lose
	holdOthersMax  = 5 * time.Second
	holdAllMax     = time.Second            // of a hold of everything
	holdAgainMax   = time.Second            // that who has lost waits before it may begin again, and is waited for
	holdComesAgain = 200 * time.Millisecond // in which who has lost begins again, or is waited for no longer
	holdInterval   = time.Millisecond       // between two looks
	// that wait to be read; there is one of each member, and again if it was asked again
	holdAnswersMax = 16
	holdsGivenMax  = 64 // of others, that a member knows of
)

// holdID names a hold in the cluster.
type holdID struct {
	Member uint32
	Life   uint64
	Number uint64
}

// heldTables are what a hold is about.
type heldTables struct {
	Keys []uint64 `json:"keys"` // writeset.Table.Key, in order
	All  bool     `json:"all"`  // also of all others
}

func (x *heldTables) has(key uint64) bool {
	_, found := slices.BinarySearch(x.Keys, key)
	return found
}

// includes reports whether x is about everything that y is about.
func (x *heldTables) includes(y heldTables) bool {
	return (x.All || !y.All) && !slices.ContainsFunc(y.Keys, func(k uint64) bool { return !x.has(k) })
}

func (x *heldTables) add(y heldTables) {
	x.All = x.All || y.All
	x.Keys = append(x.Keys, y.Keys...)
	slices.Sort(x.Keys)
	x.Keys = slices.Compact(x.Keys)
}

// touch is how a writeset is concerned.
type touch uint8

const (
	touchNot    touch = iota
	touchAll          // because the hold is about everything
	touchOthers       // because both define something
	touchTable
)

func (x *heldTables) touched(ws *writeset.Writeset) (t touch) {
	if x.All {
		t = touchAll
	}
	if ws.Barrier {
		return max(t, touchOthers)
	}
	for i := range ws.Tables {
		switch table := &ws.Tables[i]; {
		case !x.has(table.Key):
		case table.Schema == capture.SchemaName:
			t = max(t, touchOthers)
		default:
			return touchTable
		}
	}
	return t
}

// holdRequest is what the one who wants a hold says.
type holdRequest struct {
	heldTables
	Number uint64 `json:"number"`
	Round  uint64 `json:"round"` // counts what is asked; zero in a word that it goes on
	Life   uint64 `json:"life"`
	Held   bool   `json:"held"` // it has it, for fewer tables
	// Ticket and the member's number say who has asked first.
	Ticket uint64 `json:"ticket"`
	// Patient: who is asked does not give up before it can give it. NoWait: or not, if somebody else has it.
	Patient bool `json:"patient"`
	NoWait  bool `json:"nowait"`
	// Over ends it. Ordinal is what its transaction has become in the order, if it has.
	Over    bool   `json:"over"`
	Ordinal uint64 `json:"ordinal"`
}

// holdAnswer says that a member gives it, or that a session of that member comes first.
type holdAnswer struct {
	Number  uint64 `json:"number"`
	Round   uint64 `json:"round"`
	Life    uint64 `json:"life"`
	Ordinal uint64 `json:"ordinal"`
	Taken   bool   `json:"taken"`

	from uint32
}

// ownHold is one that a session here wants or has.
type ownHold struct {
	number  uint64
	round   uint64
	ticket  uint64
	tables  heldTables
	held    bool            // all have given it
	vain    bool            // it was given up, for this transaction
	answers chan holdAnswer // one of each other member
}

// givenHold is one of another member that is given here, or about to be.
type givenHold struct {
	tables heldTables
	given  bool
	giving int        // who is about to give it
	asks   heldTables // beyond tables
	began  time.Time
	asked  time.Time
	all    time.Time // when it became one of everything
	heard  time.Time
	over   bool
	until  uint64 // when it is over, what it was for is still to be applied here
	yields bool   // its transaction is being tried here: who is held back is in its way, and would lose to it
}

// heldBack is a transaction that waits for a hold to be over.
type heldBack struct {
	ws    *writeset.Writeset
	since time.Time
	lost  time.Time // if it has lost to that, and is expected to come again
}

// letPass is a transaction that was let pass, or is about to come.
type letPass struct {
	ws       *writeset.Writeset
	reserved time.Time // if it is about to come, and is waited for
}

// may reports whether there is one, for which others wait.
func (p letPass) may() bool {
	return p.ws != nil && (p.reserved.IsZero() || time.Since(p.reserved) < holdAgainMax)
}

// holds are all that a life knows of.
type holds struct {
	mu      sync.Mutex
	number  uint64
	clock   uint64 // Lamport's, of tickets
	own     map[*host]*ownHold
	others  map[holdID]*givenHold
	passing map[*host]letPass // and not decided
	waiting map[*host]heldBack
	ended   bool

	intents intents
}

func (x *holds) init() {
	x.own, x.others, x.passing, x.waiting = map[*host]*ownHold{}, map[holdID]*givenHold{}, map[*host]letPass{},
		map[*host]heldBack{}
	x.intents.init()
}

// end lets no hold be given any more.
func (x *holds) end() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
}

// hinders reports whether something holds a transaction back that has waited for so long, and whether it has lost to
// that. If not, it passes.
func (x *holds) hinders(h *host, ws *writeset.Writeset, applied uint64, waited time.Duration) (hinders, lost bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if own := x.own[h]; waited < holdMax && (own == nil || !own.held) && !x.passing[h].may() {
		for _, g := range x.others {
			if g.given && g.hinders(ws) && !(g.over && applied >= g.until) {
				if h != nil && x.waiting[h].ws == nil {
					x.waiting[h] = heldBack{ws: ws, since: time.Now()}
				}
				return true, g.yields
			}
		}
	}
	if h != nil {
		x.passing[h] = letPass{ws: ws}
	}
	return false, false
}

// reserve makes of a transaction that may pass one that is expected to.
func (x *holds) reserve(h *host) {
	x.mu.Lock()
	x.passing[h] = letPass{x.passing[h].ws, time.Now()}
	x.mu.Unlock()
}

// leads reports whether somebody has waited for longer than a hold is asked for, and goes on before that is given:
// unless he waits for a hold that does not wait for that one, nor that one for it.
func (x *holds) leads(g *givenHold, tables heldTables) bool {
	for _, w := range x.waiting {
		if w.since.After(g.asked) || tables.touched(w.ws) != touchTable || w.gone() {
			continue
		}
		apart := false
		for _, o := range x.others {
			apart = apart || o != g && o.given && !o.over && o.tables.touched(w.ws) != touchNot &&
				!o.tables.meets(tables)
		}
		if !apart {
			return true
		}
	}
	return false
}

// gone reports whether it has lost and not come again.
func (w heldBack) gone() bool { return !w.lost.IsZero() && time.Since(w.lost) > holdComesAgain }

// comesAgain notes that a transaction that has lost begins anew.
func (x *holds) comesAgain(h *host) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w, ok := x.waiting[h]; ok {
		w.lost = time.Time{}
		x.waiting[h] = w
	}
}

// waitsNo notes that a transaction waits no longer. If it has lost it keeps its place for a moment.
func (x *holds) waitsNo(h *host, lost bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w, ok := x.waiting[h]; ok && lost {
		w.lost = time.Now()
		x.waiting[h] = w
		return
	}
	delete(x.waiting, h)
}

func (g *givenHold) hinders(ws *writeset.Writeset) bool {
	switch age := time.Since(g.began); g.tables.touched(ws) {
	case touchTable:
		return true
	case touchOthers:
		return age < holdOthersMax
	case touchAll:
		return time.Since(g.all) < holdAllMax
	}
	return false
}

// passed forgets a transaction that was let pass.
func (x *holds) passed(h *host) {
	x.mu.Lock()
	delete(x.passing, h)
	x.mu.Unlock()
}

// Pass waits while another member's definitions want to be alone with tables that a transaction has written to.
func (h *host) Pass(ws *writeset.Writeset, limits session.Limits) *wire.SQLError {
	h.clock.collect()
	return h.pass(ws, h, limits)
}

// pass is Pass, for a transaction of as, which is nil for a definition that takes its place in the order by itself.
func (h *host) pass(ws *writeset.Writeset, as *host, limits session.Limits) (failure *wire.SQLError) {
	l := h.n
	if hinders, _ := l.holds.hinders(as, ws, l.core.applied.Load(), 0); !hinders {
		if h.first {
			h.held = ws
		}
		return nil
	}
	l.metrics.Flow.HeldBack.Add(1)
	defer l.metrics.Waits.Begin(flow.WaitHeldBack).End()
	end := deadlineOf(limits, true)
	defer end.wakes(l.gate.Wake)()
	began := time.Now()
	h.held = ws
	l.gate.Await(func() bool {
		hinders, lost := l.holds.hinders(as, ws, l.core.applied.Load(), time.Since(began))
		switch why := cmp.Or(h.interrupted(), end.passed()); {
		case why != nil: // also if nothing hinders by now: it may have failed the backend's transaction
			failure = why
		case !hinders:
		case lost && as != nil: // a definition at its place in the order has no locks yet
			failure = wire.Errorf(wire.CodeSerializationFailure, "%s",
				concurrentUpdate).WithHint("The transaction might succeed if retried.").
				WithDetail("A transaction of another node that has changed the schema was about to be ordered.")
		default:
			return false
		}
		return true
	})
	if failure != nil && failure.Code == wire.CodeSerializationFailure {
		h.writes, h.lost = true, true
	}
	l.holds.waitsNo(as, failure != nil && h.lost)
	return failure
}

// passAgain waits for a moment while there is a hold of what the session's last transaction was held back for and has
// then lost. If it does the same again, the next hold waits for it: whoever changes a table again and again does not
// keep others from writing to it.
func (h *host) passAgain() {
	ws, began := h.held, time.Now()
	h.held, h.first = nil, false
	if ws == nil {
		return
	}
	defer h.n.holds.waitsNo(h, false)
	if !h.lost {
		return
	}
	h.n.gate.Await(func() bool {
		hinders, _ := h.n.holds.hinders(h, ws, h.n.core.applied.Load(), 0)
		h.first = !hinders
		return h.first || time.Since(began) > holdAgainMax || h.g.wishes() || h.n.ending()
	})
	if h.first {
		h.n.holds.reserve(h)
	}
}

// endHold ends the hold of a session's transaction, if it has one.
func (h *host) endHold() {
	l := h.n
	l.holds.mu.Lock()
	own := l.holds.own[h]
	delete(l.holds.own, h)
	delete(l.holds.passing, h)
	l.holds.mu.Unlock()
	if own == nil || own.vain {
		return
	}
	over := holdRequest{Over: true}
	if h.won {
		over.Ordinal = h.after
	}
	l.tellHold(own.number, over)
}

// tellHold tells all others.
func (l *life) tellHold(number uint64, r holdRequest) {
	r.Number, r.Life = number, l.incarnation
	for _, m := range l.config.Members {
		if m.Member != l.config.Member {
			l.sendHold(m.Member, r)
		}
	}
}

func (l *life) sendHold(to uint32, r holdRequest) bool {
	data, err := json.Marshal(r)
	if err != nil {
		l.log.Error("a hold cannot be written", "error", err)
		return false
	}
	return l.sendFrame(to, frameHold, data)
}

// renewHolds tells the others again and again which holds go on, and ends those of which nothing is heard.
func (l *life) renewHolds(ctx context.Context) error {
	for process.Sleep(ctx, holdRenewal) {
		l.holds.mu.Lock()
		var renewed []holdRequest
		for _, own := range l.holds.own {
			if own.held {
				renewed = append(renewed, holdRequest{Number: own.number, Held: true,
					heldTables: heldTables{Keys: slices.Clone(own.tables.Keys), All: own.tables.All}})
			}
		}
		maps.DeleteFunc(l.holds.waiting, func(_ *host, w heldBack) bool { return w.gone() })
		given := len(l.holds.others)
		for id, g := range l.holds.others {
			if time.Since(g.heard) > holdSilence || g.over && l.core.applied.Load() >= g.until {
				delete(l.holds.others, id)
			}
		}
		l.holds.mu.Unlock()
		for _, r := range renewed {
			l.tellHold(r.Number, r)
		}
		if given > 0 {
			l.gate.Wake() // one may hinder others no longer
		}
	}
	return nil
}

// holdFor takes another member's word about a hold.
func (l *life) holdFor(from uint32, data []byte) {
	var r holdRequest
	if err := json.Unmarshal(data, &r); err != nil {
		l.log.Warn("a member's hold cannot be read", "member", from, "error", err)
		return
	}
	id := holdID{from, r.Life, r.Number}
	if r.Over {
		l.holds.over(id, r.Ordinal)
		l.gate.Wake()
		return
	}
	l.holds.asked(id, r, func() { l.background.Go(func() { l.give(id, r) }) })
}

// over ends a hold, when an ordinal is applied.
func (x *holds) over(id holdID, ordinal uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if g := x.others[id]; g != nil {
		g.over, g.until = true, ordinal
	}
}

// asked notes that a hold is asked for, or goes on. If it is to be given, it calls give.
func (x *holds) asked(id holdID, r holdRequest, give func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.others[id]
	switch {
	case x.ended || g == nil && len(x.others) >= holdsGivenMax:
		return // it is gone on without
	case g == nil:
		g = &givenHold{began: time.Now()}
		x.others[id] = g
	case g.tables.includes(r.heldTables) || g.asks.includes(r.heldTables):
		if g.heard = time.Now(); r.Round > 0 && g.giving <= 0 { // it is asked for again: the answer was lost
			g.giving++
			give()
		}
		return
	}
	g.giving++
	x.clock = max(x.clock, r.Ticket)
	g.heard, g.asked, g.asks = time.Now(), time.Now(), heldTables{}
	g.asks.add(r.heldTables) // which may come in any order
	give()
}

// give gives a hold, as soon as it can be (H2).
func (l *life) give(id holdID, r holdRequest) {
	defer l.holds.gave(id)
	answer := holdAnswer{Number: r.Number, Round: r.Round, Life: r.Life}
	for deadline := time.Now().Add(holdPatience); ; time.Sleep(holdInterval) {
		given, taken, vain := l.holds.give(l.config.Member, id, r)
		if answer.Taken = taken && r.NoWait; given || answer.Taken {
			break
		}
		if vain || l.ending() || !r.Patient && time.Now().After(deadline) {
			return
		}
	}
	if !answer.Taken {
		l.core.call(func(e *engine.Engine) { answer.Ordinal = e.Ordinal() })
	}
	data, err := json.Marshal(answer)
	if err != nil {
		l.log.Error("an answer about a hold cannot be written", "error", err)
		return
	}
	l.sendFrame(id.Member, frameHeld, data)
}

// gave notes that nobody is about to give a hold any more, or one less.
func (x *holds) gave(id holdID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if g := x.others[id]; g != nil {
		g.giving--
	}
}

// give lets no transaction pass any more that a hold is about, unless it is taken, since one of this member's sessions
// comes first, and reports whether those are decided that have passed. It is in vain if that is over. Of two members
// that ask each other the one that has asked first comes first, and who has a hold.
func (x *holds) give(self uint32, id holdID, r holdRequest) (given, taken, vain bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.others[id]
	if g == nil || g.over {
		return false, false, true
	}
	if !g.tables.includes(r.heldTables) {
		for _, own := range x.own {
			if !own.vain && own.tables.meets(r.heldTables) &&
				(own.held || !r.Held && own.first(self, id.Member, r.Ticket)) {
				return false, true, false
			}
		}
		if !r.Held && x.leads(g, r.heldTables) {
			return false, false, false
		}
		if r.All && !g.tables.All {
			g.all = time.Now()
		}
		g.tables.add(r.heldTables)
		g.given = true
	}
	for _, p := range x.passing {
		if p.may() && g.tables.touched(p.ws) != touchNot {
			return false, false, false
		}
	}
	return true, false, false
}

// first reports whether o was asked for before what another member asks for: Lamport's order.
func (o *ownHold) first(self, other uint32, ticket uint64) bool {
	return o.ticket < ticket || o.ticket == ticket && self < other
}

// meets reports whether two transactions cannot both have what they want.
func (x *heldTables) meets(y heldTables) bool {
	return x.All || y.All || slices.ContainsFunc(y.Keys, x.has)
}

// holdGiven takes an answer.
func (l *life) holdGiven(from uint32, data []byte) {
	var a holdAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		l.log.Warn("a member's answer about a hold cannot be read", "member", from, "error", err)
		return
	}
	a.from = from
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	for _, own := range l.holds.own {
		if own.number == a.Number && a.Life == l.incarnation {
			select {
			case own.answers <- a:
			default: // a duplicate
			}
		}
	}
}

// yield says whether a transaction of another member is being tried here. Those whom its holds hold back lose then.
func (x *holds) yield(member uint32, life uint64, now bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, g := range x.others {
		if id.Member == member && id.Life == life {
			g.yields = now
		}
	}
}
