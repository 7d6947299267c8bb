package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A transaction that changed the schema may depend on what only its session or its machine has: a
// temporary type, an extension's files. So may rows, by code of an index, a generated column or a domain:
// a setting, other rows. Once it is ordered, every member must carry it out. So one
// other member tries it before, in a transaction that it rolls back, and says what
// PostgreSQL said.

const (
	tryBytesMax = 8 << 20              // bytes of a writeset that is tried
	tryLock     = "1s"                 // for a lock that clients hold there
	triesMax    = 4                    // that a member does at once
	triesWait   = 64                   // that wait there for others to be over
	triesBytes  = 64 << 20             // of both, in bytes of what was asked
	tryInterval = 2 * time.Millisecond // between two looks at whether an answer is still wanted
)

// TryTimeout is for the answer; without one the transaction goes on.
var TryTimeout = metrics.Most(flow.WaitDryRun)

// tryRequest is asked of another member.
type tryRequest struct {
	Seq     uint64 `json:"seq"`
	Life    uint64 `json:"life"`
	Base    uint64 `json:"base"` // must be applied there
	Payload []byte `json:"payload"`
}

// Tried is the answer.
type Tried struct {
	Seq     uint64 `json:"seq"`
	Life    uint64 `json:"life"`
	Done    bool   `json:"done"`    // it was tried
	Code    string `json:"code"`    // what it failed with; empty if it did not
	Message string `json:"message"` // why
	Decided uint64 `json:"decided"` // up to where the order was decided there when it was over

	Node string `json:"-"` // who says so

	Applied uint64 `json:"-"` // here when it was asked
}

// DryRunOptions are a replica, as its dry runs need it.
type DryRunOptions struct {
	Log         *slog.Logger
	ConnString  string
	Config      *config.Config
	Incarnation uint64
	Waits       *metrics.Waits

	Peer    func() uint32 // a member to ask; zero if none is fit
	Ask     func(to uint32, dryRun []byte) bool
	Answer  func(to uint32, outcome []byte) bool
	Tables  func() *catalog.Tables
	Applied func() uint64
	Decided func() uint64 // up to where this member knows the order
	Free    func() bool   // no definition goes on beside the order
	// Yield has who is blocked by definitions of another member's replica know that they are being tried here, or no
	// longer.
	Yield      func(member uint32, incarnation uint64, tried bool)
	Background func(f func())
	Ending     func() bool
	Done       <-chan struct{} // closed when it ends
}

// DryRuns are the ones this member waits for, and those it does for others.
type DryRuns struct {
	o DryRunOptions

	mu      sync.Mutex
	m       map[uint64]chan Tried
	asked   int           // those it does for others, or that wait
	bytes   int           // of these
	running chan struct{} // those it does
	over    bool          // it does no more, because this life ends
	stage   []*Applier    // kept between rehearsals
}

// Close lets no rehearsal begin any more.
func (r *DryRuns) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, a := range r.stage {
		a.Close()
	}
	r.stage = nil
}

// take gives an applier that an earlier rehearsal has kept, or nil.
func (r *DryRuns) take() *Applier {
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
func (r *DryRuns) keep(a *Applier) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || a.Conn.IsClosed() || a.Conn.TxStatus() != 'I' {
		a.Close()
		return
	}
	r.stage = append(r.stage, a)
}

// NewDryRuns makes them for a replica that is opened.
func NewDryRuns(o DryRunOptions) *DryRuns {
	return &DryRuns{o: o, m: map[uint64]chan Tried{}, running: make(chan struct{}, triesMax)}
}

// Try has another member try a transaction. It returns the answer if it cannot be carried out there,
// nil also if nobody can tell, or if the answer is wanted no longer.
func (r *DryRuns) Try(seq uint64, payload []byte, stop func() bool) *Tried {
	to := r.o.Peer()
	if to == 0 || len(payload) > tryBytesMax {
		return nil
	}
	applied := r.o.Applied()
	// What other sessions of this member have committed can be seen before it is applied, and what the tables look like
	// then.
	base := r.o.Decided()
	data, err := json.Marshal(tryRequest{Seq: seq, Life: r.o.Incarnation, Base: base, Payload: payload})
	if err != nil {
		r.o.Log.Error("a rehearsal cannot be written", "error", err)
		return nil
	}
	answer := make(chan Tried, 1)
	r.mu.Lock()
	r.m[seq] = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.m, seq)
		r.mu.Unlock()
	}()
	if !r.o.Ask(to, data) {
		return nil
	}
	defer r.o.Waits.Begin(flow.WaitDryRun).End()
	timeout, look := time.NewTimer(TryTimeout), time.NewTicker(tryInterval)
	defer timeout.Stop()
	defer look.Stop()
	for !stop() {
		select {
		case x := <-answer:
			if x.Done && x.Code != "" {
				x.Node, x.Applied = r.o.Config.Name(to), applied
				return &x
			}
		case <-look.C:
			continue
		case <-timeout.C:
		case <-r.o.Done:
		}
		break
	}
	return nil
}

