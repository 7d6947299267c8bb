package grants

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// definitions is the resource that all definitions of a database share, open that of its transactions that write, and
// catalogs that of who holds locks on catalogs before it has its turn.
const (
	definitions intent.Resource = 1 + iota
	open
	catalogs
)

// wait is as what an intent is waited for, for how long at most, what it is about, and the modes of that.
type wait struct {
	what     flow.Wait
	most     time.Duration
	resource intent.Resource
	modes    []intent.Mode
}

var (
	turns = wait{flow.WaitDefiner, metrics.Most(flow.WaitDefiner), definitions,
		[]intent.Mode{intent.Ordered, intent.Own}}
	blocks = wait{flow.WaitBlocks, metrics.Most(flow.WaitBlocks), open,
		[]intent.Mode{intent.Stays, intent.Bars}}
	upkeep = wait{flow.WaitBlocks, metrics.Most(flow.WaitBlocks), catalogs,
		[]intent.Mode{intent.Defines, intent.Maintains}}
	waitOf = map[intent.Mode]*wait{
		intent.Ordered: &turns, intent.Own: &turns, intent.Stays: &blocks, intent.Bars: &blocks,
		intent.Defines: &upkeep, intent.Maintains: &upkeep,
	}
)

// stillMax is for how long nothing may happen in an open transaction for which a definition waits, silentMax for how
// long its client may say nothing, againMax is the former if it is done again by itself when it loses. passMax is for
// how long such a one waits for a definition that waits.
var stillMax, silentMax, againMax, passMax = 5 * time.Second, 2 * time.Second, 3 * time.Second, time.Second

const (
	// SeenMax is how long a transaction waits, in its turn, for what is ordered to be applied here. SeenAgain is the
	// same before another member tries it again.
	SeenMax   = 5 * time.Second
	SeenAgain = time.Second

	turnInterval = 2 * time.Millisecond  // between two looks at whether it is still wanted
	circlesEvery = 50 * time.Millisecond // between two looks at whom PostgreSQL has wait for whom
)

// Turns are those of a member's sessions in one database. Safe for concurrent use.
type Turns struct {
	o     Options
	began time.Duration

	mu      sync.Mutex
	manager intent.Manager
	last    intent.Owner
	clients map[intent.Owner]Client
	waiting map[intent.Owner]chan intent.Outcome
	still   map[intent.Owner]still
	// staying have intent.Stays without the manager's knowing, while nobody is barring: has intent.Bars, or waits for
	// it.
	staying map[intent.Owner]bool
	barring map[intent.Owner]bool
	again   map[intent.Owner]bool // of those that stay, who is done again by itself if it loses
	looked  time.Duration         // for circles, and who is still
	barred  uint64                // where the last definition to which all lose was ordered, at most
}

// still is how often an owner had moved when it was looked at, and since when that has not changed.
type still struct {
	moves uint64
	since time.Duration
}

func newTurns(o Options) *Turns {
	return &Turns{o: o, began: o.Clock.Now(), clients: map[intent.Owner]Client{},
		waiting: map[intent.Owner]chan intent.Outcome{}, still: map[intent.Owner]still{},
		staying: map[intent.Owner]bool{}, barring: map[intent.Owner]bool{},
		again: map[intent.Owner]bool{}}
}

// now is the manager's time.
func (t *Turns) now() time.Duration { return t.o.Clock.Now() - t.began }

// ask asks for an intent in the name of an owner, which is made if it is zero. The outcome comes through the channel.
func (t *Turns) ask(o intent.Owner, c Client, mode intent.Mode) (intent.Owner, <-chan intent.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o == 0 {
		t.last++
		o = t.last
	}
	t.clients[o] = c
	if mode == intent.Bars {
		t.barring[o] = true
		for _, s := range slices.Sorted(maps.Keys(t.staying)) { // order-free: sorted
			t.manager.Hold(s, open, intent.Stays)
		}
		clear(t.staying)
	}
	outcome := make(chan intent.Outcome, 1)
	t.waiting[o] = outcome
	now := t.now()
	t.manager.Tick(uint64(now.Milliseconds()))
	w := waitOf[mode]
	t.manager.Request(o, w.resource, mode, uint64((now + w.most).Milliseconds()))
	t.tell()
	return o, outcome
}

// tell passes on what has happened; called with mu held.
func (t *Turns) tell() {
	for _, e := range t.manager.Ready() {
		t.waiting[e.Owner] <- e.Outcome
		delete(t.waiting, e.Owner)
	}
}

