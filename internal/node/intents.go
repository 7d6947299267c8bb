package node

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// Two transactions with definitions that commit at the same time lose to each other, and a transaction with
// definitions loses to a definition that is ordered before it, and that it has not seen. So the sessions of a
// member take turns (decision 0075): a transaction asks for intent.Own before it is submitted and keeps it until it
// has ended; a definition that runs at its place in the order has intent.Ordered until it has run here.

// definitions is the resource that all definitions of a database share.
const definitions intent.Resource = 1

// intentPatience is after which a session goes on without its intent.
var intentPatience = metrics.Most(flow.WaitDefiner)

const (
	seenPatience   = 5 * time.Second       // for what is ordered to be applied here, in the turn
	seenAgain      = time.Second           // the same before a transaction is tried again at another member
	intentInterval = 2 * time.Millisecond  // between two looks at whether it still wants it
	intentLook     = 50 * time.Millisecond // between two looks at whom PostgreSQL has wait for whom
)

// intents are those of a member's sessions in one database.
type intents struct {
	mu      sync.Mutex
	manager intent.Manager
	last    intent.Owner
	hosts   map[intent.Owner]*host
	waiting map[intent.Owner]chan intent.Outcome
	looked  time.Time
}

func (x *intents) init() {
	x.hosts, x.waiting = map[intent.Owner]*host{}, map[intent.Owner]chan intent.Outcome{}
}

// ask asks for an intent in the name of an owner, which is made if it is zero. The outcome comes through the channel.
func (x *intents) ask(
	o intent.Owner, h *host, mode intent.Mode, now time.Duration,
) (intent.Owner, <-chan intent.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if o == 0 {
		x.last++
		o = x.last
		x.hosts[o] = h
	}
	outcome := make(chan intent.Outcome, 1)
	x.waiting[o] = outcome
	x.manager.Tick(uint64(now.Milliseconds()))
	x.manager.Request(o, definitions, mode, uint64((now + intentPatience).Milliseconds()))
	x.tell()
	return o, outcome
}

// tell passes on what has happened.
func (x *intents) tell() {
	for _, e := range x.manager.Ready() {
		x.waiting[e.Owner] <- e.Outcome
		delete(x.waiting, e.Owner)
	}
}

// tick lets time pass.
func (x *intents) tick(now time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.manager.Tick(uint64(now.Milliseconds()))
	x.tell()
}

// release ends what an owner has or waits for.
func (x *intents) release(o intent.Owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.waiting, o)
	delete(x.hosts, o)
	x.manager.Release(o)
	x.tell()
}

// due gives the hosts of those that have an intent and of those that wait, if it is time to look for circles.
func (x *intents) due() (holders, waiters map[intent.Owner]*host) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Since(x.looked) < intentLook {
		return nil, nil
	}
	x.looked = time.Now()
	holders, waiters = map[intent.Owner]*host{}, map[intent.Owner]*host{}
	for _, o := range x.manager.Holders() {
		holders[o] = x.hosts[o]
	}
	for _, o := range x.manager.Waiters() {
		waiters[o] = x.hosts[o]
	}
	return holders, waiters
}

// blocked tells for whom the backend of an owner waits in PostgreSQL.
func (x *intents) blocked(o intent.Owner, by []intent.Owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.hosts[o] != nil {
		x.manager.Blocked(o, by...)
		x.tell()
	}
}

// lookForCircles asks PostgreSQL whether a session that has an intent waits for a lock of one that waits for that
// intent.
func (x *intents) lookForCircles(l *life) {
	holders, waiters := x.due()
	for o, h := range holders {
		pids, err := l.monitor.Blockers(context.Background(), h.g.pid)
		if err != nil {
			l.log.Debug("whom a session waits for cannot be told", "error", err)
			continue
		}
		var by []intent.Owner
		for w, of := range waiters {
			if slices.Contains(pids, of.g.pid) {
				by = append(by, w)
			}
		}
		x.blocked(o, by)
	}
}

