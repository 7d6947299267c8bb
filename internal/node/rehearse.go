package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A transaction that changed the schema may depend on what only its session or its machine has: a
// temporary type, an extension's files. Once it is ordered, every member must carry it out. So one
// other member tries it before, in a transaction that it rolls back, and says what
// PostgreSQL said.

const (
	rehearsalMax     = 8 << 20         // bytes of a writeset that is rehearsed
	rehearsalTimeout = 5 * time.Second // for the answer; without one the transaction goes on
	rehearsalLock    = "1s"            // for a lock that clients hold there
	rehearsalsMax    = 4               // that a member does at once
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
}

// rehearsals are the ones this member waits for.
type rehearsals struct {
	mu      sync.Mutex
	m       map[uint64]chan rehearsed
	running chan struct{} // those it does for others
	over    bool          // it does no more, because this life ends
}

// end lets no rehearsal begin any more.
func (r *rehearsals) end() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
}

func (r *rehearsals) init() {
	r.m, r.running = map[uint64]chan rehearsed{}, make(chan struct{}, rehearsalsMax)
}

// rehearse has another member try a transaction that changed the schema. It returns why it cannot be
// carried out there, or nil: also if nobody can tell.
func (l *life) rehearse(sub *session.Submission, payload []byte) *wire.SQLError {
	to := l.rehearser()
	if to == 0 || len(payload) > rehearsalMax {
		return nil
	}
	data, err := json.Marshal(rehearsal{Seq: sub.Seq, Life: l.incarnation, Base: l.core.applied.Load(), Payload: payload})
	if err != nil {
		return wire.Errorf(wire.CodeInternalError, "%s", err.Error())
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
	timeout := time.NewTimer(rehearsalTimeout)
	defer timeout.Stop()
	select {
	case r := <-answer:
		if r.Done && r.Code != "" {
			return wire.Errorf(wire.CodeFeatureNotSupported, "the transaction's schema changes cannot be carried out at node %s: %s", l.name(to), r.Message).
				WithDetail("SQLSTATE %s.", r.Code).WithHint("They may depend on temporary objects, or on files that only one machine has.")
		}
	case <-timeout.C:
	case <-l.done:
	}
	return nil
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
	for l.core.applied.Load() < r.Base {
		if l.ending() || !sleep(ctx, time.Millisecond) {
			return false, "", ""
		}
	}
	a, err := connectApplier(ctx, l.connString, l.config, "tutti rehearsal", l.log.Warn)
	if err != nil {
		return false, "", ""
	}
	defer a.close()
	a.tables, a.rehearses = l.tables.Load(), true
	if _, err := a.conn.Exec(ctx, "SET lock_timeout = '"+rehearsalLock+"'; SET deadlock_timeout = '50ms'").ReadAll(); err != nil {
		return false, "", ""
	}
	err = a.attemptSteps(ctx, 0, engine.Task{Item: engine.Item{ID: writeset.TxID{Member: from, Incarnation: r.Life, Seq: r.Seq}}, Writeset: ws})
	var pg *pgconn.PgError
	var fatal *FatalError
	switch {
	case err == nil, errors.Is(err, errRehearsed):
		return true, "", ""
	case errors.As(err, &pg) && !transient(err) && (!environmental(pg.Code) || pg.Code[:2] == "58"):
		return true, pg.Code, pg.Message
	case errors.As(err, &fatal):
		return true, wire.CodeInternalError, fatal.Error()
	}
	return false, "", fmt.Sprint(err)
}

// errRehearsed ends a rehearsal that has come to its end.
var errRehearsed = errors.New("node: the rehearsal is over")