// tick lets time pass.
func (t *Turns) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.manager.Tick(uint64(t.now().Milliseconds()))
	t.tell()
}

// release ends what an owner has or waits for.
func (t *Turns) release(o intent.Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if planted == "turn-not-given-back" && t.waiting[o] == nil {
		return
	}
	delete(t.waiting, o)
	delete(t.clients, o)
	delete(t.still, o)
	delete(t.staying, o)
	delete(t.barring, o)
	delete(t.again, o)
	t.manager.Release(o)
	t.tell()
}

// released is release of one that was ordered at an ordinal as one to which all lose, and is perhaps not yet called
// applied; zero: it was not.
func (t *Turns) released(o intent.Owner, ordinal uint64) {
	t.mu.Lock()
	t.barred = max(t.barred, ordinal)
	t.mu.Unlock()
	t.release(o)
}

// barrier is up to where the last definition to which all lose was ordered.
func (t *Turns) barrier() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.barred
}

// due gives those whose turn it is and those that wait, if it is time to look for circles.
func (t *Turns) due() (holders, waiters map[intent.Owner]Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now()-t.looked < circlesEvery {
		return nil, nil
	}
	t.looked = t.now()
	t.leaveStill()
	holders, waiters = map[intent.Owner]Client{}, map[intent.Owner]Client{}
	for _, o := range t.manager.Holders(turns.modes...) {
		holders[o] = t.clients[o]
	}
	for _, o := range t.manager.Waiters(slices.Concat(turns.modes, blocks.modes, upkeep.modes)...) {
		waiters[o] = t.clients[o]
	}
	return holders, waiters
}

// leaveStill has no definition wait for open transactions in which nothing has happened for too long, be it that their
// client is silent, or that they wait for something. Those in their turn, or that wait for it, go on by themselves.
// Called with mu held.
func (t *Turns) leaveStill() {
	if len(t.manager.Waiters(intent.Bars)) == 0 {
		return
	}
	turn := slices.Concat(t.manager.Holders(intent.Own), t.manager.Waiters(intent.Own))
	for _, o := range t.manager.Holders(intent.Stays) {
		was, most := t.still[o], stillMax
		moves, silent := t.clients[o].Moves()
		if silent {
			most = silentMax
		}
		if t.again[o] {
			most = againMax
		}
		switch now := t.now(); {
		case was.since == 0 || was.moves != moves || slices.Contains(turn, o):
			t.still[o] = still{moves, now}
		case now-was.since > most:
			t.o.Log.Info("a definition does not wait for a session any longer", "pid", t.clients[o].PID())
			t.manager.Drop(o, open)
		}
	}
	t.tell()
}

// blocked tells for whom the backend of an owner waits in PostgreSQL.
func (t *Turns) blocked(o intent.Owner, by []intent.Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clients[o] != nil {
		t.manager.Blocked(o, by...)
		t.tell()
	}
}

// stuck gives the backends of definitions that wait for open transactions, and of these transactions those in which
// nothing has happened since the last look.
func (t *Turns) stuck() (definers []uint32, staying map[intent.Owner]Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	staying = map[intent.Owner]Client{}
	for _, o := range t.manager.Waiters(intent.Bars) {
		definers = append(definers, t.clients[o].PID())
	}
	for _, o := range t.manager.Holders(intent.Stays) {
		if was := t.still[o]; was.since != 0 && was.since < t.looked && len(definers) > 0 {
			staying[o] = t.clients[o]
		}
	}
	return definers, staying
}

// leaveStuck has no definition wait for open transactions that wait for its locks in PostgreSQL: they cannot end before
// it does.
func (t *Turns) leaveStuck() {
	definers, staying := t.stuck()
	for o, c := range staying {
		pids, err := t.o.Blockers(context.Background(), c.PID())
		if err != nil || !slices.ContainsFunc(pids, func(p uint32) bool { return slices.Contains(definers, p) }) {
			continue
		}
		t.mu.Lock()
		t.manager.Drop(o, open)
		t.tell()
		t.mu.Unlock()
	}
}

// lookForCircles asks PostgreSQL whether a session that has an intent waits for a lock of one that waits for that
// intent (TU3).
func (t *Turns) lookForCircles() {
	holders, waiters := t.due()
	if waiters == nil {
		return
	}
	t.leaveStuck()
	for o, c := range holders {
		pids, err := t.o.Blockers(context.Background(), c.PID())
		if err != nil {
			t.o.Log.Debug("whom a session waits for cannot be told", "error", err)
			continue
		}
		var by []intent.Owner
		for w, of := range waiters {
			if slices.Contains(pids, of.PID()) {
				by = append(by, w)
			}
		}
		t.blocked(o, by)
	}
}

