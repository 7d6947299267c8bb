package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/writeset"
)

// forerunner executes a large transaction of another member while it comes in, beside the executor and in a
// database transaction of its own, so that the order does not wait for it once it is decided. It commits
// nothing by itself: if the log says yes, the executor takes its transaction over when its turn comes (N8).
//
// It gives way to everybody: to the executor, to definitions, to clients that hold a lock it needs, and when nothing
// comes for a while. Then the executor applies the rows as those of any other transaction.
type forerunner struct {
	life    *life
	applier *applier      // its connection, made when it has something to do for the first time
	pid     atomic.Uint32 // of its backend
	news    chan struct{}

	mu      sync.Mutex
	run     *foreran      // the latest
	refused writeset.TxID // the latest that it has no time for
}

// foreran is one large transaction on its way. Its fields are the forerunner's mu's.
type foreran struct {
	id     writeset.TxID // never changes
	front  engine.Front
	stop   bool          // it must not be committed by the forerunner as it is
	over   bool          // nor after another try
	taken  bool          // by the executor
	ok     bool          // all rows are in the open database transaction
	done   chan struct{} // closed when ok is final, unless stop follows
	closed bool          // done is
	ended  chan struct{} // closed by the executor when the transaction it has taken over is over
}

const (
	forerunSilence = 3 * time.Second // nothing came for so long: its member may be gone
	// A client that holds a lock for longer is for the executor, which ends it when it must.
	forerunLockTimeout = "500ms"
	// What has given way is begun anew while its transaction still comes in, so often.
	forerunTries = 5
	forerunPause = 50 * time.Millisecond // in which who was in its way goes on
)

func newForerunner(l *life) *forerunner { return &forerunner{life: l, news: make(chan struct{}, 1)} }

// connect makes its connection, which most lives never need.
func (f *forerunner) connect(ctx context.Context) error {
	l := f.life
	a, err := connectApplier(ctx, l.connString, l.config, "tutti forerunner", "replica", map[string]string{"deadlock_timeout": "100ms", "lock_timeout": forerunLockTimeout}, l.log.Warn)
	if err != nil {
		return err
	}
	f.applier = a
	f.pid.Store(a.conn.PID())
	return nil
}

