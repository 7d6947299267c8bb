package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// DETACH PARTITION CONCURRENTLY is two definitions (decision 0039). The first marks the partition; from its place on it
// is in the parent no more. PostgreSQL has no statement for that alone: it is the whole one, and is kept from going on
// by locks that Tutti holds. At the client's member its own backend runs it, and waits there for the parent's other
// users, as in PostgreSQL. Once it waits for nobody but Tutti, the second definition is ordered, and its place is where
// the backend is let go. The other members end the detachment by another statement then. So what is visible, and what
// the catalogs say, is the same at all members at each place in the order.
//
//	D1  No statement gets further than the order has: whoever holds it back lets go only when the statement is over,
//	    or has its place, and sleeps in its backend, which outlives this process until PostgreSQL ends. If it ends
//	    before the statement does, that fails, because an event trigger finds no leave for it (capture.LetDetach).
//	D2  The second definition is carried out by whoever can, once it is ordered. Until then a cancel, or a crash,
//	    leaves the partition marked, at all members.

const (
	detachLook  = 2 * time.Millisecond
	detachRest  = 50 * time.Millisecond // how often one that may wait long is looked at
	detachAgain = 20 * time.Millisecond
	detachMax   = 4 // at one member, each with a connection
)

// Detaches are the detachments under way at a replica.
type Detaches struct {
	o    *JobOptions
	jobs *Jobs

	steps    sync.Map     // sequence → *detaching, of either of its steps
	held     sync.Map     // *detaching with a holder
	sessions atomic.Int32 // that detach
}

// NewDetaches makes those of a replica whose other definitions are jobs.
func NewDetaches(jobs *Jobs) *Detaches { return &Detaches{o: &jobs.o, jobs: jobs} }

// detaching is one that a session of this member carries out.
type detaching struct {
	x         *Detaches
	d         session.Definition
	pid       uint32 // of its backend
	doomedNow func() bool

	claimed atomic.Bool   // by the executor, for its session, or by that, which has given up
	stopped chan struct{} // closed when its statement is over
	failed  *wire.ErrorFields
	doomed  bool // it was in the order's way
	over    chan struct{}
	told    session.Result

	mu     sync.Mutex
	holder *holder // what keeps it from its second step
}

// Detach is session.Definitions' for a session with this backend; doomed reports whether its transaction has lost, and
// define has the first definition ordered.
func (x *Detaches) Detach(
	d session.Definition, pid uint32, doomed func() bool, define func(id writeset.TxID) session.Result,
) (session.Turn, session.Result) {
	if n := x.sessions.Add(1); n > detachMax {
		x.sessions.Add(-1)
		return nil, session.Result{Err: wire.Errorf(wire.CodeConfigurationLimit,
			"too many partitions are being detached CONCURRENTLY at this node").WithHint(
			"There may be %d. Try again later, or without CONCURRENTLY.", detachMax)}
	}
	g := &detaching{x: x, d: d, pid: pid, doomedNow: doomed, stopped: make(chan struct{}), over: make(chan struct{})}
	id := x.o.TxID(x.o.Seq())
	x.steps.Store(id.Seq, g)
	r := define(id)
	if !r.Turn && g.claimed.CompareAndSwap(false, true) {
		x.steps.Delete(id.Seq)
		x.sessions.Add(-1)
		return nil, r
	}
	return g, session.Result{}
}

// Ended is described in session.Turn.
func (g *detaching) Ended(failed *wire.ErrorFields) session.Result {
	g.failed, g.doomed = failed, g.doomedNow()
	close(g.stopped)
	defer g.x.sessions.Add(-1)
	select {
	case <-g.over:
		return g.told
	case <-g.x.o.Done:
		return session.Result{Err: wire.Errorf(wire.CodeStatementUnknown,
			"the outcome of the statement is not known: this member restarts")}
	}
}

func (g *detaching) running() bool {
	select {
	case <-g.stopped:
		return false
	default:
		return true
	}
}