// take waits for an intent. The session goes on without it if it does not come in time, or cannot come. A failure says
// that the session's transaction has lost meanwhile, or that its client has cancelled the statement, or that its time
// is over.
func (t *Turns) take(
	c Client, o intent.Owner, mode intent.Mode, limits session.Limits,
) (intent.Owner, *wire.SQLError) {
	defer t.o.Metrics.Waits.Begin(waitOf[mode].what).End()
	o, outcome := t.ask(o, c, mode)
	failure := t.until(c, limits, func() bool {
		select {
		case how := <-outcome:
			if how != intent.Granted {
				t.without(c, mode, how)
			}
			return true
		default:
		}
		t.tick()
		t.lookForCircles()
		return false
	})
	return o, failure
}

// without tells an operator who has the intent without which a session goes on. Nobody waits again for transactions
// for which a definition has waited in vain: they lose to this one, most likely.
func (t *Turns) without(c Client, mode intent.Mode, how intent.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var pids []uint32
	for _, o := range t.manager.Holders(waitOf[mode].modes...) {
		if pids = append(pids, t.clients[o].PID()); mode == intent.Bars && how == intent.Late {
			t.manager.Drop(o, open)
		}
	}
	t.tell()
	t.o.Log.Warn("a session goes on without its turn to define something", "pid", c.PID(), "why", how.String(),
		"held_by", pids)
}

// until looks again and again whether something is so, as long as the session wants to know.
func (t *Turns) until(c Client, limits session.Limits, so func() bool) *wire.SQLError {
	if so() {
		return nil
	}
	for end := admission.NewDeadline(t.o.Clock, limits, true); ; t.o.Clock.Rest(turnInterval, nil) {
		// Before so: what ends the wait may have failed the backend's transaction.
		if why := cmp.Or(c.Interrupted(), end.Passed()); why != nil {
			return why
		}
		if so() {
			return nil
		}
	}
}

// Define has define run in a turn of this database, which may be another one than that of the session. A definition
// that was looked up in vain again (session.Definition.InVain) waits then until it would be alone, and this member has
// applied all that is ordered, before it is looked up once more.
func (t *Turns) Define(s *Session, d session.Definition, define func() session.Result) session.Result {
	bars := d.Extent != nil && d.Extent.Barrier
	own, failure := intent.Owner(0), (*wire.SQLError)(nil)
	if bars {
		own, failure = t.take(s.client, 0, intent.Bars, d.Limits)
	}
	if failure == nil {
		own, failure = t.take(s.client, own, intent.Ordered, d.Limits)
	}
	ordered := uint64(0)
	defer func() { t.released(own, ordered) }()
	if failure != nil {
		return session.Result{Err: failure}
	}
	if d.Index.Name != "" { // it is built for long, and nobody waits for that
		t.release(own)
	}
	r := define()
	if bars && r.Err == nil {
		ordered = t.o.Ordered()
	}
	if d.InVain && r.Err != nil && r.Err.Code == wire.CodeTuttiOutdated && s.turns == t {
		t.release(own)
		failure := s.settled(d.Limits, SeenMax)
		s.EndTurn()
		if failure != nil {
			r.Err = failure
		}
	}
	return r
}

// maintainRest is for how long a statement rests that maintains tables, before its second try; each time twice as long,
// maintainDoubled times at most.
const (
	maintainRest    = 100 * time.Millisecond
	maintainDoubled = 5
)

// Maintains is described in session.Intents.
func (s *Session) Maintains(try int, limits session.Limits) (failure *wire.SQLError) {
	t := s.turns
	if try > 1 {
		defer t.o.Metrics.Waits.Begin(flow.WaitDefiner).End()
		began, rest := t.o.Clock.Now(), maintainRest<<min(try-2, maintainDoubled)
		failure = t.until(s.client, limits, func() bool { return t.o.Clock.Now()-began >= rest })
	}
	for _, mode := range []intent.Mode{intent.Maintains, intent.Bars} {
		if failure == nil {
			s.turn, failure = t.take(s.client, s.turn, mode, limits)
		}
	}
	if failure != nil {
		return failure
	}
	return s.settled(limits, SeenAgain)
}

// Defines is described in session.Intents.
func (s *Session) Defines(limits session.Limits) (failure *wire.SQLError) {
	s.turn, failure = s.turns.take(s.client, s.turn, intent.Defines, limits)
	return failure
}