// tell takes what has come. It is called by the core and waits for nothing.
func (f *forerunner) tell(fronts []engine.Front) {
	if !f.life.ready.Load() {
		return // what comes now may be in the database
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range fronts {
		r := f.run
		switch {
		case r != nil && r.id == x.ID:
			if r.front = x; r.closed {
				r.front.Bytes = nil // they would be kept
			}
			if x.State == engine.Dropped {
				r.stop, r.over = true, true
			}
		case x.State == engine.Coming && x.Total > f.life.config.Limits.GroupBytes && (r == nil || r.closed && !r.ok):
			f.run = &foreran{id: x.ID, front: x, done: make(chan struct{}), ended: make(chan struct{})}
		case x.State == engine.Coming && x.ID != f.refused:
			f.refused = x.ID
			f.report(&foreran{id: x.ID}, 0, true)
		}
	}
	f.poke()
}

func (f *forerunner) poke() {
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// giveWay makes it roll back what it has executed, unless the executor has taken it over. Its locks go soon
// after.
func (f *forerunner) giveWay() { f.giveWayUnless(nil) }

// giveWayUnless is giveWay, unless it executes one of these tasks.
func (f *forerunner) giveWayUnless(tasks []engine.Task) {
	f.mu.Lock()
	if r := f.run; r != nil && !r.taken && !slices.ContainsFunc(tasks, func(t engine.Task) bool { return t.Item.ID == r.id }) {
		r.stop = true
	}
	f.mu.Unlock()
	f.poke()
}

func (f *forerunner) execute(ctx context.Context) error {
	f.mu.Lock()
	r := f.run
	if r == nil || r.closed || r.stop {
		if r != nil && !r.closed {
			r.end(false)
		}
		f.mu.Unlock()
		return nil
	}
	f.mu.Unlock()
	if f.applier == nil {
		if err := f.connect(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	rows, err := f.tries(ctx, r)
	f.mu.Lock()
	ok := err == nil && !r.stop
	r.end(ok)
	f.mu.Unlock()
	if ok {
		f.life.log.Info("executed a large transaction ahead of its turn", "transaction", r.id, "rows", rows, "ms", time.Since(began).Milliseconds())
		if f.keep(ctx, r) {
			return nil
		}
	} else {
		f.report(r, 0, true)
		f.life.log.Info("a large transaction is left to its turn", "transaction", r.id, "rows", rows, "reason", err)
	}
	return f.rollBack(ctx)
}

// tries executes all rows of a transaction. While it still comes in, what has given way is begun anew.
func (f *forerunner) tries(ctx context.Context, r *foreran) (rows int, err error) {
	for try := 1; ; try++ {
		rows, err = f.rows(ctx, r)
		f.mu.Lock()
		again := (r.stop || err != nil) && !r.over && r.front.State == engine.Coming && try < triesAfter(err)
		f.mu.Unlock()
		if !again {
			return rows, err
		}
		f.life.log.Info("a large transaction is begun anew ahead of its turn", "transaction", r.id, "rows", rows, "reason", err)
		if err := f.rollBack(ctx); err != nil {
			return 0, err
		}
		if !process.Sleep(ctx, forerunPause) {
			return 0, ctx.Err()
		}
		f.mu.Lock()
		r.stop = r.over
		f.mu.Unlock()
	}
}

// triesAfter is how often a transaction is tried, given how it failed last. A row that is not there, or a unique value
// that is, may be due to one that is ordered and not yet applied.
func triesAfter(err error) int {
	var pg *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, errGivesWay), failure.Transient(err):
		return forerunTries
	case errors.Is(err, errMisfit), errors.As(err, &pg) && strings.HasPrefix(pg.Code, "23"):
		return 2
	}
	return 0
}

// report tells the member a transaction comes from how much of it is executed here, or that it will not be before its
// turn. A frame that is lost is followed by another.
func (f *forerunner) report(r *foreran, bytes int, over bool) {
	f.life.sendFrame(r.id.Member, frameFront, appendFront(nil, r.id.Incarnation, r.id.Seq, bytes, over))
}

// rollBack tries until nothing is open: a cancel that was meant for the statement before may hit it.
func (f *forerunner) rollBack(ctx context.Context) error {
	conn := f.applier.conn
	for conn.TxStatus() != 'I' && ctx.Err() == nil {
		if err := conn.ExecPrepared(ctx, applyRollback, nil, nil, nil).Read().Err; conn.IsClosed() {
			return fmt.Errorf("node: forerunner: %w", err)
		}
	}
	return nil
}

// end says whether the transaction can be taken over.
func (r *foreran) end(ok bool) {
	r.ok, r.closed, r.front.Bytes = ok, true, nil
	close(r.done)
}

// keep waits until the executor has taken the transaction over and ended it; false if it must be rolled back.
func (f *forerunner) keep(ctx context.Context, r *foreran) bool {
	for {
		f.mu.Lock()
		taken, stop := r.taken, r.stop
		if stop && !taken {
			r.ok = false
		}
		f.mu.Unlock()
		switch {
		case taken:
			select {
			case <-r.ended:
			case <-ctx.Done():
			}
			f.mu.Lock()
			r.ok = false // another may follow
			f.mu.Unlock()
			return true
		case stop:
			return false
		}
		select {
		case <-f.news:
		case <-ctx.Done():
			return false
		}
	}
}

// foretry is one try to execute a transaction.
type foretry struct {
	scanner writeset.Scanner
	stream  *apply.Stream
	changed bool // by definitions that are not followed up
	told    int  // bytes
}

// rows executes all rows and definitions of a transaction as they come.
func (f *forerunner) rows(ctx context.Context, r *foreran) (rows int, err error) {
	if err := f.applier.forget(ctx); err != nil {
		return 0, err
	}
	if err := f.applier.conn.ExecPrepared(ctx, applyBegin, nil, nil, nil).Read().Err; err != nil {
		return 0, err
	}
	f.applier.tables, f.applier.notices = f.life.tables.Load(), nil
	try := foretry{stream: f.stream()}
	silence := time.NewTimer(forerunSilence)
	defer silence.Stop()
	for at := -1; ; {
		f.mu.Lock()
		front, stop := r.front, r.stop
		f.mu.Unlock()
		if stop {
			return rows, errGivesWay
		}
		if len(front.Bytes) > at {
			at = len(front.Bytes)
			silence.Reset(forerunSilence)
			n, err := f.executeFront(ctx, r, &try, front.Bytes)
			if rows += n; err != nil {
				return rows, err
			}
			continue
		}
		if front.State == engine.Whole {
			if !try.scanner.Done() {
				return rows, errors.New("it is no writeset")
			}
			if err := f.flush(ctx, try.stream, true); err != nil {
				return rows, err
			}
			return rows, f.follow(ctx, &try)
		}
		if !try.stream.Empty() {
			if err := f.flush(ctx, try.stream, false); err != nil {
				return rows, err
			}
			f.reportOf(r, &try)
			continue
		}
		select {
		case <-f.news:
		case <-silence.C:
			return rows, errors.New("nothing came any more")
		case <-ctx.Done():
			return rows, ctx.Err()
		}
	}
}

func (f *forerunner) stream() *apply.Stream {
	return apply.NewStream(f.applier.tables.Apply, f.life.config.Limits.GroupBytes/4)
}

// reportOf reports how far a try has come.
func (f *forerunner) reportOf(r *foreran, try *foretry) {
	if try.told = try.scanner.At(); try.told > 0 {
		f.report(r, try.told, false)
	}
}

// executeFront executes what has come with front.
func (f *forerunner) executeFront(ctx context.Context, r *foreran, try *foretry, front []byte) (rows int, err error) {
	for {
		row, ok := try.scanner.Next(front)
		if !ok {
			definition, ok := try.scanner.Definition(front)
			if !ok {
				break
			}
			if err := f.define(ctx, r, try, definition); err != nil {
				return rows, err
			}
			continue
		}
		if err := f.follow(ctx, try); err != nil {
			return rows, err
		}
		if !try.stream.Add(try.scanner.Tables[row.Table], row) {
			return rows, errUnable
		}
		rows++
		if !try.stream.Full() {
			continue
		}
		if err := f.flush(ctx, try.stream, false); err != nil {
			return rows, err
		}
		f.reportOf(r, try)
		f.mu.Lock()
		stop := r.stop
		f.mu.Unlock()
		if stop {
			return rows, errGivesWay
		}
	}
	if try.stream.Empty() && try.scanner.At() > try.told { // keys, which are not executed
		f.reportOf(r, try)
	}
	return rows, nil
}

// define carries a definition out, if it gives in its turn what it gives now.
func (f *forerunner) define(ctx context.Context, r *foreran, try *foretry, definition []byte) error {
	if err := f.flush(ctx, try.stream, true); err != nil {
		return err
	}
	emptied, err := collect.Emptied(definition)
	if err != nil || emptied != "" || try.scanner.Shared {
		return errors.Join(errUnable, err)
	}
	d, err := collect.Definition(definition)
	if err != nil {
		return err
	}
	if s := semantics.Classify(d.SQL); len(s) != 1 || !s[0].Ahead {
		return errUnable
	}
	try.changed = true
	return f.applier.stepDefinition(ctx, r.id.Member, definition)
}

// follow follows up the definitions that were carried out, before rows come.
func (f *forerunner) follow(ctx context.Context, try *foretry) error {
	if !try.changed {
		return nil
	}
	try.changed = false
	a := f.applier
	if err := a.again(ctx); err != nil {
		return err
	}
	if _, err := a.conn.Exec(ctx, "SET LOCAL session_replication_role = origin").ReadAll(); err != nil {
		return err
	}
	if err := a.follow(ctx, a.pgx); err != nil {
		return err
	}
	try.stream = f.stream()
	return errors.Join(a.forget(ctx), a.asReplica(ctx))
}

func (f *forerunner) flush(ctx context.Context, stream *apply.Stream, last bool) error {
	ops, err := stream.Operations(last)
	if err != nil {
		return err
	}
	for i := range ops {
		if err := f.applier.operate(ctx, &ops[i]); err != nil {
			return err
		}
	}
	return nil
}

// take waits until the forerunner is through with the transactions that are to be applied now, and reports
// whether all their rows are in its database transaction. Then the executor ends that, and closes ended.
func (f *forerunner) take(ctx context.Context, tasks []engine.Task) (ended chan struct{}, ok bool) {
	f.mu.Lock()
	r := f.run
	concerns := false
	for i := range tasks {
		concerns = concerns || r != nil && tasks[i].Item.ID == r.id
	}
	if !concerns {
		f.mu.Unlock()
		return nil, false
	}
	if len(tasks) > 1 || tasks[0].Mark {
		r.stop, r.over = true, true
	}
	f.mu.Unlock()
	f.poke()
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, false
	}
	f.mu.Lock()
	r.taken = r.ok && !r.stop
	f.mu.Unlock()
	f.poke()
	return r.ended, r.taken
}

// applyForeran ends the forerunner's transaction if that is the one to apply. False: it is to be applied.
func (l *life) applyForeran(ctx context.Context, last uint64, tasks []engine.Task) (bool, error) {
	ended, ok := l.forerunner.take(ctx, tasks)
	if !ok {
		return false, ctx.Err()
	}
	defer close(ended)
	a := l.forerunner.applier
	l.applier.begun.Store(max(last, l.applier.begun.Load()))
	if err := l.lockForeran(ctx, a, tasks[0].Writeset); err != nil {
		return false, a.conn.ExecPrepared(ctx, applyRollback, nil, nil, nil).Read().Err
	}
	r := a.conn.ExecPrepared(ctx, applyProgress, [][]byte{text(last)}, nil, binaryFormat).Read()
	if r.Err != nil || len(r.Rows) != 1 || len(r.Rows[0][0]) != 8 {
		return false, errors.Join(r.Err, a.conn.ExecPrepared(ctx, applyRollback, nil, nil, nil).Read().Err)
	}
	l.applier.passed.ending(last, binary.BigEndian.Uint64(r.Rows[0][0]))
	err := a.conn.ExecPrepared(ctx, applyCommit, nil, nil, nil).Read().Err
	l.applier.passed.ended(err == nil)
	if err == nil && len(tasks[0].Writeset.Steps) > 0 {
		l.applier.tables = a.tables
		l.tables.Store(a.tables)
		err = l.applier.forget(ctx)
	}
	return true, err
}

// lockForeran locks the tables that a transaction has locked, which its forerunner has left: others might have waited for that, and it for them.
// Now they give way.
func (l *life) lockForeran(ctx context.Context, a *applier, ws *writeset.Writeset) error {
	locks, err := apply.TableLocks(ws, a.tables.Apply)
	if err != nil || len(locks) == 0 {
		return err
	}
	defer l.busy.Store(l.busy.Swap(a.conn.PID()))
	if _, err := a.conn.Exec(ctx, "SET LOCAL lock_timeout = 0; SET LOCAL deadlock_timeout = '1h'").ReadAll(); err != nil {
		return err
	}
	for i := range locks {
		if err := a.operate(ctx, &locks[i]); err != nil {
			return err
		}
	}
	return nil
}

// runs is the forerunner's goroutine.
func (f *forerunner) runs(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.news:
		}
		if err := f.execute(ctx); err != nil {
			return err
		}
		f.mu.Lock()
		if f.run != nil && !f.run.closed {
			f.poke() // another has come meanwhile
		}
		f.mu.Unlock()
	}
}