// finish tells the session how it ended; the backend's own answer counts if there is nothing to tell.
func (g *detaching) finish(r session.Result) {
	g.told = r
	close(g.over)
}

// holder is a backend that holds a lock and sleeps (D1).
type holder struct {
	conn *pgconn.PgConn
	done chan struct{}
}

func (x *Detaches) hold(ctx context.Context, lock string) (*holder, error) {
	conn, err := link.Connect(ctx, x.o.ConnString, "tutti detacher",
		map[string]string{"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0"})
	if err != nil {
		return nil, err
	}
	defer x.o.Backends.Instead(conn.PID())()
	if _, err := conn.Exec(ctx, "BEGIN; "+lock).ReadAll(); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	h := &holder{conn: conn, done: make(chan struct{})}
	// the end of ctx would cancel it
	sleeps := conn.Exec(context.Background(), "SELECT pg_catalog.pg_sleep(1000000000)")
	go func() {
		defer close(h.done)
		_, _ = sleeps.ReadAll() // it ends with an error in any case
	}()
	return h, nil
}

// release ends the holder and its lock.
func (h *holder) release(ctx context.Context, m *link.Monitor) error {
	for {
		if err := m.Terminate(ctx, h.conn.PID()); err != nil {
			return err
		}
		select {
		case <-h.done:
			_ = h.conn.Close(ctx) // of no use any more
			return nil
		case <-time.After(detachAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func regclass(name [2]string) string {
	return "pg_catalog.to_regclass('" + Literal(Relation(name)) + "')"
}

// marked reports whether the partition is detached in part.
func (x *Detaches) marked(ctx context.Context, d *session.Detach) (bool, error) {
	r, err := x.o.Monitor.Exec(ctx, fmt.Sprintf("SELECT FROM pg_catalog.pg_inherits WHERE inhrelid = %s AND inhparent "+
		"= %s AND inhdetachpending", regclass(d.Partition), regclass(d.Parent)))
	return err == nil && len(r[0].Rows) > 0, err
}

// Begin carries out the first step. It is done already if the last life ended before it could note that.
func (x *Detaches) Begin(ctx context.Context, last uint64, t engine.Task, d session.Definition) (r session.Result,
	over bool, err error) {
	x.o.Applier.Begun.Store(max(last, x.o.Applier.Begun.Load()))
	var own *detaching
	if g, ok := x.steps.LoadAndDelete(t.Item.ID.Seq); ok && t.Item.ID == x.o.TxID(t.Item.ID.Seq) {
		if own = g.(*detaching); !own.claimed.CompareAndSwap(false, true) {
			own = nil
		}
	}
	back, err := x.hold(ctx, "LOCK TABLE ONLY "+Relation(d.Detach.Parent)+" IN ACCESS SHARE MODE")
	var pg *pgconn.PgError
	if err != nil && (!errors.As(err, &pg) || failure.Environmental(pg)) {
		return r, true, err
	}
	if err != nil { // the parent is gone, and so nothing is to be done
		r.Err = &wire.SQLError{ErrorFields: ErrorFields(pg)}
		if own != nil {
			x.jobs.afterwards = func() { own.finish(r) }
		}
		return r, true, x.o.Applier.NoteProgress(ctx, last)
	}
	defer func() {
		if err == nil { // else the statement may not be over
			err = back.release(ctx, x.o.Monitor)
		}
	}()
	if own != nil {
		x.o.Answer(&t, session.Result{Turn: true})
	}
	s := &detachStep{x: x, d: &d, own: own}
	refusal, err := s.run(ctx)
	if err != nil {
		return r, true, err
	}
	if own != nil && own.running() {
		if own.holder, err = x.hold(ctx, "SELECT FROM pg_catalog.pg_class WHERE oid = "+regclass(d.Detach.Partition)+
			" FOR UPDATE"); err != nil {
			return r, true, err
		}
		x.held.Store(own, nil)
		x.jobs.afterwards = func() {
			x.o.Background(func() {
				defer x.held.Delete(own)
				own.await(ctx)
			})
		}
	} else if own != nil {
		x.jobs.afterwards = func() { own.finish(session.Result{}) }
	}
	return session.Result{Err: refusal}, own == nil, x.o.Applier.NoteProgress(ctx, last)
}

// detachStep is the first step under way.
type detachStep struct {
	x    *Detaches
	d    *session.Definition
	own  *detaching
	conn *pgconn.PgConn // of ours, if there is no client's backend
	done chan error
}

// run returns when the partition is marked, and no backend of ours is at it any more, or with the refusal that all
// members find.
func (s *detachStep) run(ctx context.Context) (refusal *wire.SQLError, err error) {
	defer func() { err = errors.Join(err, s.stop(ctx)) }()
	began := time.Now()
	for {
		if marked, err := s.x.marked(ctx, &s.d.Detach); marked || err != nil {
			return nil, err
		}
		failed, over, err := s.over(ctx)
		if err != nil {
			return nil, err
		}
		if over {
			if marked, err := s.x.marked(ctx, &s.d.Detach); marked || err != nil {
				return nil, err
			}
			switch afterDetach(failed, s.conn != nil) {
			case detachAhead:
				return nil, errors.New("replay: a partition was detached ahead of the order")
			case detachFails:
				return nil, &wire.SQLError{ErrorFields: *failed}
			case detachRefused:
				return &wire.SQLError{ErrorFields: *failed}, nil
			}
			if err := s.start(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if time.Since(began) > BlockedAfter {
			if err := s.unblock(ctx, time.Since(began)); err != nil {
				return nil, err
			}
		}
		if !process.Sleep(ctx, detachLook) {
			return nil, ctx.Err()
		}
	}
}

// detachNext is what follows when the statement of a first step is over, and the partition is not marked.
type detachNext uint8

const (
	detachAhead   detachNext = iota // it has gone further than the order has (D1)
	detachAnew                      // it is run once more, on a connection of ours
	detachFails                     // this member cannot carry it out
	detachRefused                   // no member can
)

// afterDetach says what follows on what the statement has failed with, nil if it has not; ours says that it ran on a
// connection of ours, and not of the client's, which may have been in the order's way, or may have ended.
func afterDetach(failed *wire.ErrorFields, ours bool) detachNext {
	if failed == nil {
		return detachAhead
	}
	pg := &pgconn.PgError{Code: failed.Code, File: failed.File, Routine: failed.Routine}
	environmental := failure.Environmental(pg)
	switch {
	case failure.Transient(pg), environmental && !ours:
		return detachAnew
	case environmental:
		return detachFails
	}
	return detachRefused
}

// over reports whether the statement that is under way is over, and starts one if there is none.
func (s *detachStep) over(ctx context.Context) (failed *wire.ErrorFields, over bool, err error) {
	switch {
	case s.conn != nil:
		select {
		case err := <-s.done:
			s.done <- err
			var pg *pgconn.PgError
			if err != nil && !errors.As(err, &pg) {
				return nil, true, err
			}
			if err != nil {
				f := ErrorFields(pg)
				failed = &f
			}
			return failed, true, nil
		default:
			return nil, false, nil
		}
	case s.own != nil && s.own.running():
		return nil, false, nil
	case s.own != nil:
		return s.own.failed, true, nil
	}
	return nil, false, s.start(ctx)
}

// start runs the statement on a connection of ours. If event triggers were made since the client has asked for it, it
// is a replica, where none fires.
func (s *detachStep) start(ctx context.Context) error {
	if err := s.stop(ctx); err != nil {
		return err
	}
	conn, err := link.Connect(ctx, s.x.o.ConnString, "tutti detacher",
		map[string]string{"statement_timeout": "0", "lock_timeout": "0", "deadlock_timeout": "1h"})
	if err != nil {
		return err
	}
	a := &Applier{Conn: conn}
	own := [][2]string{{"session_replication_role", "origin"}, {capture.TurnSetting, capture.DDLTurn}}
	if r, err := s.x.o.Monitor.Exec(ctx, "SELECT WHERE "+capture.EventsQuery); err != nil {
		return errors.Join(err, conn.Close(ctx))
	} else if len(r[0].Rows) > 0 {
		own = [][2]string{{"session_replication_role", "replica"}, {capture.DDLSetting, capture.DDLOwn}}
	}
	role, err := a.Set(ctx, own, s.d.Settings)
	if err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	s.conn, s.done = conn, make(chan error, 1)
	go func() {
		_, err := a.Run(ctx, "SET ROLE "+pgx.Identifier{role}.Sanitize(), s.d.SQL)
		s.done <- err
	}()
	return nil
}

// stop ends our own statement, in its wait.
func (s *detachStep) stop(ctx context.Context) error {
	if s.conn == nil {
		return nil
	}
	for {
		s.x.o.Monitor.Cancel(s.x.o.Log, s.conn.PID())
		select {
		case <-s.done:
			err := s.conn.Close(ctx)
			s.conn = nil
			return err
		case <-time.After(detachAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unblock has those lose who are in the way of the first step, but not the parent's readers, who are in the way of the
// second.
func (s *detachStep) unblock(ctx context.Context, blocked time.Duration) error {
	pid := uint32(0)
	if s.conn != nil {
		pid = s.conn.PID()
	} else if s.own != nil {
		pid = s.own.pid
	}
	r, err := s.x.o.Monitor.Exec(ctx, fmt.Sprintf("SELECT FROM pg_catalog.pg_locks WHERE pid = %d AND NOT granted AND "+
		"locktype <> 'virtualxid'", pid))
	if err != nil || len(r[0].Rows) == 0 {
		return err
	}
	return s.x.o.Unblock(ctx, pid, blocked)
}

// await waits until the client's backend waits for nothing but its holder, and has the second step ordered then; or
// until its statement is over: then it was cancelled, or stood in the order's way, which shall not end the detachment.
func (g *detaching) await(ctx context.Context) {
	x := g.x
	for wait := detachLook; ; wait = min(2*wait, detachRest) {
		select {
		case <-g.stopped:
			if err := g.letGo(ctx); err != nil {
				return // the life ends
			}
			if g.failed != nil && !g.doomed {
				g.finish(session.Result{})
				return
			}
			g.finish(g.end(ctx))
			return
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		pids, err := x.o.Monitor.Blockers(ctx, g.pid)
		if err == nil && len(pids) == 1 && pids[0] == g.holder.conn.PID() {
			r := g.end(ctx)
			if g.abandon(ctx) == nil {
				g.finish(r)
			}
			return
		}
	}
}

// abandon ends the statement if it still waits, because the second step could not be ordered.
func (g *detaching) abandon(ctx context.Context) error {
	for g.running() {
		g.x.o.Monitor.Cancel(g.x.o.Log, g.pid)
		select {
		case <-g.stopped:
		case <-time.After(detachAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g.letGo(ctx)
}

// letGo releases the holder, once.
func (g *detaching) letGo(ctx context.Context) error {
	g.mu.Lock()
	h := g.holder
	g.holder = nil
	g.mu.Unlock()
	if h == nil {
		return nil
	}
	return h.release(ctx, g.x.o.Monitor)
}

// end has the second step ordered.
func (g *detaching) end(ctx context.Context) session.Result {
	x := g.x
	d := session.Definition{Settings: g.d.Settings, Detach: g.d.Detach,
		SQL: "ALTER TABLE " + Relation(g.d.Detach.Parent) + " DETACH PARTITION " +
			Relation(g.d.Detach.Partition) + " FINALIZE"}
	d.Detach.Ends = true
	for looks := 0; ; looks++ {
		d.Base = x.o.Complete()
		extent, err := x.extentOf(ctx, Relation(g.d.Detach.Parent), Relation(g.d.Detach.Partition))
		if err != nil {
			return session.Result{Err: wire.Errorf(wire.CodeInternalError, "the partition is detached in part: %v",
				err).WithHint("Use ALTER TABLE ... DETACH PARTITION ... FINALIZE to complete the pending detach " +
				"operation.")}
		}
		if d.Extent = extent; looks == detachLooks {
			d.Extent = &writeset.Writeset{Barrier: true}
		}
		id := x.o.TxID(x.o.Seq())
		x.steps.Store(id.Seq, g)
		r := x.o.Define(id, d)
		x.steps.Delete(id.Seq)
		if r.Err == nil || r.Err.Code != wire.CodeTuttiOutdated || looks == detachLooks {
			return r
		}
	}
}

const detachLooks = 20

// extentOf is what a definition of these tables may change.
func (x *Detaches) extentOf(ctx context.Context, relations ...string) (*writeset.Writeset, error) {
	r, err := x.o.Monitor.Exec(ctx, capture.ExtentSQL(relations, false, false, semantics.ReachAround.String()))
	if err != nil {
		return nil, err
	}
	return capture.Extent(r[0].Rows[0][0], false, false)
}

// End carries out the second step: it lets the client's backend go on, if that waits for it, or does it itself.
func (x *Detaches) End(ctx context.Context, last uint64, t engine.Task, d session.Definition) (r session.Result,
	over bool, err error) {
	v, ok := x.steps.Load(t.Item.ID.Seq)
	if !ok || t.Item.ID != x.o.TxID(t.Item.ID.Seq) {
		return x.jobs.CarryOut(ctx, last, t, &d)
	}
	g := v.(*detaching)
	x.o.Applier.Begun.Store(max(last, x.o.Applier.Begun.Load()))
	defer x.o.Backends.Instead(g.pid)()
	if err := x.let(ctx, g.pid); err != nil {
		return r, true, err
	}
	if err := g.letGo(ctx); err != nil {
		return r, true, err
	}
	select {
	case <-g.stopped:
	case <-ctx.Done():
		return r, true, ctx.Err()
	}
	if err := x.let(ctx, 0); err != nil {
		return r, true, err
	}
	if g.failed != nil {
		return x.jobs.CarryOut(ctx, last, t, &d)
	}
	return r, true, x.ended(ctx, last)
}

// let gives one backend leave to end its detachment (D1), or none.
func (x *Detaches) let(ctx context.Context, pid uint32) error {
	c := x.o.Applier.Definer.Pgx
	if _, err := c.Exec(ctx, capture.LetNone); err != nil || pid == 0 {
		return err
	}
	_, err := c.Exec(ctx, capture.LetDetach, pid)
	return err
}

// ended makes triggers fit what a client's backend has defined at its place, and notes the progress.
func (x *Detaches) ended(ctx context.Context, last uint64) error {
	a := x.o.Applier.Definer
	defer x.o.Backends.Instead(a.Conn.PID())() // whoever blocks it loses
	g := &Job{}
	a.Tables, a.Job = x.o.Applier.Tables, g
	tx, err := a.Pgx.Begin(ctx)
	if err != nil {
		return err
	}
	if a.Tables, err = catalog.Follow(ctx, tx, nil); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	if err := a.End(ctx, last, nil); err != nil {
		return err
	}
	return x.jobs.finish(ctx, g)
}

// BreakOff cancels a detachment that waits, if pid keeps it from its second step, and reports whether it does.
func (x *Detaches) BreakOff(pid uint32) (found bool) {
	x.held.Range(func(key, _ any) bool {
		g := key.(*detaching)
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.holder != nil && g.holder.conn.PID() == pid {
			found = true
			x.o.Monitor.Cancel(x.o.Log, g.pid)
		}
		return !found
	})
	return found
}