// settled gives the session its turn, when this member has applied all that is ordered (TU2).
func (s *Session) settled(limits session.Limits, most time.Duration) (failure *wire.SQLError) {
	t := s.turns
	if s.turn, failure = t.take(s.client, s.turn, intent.Own, limits); failure != nil {
		return failure
	}
	ordered := t.o.Ordered()
	defer t.o.Metrics.Waits.Begin(flow.WaitDefiner).End()
	began := t.o.Clock.Now()
	return t.until(s.client, limits, func() bool {
		return t.o.Complete() >= ordered || planted == "turn-not-seen" || t.o.Clock.Now()-began > most
	})
}

// Alone has the session's transaction, which defines something, take its turn until EndTurn. The transaction has its
// locks all the time, unless its backend has ended, so what was applied until now it has seen, as Order of the
// submission says then. It waits so long at most for what is to be applied. A failure says that it has lost meanwhile,
// or was cancelled, or that its time is over.
func (s *Session) Alone(sub *session.Submission, most time.Duration) (failure *wire.SQLError) {
	if sub.Writeset != nil && sub.Writeset.Barrier {
		s.bars = true
		if s.turn, failure = s.turns.take(s.client, s.turn, intent.Bars, sub.Limits); failure != nil {
			return failure
		}
	}
	if failure = s.settled(sub.Limits, most); failure != nil {
		return failure
	}
	seen := s.turns.o.Complete() // before the position
	at, err := s.turns.o.Position(context.Background())
	gone := false
	if err == nil { // behind it: who ends later had its locks then
		gone, err = s.turns.o.Gone(context.Background(), s.client.PID())
	}
	switch {
	case err != nil:
		s.turns.o.Log.Debug("whether a transaction has its locks cannot be told", "error", err)
	case !gone:
		sub.Order, sub.Seen = max(sub.Order, at), max(sub.Seen, seen)
	}
	return nil
}

// Stays says that the session's transaction, which has seen what was applied up to base, writes from here on.
// Definitions of this member to which it would lose wait until EndTurn, and it waits for such a one that is under way
// or waits already, as TU4 says. It is outdated if one has run since base: it will lose unless it has written nothing
// yet. A failure is Alone's.
func (s *Session) Stays(base uint64, again bool, limits session.Limits) (outdated bool, failure *wire.SQLError) {
	t := s.turns
	switch {
	case t.stay(s, again):
	case again:
		failure = t.passBy(s, limits)
	default:
		s.turn, failure = t.take(s.client, s.turn, intent.Stays, limits)
	}
	barred, began := t.barrier(), t.o.Clock.Now()
	if failure != nil || base >= barred {
		return false, failure
	}
	return true, t.until(s.client, limits, func() bool {
		return t.o.Complete() >= barred || t.o.Clock.Now()-began > blocks.most
	})
}

// stay gives a session's transaction intent.Stays at once, if nobody is in the way of that.
func (t *Turns) stay(s *Session, again bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.barring) > 0 {
		return false
	}
	if s.turn == 0 {
		t.last++
		s.turn = t.last
	}
	t.clients[s.turn], t.staying[s.turn] = s.client, true
	if again {
		t.again[s.turn] = true
	}
	return true
}

// passBy has a session's transaction that is done again if it loses wait for intent.Stays. While a definition waits for
// others it goes on without after a moment.
func (t *Turns) passBy(s *Session, limits session.Limits) (failure *wire.SQLError) {
	defer t.o.Metrics.Waits.Begin(blocks.what).End()
	o, outcome := t.ask(0, s.client, intent.Stays)
	began, granted := t.now(), false
	failure = t.until(s.client, limits, func() bool {
		select {
		case how := <-outcome:
			granted = how == intent.Granted
			return true
		default:
		}
		t.tick()
		t.lookForCircles()
		return t.now()-began > passMax && !t.bars()
	})
	if !granted {
		t.release(o)
		return failure
	}
	t.mu.Lock()
	s.turn, t.again[o] = o, true
	t.mu.Unlock()
	return failure
}

// bars reports whether a definition has intent.Bars.
func (t *Turns) bars() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.manager.Holders(intent.Bars)) > 0
}

// EndTurn ends the turn of the session's transaction, if it has one.
func (s *Session) EndTurn() {
	if s.turn != 0 {
		ordinal := uint64(0)
		if s.bars {
			ordinal = s.ended
		}
		s.turns.released(s.turn, ordinal)
		s.turn, s.bars = 0, false
	}
}