// Outcome takes an answer.
func (r *DryRuns) Outcome(data []byte) {
	var x Tried
	if err := json.Unmarshal(data, &x); err != nil {
		r.o.Log.Warn("a member's answer to a rehearsal cannot be read", "error", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer := r.m[x.Seq]; answer != nil && x.Life == r.o.Incarnation {
		select {
		case answer <- x:
		default: // a duplicate
		}
	}
}

// TryFor tries a transaction for another member, beside everything else. If too many others are being tried, it waits,
// and if too many wait, or too large ones, its origin is told at once that it goes on without.
func (r *DryRuns) TryFor(from uint32, data []byte) {
	var x tryRequest
	if err := json.Unmarshal(data, &x); err != nil {
		r.o.Log.Warn("a member's rehearsal cannot be read", "member", from, "error", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.asked++
	r.bytes += len(data)
	busy := r.asked > triesMax+triesWait || r.bytes > triesBytes
	r.o.Background(func() {
		defer r.answered(len(data))
		out := Tried{Seq: x.Seq, Life: x.Life}
		if !busy {
			out.Done, out.Code, out.Message = r.tryOut(from, &x)
		}
		out.Decided = r.o.Decided() // its own sessions' commits are seen before they are applied
		answer, err := json.Marshal(out)
		if err != nil {
			r.o.Log.Error("an answer to a rehearsal cannot be written", "error", err)
			return
		}
		r.o.Answer(from, answer)
	})
}

func (r *DryRuns) answered(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked--
	r.bytes -= bytes
}

// tryOut carries a transaction out and takes it back. What it waits for until then takes no room from others.
func (r *DryRuns) tryOut(from uint32, x *tryRequest) (done bool, code, message string) {
	ctx, cancel := context.WithTimeout(context.Background(), TryTimeout)
	defer cancel()
	ws, err := writeset.Decode(x.Payload)
	if err != nil {
		return true, wire.CodeInternalError, err.Error()
	}
	ws.ForgetTableLocks() // who is kept out may wait for this transaction
	rows := len(ws.Steps) == 0
	if rows {
		ws = &writeset.Writeset{Steps: []writeset.Step{{Rows: ws}}}
	}
	for r.o.Applied() < x.Base || !rows && !r.o.Free() {
		if r.o.Ending() || !process.Sleep(ctx, time.Millisecond) {
			return false, "", ""
		}
	}
	select {
	case r.running <- struct{}{}:
	case <-ctx.Done():
		return false, "", ""
	case <-r.o.Done:
		return false, "", ""
	}
	defer func() { <-r.running }()
	a, err := r.ready(ctx)
	if err != nil {
		return false, "", ""
	}
	defer r.keep(a)
	if !rows {
		r.o.Yield(from, x.Life, true)
		defer r.o.Yield(from, x.Life, false)
	}
	err = a.AttemptSteps(ctx, 0, engine.Task{Item: engine.Item{
		ID: writeset.TxID{Member: from, Incarnation: x.Life, Seq: x.Seq}}, Writeset: ws})
	return outcome(err, rows)
}

// outcome says whether a transaction was tried, and why it cannot be carried out, if it cannot. Rows: it defines
// nothing.
func outcome(err error, rows bool) (done bool, code, message string) {
	var pg *pgconn.PgError
	var fatal *failure.Fatal
	refused := errors.As(err, &pg)
	switch {
	case err == nil, errors.Is(err, errRehearsed):
		return true, "", ""
	case rows && (!refused || pg.Code == "23505" || pg.Code == "23P01"):
		return false, "", "" // rows of others come between; certification decides
	case refused && !failure.Transient(err) && (!failure.Environmental(pg) || pg.Code[:2] == "58"):
		return true, pg.Code, pg.Message
	case errors.As(err, &fatal):
		return true, wire.CodeInternalError, fatal.Error()
	}
	return false, "", fmt.Sprint(err)
}

// ready gives an applier to try a transaction with; keep ends its use.
func (r *DryRuns) ready(ctx context.Context) (a *Applier, err error) {
	if a = r.take(); a == nil {
		settings := map[string]string{"lock_timeout": tryLock, "deadlock_timeout": "50ms"}
		if a, err = ConnectApplier(ctx, r.o.ConnString, r.o.Config, "tutti dry run", "origin", settings,
			r.o.Log.Warn); err != nil {
			return nil, err
		}
		a.rehearses = true
	}
	if now := r.o.Tables(); a.Tables != now {
		a.Tables = now
		if err := a.Forget(ctx); err != nil {
			a.Close()
			return nil, err
		}
	}
	a.Notices = nil
	return a, nil
}
