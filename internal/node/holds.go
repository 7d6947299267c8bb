package node

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A transaction that changes the schema runs at its member first, and loses to everything that others write to its tables
// meanwhile. So before it comes to a definition it has them hold back what they would write there (decision 0044):
//
//	H1  A member that has given a hold lets no transaction of its own that has written to one of the tables be
//	    handed to the order until the hold is over.
//	H2  It gives one when all such that it let pass before are decided, and tells up to where it knows the order.
//	H3  The definition runs when that is applied at its member. Its sessions keep each other out as in PostgreSQL.
//
// No member's decisions depend on it. What is lost, or takes too long, is gone on without, and certification decides.

const (
	holdPatience   = 2 * time.Second        // for the others to give it, and for what they tell to be applied
	holdRenewal    = 500 * time.Millisecond // between two words of a hold that goes on
	holdSilence    = 3 * time.Second        // after which one is over of which nothing is heard
	holdMax        = time.Minute            // that a transaction is held back: it may wait for itself over locks that are not looked at
	holdOthersMax  = 5 * time.Second        // of a hold, for definitions of other tables, which would make its transaction lose
	holdAllMax     = time.Second            // of a hold of everything
	holdAgainMax   = time.Second            // that who has lost waits before it may begin again
	holdInterval   = time.Millisecond       // between two looks
	holdAnswersMax = 16                     // that wait to be read; there is one of each member, and again if it was asked again
	holdsGivenMax  = 64                     // of others, that a member knows of
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
	Round  uint64 `json:"round"` // counts what is asked
	Life   uint64 `json:"life"`
	Held   bool   `json:"held"` // it has it, for fewer tables
	// Over ends it. Ordinal is what its transaction has become in the order, if it has.
	Over    bool   `json:"over"`
	Ordinal uint64 `json:"ordinal"`
}

// holdAnswer says that a member gives it.
type holdAnswer struct {
	Number  uint64 `json:"number"`
	Round   uint64 `json:"round"`
	Life    uint64 `json:"life"`
	Ordinal uint64 `json:"ordinal"`

	from uint32
}

// ownHold is one that a session here wants or has.
type ownHold struct {
	number  uint64
	round   uint64
	tables  heldTables
	held    bool            // all have given it
	vain    bool            // it was given up, for this transaction
	answers chan holdAnswer // one of each other member
}

// givenHold is one of another member that is given here, or about to be.
type givenHold struct {
	tables heldTables
	given  bool
	asks   heldTables // beyond tables
	began  time.Time
	all    time.Time // when it became one of everything
	heard  time.Time
	over   bool
	until  uint64 // when it is over, what it was for is still to be applied here
	yields bool   // its transaction is being tried here: who is held back is in its way, and would lose to it
}

// holds are all that a life knows of.
type holds struct {
	mu      sync.Mutex
	number  uint64
	own     map[*host]*ownHold
	others  map[holdID]*givenHold
	passing map[*host]*writeset.Writeset // let pass, and not decided
	ended   bool

	waits atomic.Uint64 // transactions held back
}

func (x *holds) init() {
	x.own, x.others, x.passing = map[*host]*ownHold{}, map[holdID]*givenHold{}, map[*host]*writeset.Writeset{}
}

// end lets no hold be given any more.
func (x *holds) end() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
}

