package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Job is a definition that a definer carries out.
type Job struct {
	Task       engine.Task
	Last       uint64              // of its group
	Anew       bool                // a start has found it
	Free       time.Time           // when nobody blocked it yet; the watcher's once it goes on beside others
	Definition *session.Definition // nil: the task's steps
	Kind       semantics.Long
	Held       map[uint64]bool // keys of tables, see L2

	Number uint64 // among the longs, from 1 on

	Unwanted atomic.Bool // its client has cancelled it

	mu      sync.Mutex
	ending  bool          // it is about to commit with the progress
	Curtain *Curtain      // if one is drawn: the executor draws it, what lowers it takes it away
	Beside  bool          // it goes on beside what follows
	Kept    chan struct{} // closed when it is in tutti.pending
	Done    chan struct{} // closed at its end; then there are
	Result  session.Result
	Err     error
}

// settle is called before it commits: it returns whether the progress is somebody else's, and waits until that is so.
func (g *Job) settle(ctx context.Context) (beside bool, err error) {
	g.mu.Lock()
	beside, g.ending = g.Beside, !g.Beside
	g.mu.Unlock()
	if beside {
		select {
		case <-g.Kept:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return beside, err
}

// again is called before each try. It takes settle back, and lowers the curtain: another try needs the table. False if
// there must not be another one.
func (g *Job) again() bool {
	g.mu.Lock()
	if g.exposed() {
		g.mu.Unlock()
		return false
	}
	g.ending = false
	c := g.Curtain
	g.Curtain = nil
	g.mu.Unlock()
	c.lower()
	return true
}

// Leave has it go on beside what follows, unless it is about to end, or needs a curtain and has none.
func (g *Job) Leave() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Beside = !g.ending && (g.Kind != semantics.LongAttached || g.Curtain != nil)
	return g.Beside
}

// keeps reports whether a curtain that has its lock keeps it. Otherwise the job has none any more: it has failed, and
// needs the table for another try.
func (g *Job) keeps(c *Curtain) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.exposed() && g.Curtain == c {
		g.Curtain = nil
	}
	return g.exposed()
}

// Concurrent reports whether it is built CONCURRENTLY, see Jobs.BuildConcurrently.
func (g *Job) Concurrent() bool { return g.Definition != nil && g.Definition.Index.Name != "" }

// Over reports whether it has ended.
func (g *Job) Over() bool {
	select {
	case <-g.Done:
		return true
	default:
		return false
	}
}

// Touches reports whether a transaction must not be carried out beside it, or has not seen it: it writes to tables
// that it holds, or has definitions of its own.
func (g *Job) Touches(ws *writeset.Writeset) bool {
	if ws.Barrier || len(ws.Steps) > 0 {
		return true
	}
	return g.holds(ws)
}

// holds reports whether a transaction writes to a table that it holds.
func (g *Job) holds(ws *writeset.Writeset) bool {
	return slices.ContainsFunc(ws.Rows, func(r writeset.Row) bool {
		return (!r.Op.Locks() || r.All()) &&
			g.Held[ws.Tables[r.Table].Key]
	})
}

// Exposed reports whether a definition that has failed must not be tried again beside others, who would see meanwhile
// that it is not there: the next life carries it out, before anybody reads.
func (g *Job) Exposed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.exposed()
}

// exposed is Exposed. g is locked.
func (g *Job) exposed() bool { return g.Beside && g.Kind == semantics.LongAttached }

// JobKind says whether a task may become long.
func JobKind(t *engine.Task, d *session.Definition) semantics.Long {
	of := func(sql string) semantics.Long {
		if s := semantics.Classify(sql); len(s) == 1 {
			return s[0].Long
		}
		return semantics.NotLong
	}
	if d != nil {
		if t.Writeset.Barrier {
			return semantics.NotLong
		}
		return of(d.SQL)
	}
	out := semantics.NotLong
	for i, s := range t.Writeset.Steps {
		if s.Rows != nil {
			return semantics.NotLong
		}
		step, err := collect.Definition(s.Definition)
		if err != nil || step.SQL == "" {
			return semantics.NotLong
		}
		kind := of(step.SQL)
		if i > 0 && kind != out {
			return semantics.NotLong
		}
		out = kind
	}
	if out == semantics.LongSnapshot {
		return semantics.NotLong // it could not be ordered again by itself
	}
	return out
}

