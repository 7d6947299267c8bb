package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A transaction that changed the schema may depend on what only its session or its machine has: a
// temporary type, an extension's files. So may rows, by code of an index, a generated column or a domain:
// a setting, other rows. Once it is ordered, every member must carry it out. So one
// other member tries it before, in a transaction that it rolls back, and says what
// PostgreSQL said.

const (
	rehearsalMax  = 8 << 20 // bytes of a writeset that is rehearsed
	rehearsalLock = "1s"    // for a lock that clients hold there
	rehearsalsMax = 4       // that a member does at once
)

// rehearsal is asked of another member.
type rehearsal struct {
	Seq     uint64 `json:"seq"`
	Life    uint64 `json:"life"`
	Base    uint64 `json:"base"` // must be applied there
	Payload []byte `json:"payload"`
}

// rehearsed is the answer.
type rehearsed struct {
	Seq     uint64 `json:"seq"`
	Life    uint64 `json:"life"`
	Done    bool   `json:"done"`    // it was tried
	Code    string `json:"code"`    // what it failed with; empty if it did not
	Message string `json:"message"` // why
	Decided uint64 `json:"decided"` // up to where the order was decided there when it was over

	node string // who says so

	applied uint64 // here when it was asked
}

// rehearsals are the ones this member waits for.
type rehearsals struct {
	mu      sync.Mutex
	m       map[uint64]chan rehearsed
	running chan struct{} // those it does for others
	over    bool          // it does no more, because this life ends
	stage   []*applier    // kept between rehearsals
}

// end lets no rehearsal begin any more.
func (r *rehearsals) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, a := range r.stage {
		a.close()
	}
	r.stage = nil
}

// take gives an applier that an earlier rehearsal has kept, or nil.
func (r *rehearsals) take() *applier {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.stage) == 0 {
		return nil
	}
	a := r.stage[len(r.stage)-1]
	r.stage = r.stage[:len(r.stage)-1]
	return a
}

// keep keeps it for the next.
func (r *rehearsals) keep(a *applier) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || a.conn.IsClosed() || a.conn.TxStatus() != 'I' {
		a.close()
		return
	}
	r.stage = append(r.stage, a)
}

func (r *rehearsals) init() {
	r.m, r.running = map[uint64]chan rehearsed{}, make(chan struct{}, rehearsalsMax)
}

// rehearse has another member try a transaction. It returns the answer if it cannot be carried out there,
// nil also if nobody can tell.
func (l *life) rehearse(sub *session.Submission, payload []byte) *rehearsed {
	to := l.rehearser()
	if to == 0 || len(payload) > rehearsalMax {
		return nil
	}
	applied := l.core.applied.Load()
	// What other sessions of this member have committed can be seen before it is applied, and what the tables look like then.
	base := l.core.ordinal.Load()
	data, err := json.Marshal(rehearsal{Seq: sub.Seq, Life: l.incarnation, Base: base, Payload: payload})
	if err != nil {
		l.log.Error("a rehearsal cannot be written", "error", err)
		return nil
	}
	answer := make(chan rehearsed, 1)
	l.rehearsals.mu.Lock()
	l.rehearsals.m[sub.Seq] = answer
	l.rehearsals.mu.Unlock()
	defer func() {
		l.rehearsals.mu.Lock()
		delete(l.rehearsals.m, sub.Seq)
		l.rehearsals.mu.Unlock()
	}()
	if !l.sendFrame(to, frameRehearse, data) {
		return nil
	}
	defer l.metrics.Waits.Begin(flow.WaitDryRun).End()
	timeout := time.NewTimer(rehearsalTimeout)
	defer timeout.Stop()
	select {
	case r := <-answer:
		if r.Done && r.Code != "" {
			r.node, r.applied = l.name(to), applied
			return &r
		}
	case <-timeout.C:
	case <-l.done:
	}
	return nil
}

// refusedThere words a refusal. What that member has seen may not be applied here yet; if the transaction loses to some of
// that, it is why.
func (h *host) refusedThere(sub *session.Submission, r *rehearsed) *wire.SQLError {
	if r.Decided > r.applied {
		if v := h.loses(sub, r.Decided); !v.Commit() {
			h.after, h.writes, h.lost = v.WinnerOrdinal, true, true
			return h.conflict(sub.Writeset, v)
		}
		if strings.HasPrefix(r.Message, "large object ") || strings.Contains(r.Message, "pg_largeobject_metadata") {
			// It has been removed since, and is not known here yet.
			return wire.Errorf(wire.CodeSerializationFailure, concurrentUpdate).WithDetail("At node %s, which is ahead: %s.", r.node, r.Message).WithHint("The transaction might succeed if retried.")
		}
	}
	what, hint := "rows", "Code of an index, a generated column or a domain may depend on settings of the session, or on other rows."
	if len(sub.Writeset.Steps) > 0 {
		what, hint = "schema changes", "They may depend on temporary objects, or on files that only one machine has."
	}
	return wire.Errorf(wire.CodeFeatureNotSupported, "the transaction's %s cannot be carried out at node %s: %s", what, r.node, r.Message).
		WithDetail("SQLSTATE %s.", r.Code).WithHint("%s", hint)
}