// intend waits for an intent. The session goes on without it if it does not come in time, or cannot come. A failure
// says that the session's transaction has lost meanwhile, or that its client has cancelled the statement, or that its
// time is over.
func (x *intents) intend(
	l *life, h *host, o intent.Owner, mode intent.Mode, limits session.Limits,
) (intent.Owner, *wire.SQLError) {
	defer l.metrics.Waits.Begin(flow.WaitDefiner).End()
	o, outcome := x.ask(o, h, mode, time.Since(l.began))
	failure := until(h, limits, func() bool {
		select {
		case how := <-outcome:
			if how != intent.Granted {
				x.warn(l, h, how)
			}
			return true
		default:
		}
		x.tick(time.Since(l.began))
		x.lookForCircles(l)
		return false
	})
	return o, failure
}

// warn tells an operator who has the intent without which a session goes on.
func (x *intents) warn(l *life, h *host, how intent.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var pids []uint32
	for _, o := range x.manager.Holders() {
		if of := x.hosts[o]; of != nil {
			pids = append(pids, of.g.pid)
		}
	}
	l.log.Warn("a session goes on without its turn to define something", "pid", h.g.pid, "why", how.String(),
		"held_by", pids)
}

// until looks again and again whether something is so, as long as the session wants to know.
func until(h *host, limits session.Limits, so func() bool) *wire.SQLError {
	if so() {
		return nil
	}
	end := deadlineOf(limits, true)
	look := time.NewTicker(intentInterval)
	defer look.Stop()
	for {
		// Before so: what ends the wait may have failed the backend's transaction.
		if why := cmp.Or(h.interrupted(), end.passed()); why != nil {
			return why
		}
		if so() {
			return nil
		}
		<-look.C
	}
}

// ordered has a definition run in a turn. One that was looked up in vain again waits then until it would be alone, and
// this member has applied all that is ordered, before it is looked up once more.
func (x *intents) ordered(l *life, h *host, d session.Definition) session.Result {
	own, failure := x.intend(l, h, 0, intent.Ordered, d.Limits)
	defer x.release(own)
	if failure != nil {
		return session.Result{Err: failure}
	}
	if d.Index.Name != "" { // it is built for long, and nobody waits for that
		x.release(own)
	}
	r := l.define(d, h.g)
	if d.InVain && r.Err != nil && r.Err.Code == wire.CodeTuttiOutdated && l == h.n {
		x.release(own)
		failure := x.settled(h, d.Limits, seenPatience)
		x.end(h)
		if failure != nil {
			r.Err = failure
		}
	}
	return r
}

// settled gives a session its turn, when this member has applied all that is ordered.
func (x *intents) settled(h *host, limits session.Limits, most time.Duration) (failure *wire.SQLError) {
	if h.intent, failure = x.intend(h.n, h, h.intent, intent.Own, limits); failure != nil {
		return failure
	}
	var ordered uint64
	h.n.core.Call(func(e *engine.Engine) { ordered = e.Ordinal() })
	defer h.n.metrics.Waits.Begin(flow.WaitDefiner).End()
	began := time.Now()
	return until(h, limits, func() bool {
		return h.n.core.Applied() >= ordered || time.Since(began) > most
	})
}

// alone has a transaction with definitions take its turn until it has ended. The transaction has its locks all the
// time, so what was applied until now it has seen. A failure says that it has lost meanwhile, or was cancelled, or that
// its time is over. It waits so long at most for what is to be applied.
func (x *intents) alone(h *host, sub *session.Submission, most time.Duration) (failure *wire.SQLError) {
	if failure = x.settled(h, sub.Limits, most); failure != nil {
		return failure
	}
	at, err := h.n.monitor.Position(context.Background())
	if err != nil {
		h.n.log.Debug("the position of the WAL cannot be told", "error", err)
		return nil
	}
	sub.Order = max(sub.Order, at)
	return nil
}

// end ends the intent of a session's transaction, if it has one.
func (x *intents) end(h *host) {
	if h.intent != 0 {
		x.release(h.intent)
		h.intent = 0
	}
}
