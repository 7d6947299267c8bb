package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Statements the applier has prepared besides the operations.
const (
	ApplyBegin    = "begin"
	applyCommit   = "commit"
	ApplyRollback = "rollback"
	applyProgress = "progress"
	applyMark     = "mark"
	applySave     = "save"
	applyUndo     = "undo"
	applyKeep     = "keep"
	applyPending  = "pending"
	applyDone     = "done"
)

var applierStatements = [][2]string{
	{ApplyBegin, "BEGIN"},
	{applyCommit, "COMMIT"},
	{ApplyRollback, "ROLLBACK"},
	{applySave, "SAVEPOINT rows"},
	{applyUndo, "ROLLBACK TO rows"},
	{applyKeep, "RELEASE rows"},
	{applyProgress, progressStatement},
	{applyPending, "WITH over AS (DELETE FROM tutti.pending p USING tutti.pending d WHERE d.ordinal = p.ordinal AND " +
		"d.done) INSERT INTO tutti.pending (ordinal, item) VALUES ($1, $2)"},
	{applyDone, "INSERT INTO tutti.pending (ordinal, done, item) VALUES ($1, true, '')"},
	{applyMark, "INSERT INTO tutti.mark AS m VALUES ($1, $2, $3) ON CONFLICT (slot) DO UPDATE SET incarnation = " +
		"excluded.incarnation, seq = excluded.seq"},
}

// progressStatement moves the progress row to $1. $2 is its last place, which makes it as quick as ever where versions
// of the row are kept because somebody holds a snapshot: to look for the last one takes longer with each of them. It
// gives the position of the WAL and the row's new place.
const progressStatement = "WITH at AS (UPDATE tutti.progress SET ordinal = $1 WHERE ctid OPERATOR(pg_catalog.=) $2 " +
	"RETURNING ctid), anew AS (UPDATE tutti.progress SET ordinal = $1 WHERE NOT EXISTS (SELECT FROM at) RETURNING " +
	"ctid) SELECT pg_catalog.pg_current_wal_insert_lsn(), ctid FROM at UNION ALL SELECT " +
	"pg_catalog.pg_current_wal_insert_lsn(), ctid FROM anew"

// binaryFormat asks for all results in binary.
var binaryFormat = []int16{1}

// preparedMax bounds the operations kept prepared.
const preparedMax = 500

// Applier executes groups' remote rows. Its definer executes definitions, on a connection of its own, for two reasons:
// PostgreSQL forgets a session's plans when session_replication_role changes, and those with which definitions
// are followed up cost more than most definitions; and a long one may go on beside rows, see Job.
type Applier struct {
	*reach
	Pgx        *pgx.Conn
	Conn       *pgconn.PgConn    // of pgx
	prepared   map[string]string // operation text → statement name
	Definer    *Applier          // nil if it is one itself
	Job        *Job              // what a definer carries out
	ConnString string
	config     *config.Config
	Notices    []*pgconn.Notice
	Tables     *catalog.Tables
	rehearses  bool // it takes everything back, see tryOut
	yields     bool // the definition it carries out has failed, see clears
	heirs      bool // because of tables that inherit or have columns of a type, as it seems
	// blind rows that the last attempt has not changed, or an earlier one whose transaction is void
	Missed map[*writeset.Row]bool
	Void   map[*writeset.Writeset]bool
	warn   func(message string, args ...any)
	Alone  func() bool // no session here has locks on rows of its own, as far as is known; nil: it may
}

// reach is how far an applier and its definer have come.
type reach struct {
	Begun  atomic.Uint64 // what the progress row says, or is about to say
	Passed passed
	place  atomic.Uint64 // of the progress row as it was written last: block and item; it may be another one since
}

// progress are the arguments of progressStatement.
func (r *reach) progress(last uint64) [][]byte {
	at := r.place.Load()
	return [][]byte{text(last), fmt.Appendf(nil, "(%d,%d)", at>>16, at&0xffff)}
}

// written takes what progressStatement gives; false is something else.
func (r *reach) written(row [][]byte) (lsn uint64, ok bool) {
	if len(row) != 2 || len(row[0]) != 8 || len(row[1]) != 6 {
		return 0, false
	}
	r.place.Store(uint64(binary.BigEndian.Uint32(row[1]))<<16 | uint64(binary.BigEndian.Uint16(row[1][4:])))
	return binary.BigEndian.Uint64(row[0]), true
}