// level is that of a definition's transaction: one that may become long sees one snapshot (L4).
func (a *Applier) level() pgx.TxOptions {
	if a.Job != nil && a.Job.Kind != semantics.NotLong {
		return pgx.TxOptions{IsoLevel: pgx.RepeatableRead}
	}
	return pgx.TxOptions{}
}

// begin is a statement that begins it, with a semicolon.
func (a *Applier) begin() string {
	if a.level().IsoLevel == pgx.RepeatableRead {
		return "BEGIN ISOLATION LEVEL REPEATABLE READ;"
	}
	return "BEGIN;"
}

// End commits what a definer has carried out up to ordinal last, with the progress, or says that it is done.
func (a *Applier) End(ctx context.Context, last uint64, tasks []engine.Task) error {
	beside, err := a.Job.settle(ctx)
	if err != nil {
		return err
	}
	p := a.Conn.StartPipeline(ctx)
	if !beside {
		lsn, err := a.finishPipeline(p, 0, last, tasks, nil)
		if err != nil {
			return err
		}
		return a.commit(ctx, last, lsn)
	}
	p.SendQueryPrepared(applyDone, [][]byte{text(a.Job.Task.Ordinal)}, nil, nil)
	if _, err := a.finishPipeline(p, 1, 0, tasks, nil); err != nil {
		return err
	}
	return a.Conn.ExecPrepared(ctx, applyCommit, nil, nil, nil).Read().Err
}

// NoteDone records that a statement was dealt with although its transaction does not say so.
func (a *Applier) NoteDone(ctx context.Context, last uint64) error {
	beside, err := a.Job.settle(ctx)
	if err != nil {
		return err
	}
	for {
		if beside {
			err = a.Conn.ExecPrepared(ctx, applyDone, [][]byte{text(a.Job.Task.Ordinal)}, nil, nil).Read().Err
		} else {
			err = a.NoteProgress(ctx, last)
		}
		// a cancel may have come too late for what it was meant for
		if !failure.Transient(err) || !process.Sleep(ctx, 5*time.Millisecond) {
			return err
		}
	}
}

// Keep moves the progress over a definition that is not carried out yet (L1).
func (a *Applier) Keep(ctx context.Context, last uint64, t *engine.Task) error {
	p := a.Conn.StartPipeline(ctx)
	p.SendQueryPrepared(ApplyBegin, nil, nil, nil)
	p.SendQueryPrepared(applyPending, [][]byte{text(t.Ordinal), t.Item.Bytes()}, []int16{0, 1}, nil)
	lsn, err := a.finishPipeline(p, 2, last, nil, nil)
	if err != nil {
		return errors.Join(err, a.Conn.ExecPrepared(ctx, ApplyRollback, nil, nil, nil).Read().Err)
	}
	return a.commit(ctx, last, lsn)
}