// loses is the verdict of all that is decided up to an ordinal on a transaction that is not submitted.
func (h *host) loses(sub *session.Submission, ordinal uint64) (v certify.Verdict) {
	ctx, cancel := context.WithTimeout(context.Background(), rehearsalTimeout)
	defer cancel()
	for h.n.core.ordinal.Load() < ordinal && !h.n.ending() && process.Sleep(ctx, time.Millisecond) {
	}
	h.n.core.call(func(e *engine.Engine) { v = e.Loses(h.submission(sub, nil)) })
	return v
}

// rehearser is a member to ask; zero if none is fit.
func (l *life) rehearser() uint32 {
	for _, m := range l.config.Members {
		if m.Member == l.config.Member {
			continue
		}
		if s, alive := l.peers.get(m.Member); alive && s.State == stateSynced {
			return m.Member
		}
	}
	return 0
}

// rehearsalResult takes an answer.
func (l *life) rehearsalResult(data []byte) {
	var r rehearsed
	if err := json.Unmarshal(data, &r); err != nil {
		l.log.Warn("a member's answer to a rehearsal cannot be read", "error", err)
		return
	}
	l.rehearsals.mu.Lock()
	defer l.rehearsals.mu.Unlock()
	if answer := l.rehearsals.m[r.Seq]; answer != nil && r.Life == l.incarnation {
		select {
		case answer <- r:
		default: // a duplicate
		}
	}
}

// rehearseFor tries a transaction for another member, beside everything else.
func (l *life) rehearseFor(from uint32, data []byte) {
	var r rehearsal
	if err := json.Unmarshal(data, &r); err != nil {
		l.log.Warn("a member's rehearsal cannot be read", "member", from, "error", err)
		return
	}
	l.rehearsals.mu.Lock()
	defer l.rehearsals.mu.Unlock()
	if l.rehearsals.over {
		return
	}
	select {
	case l.rehearsals.running <- struct{}{}:
	default:
		return // busy: its origin goes on without
	}
	l.background.Go(func() {
		defer func() { <-l.rehearsals.running }()
		out := rehearsed{Seq: r.Seq, Life: r.Life}
		out.Done, out.Code, out.Message = l.tryOut(from, &r)
		out.Decided = l.core.ordinal.Load() // its own sessions' commits are seen before they are applied
		answer, err := json.Marshal(out)
		if err != nil {
			l.log.Error("an answer to a rehearsal cannot be written", "error", err)
			return
		}
		l.sendFrame(from, frameRehearsed, answer)
	})
}

// tryOut carries a transaction out and takes it back.
func (l *life) tryOut(from uint32, r *rehearsal) (done bool, code, message string) {
	ctx, cancel := context.WithTimeout(context.Background(), rehearsalTimeout)
	defer cancel()
	ws, err := writeset.Decode(r.Payload)
	if err != nil {
		return true, wire.CodeInternalError, err.Error()
	}
	ws.ForgetTableLocks() // who is kept out may wait for this transaction
	rows := len(ws.Steps) == 0
	if rows {
		ws = &writeset.Writeset{Steps: []writeset.Step{{Rows: ws}}}
	}
	for l.core.applied.Load() < r.Base || !rows && l.longs.under() != nil {
		if l.ending() || !process.Sleep(ctx, time.Millisecond) {
			return false, "", ""
		}
	}
	a, err := l.stage(ctx)
	if err != nil {
		return false, "", ""
	}
	defer l.rehearsals.keep(a)
	if !rows {
		l.holds.yield(from, r.Life, true)
		defer l.holds.yield(from, r.Life, false)
		l.gate.wake()
	}
	err = a.attemptSteps(ctx, 0, engine.Task{Item: engine.Item{ID: writeset.TxID{Member: from, Incarnation: r.Life, Seq: r.Seq}}, Writeset: ws})
	var pg *pgconn.PgError
	var fatal *failure.Fatal
	refused := errors.As(err, &pg)
	switch {
	case err == nil, errors.Is(err, errRehearsed):
		return true, "", ""
	case rows && (!refused || pg.Code == "23505" || pg.Code == "23P01"):
		return false, "", "" // rows of others come between; certification decides
	case refused && !failure.Transient(err) && (!failure.Environmental(pg.Code) || pg.Code[:2] == "58"):
		return true, pg.Code, pg.Message
	case errors.As(err, &fatal):
		return true, wire.CodeInternalError, fatal.Error()
	}
	return false, "", fmt.Sprint(err)
}

// stage gives an applier to try a transaction with; keep ends its use.
func (l *life) stage(ctx context.Context) (a *applier, err error) {
	if a = l.rehearsals.take(); a == nil {
		settings := map[string]string{"lock_timeout": rehearsalLock, "deadlock_timeout": "50ms"}
		if a, err = connectApplier(ctx, l.connString, l.config, "tutti rehearsal", "origin", settings, l.log.Warn); err != nil {
			return nil, err
		}
		a.rehearses = true
	}
	if now := l.tables.Load(); a.tables != now {
		a.tables = now
		if err := a.forget(ctx); err != nil {
			a.close()
			return nil, err
		}
	}
	a.notices = nil
	return a, nil
}
