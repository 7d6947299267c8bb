package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Streaming executes a large transaction of another member while it comes in, beside the executor and in a
// database transaction of its own, so that the order does not wait for it once it is decided. It commits
// nothing by itself: if the log says yes, the executor takes its transaction over when its turn comes (N8).
//
// It gives way to everybody: to the executor, to definitions, to clients that hold a lock it needs, and when nothing
// comes for a while. Then the executor applies the rows as those of any other transaction.
type Streaming struct {
	member  StreamingOptions
	applier *Applier      // its connection, made when it has something to do for the first time
	PID     atomic.Uint32 // of its backend
	news    chan struct{}

	mu      sync.Mutex
	run     *streamed     // the latest
	refused writeset.TxID // the latest that it has no time for
}

// StreamingOptions is the member for whose executor streaming apply works, as that needs it.
type StreamingOptions struct {
	ConnString string
	Config     *config.Config
	Log        *slog.Logger
	Ready      func() bool // what comes in is not in the database yet
	Tables     func() *catalog.Tables
	Report     func(to uint32, front []byte) // a frame that may be lost
}

// streamed is one large transaction on its way. Its fields are Streaming.mu's.
type streamed struct {
	id     writeset.TxID // never changes
	front  engine.Front
	stop   bool          // it must not be committed by streaming apply as it is
	over   bool          // nor after another try
	taken  bool          // by the executor
	ok     bool          // all rows are in the open database transaction
	done   chan struct{} // closed when ok is final, unless stop follows
	closed bool          // done is
	ended  chan struct{} // closed by the executor when the transaction it has taken over is over
}

const (
	streamSilence = 3 * time.Second // nothing came for so long: its member may be gone
	// A client that holds a lock for longer is for the executor, which ends it when it must.
	streamLockTimeout = "500ms"
	// What has given way is begun anew while its transaction still comes in, so often.
	streamTries = 5
	streamPause = 50 * time.Millisecond // in which who was in its way goes on
)

func NewStreaming(m StreamingOptions) *Streaming {
	return &Streaming{member: m, news: make(chan struct{}, 1)}
}

// connect makes its connection, which most lives never need.
func (f *Streaming) connect(ctx context.Context) error {
	settings := map[string]string{"deadlock_timeout": "100ms", "lock_timeout": streamLockTimeout}
	m := f.member
	a, err := ConnectApplier(ctx, m.ConnString, m.Config, "tutti streaming apply", "replica", settings, m.Log.Warn)
	if err != nil {
		return err
	}
	f.applier = a
	f.PID.Store(a.Conn.PID())
	return nil
}

// Tell takes what has come. It is called by the core and waits for nothing.
func (f *Streaming) Tell(fronts []engine.Front) {
	if !f.member.Ready() {
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
		case x.State == engine.Coming && x.Total > f.member.Config.Limits.GroupBytes && (r == nil || r.closed && !r.ok):
			f.run = &streamed{id: x.ID, front: x, done: make(chan struct{}), ended: make(chan struct{})}
		case x.State == engine.Coming && x.ID != f.refused:
			f.refused = x.ID
			f.report(&streamed{id: x.ID}, 0, true)
		}
	}
	f.poke()
}

func (f *Streaming) poke() {
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// GiveWay makes it roll back what it has executed, unless the executor has taken it over. Its locks go soon
// after.
func (f *Streaming) GiveWay() { f.GiveWayUnless(nil) }

// GiveWayUnless is giveWay, unless it executes one of these tasks.
func (f *Streaming) GiveWayUnless(tasks []engine.Task) {
	f.mu.Lock()
	if r := f.run; r != nil && !r.taken && !slices.ContainsFunc(tasks,
		func(t engine.Task) bool { return t.Item.ID == r.id }) {
		r.stop = true
	}
	f.mu.Unlock()
	f.poke()
}

func (f *Streaming) execute(ctx context.Context) error {
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
		f.member.Log.Info("executed a large transaction ahead of its turn", "transaction", r.id, "rows", rows, "ms",
			time.Since(began).Milliseconds())
		if f.keep(ctx, r) {
			return nil
		}
	} else {
		f.report(r, 0, true)
		f.member.Log.Info("a large transaction is left to its turn", "transaction", r.id, "rows", rows, "reason", err)
	}
	return f.rollBack(ctx)
}