// Pending reads what keep has kept and is not done: one definition, and those that were ordered again.
func (a *Applier) Pending(ctx context.Context) (tasks []engine.Task, err error) {
	rows, err := a.Pgx.Query(ctx, "SELECT ordinal, item FROM tutti.pending p WHERE NOT done AND NOT EXISTS (SELECT "+
		"FROM tutti.pending d WHERE d.ordinal = p.ordinal AND d.done)")
	if err != nil {
		return nil, fmt.Errorf("replay: read what is pending: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var ordinal uint64
		var item []byte
		if err := rows.Scan(&ordinal, &item); err != nil {
			return nil, fmt.Errorf("replay: read what is pending: %w", err)
		}
		t, err := engine.TaskOf(ordinal, item)
		if err != nil {
			return nil, &failure.Fatal{Err: fmt.Errorf("replay: the definition %d in tutti.pending cannot be read: %w",
				ordinal, err)}
		}
		tasks = append(tasks, t)
	}
	return tasks, rows.Err()
}

// unmark prepares FINALIZE where the client's backend does not carry it out. It waits for everybody who has a snapshot,
// and those who keep theirs would lose, whatever they have read. An ordinary DETACH waits for the users of its tables
// alone. So the mark is taken off then, in the same transaction. If that fails, by rows that no foreign key's trigger
// has looked at, it is done as PostgreSQL does it.
func (a *Applier) unmark(ctx context.Context, d *session.Definition) (unmarked bool, err error) {
	s := semantics.Classify(d.SQL)
	if !d.Detach.Ends || len(s) != 1 || s[0].Detach == nil || !s[0].Detach.Finalizes {
		return false, nil
	}
	defer func() {
		if err != nil && !failure.Transient(err) { // it is no failure of the definition's
			err = fmt.Errorf("replay: a partition's mark cannot be taken off: %v", err)
		}
	}()
	var reads bool
	if err := a.Pgx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_activity WHERE datname "+
		"OPERATOR(pg_catalog.=) pg_catalog.current_database() AND backend_xmin IS NOT NULL AND pid "+
		"OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid() AND backend_type OPERATOR(pg_catalog.=) 'client "+
		"backend' AND (state OPERATOR(pg_catalog.<>) 'active' OR query_start OPERATOR(pg_catalog.<) "+
		"(pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) '100 ms'::pg_catalog.interval)))").Scan(&reads); err !=
		nil || !reads {
		return false, err
	}
	tag, err := a.Pgx.Exec(ctx, "UPDATE pg_catalog.pg_inherits SET inhdetachpending = false WHERE inhrelid "+
		"OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1) AND inhparent OPERATOR(pg_catalog.=) "+
		"pg_catalog.to_regclass($2) AND inhdetachpending",
		Relation(d.Detach.Partition), Relation(d.Detach.Parent))
	if unmarked = err == nil && tag.RowsAffected() == 1; unmarked {
		d.SQL = s[0].Detach.Plain
	}
	return unmarked, err
}

// Concurrently is the work of Jobs.BuildConcurrently.
func (a *Applier) Concurrently(ctx context.Context, d *session.Definition, anew bool) (session.Result, error) {
	a.Notices = nil
	for {
		if a.Job.Unwanted.Load() {
			return session.Result{Err: ErrCanceled()}, nil
		}
		tag, err := a.tryConcurrently(ctx, d, anew)
		if err == nil {
			return session.Result{Tag: tag, Notices: a.noticeFrames()}, nil
		}
		var pg *pgconn.PgError
		switch {
		case failure.Transient(err):
			a.Notices, anew = nil, true
			if !process.Sleep(ctx, concurrentAgain) {
				return session.Result{}, ctx.Err()
			}
		case !errors.As(err, &pg) || failure.Environmental(pg):
			return session.Result{}, err
		default:
			a.warn("CREATE INDEX CONCURRENTLY failed here", "index", d.Index.Name, "error", err)
			return session.Result{Notices: a.noticeFrames(), Err: &wire.SQLError{ErrorFields: ErrorFields(pg)}}, nil
		}
	}
}

func (a *Applier) tryConcurrently(ctx context.Context, d *session.Definition, anew bool) (tag string, err error) {
	if anew {
		if over, err := a.leftover(ctx, d); over || err != nil {
			return "CREATE INDEX", err
		}
	}
	defer func() {
		_, e := a.Conn.Exec(ctx, "RESET ROLE; RESET ALL").ReadAll()
		err = errors.Join(err, e)
	}()
	// As a replica: an event trigger that was made since the client asked for the index fires nowhere.
	role, err := a.Set(ctx, [][2]string{{"session_replication_role", "replica"}, {capture.DDLSetting, capture.DDLOn},
		{capture.TransactionSetting, "on"}}, d.Settings)
	if err != nil {
		return "", err
	}
	return a.Run(ctx, "SET ROLE "+pgx.Identifier{role}.Sanitize(), d.SQL)
}