func NewApplier(ctx context.Context, connString string, c *config.Config, warn func(string, ...any)) (*Applier, error) {
	settings := map[string]string{"deadlock_timeout": "1h"} // the others give way, see watch
	definer, err := ConnectApplier(ctx, connString, c, "tutti applier of definitions", "origin", settings, warn)
	if err != nil {
		return nil, err
	}
	a := &Applier{reach: definer.reach, Definer: definer, prepared: map[string]string{}, ConnString: connString,
		config: c, warn: warn}
	if err := a.connect(ctx, "tutti applier", "replica", settings); err != nil {
		a.Close()
		return nil, err
	}
	if err := a.describe(ctx); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// ConnectApplier makes an applier that does not know the tables yet, for definitions and what comes with them. Settings
// say what its session begins with, which is what it goes back to (again).
func ConnectApplier(ctx context.Context, connString string, c *config.Config, name, role string,
	settings map[string]string, warn func(string, ...any)) (*Applier, error) {
	a := &Applier{reach: &reach{}, prepared: map[string]string{}, ConnString: connString, config: c, warn: warn}
	if err := a.connect(ctx, name, role, settings); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// connect makes the connection. Role is its session_replication_role.
func (a *Applier) connect(ctx context.Context, name, role string, settings map[string]string) error {
	pc, err := pgx.ParseConfig(a.ConnString)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	pc.DefaultQueryExecMode = pgx.QueryExecModeExec // statements are prepared by prepare alone
	maps.Copy(pc.RuntimeParams, apply.SessionSettings())
	maps.Copy(pc.RuntimeParams, settings)
	pc.RuntimeParams["application_name"] = name
	pc.RuntimeParams["session_replication_role"] = role
	pc.RuntimeParams[capture.SessionSetting] = capture.SessionApplies
	pc.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { a.Notices = append(a.Notices, n) }
	if a.Pgx, err = pgx.ConnectConfig(ctx, pc); err != nil {
		return fmt.Errorf("replay: connect to the local PostgreSQL: %w", err)
	}
	a.Conn = a.Pgx.PgConn()
	return a.prepare(ctx)
}

// describe reads what the tables look like now.
func (a *Applier) describe(ctx context.Context) error {
	tx, err := a.Pgx.Begin(ctx)
	if err != nil {
		return fmt.Errorf("replay: applier: %w", err)
	}
	a.Tables, err = catalog.Describe(ctx, tx)
	return errors.Join(err, tx.Rollback(ctx))
}

// prepare makes the applier's statements.
func (a *Applier) prepare(ctx context.Context) error {
	for _, s := range applierStatements {
		if _, err := a.Conn.Prepare(ctx, s[0], s[1], nil); err != nil {
			return fmt.Errorf("replay: applier: %s: %w", s[1], err)
		}
	}
	return nil
}

// Forget makes the operations be prepared anew: they may name types that are gone.
func (a *Applier) Forget(ctx context.Context) error {
	if len(a.prepared) == 0 {
		return nil
	}
	var sql strings.Builder
	for _, name := range a.prepared {
		sql.WriteString("DEALLOCATE " + name + ";")
	}
	clear(a.prepared)
	if _, err := a.Conn.Exec(ctx, sql.String()).ReadAll(); err != nil {
		return fmt.Errorf("replay: applier: %w", err)
	}
	return nil
}

func (a *Applier) Close() {
	if a.Conn != nil {
		_ = a.Conn.Close(context.Background()) // the server notices either way
	}
	if a.Definer != nil {
		a.Definer.Close()
	}
}

// Apply executes the tasks' rows with the progress row, and the marker rows of tasks that
// want them, in one transaction (N2). A transient failure is repeated; any other is the end
// of this life.
func (a *Applier) Apply(ctx context.Context, last uint64, tasks []engine.Task) error {
	sets := make([]*writeset.Writeset, len(tasks))
	for i := range tasks {
		sets[i] = tasks[i].Writeset
	}
	a.Begun.Store(max(last, a.Begun.Load()))
	a.Void = nil
	unchecked := false
	var gone []*writeset.Row // that void transactions have missed
	for form := apply.InPlace; ; {
		ops, err := apply.Plan(sets, a.Tables.Apply, form)
		if err != nil {
			return &failure.Fatal{Err: fmt.Errorf("entries %d to %d cannot be applied: %w", tasks[0].Ordinal, last,
				err)}
		}
		if unchecked {
			ops = apply.WithoutChecks(ops)
		}
		err = a.attempt(ctx, last, tasks, sets, ops)
		if err != nil && !failure.Transient(err) && a.Void == nil && slices.ContainsFunc(sets, several) {
			void, missed, failed := a.sift(ctx, sets, unchecked)
			switch {
			case failed == nil && len(void) > 0:
				a.Void, gone = void, missed
				sets = slices.DeleteFunc(sets, func(w *writeset.Writeset) bool { return void[w] })
				continue
			case failed != nil:
				err = failed
			}
		}
		switch {
		case unfit(err):
			form = form.Next(len(sets))
		case !unchecked && failsCheck(err):
			a.warn("a row of another member fails a CHECK constraint here, or code it calls; it is applied all "+
				"the same", "error", err)
			unchecked = true
		case err == nil:
			a.miss(gone)
			return nil
		case !failure.Transient(err):
			return err
		case !process.Sleep(ctx, 5*time.Millisecond):
			return ctx.Err()
		}
	}
}

// unfitError is the failure of an operation that may be due to its form alone.
type unfitError struct{ error }

func unfit(err error) bool {
	var u *unfitError
	return errors.As(err, &u)
}

// failsCheck reports whether a failure may be that of a CHECK constraint.
func failsCheck(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && !failure.Transient(err) && !failure.Environmental(pg) && !unfit(err)
}

func (a *Applier) attempt(ctx context.Context, last uint64, tasks []engine.Task, sets []*writeset.Writeset,
	ops []apply.Operation) (err error) {
	if err := a.prepareOps(ctx, ops); err != nil {
		return err
	}
	a.Missed = nil
	p := a.Conn.StartPipeline(ctx)
	if a.hurries(sets, ops) { // without BEGIN what is in a pipeline is a transaction, which ends with it
		lsn, err := a.finishPipeline(p, 0, last, tasks, ops)
		if err == nil {
			a.Passed.Ending(last, lsn)
			a.Passed.Ended(true)
		}
		return err
	}
	p.SendQueryPrepared(ApplyBegin, nil, nil, nil)
	lsn, err := a.finishPipeline(p, 1, last, tasks, ops)
	if err == nil && a.voids(sets) {
		err = voidError{}
	}
	if err != nil {
		return errors.Join(err, a.Conn.ExecPrepared(ctx, ApplyRollback, nil, nil, nil).Read().Err)
	}
	return a.commit(ctx, last, lsn)
}

// hurries reports whether operations may be committed at once: they cannot turn out to be wrong, and no session here
// may be about to have locks that they have had, and to ask whether that was before the COMMIT or after it (passed).
func (a *Applier) hurries(sets []*writeset.Writeset, ops []apply.Operation) bool {
	return a.Alone != nil && a.Alone() && !slices.ContainsFunc(sets, several) &&
		!slices.ContainsFunc(ops, func(o apply.Operation) bool { return len(o.Asks) == 0 })
}

// finishPipeline runs operations, marks and, unless last is zero, the progress after other statements that
// are in the pipeline, and returns the position of the WAL.
func (a *Applier) finishPipeline(p *pgconn.Pipeline, before int, last uint64, tasks []engine.Task,
	ops []apply.Operation) (lsn uint64, err error) {
	for i := range ops {
		p.SendQueryPrepared(a.prepared[ops[i].SQL], ops[i].Args, []int16{int16(ops[i].Format)}, nil)
	}
	after := a.sendMarks(p, tasks)
	if last > 0 {
		p.SendQueryPrepared(applyProgress, a.progress(last), nil, binaryFormat)
		after++
	}
	if err := p.Sync(); err != nil {
		return 0, errors.Join(err, p.Close())
	}
	lsn, err = a.readPipeline(p, before, ops, after)
	if cerr := p.Close(); err == nil {
		err = cerr
	}
	return lsn, err
}

// commit ends the transaction that holds everything up to last.
func (a *Applier) commit(ctx context.Context, last, lsn uint64) error {
	a.Passed.Ending(last, lsn)
	err := a.Conn.ExecPrepared(ctx, applyCommit, nil, nil, nil).Read().Err
	a.Passed.Ended(err == nil)
	return err
}

func text[T uint64 | uint32](v T) []byte { return strconv.AppendUint(nil, uint64(v), 10) }

// sendMarks writes the marker rows of tasks applied in place of their own backends.
func (a *Applier) sendMarks(p *pgconn.Pipeline, tasks []engine.Task) (n int) {
	for i := range tasks {
		if t := &tasks[i]; t.Mark {
			p.SendQueryPrepared(applyMark, [][]byte{text(t.Item.Slot), text(t.Item.ID.Incarnation),
				text(t.Item.ID.Seq)}, nil, nil)
			n++
		}
	}
	return n
}

// prepareOps prepares the operations' statements that are new.
func (a *Applier) prepareOps(ctx context.Context, ops []apply.Operation) error {
	if len(a.prepared)+len(ops) > preparedMax {
		if err := a.Forget(ctx); err != nil {
			return err
		}
	}
	for i := range ops {
		if _, ok := a.prepared[ops[i].SQL]; ok {
			continue
		}
		name := "op" + strconv.Itoa(len(a.prepared))
		if _, err := a.Conn.Prepare(ctx, name, ops[i].SQL, nil); err != nil {
			return fmt.Errorf("replay: apply to table %s: %w", ops[i].Table, err)
		}
		a.prepared[ops[i].SQL] = name
	}
	return nil
}

// readPipeline reads the results of statements before the operations, of those, and of statements
// after them, and checks the operations' row counts. It returns the position of the WAL that
// the last one told.
func (a *Applier) readPipeline(p *pgconn.Pipeline, before int, ops []apply.Operation, after int) (lsn uint64,
	err error) {
	for i := -before; i < len(ops)+after; i++ {
		got, err := p.GetResults()
		if err != nil {
			return 0, opError(ops, i, err)
		}
		r, ok := got.(*pgconn.ResultReader)
		if !ok {
			return 0, fmt.Errorf("replay: apply: unexpected answer %T", got)
		}
		asks := i >= 0 && i < len(ops) && len(ops[i].Asks) > 0
		var places []int64
		for r.NextRow() {
			switch v := r.Values(); {
			case asks:
				n, _ := strconv.ParseInt(string(v[0]), 10, 64) // no number is no place
				places = append(places, n)
			default:
				if at, ok := a.written(v); ok {
					lsn = at
				}
			}
		}
		tag, err := r.Close()
		if err != nil {
			return 0, opError(ops, i, err)
		}
		if asks {
			missed, err := ops[i].Missed(places)
			if err != nil {
				return 0, &failure.Fatal{Err: err}
			}
			a.miss(missed)
		}
		if i >= 0 && i < len(ops) {
			if err := ops[i].Check(tag.RowsAffected()); err != nil && ops[i].Loose {
				return 0, &unfitError{err}
			} else if err != nil {
				return 0, &failure.Fatal{Err: err}
			}
		}
	}
	return lsn, nil
}

// miss notes blind rows that were not there.
func (a *Applier) miss(rows []*writeset.Row) {
	for _, row := range rows {
		if a.Missed == nil {
			a.Missed = map[*writeset.Row]bool{}
		}
		a.Missed[row] = true
	}
}

// opError names the table an error belongs to. What PostgreSQL refuses because of the data
// means that this database differs from the others.
func opError(ops []apply.Operation, i int, err error) error {
	if i < 0 || i >= len(ops) {
		return fmt.Errorf("replay: apply: %w", err)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && ops[i].Loose && (pg.Code == "23505" || pg.Code == "23P01" || pg.Code == "55000") {
		return &unfitError{err}
	}
	if errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "23") || strings.HasPrefix(pg.Code, "22") ||
		strings.HasPrefix(pg.Code, "42")) {
		return &failure.Fatal{Err: fmt.Errorf("table %s has diverged from the cluster: %w; restore this member from "+
			"another", ops[i].Table, err)}
	}
	return fmt.Errorf("replay: apply to table %s: %w", ops[i].Table, err)
}

// Orphaned reports whether a certified transaction whose backend pid is gone, or is ended now, must be applied: unless
// that backend had committed it.
func (a *Applier) Orphaned(ctx context.Context, m *link.Monitor, pid uint32, t engine.Task) (bool, error) {
	for wait := time.Duration(0); ; wait += 10 * time.Millisecond {
		gone, err := m.Gone(ctx, pid)
		if err != nil {
			return false, err
		}
		if gone {
			break
		}
		if wait >= time.Second {
			if err := m.Terminate(ctx, pid); err != nil {
				return false, err
			}
		}
		if !process.Sleep(ctx, 10*time.Millisecond) {
			return false, ctx.Err()
		}
	}
	sql := fmt.Sprintf("SELECT 1 FROM tutti.mark WHERE slot = %d AND incarnation = %d AND seq = %d", t.Item.Slot,
		t.Item.ID.Incarnation, t.Item.ID.Seq)
	r, err := a.Conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return false, fmt.Errorf("replay: applier: %w", err)
	}
	return len(r[0].Rows) == 0, nil
}

// Adopt makes a cloned database this member's own: everything up to ordinal is in it.
func (a *Applier) Adopt(ctx context.Context, ordinal uint64, member uint32) error {
	_, err := a.Conn.Exec(ctx, fmt.Sprintf("BEGIN; SET LOCAL synchronous_commit = on; DELETE FROM tutti.mark; UPDATE "+
		"tutti.progress SET ordinal = %d, floor = %d, member = %d; COMMIT",
		ordinal, ordinal, member)).ReadAll()
	if err != nil {
		return fmt.Errorf("replay: adopt the cloned database: %w", err)
	}
	return nil
}
