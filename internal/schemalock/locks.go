package schemalock

import (
	"cmp"
	"slices"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/writeset"
)

const (
	second = int64(1_000_000_000)

	// silence is after which a lock is over of which nothing is heard.
	silence = 3 * second
	// othersMax bounds what a lock means for definitions of other tables, which would make its transaction lose, and
	// allMax the same of a lock of everything.
	othersMax = 5 * second
	allMax    = second
	// AgainMax is for how long who has lost waits before it may begin again, and is waited for; comesAgain is in which
	// it begins again, or is waited for no longer.
	AgainMax   = second
	comesAgain = second / 5

	grantsMax = 64 // of others, that a member knows of
)

// ID names a lock in the cluster.
type ID struct {
	Member uint32
	Life   uint64
	Number uint64
}

// Tables are what a lock is about.
type Tables struct {
	Keys []uint64 `json:"keys"` // writeset.Table.Key, in order
	All  bool     `json:"all"`  // also of all others
}

func (x *Tables) has(key uint64) bool {
	_, found := slices.BinarySearch(x.Keys, key)
	return found
}

// includes reports whether x is about everything that y is about.
func (x *Tables) includes(y Tables) bool {
	return (x.All || !y.All) && !slices.ContainsFunc(y.Keys, func(k uint64) bool { return !x.has(k) })
}

func (x *Tables) add(y Tables) {
	x.All = x.All || y.All
	x.Keys = append(x.Keys, y.Keys...)
	slices.Sort(x.Keys)
	x.Keys = slices.Compact(x.Keys)
}

// meets reports whether two transactions cannot both have what they want.
func (x *Tables) meets(y Tables) bool {
	return x.All || y.All || slices.ContainsFunc(y.Keys, x.has)
}

// beyond is what is not in y.
func (x *Tables) beyond(y Tables) Tables {
	return Tables{All: x.All, Keys: slices.DeleteFunc(slices.Clone(x.Keys), y.has)}
}

func (x *Tables) clone() Tables { return Tables{Keys: slices.Clone(x.Keys), All: x.All} }

// touch is how a writeset is concerned.
type touch uint8

const (
	touchNot    touch = iota
	touchAll          // because the lock is about everything
	touchOthers       // because both define something
	touchTable
)