// hinders reports whether something holds a transaction back that has waited for so long, and whether it has lost to that. If not, it passes.
func (x *holds) hinders(h *host, ws *writeset.Writeset, applied uint64, waited time.Duration) (hinders, lost bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if own := x.own[h]; waited < holdMax && (own == nil || !own.held) && x.passing[h] == nil {
		for _, g := range x.others {
			if g.given && g.hinders(ws) && !(g.over && applied >= g.until) {
				return true, g.yields
			}
		}
	}
	if h != nil {
		x.passing[h] = ws
	}
	return false, false
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
func (h *host) Pass(ws *writeset.Writeset) *wire.SQLError { return h.pass(ws, h) }

// pass is Pass, for a transaction of as, which is nil for a definition that takes its place in the order by itself.
func (h *host) pass(ws *writeset.Writeset, as *host) (failure *wire.SQLError) {
	l := h.n
	if hinders, _ := l.holds.hinders(as, ws, l.core.applied.Load(), 0); !hinders {
		if h.first {
			h.held = ws
		}
		return nil
	}
	l.holds.waits.Add(1)
	began := time.Now()
	h.held = ws
	l.gate.await(func() bool {
		hinders, lost := l.holds.hinders(as, ws, l.core.applied.Load(), time.Since(began))
		switch doom := h.g.doomed(); {
		case !hinders:
		case doom != nil:
			failure = doom
		case h.g.wishes():
			failure = errCanceled()
		case l.ending():
			failure = errEnding()
		case lost && as != nil: // a definition at its place in the order has no locks yet
			failure = wire.Errorf(wire.CodeSerializationFailure, "%s", concurrentUpdate).WithHint("The transaction might succeed if retried.").
				WithDetail("A transaction of another node that has changed the schema was about to be ordered.")
		default:
			return false
		}
		return true
	})
	if failure != nil && failure.Code == wire.CodeSerializationFailure {
		h.writes, h.lost = true, true
	}
	return failure
}

// passAgain waits for a moment while there is a hold of what the session's last transaction was held back for and has then lost. If it does the
// same again, the next hold waits for it: whoever changes a table again and again does not keep others from writing to it.
func (h *host) passAgain() {
	ws, began := h.held, time.Now()
	h.held, h.first = nil, false
	if ws == nil || !h.lost {
		return
	}
	h.n.gate.await(func() bool {
		hinders, _ := h.n.holds.hinders(h, ws, h.n.core.applied.Load(), 0)
		h.first = !hinders
		return h.first || time.Since(began) > holdAgainMax || h.g.wishes() || h.n.ending()
	})
}

// Hold has the other members hold back what they would write to the tables of an extent. The client's wish to cancel that, and that the
// transaction has lost meanwhile, are errors.
func (h *host) Hold(extent *writeset.Writeset) *wire.SQLError {
	l := h.n
	want := heldTables{All: extent.Barrier}
	for _, t := range extent.Tables {
		want.Keys = append(want.Keys, t.Key)
	}
	own, request := l.holds.want(h, want, l.incarnation)
	if own == nil {
		return nil
	}
	var asked []uint32
	fresh := time.Since(l.began) < silentAfter // it may not have heard of all yet
	for _, m := range l.config.Members {
		if _, alive := l.peers.get(m.Member); m.Member != l.config.Member && (alive || fresh) && l.sendHold(m.Member, request) {
			asked = append(asked, m.Member)
		}
	}
	stop := func() bool { return h.g.doomed() != nil || h.g.wishes() || l.ending() }
	ordinal, ok := own.gather(asked, request.Round, stop)
	for deadline := time.Now().Add(holdPatience); ok && l.core.applied.Load() < ordinal; time.Sleep(holdInterval) {
		ok = !stop() && time.Now().Before(deadline)
	}
	l.holds.answered(h, ok)
	if !ok {
		l.tellHold(own.number, holdRequest{Over: true})
	}
	switch doom := h.g.doomed(); {
	case doom != nil:
		return doom
	case h.g.wishes():
		return errCanceled()
	case l.ending():
		return errEnding()
	}
	return nil
}

// want notes what a session wants to hold; nil if it has that, or has given up.
func (x *holds) want(h *host, tables heldTables, life uint64) (*ownHold, holdRequest) {
	x.mu.Lock()
	defer x.mu.Unlock()
	own := x.own[h]
	if own != nil && (own.vain || own.held && own.tables.includes(tables)) {
		return nil, holdRequest{}
	}
	if own == nil {
		x.number++
		own = &ownHold{number: x.number}
		x.own[h] = own
	}
	own.round++
	own.tables.add(tables)
	own.answers = make(chan holdAnswer, holdAnswersMax)
	return own, holdRequest{Number: own.number, Round: own.round, Life: life, Held: own.held, heldTables: heldTables{Keys: slices.Clone(own.tables.Keys), All: own.tables.All}}
}

// gather waits for the answers of members to a request. It gives the last ordinal that one of them told.
func (o *ownHold) gather(members []uint32, round uint64, stop func() bool) (ordinal uint64, all bool) {
	over, look := time.NewTimer(holdPatience), time.NewTicker(holdInterval)
	defer over.Stop()
	defer look.Stop()
	for len(members) > 0 {
		select {
		case a := <-o.answers:
			if a.Round == round {
				ordinal = max(ordinal, a.Ordinal)
				members = slices.DeleteFunc(members, func(m uint32) bool { return m == a.from })
			}
		case <-look.C:
			if stop() {
				return 0, false
			}
		case <-over.C:
			return 0, false
		}
	}
	return ordinal, true
}

// answered notes how a request has ended.
func (x *holds) answered(h *host, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if own := x.own[h]; own != nil {
		own.held, own.vain = ok, !ok
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
	for sleep(ctx, holdRenewal) {
		l.holds.mu.Lock()
		var renewed []holdRequest
		for _, own := range l.holds.own {
			if own.held {
				renewed = append(renewed, holdRequest{Number: own.number, Held: true, heldTables: heldTables{Keys: slices.Clone(own.tables.Keys), All: own.tables.All}})
			}
		}
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
			l.gate.wake() // one may hinder others no longer
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
		l.gate.wake()
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
		g.heard = time.Now()
		return
	}
	g.heard, g.asks = time.Now(), heldTables{}
	g.asks.add(r.heldTables) // which may come in any order
	give()
}

// give gives a hold, as soon as it can be (H2).
func (l *life) give(id holdID, r holdRequest) {
	for deadline := time.Now().Add(holdPatience); ; time.Sleep(holdInterval) {
		given, vain := l.holds.give(l.config.Member, id, r)
		if given {
			break
		}
		if vain || l.ending() || time.Now().After(deadline) {
			return
		}
	}
	var ordinal uint64
	l.core.call(func(e *engine.Engine) { ordinal = e.Ordinal() })
	data, err := json.Marshal(holdAnswer{Number: r.Number, Round: r.Round, Life: r.Life, Ordinal: ordinal})
	if err != nil {
		l.log.Error("an answer about a hold cannot be written", "error", err)
		return
	}
	l.sendFrame(id.Member, frameHeld, data)
}

// give lets no transaction pass any more that a hold is about, unless one of this member's sessions comes first, and reports whether those are
// decided that have passed. It is in vain if that is over. Of two members that ask each other the one with the lower number comes first, and who has a hold.
func (x *holds) give(self uint32, id holdID, r holdRequest) (given, vain bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.others[id]
	if g == nil || g.over {
		return false, true
	}
	if !g.tables.includes(r.heldTables) {
		for _, own := range x.own {
			if !own.vain && own.tables.meets(r.heldTables) && (own.held || !r.Held && self < id.Member) {
				return false, false
			}
		}
		if r.All && !g.tables.All {
			g.all = time.Now()
		}
		g.tables.add(r.heldTables)
		g.given = true
	}
	for _, ws := range x.passing {
		if g.tables.touched(ws) != touchNot {
			return false, false
		}
	}
	return true, false
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
