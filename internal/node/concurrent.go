package node

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// concurrentAgain is after how long an index is begun with once more that something has broken off.
const concurrentAgain = 100 * time.Millisecond

// buildConcurrently has the definer carry out CREATE INDEX CONCURRENTLY, as PostgreSQL does: in several transactions, of which
// each waits for who could not see it. Its place in the order is where it begins, and it is long from there (L1), without
// holding any table: an index that is not unique means nothing to what is captured and applied. It gives way to everything: what
// waits for it and cannot go on breaks it off, and it begins again.
func (l *life) buildConcurrently(ctx context.Context, last uint64, t engine.Task, d session.Definition) error {
	g := &long{task: t, last: last, free: time.Now(), d: &d, kind: semantics.LongFree, beside: true, kept: make(chan struct{}), done: make(chan struct{})}
	l.applier.begun.Store(last)
	if err := l.applier.keep(ctx, last, &t); err != nil {
		return err
	}
	close(g.kept)
	l.longs.add(g)
	l.long = g
	l.log.Info("an index is built beside what is ordered after it", "ordinal", t.Ordinal, "index", d.Index.Name)
	l.begin(ctx, g)
	l.startWatch()
	return nil
}

// cancelDefinition carries out a client's wish: a definition that was not proposed yet is withdrawn, and an index that is built
// CONCURRENTLY here is given up, and left as it is. Everything else is ordered, and runs at all members.
func (l *life) cancelDefinition(seq uint64) {
	l.core.do(func(e *engine.Engine) {
		if !e.Withdraw(seq) {
			return
		}
		if c, ok := l.definitions.Load(seq); ok {
			c.(chan session.Result) <- session.Result{Err: errCanceled()}
		}
	})
	if g := l.longs.under(); g != nil && g.concurrent() && g.task.Item.ID == l.txid(seq) {
		g.unwanted.Store(true)
		l.monitor.cancel(l.log, l.applier.definer.conn.PID())
	}
}

func errCanceled() *wire.SQLError {
	return wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to user request")
}

// concurrently is buildConcurrently's work.
func (a *applier) concurrently(ctx context.Context, d *session.Definition, anew bool) (session.Result, error) {
	a.notices = nil
	for {
		if a.long.unwanted.Load() {
			return session.Result{Err: errCanceled()}, nil
		}
		tag, err := a.tryConcurrently(ctx, d, anew)
		if err == nil {
			return session.Result{Tag: tag, Notices: a.noticeFrames()}, nil
		}
		var pg *pgconn.PgError
		switch {
		case transient(err):
			a.notices, anew = nil, true
			if !sleep(ctx, concurrentAgain) {
				return session.Result{}, ctx.Err()
			}
		case !errors.As(err, &pg) || environmental(pg.Code):
			return session.Result{}, err
		default:
			a.warn("CREATE INDEX CONCURRENTLY failed here", "index", d.Index.Name, "error", err)
			return session.Result{Notices: a.noticeFrames(), Err: &wire.SQLError{ErrorFields: errorFields(pg)}}, nil
		}
	}
}

func (a *applier) tryConcurrently(ctx context.Context, d *session.Definition, anew bool) (tag string, err error) {
	if anew {
		if over, err := a.leftover(ctx, d); over || err != nil {
			return "CREATE INDEX", err
		}
	}
	defer func() {
		_, e := a.conn.Exec(ctx, "RESET ROLE; RESET ALL").ReadAll()
		err = errors.Join(err, e)
	}()
	// As a replica: an event trigger that was made since the client asked for the index fires nowhere.
	role, err := a.set(ctx, [][2]string{{"session_replication_role", "replica"}, {capture.DDLSetting, capture.DDLOn}, {capture.TransactionSetting, "on"}}, d.Settings, nil, false)
	if err != nil {
		return "", err
	}
	return a.run(ctx, "SET ROLE "+pgx.Identifier{role}.Sanitize(), d.SQL)
}

// leftover looks for what an earlier try has left: the index, or one that is not valid, which is dropped. Nothing of its
// name was there before, or PostgreSQL would have refused it.
func (a *applier) leftover(ctx context.Context, d *session.Definition) (over bool, err error) {
	if _, err := a.conn.Exec(ctx, "RESET ROLE; RESET ALL").ReadAll(); err != nil { // it may have been broken off
		return false, err
	}
	var valid bool
	err = a.pgx.QueryRow(ctx, `SELECT x.indisvalid FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = i.relnamespace WHERE n.nspname = $1 AND c.relname = $2 AND i.relname = $3`, d.Index.Schema, d.Index.Table, d.Index.Name).Scan(&valid)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil || valid {
		return valid, err
	}
	_, err = a.conn.Exec(ctx, "BEGIN; SET LOCAL "+capture.DDLSetting+" = "+capture.DDLOwn+"; DROP INDEX IF EXISTS "+pgx.Identifier{d.Index.Schema, d.Index.Name}.Sanitize()+"; COMMIT").ReadAll()
	if err != nil {
		_, e := a.conn.Exec(ctx, "ROLLBACK").ReadAll()
		err = errors.Join(err, e)
	}
	return false, err
}
