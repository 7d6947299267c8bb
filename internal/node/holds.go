package node

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/schemalock"
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
	holdInterval = time.Millisecond       // between two looks
	// that wait to be read; there is one of each member, and again if it was asked again
	holdAnswersMax = 16
)

// holds are all that a life knows of (package schemalock). Safe for concurrent use.
type holds struct {
	began time.Time

	mu      sync.Mutex
	locks   *schemalock.Locks
	answers map[uint64]chan schemalock.Answer // to who asks, by the hold's number

	intents intents
}

func (x *holds) init() {
	x.began, x.locks, x.answers = time.Now(), schemalock.New(int64(holdMax)), map[uint64]chan schemalock.Answer{}
	x.intents.init()
}

// with calls f with what is known and the time.
func (x *holds) with(f func(k *schemalock.Locks, now int64)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(x.locks, int64(time.Since(x.began))+1)
}

// sessionOf is a session as holds know it; nil if there is none.
func sessionOf(h *host) schemalock.Session {
	if h == nil {
		return nil
	}
	return h
}

// end lets no hold be given any more.
func (x *holds) end() { x.with(func(k *schemalock.Locks, _ int64) { k.End() }) }

// hinders reports whether something holds a transaction back that has waited for so long, and whether it has lost to
// that. If not, it passes.
func (x *holds) hinders(h *host, ws *writeset.Writeset, applied uint64, waited time.Duration) (hinders, lost bool) {
	x.with(func(k *schemalock.Locks, now int64) {
		hinders, lost = k.Blocks(now, sessionOf(h), ws, applied, int64(waited))
	})
	return hinders, lost
}

// comesAgain notes that a transaction that has lost begins anew.
func (x *holds) comesAgain(h *host) {
	x.with(func(k *schemalock.Locks, _ int64) { k.ComesAgain(sessionOf(h)) })
}

// waitsNo notes that a transaction waits no longer. If it has lost it keeps its place for a moment.
func (x *holds) waitsNo(h *host, lost bool) {
	x.with(func(k *schemalock.Locks, now int64) { k.WaitsNo(now, sessionOf(h), lost) })
}

// passed forgets a transaction that was let pass.
func (x *holds) passed(h *host) {
	x.with(func(k *schemalock.Locks, _ int64) { k.Passed(sessionOf(h)) })
}

// Pass waits while another member's definitions want to be alone with tables that a transaction has written to.
func (h *host) Pass(ws *writeset.Writeset, limits session.Limits) *wire.SQLError {
	h.clock.collect()
	return h.pass(ws, h, limits)
}

// pass is Pass, for a transaction of as, which is nil for a definition that takes its place in the order by itself.
func (h *host) pass(ws *writeset.Writeset, as *host, limits session.Limits) (failure *wire.SQLError) {
	l := h.n
	if hinders, _ := l.holds.hinders(as, ws, l.core.Applied(), 0); !hinders {
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
		hinders, lost := l.holds.hinders(as, ws, l.core.Applied(), time.Since(began))
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
		hinders, _ := h.n.holds.hinders(h, ws, h.n.core.Applied(), 0)
		h.first = !hinders
		return h.first || time.Since(began) > time.Duration(schemalock.AgainMax) || h.g.wishes() || h.n.ending()
	})
	if h.first {
		h.n.holds.with(func(k *schemalock.Locks, now int64) { k.Reserve(now, h) })
	}
}

// endHold ends the hold of a session's transaction, if it has one.
func (h *host) endHold() {
	l := h.n
	var number uint64
	var tell bool
	l.holds.with(func(k *schemalock.Locks, _ int64) {
		number, tell = k.Release(h)
		k.Passed(h)
	})
	if !tell {
		return
	}
	over := schemalock.Request{Over: true}
	if h.won {
		over.Ordinal = h.after
	}
	l.tellHold(number, over)
}

// tellHold tells all others.
func (l *life) tellHold(number uint64, r schemalock.Request) {
	r.Number, r.Life = number, l.incarnation
	for _, m := range l.config.Members {
		if m.Member != l.config.Member {
			l.sendHold(m.Member, r)
		}
	}
}

func (l *life) sendHold(to uint32, r schemalock.Request) bool {
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
		var renewed []schemalock.Request
		known, applied := false, l.core.Applied()
		l.holds.with(func(k *schemalock.Locks, now int64) { renewed, known = k.Renew(now, applied) })
		for _, r := range renewed {
			l.tellHold(r.Number, r)
		}
		if known {
			l.gate.Wake() // one may hinder others no longer
		}
	}
	return nil
}

// holdFor takes another member's word about a hold.
func (l *life) holdFor(from uint32, data []byte) {
	var r schemalock.Request
	if err := json.Unmarshal(data, &r); err != nil {
		l.log.Warn("a member's hold cannot be read", "member", from, "error", err)
		return
	}
	id := schemalock.ID{Member: from, Life: r.Life, Number: r.Number}
	if r.Over {
		l.holds.with(func(k *schemalock.Locks, _ int64) { k.Over(id, r.Ordinal) })
		l.gate.Wake()
		return
	}
	l.holds.with(func(k *schemalock.Locks, now int64) {
		if k.Asked(now, id, r) {
			l.background.Go(func() { l.give(id, r) })
		}
	})
}

// give gives a hold, as soon as it can be (H2).
func (l *life) give(id schemalock.ID, r schemalock.Request) {
	defer l.holds.with(func(k *schemalock.Locks, _ int64) { k.Gave(id) })
	answer := schemalock.Answer{Number: r.Number, Round: r.Round, Life: r.Life}
	for deadline := time.Now().Add(holdPatience); ; time.Sleep(holdInterval) {
		var given, taken, vain bool
		l.holds.with(func(k *schemalock.Locks, now int64) { given, taken, vain = k.Give(now, l.config.Member, id, r) })
		if answer.Taken = taken && r.NoWait; given || answer.Taken {
			break
		}
		if vain || l.ending() || !r.Patient && time.Now().After(deadline) {
			return
		}
	}
	if !answer.Taken {
		l.core.Call(func(e *engine.Engine) { answer.Ordinal = e.Ordinal() })
	}
	data, err := json.Marshal(answer)
	if err != nil {
		l.log.Error("an answer about a hold cannot be written", "error", err)
		return
	}
	l.sendFrame(id.Member, frameHeld, data)
}

// holdGiven takes an answer.
func (l *life) holdGiven(from uint32, data []byte) {
	var a schemalock.Answer
	if err := json.Unmarshal(data, &a); err != nil {
		l.log.Warn("a member's answer about a hold cannot be read", "member", from, "error", err)
		return
	}
	a.From = from
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	if answers := l.holds.answers[a.Number]; answers != nil && a.Life == l.incarnation {
		select {
		case answers <- a:
		default: // a duplicate
		}
	}
}

// yield says whether a transaction of another member is being tried here. Those whom its holds hold back lose then.
func (x *holds) yield(member uint32, life uint64, tried bool) {
	x.with(func(k *schemalock.Locks, _ int64) { k.Yield(member, life, tried) })
}