// tries executes all rows of a transaction. While it still comes in, what has given way is begun anew.
func (f *Streaming) tries(ctx context.Context, r *streamed) (rows int, err error) {
	for try := 1; ; try++ {
		rows, err = f.rows(ctx, r)
		f.mu.Lock()
		again := (r.stop || err != nil) && !r.over && r.front.State == engine.Coming && try < triesAfter(err)
		f.mu.Unlock()
		if !again {
			return rows, err
		}
		f.member.Log.Info("a large transaction is begun anew ahead of its turn", "transaction", r.id, "rows", rows,
			"reason", err)
		if err := f.rollBack(ctx); err != nil {
			return 0, err
		}
		if !process.Sleep(ctx, streamPause) {
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
		return streamTries
	case errors.Is(err, errMisfit), errors.As(err, &pg) && strings.HasPrefix(pg.Code, "23"):
		return 2
	}
	return 0
}

// report tells the member a transaction comes from how much of it is executed here, or that it will not be before its
// turn. A frame that is lost is followed by another.
func (f *Streaming) report(r *streamed, bytes int, over bool) {
	f.member.Report(r.id.Member, appendFront(nil, r.id.Incarnation, r.id.Seq, bytes, over))
}

// rollBack tries until nothing is open: a cancel that was meant for the statement before may hit it.
func (f *Streaming) rollBack(ctx context.Context) error {
	conn := f.applier.Conn
	for conn.TxStatus() != 'I' && ctx.Err() == nil {
		if err := conn.ExecPrepared(ctx, ApplyRollback, nil, nil, nil).Read().Err; conn.IsClosed() {
			return fmt.Errorf("replay: forerunner: %w", err)
		}
	}
	return nil
}

// end says whether the transaction can be taken over.
func (r *streamed) end(ok bool) {
	r.ok, r.closed, r.front.Bytes = ok, true, nil
	close(r.done)
}

// keep waits until the executor has taken the transaction over and ended it; false if it must be rolled back.
func (f *Streaming) keep(ctx context.Context, r *streamed) bool {
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
func (f *Streaming) rows(ctx context.Context, r *streamed) (rows int, err error) {
	if err := f.applier.Forget(ctx); err != nil {
		return 0, err
	}
	if err := f.applier.Conn.ExecPrepared(ctx, ApplyBegin, nil, nil, nil).Read().Err; err != nil {
		return 0, err
	}
	f.applier.Tables, f.applier.Notices = f.member.Tables(), nil
	try := foretry{stream: f.stream()}
	silence := time.NewTimer(streamSilence)
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
			// All of it is read once its end has come, before anybody is told: about a second for each 64 MiB.
			silence.Reset(streamSilence + time.Duration(front.Total>>26)*time.Second)
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
			if err := flush(ctx, f.applier, try.stream, true); err != nil {
				return rows, err
			}
			return rows, f.follow(ctx, &try)
		}
		if !try.stream.Empty() {
			if err := flush(ctx, f.applier, try.stream, false); err != nil {
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

func (f *Streaming) stream() *apply.Stream {
	return apply.NewStream(f.applier.Tables.Apply, f.member.Config.Limits.GroupBytes/4)
}

// reportOf reports how far a try has come.
func (f *Streaming) reportOf(r *streamed, try *foretry) {
	if try.told = try.scanner.At(); try.told > 0 {
		f.report(r, try.told, false)
	}
}

// executeFront executes what has come with front.
func (f *Streaming) executeFront(ctx context.Context, r *streamed, try *foretry, front []byte) (rows int, err error) {
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
		if err := flush(ctx, f.applier, try.stream, false); err != nil {
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
func (f *Streaming) define(ctx context.Context, r *streamed, try *foretry, definition []byte) error {
	if err := flush(ctx, f.applier, try.stream, true); err != nil {
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
func (f *Streaming) follow(ctx context.Context, try *foretry) error {
	if !try.changed {
		return nil
	}
	try.changed = false
	a := f.applier
	if err := a.again(ctx); err != nil {
		return err
	}
	if _, err := a.Conn.Exec(ctx, "SET LOCAL session_replication_role = origin").ReadAll(); err != nil {
		return err
	}
	if err := a.follow(ctx); err != nil {
		return err
	}
	try.stream = f.stream()
	return errors.Join(a.Forget(ctx), a.asReplica(ctx))
}

// take waits until streaming apply is through with the transactions that are to be applied now, and reports
// whether all their rows are in its database transaction. Then the executor ends that, and closes ended.
func (f *Streaming) take(ctx context.Context, tasks []engine.Task) (ended chan struct{}, ok bool) {
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

// Commit ends the transaction that is executed if that is the one to apply, with the progress of the executor's applier
// a. False: it is to be applied. While locks are waited for, busy is the backend that waits.
func (f *Streaming) Commit(ctx context.Context, a *Applier, busy *atomic.Uint32, last uint64,
	tasks []engine.Task) (bool, error) {
	ended, ok := f.take(ctx, tasks)
	if !ok {
		return false, ctx.Err()
	}
	defer close(ended)
	own := f.applier
	a.Begun.Store(max(last, a.Begun.Load()))
	if err := own.lockTables(ctx, busy, tasks[0].Writeset); err != nil {
		return false, own.Conn.ExecPrepared(ctx, ApplyRollback, nil, nil, nil).Read().Err
	}
	r := own.Conn.ExecPrepared(ctx, applyProgress, a.progress(last), nil, binaryFormat).Read()
	var lsn uint64
	written := r.Err == nil && len(r.Rows) == 1
	if written {
		lsn, written = a.written(r.Rows[0])
	}
	if !written {
		return false, errors.Join(r.Err, own.Conn.ExecPrepared(ctx, ApplyRollback, nil, nil, nil).Read().Err)
	}
	a.Passed.Ending(last, lsn)
	err := own.Conn.ExecPrepared(ctx, applyCommit, nil, nil, nil).Read().Err
	a.Passed.Ended(err == nil)
	if err == nil && len(tasks[0].Writeset.Steps) > 0 {
		a.Tables = own.Tables
		err = a.Forget(ctx)
	}
	return true, err
}

// lockTables locks the tables that a transaction has locked, which streaming apply has left: others might have waited
// for that, and it for them. Now they give way.
func (a *Applier) lockTables(ctx context.Context, busy *atomic.Uint32, ws *writeset.Writeset) error {
	locks, err := apply.TableLocks(ws, a.Tables.Apply)
	if err != nil || len(locks) == 0 {
		return err
	}
	defer busy.Store(busy.Swap(a.Conn.PID()))
	if _, err := a.Conn.Exec(ctx, "SET LOCAL lock_timeout = 0; SET LOCAL deadlock_timeout = '1h'").ReadAll(); err !=
		nil {
		return err
	}
	return operateAll(ctx, a, locks)
}

// Close ends its connection.
func (f *Streaming) Close() {
	if f.applier != nil {
		f.applier.Close()
	}
}

// Run is the goroutine of streaming apply.
func (f *Streaming) Run(ctx context.Context) error {
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