func (x *Tables) touched(ws *writeset.Writeset) (t touch) {
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

// Request is what the one who wants a lock says to another member.
type Request struct {
	Tables
	Number uint64 `json:"number"`
	Round  uint64 `json:"round"` // counts what is asked; zero in a word that it goes on
	Life   uint64 `json:"life"`
	Held   bool   `json:"held"` // it has it, for fewer tables
	// Ticket and the member's number say who has asked first.
	Ticket uint64 `json:"ticket"`
	// Patient: who is asked does not give up before it can grant it. NoWait: or not, if somebody else has it.
	Patient bool `json:"patient"`
	NoWait  bool `json:"nowait"`
	// Over ends it. Ordinal is what its transaction has become in the order, if it has.
	Over    bool   `json:"over"`
	Ordinal uint64 `json:"ordinal"`
}

// Answer says that a member grants it, or that a session of that member comes first.
type Answer struct {
	Number  uint64 `json:"number"`
	Round   uint64 `json:"round"`
	Life    uint64 `json:"life"`
	Ordinal uint64 `json:"ordinal"`
	Taken   bool   `json:"taken"`

	From uint32 `json:"-"`
}

// Session is one of this member; nil for what takes its place in the order by itself.
type Session any

// own is a lock that a session here wants or has.
type own struct {
	number uint64
	round  uint64
	ticket uint64
	tables Tables
	has    Tables // of these, what all have granted
	held   bool   // all have granted it
	vain   bool   // it was given up, for this transaction
}

// first reports whether o was asked for before what another member asks for: Lamport's order.
func (o *own) first(self, other uint32, ticket uint64) bool {
	return o.ticket < ticket || o.ticket == ticket && self < other
}

// grant is a lock of another member that is granted here, or about to be.
type grant struct {
	tables Tables
	given  bool   // nobody passes any more
	told   Tables // and all have been decided that had
	giving int    // who is about to grant it
	asks   Tables // beyond tables
	began  int64
	asked  int64
	all    int64 // when it became one of everything
	heard  int64
	over   bool
	until  uint64 // when it is over, what it was for is still to be applied here
	yields bool   // its transaction is being tried here: who is blocked is in its way, and would lose to it
}

func (g *grant) blocks(now int64, ws *writeset.Writeset) bool {
	switch g.tables.touched(ws) {
	case touchTable:
		return true
	case touchOthers:
		return now-g.began < othersMax
	case touchAll:
		return now-g.all < allMax
	}
	return false
}

// stands reports whether it was granted, or is about to be, and is not over.
func (g *grant) stands(applied uint64) bool {
	return g.given && !(g.over && (applied >= g.until || planted == "grant-over-at-once"))
}

// waitsFor reports whether the lock is not granted before a transaction is decided that may pass, and which has written
// this: what it blocked before that it still blocks.
func (g *grant) waitsFor(p letPass, ws *writeset.Writeset) bool {
	return planted == "reserved-passes-all" || g.tables.touched(p.ws) != touchNot && g.told.touched(ws) == touchNot
}

// blocked is a transaction that waits for a lock to be over.
type blocked struct {
	ws    *writeset.Writeset
	since int64
	lost  int64 // if it has lost to that, and is expected to come again
}

// gone reports whether it has lost and not come again.
func (w blocked) gone(now int64) bool { return w.lost != 0 && now-w.lost > comesAgain }

// letPass is a transaction that was let pass, or is about to come.
type letPass struct {
	ws       *writeset.Writeset
	reserved int64 // if it is about to come, and is waited for
}

// may reports whether there is one, for which others wait.
func (p letPass) may(now int64) bool {
	return p.ws != nil && (p.reserved == 0 || now-p.reserved < AgainMax)
}

// Locks are all that a life of a member knows of. Not safe for concurrent use.
type Locks struct {
	most    int64
	grants  int
	inTurn  bool
	number  uint64
	clock   uint64 // Lamport's, of tickets
	own     map[Session]*own
	others  map[ID]*grant
	passing map[Session]letPass // and not decided
	waiting map[Session]blocked
	ended   bool
}

// New makes those of a life that begins; a transaction is blocked for most at most.
func New(most int64) *Locks {
	return &Locks{most: most, grants: grantsMax, own: map[Session]*own{}, others: map[ID]*grant{},
		passing: map[Session]letPass{}, waiting: map[Session]blocked{}}
}

// InTurn makes locks that are given in the order in which they were asked for (SL5). So many of others are known at
// most, and own ones have numbers above one.
func InTurn(grants int, above uint64) *Locks {
	x := New(0)
	x.grants, x.number, x.inTurn = grants, above, true
	return x
}

// End lets no lock be granted any more.
func (x *Locks) End() { x.ended = true }

// Blocks reports whether something blocks a transaction that has waited for so long, and whether it has lost to that.
// If not, it passes.
func (x *Locks) Blocks(now int64, s Session, ws *writeset.Writeset, applied uint64, waited int64) (blocks, lost bool) {
	if o := x.own[s]; waited < x.most && (o == nil || !o.held) {
		p := x.passing[s]
		for _, g := range x.others { // order-free: all that block it
			if g.stands(applied) && g.blocks(now, ws) && !(p.may(now) && g.waitsFor(p, ws)) {
				blocks, lost = true, lost || g.yields
			}
		}
	}
	if blocks {
		if s != nil && x.waiting[s].ws == nil {
			x.waiting[s] = blocked{ws: ws, since: now}
		}
		return true, lost
	}
	if s != nil {
		x.passing[s] = letPass{ws: ws}
	}
	return false, false
}

// Waits notes what waits for locks to be over and is no transaction yet, until WaitsNo.
func (x *Locks) Waits(now int64, s Session, ws *writeset.Writeset) {
	x.waiting[s] = blocked{ws: ws, since: now}
}

// Reserve makes of a transaction that may pass one that is expected to.
func (x *Locks) Reserve(now int64, s Session) { x.passing[s] = letPass{x.passing[s].ws, now} }

// Passed forgets a transaction that was let pass.
func (x *Locks) Passed(s Session) { delete(x.passing, s) }

// ComesAgain notes that a transaction that has lost begins anew.
func (x *Locks) ComesAgain(s Session) {
	if w, ok := x.waiting[s]; ok {
		w.lost = 0
		x.waiting[s] = w
	}
}

// WaitsNo notes that a transaction waits no longer. If it has lost it keeps its place for a moment.
func (x *Locks) WaitsNo(now int64, s Session, lost bool) {
	if w, ok := x.waiting[s]; ok && lost {
		w.lost = now
		x.waiting[s] = w
		return
	}
	delete(x.waiting, s)
}

// Before is what a session has had before it asked for more.
type Before struct {
	Held   bool
	tables Tables
}

// Want notes what a session wants to lock, and what it has had before. There is nothing to ask for if it has that, or
// has given up.
func (x *Locks) Want(s Session, tables Tables, life uint64) (before Before, request Request, ask bool) {
	o := x.own[s]
	if o != nil && (o.vain || o.held && o.tables.includes(tables)) {
		return before, request, false
	}
	if o == nil {
		x.number++
		x.clock++
		o = &own{number: x.number, ticket: x.clock}
		x.own[s] = o
	}
	before = Before{Held: o.held, tables: o.tables.clone()}
	if o.round++; x.inTurn && o.round > 1 {
		x.clock++
		o.ticket = x.clock
	}
	o.tables.add(tables)
	return before, Request{Number: o.number, Round: o.round, Life: life, Ticket: o.ticket, Held: o.held,
		Tables: o.tables.clone()}, true
}

// Behind reports whether a session that has a lock and asks for more must wait, as this member has granted a lock of
// these tables: who has asked for that may have it by now, as far as is known here.
func (x *Locks) Behind(applied uint64, tables Tables) bool {
	if x.inTurn {
		return false
	}
	for _, g := range x.others { // order-free: whether there is one
		if g.told.meets(tables) && len(g.told.Keys) > 0 && !(g.over && applied >= g.until) {
			return planted != "grant-overtaken"
		}
	}
	return false
}

// Answered notes how a request has ended, and reports whether the lock is over by that. What came too late leaves what
// was held before.
func (x *Locks) Answered(s Session, before Before, given, late bool) (over bool) {
	o := x.own[s]
	switch {
	case o == nil:
	case given:
		o.held, o.has = true, o.tables.clone()
	case late && before.Held:
		o.tables = before.tables
	case late:
		delete(x.own, s)
		return true
	default:
		o.held, o.vain = false, true
		return true
	}
	return false
}

// Release ends the lock of a session's transaction, and reports whether the others are to be told that.
func (x *Locks) Release(s Session) (number uint64, tell bool) {
	o := x.own[s]
	delete(x.own, s)
	if o == nil || o.vain {
		return 0, false
	}
	return o.number, true
}

// Renew gives words that locks of this member go on, and forgets what is over. Known: there were locks of others.
func (x *Locks) Renew(now int64, applied uint64) (renewed []Request, known bool) {
	for _, o := range x.own { // order-free: sorted below
		if o.held {
			renewed = append(renewed, Request{Number: o.number, Held: true, Tables: o.tables.clone()})
		}
	}
	slices.SortFunc(renewed, func(a, b Request) int { return cmp.Compare(a.Number, b.Number) })
	for s, w := range x.waiting { // order-free: each for itself
		if w.gone(now) {
			delete(x.waiting, s)
		}
	}
	known = len(x.others) > 0
	for id, g := range x.others { // order-free: each for itself
		if now-g.heard > silence && planted != "grant-outlives-holder" || g.over && applied >= g.until {
			delete(x.others, id)
		}
	}
	return renewed, known
}

// Over ends a lock of another member, when an ordinal is applied.
func (x *Locks) Over(id ID, ordinal uint64) {
	if g := x.others[id]; g != nil {
		g.over, g.until = true, ordinal
	}
}

// Yield says whether a transaction of another member is being tried here. Those whom its locks block lose then.
func (x *Locks) Yield(member uint32, life uint64, tried bool) {
	for id, g := range x.others { // order-free: each for itself
		if id.Member == member && id.Life == life {
			g.yields = tried
		}
	}
}

// Asked notes that a lock is asked for, or goes on, and reports whether it is to be granted.
func (x *Locks) Asked(now int64, id ID, r Request) (give bool) {
	g := x.others[id]
	switch {
	case x.ended || g == nil && len(x.others) >= x.grants:
		return false // it is gone on without
	case g == nil:
		g = &grant{began: now}
		x.others[id] = g
	case g.tables.includes(r.Tables) || g.asks.includes(r.Tables):
		g.heard = now
		if r.Round > 0 && g.giving <= 0 { // it is asked for again: the answer was lost
			g.giving++
			return true
		}
		return false
	}
	g.giving++
	x.clock = max(x.clock, r.Ticket)
	g.heard, g.asked, g.asks = now, now, Tables{}
	g.asks.add(r.Tables) // which may come in any order
	return true
}

// Gave notes that nobody is about to grant a lock any more, or one less.
func (x *Locks) Gave(id ID) {
	if g := x.others[id]; g != nil {
		g.giving--
	}
}

// Give lets no transaction pass any more that a lock is about, unless it is taken, since one of this member's sessions
// comes first, and reports whether those are decided that have passed. It is in vain if that is over.
func (x *Locks) Give(now int64, self uint32, id ID, r Request) (given, taken, vain bool) {
	g := x.others[id]
	if g == nil || g.over {
		return false, false, true
	}
	has := g.tables.includes(r.Tables)
	if (!has || planted != "grant-taken-meanwhile") && x.taken(self, id, r, g.told) {
		return false, true, false
	}
	if !has {
		if !r.Held && x.leads(now, g, r.Tables) {
			return false, false, false
		}
		if r.All && !g.tables.All {
			g.all = now
		}
		g.tables.add(r.Tables)
		g.given = true
	}
	for _, p := range x.passing { // order-free: whether there is one
		if p.may(now) && g.tables.touched(p.ws) != touchNot && planted != "grant-before-decided" {
			return false, false, false
		}
	}
	g.told = g.tables.clone()
	return true, false, false
}

// taken reports whether a session of this member has what another member asks for beyond what it was given, or comes
// first (SL3, SL5).
func (x *Locks) taken(self uint32, id ID, r Request, told Tables) bool {
	more := r.Tables
	if x.inTurn {
		more = more.beyond(told)
	}
	for _, o := range x.own { // order-free: whether there is one
		first := o.held || !r.Held && o.first(self, id.Member, r.Ticket)
		if x.inTurn {
			first = o.has.meets(more) || o.first(self, id.Member, r.Ticket)
		}
		if first && !o.vain && o.tables.meets(more) && planted != "grant-given-twice" {
			return true
		}
	}
	return false
}

// leads reports whether somebody has waited for longer than a lock is asked for, and goes on before that is granted:
// unless he waits for a lock that does not wait for that one, nor that one for it.
func (x *Locks) leads(now int64, g *grant, tables Tables) bool {
	for _, w := range x.waiting { // order-free: whether there is one
		if w.since > g.asked || tables.touched(w.ws) != touchTable || w.gone(now) {
			continue
		}
		apart := false
		for _, o := range x.others { // order-free: whether there is one
			apart = apart || o != g && o.given && !o.over && o.tables.touched(w.ws) != touchNot &&
				!o.tables.meets(tables)
		}
		if !apart {
			return true
		}
	}
	return false
}