// leftover looks for what an earlier try has left: the index, or one that is not valid, which is dropped. Nothing of
// its name was there before, or PostgreSQL would have refused it.
func (a *Applier) leftover(ctx context.Context, d *session.Definition) (over bool, err error) {
	if _, err := a.Conn.Exec(ctx, "RESET ROLE; RESET ALL").ReadAll(); err != nil { // it may have been broken off
		return false, err
	}
	var valid bool
	err = a.Pgx.QueryRow(ctx,
		`SELECT x.indisvalid FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN `+
			`pg_catalog.pg_class c ON c.oid = x.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = i.relnamespace WHERE n.nspname = $1 AND c.relname = $2 AND i.relname = $3`, d.Index.Schema, d.Index.Table, d.Index.Name).Scan(&valid)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil || valid {
		return valid, err
	}
	_, err = a.Conn.Exec(ctx, "BEGIN; SET LOCAL "+capture.DDLSetting+" = "+capture.DDLOwn+"; DROP INDEX IF EXISTS "+
		pgx.Identifier{d.Index.Schema, d.Index.Name}.Sanitize()+"; COMMIT").ReadAll()
	if err != nil {
		_, e := a.Conn.Exec(ctx, "ROLLBACK").ReadAll()
		err = errors.Join(err, e)
	}
	return false, err
}

// concurrentAgain is after how long an index is begun with once more that something has broken off.
const concurrentAgain = 100 * time.Millisecond

func ErrCanceled() *wire.SQLError {
	return wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to user request")
}

// errRehearsed ends a rehearsal that has come to its end.
var errRehearsed = errors.New("replay: the rehearsal is over")

// Curtain hides a partitioned table while a partition is attached to it for long. PostgreSQL lets everybody read the
// table meanwhile; but what is ordered behind ATTACH PARTITION can be seen when that has become long, and then the
// partition's rows must be seen as well. So the curtain asks for the table's strongest lock, which it does not get
// before the partition is attached: whoever wants to read the table from then on stands behind it. Who has a lock on
// the table already is waited for, as long as the definition itself takes.
type Curtain struct {
	Conn  *pgconn.PgConn // its own
	Table string         // the table's OID; empty if there is no curtain, and never will be
	Lost  chan error     // why it is down too early
	over  chan struct{}  // closed to have it be lowered
	gone  chan struct{}  // closed when nobody stands behind it any more
}

// lower takes it down, if there is one, and returns when that is done.
func (c *Curtain) lower() {
	if c != nil && c.Conn != nil {
		close(c.over)
		<-c.gone
	}
}

// draw gives it a curtain.
func (g *Job) draw(c *Curtain) {
	g.mu.Lock()
	g.Curtain = c
	g.mu.Unlock()
}

// Down is ready when the curtain is down too early.
func (c *Curtain) Down() <-chan error {
	if c == nil {
		return nil
	}
	return c.Lost
}

// Hold notes on which tables nothing may be written beside it (L2). Locked are those on which it has locks. Of several
// steps the later ones come to lock others: what the transaction that brought them had locked.
func (g *Job) Hold(locked [][2]string) {
	g.Held = map[uint64]bool{}
	switch g.Kind {
	case semantics.LongLocked, semantics.LongSnapshot, semantics.LongAttached:
		for _, t := range locked {
			g.Held[capture.TableKey(t[0], t[1])] = true
		}
		if g.Definition == nil {
			g.holdExclusive()
		}
	case semantics.LongNamed:
		for _, t := range g.Task.Writeset.Tables {
			g.Held[t.Key] = true
		}
	}
}

// holdExclusive notes the tables that its steps change.
func (g *Job) holdExclusive() {
	ws := g.Task.Writeset
	ws.EachKey(func(k writeset.Key) bool {
		if k.Mode == writeset.Exclusive && ws.IsTable(k) {
			g.Held[k.Hash] = true
		}
		return true
	})
}

func Relation(name [2]string) string { return pgx.Identifier{name[0], name[1]}.Sanitize() }
