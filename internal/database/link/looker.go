package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/tuttidb/tutti/internal/capture"
)

// looker asks PostgreSQL about backends, and ends what they do, one question at a time. Its statements are prepared and
// name no relation. PostgreSQL may have to read them in its catalogs again nonetheless, and wait for who has locked
// these. So a question that is not answered in time is broken off, and asked from another database, whose catalogs
// nobody locks, for a while.
type looker struct {
	log        *slog.Logger
	connString string
	elsewhere  string        // a database where nobody works
	turn       chan struct{} // to be sent to by who asks
	over       <-chan struct{}
	conn       *pgconn.PgConn
	aside      *pgconn.PgConn // to there; nil: there is none
	until      time.Time      // until when all is asked there
}

const (
	monitorName = "tutti monitor"

	lookMax   = time.Second     // for an answer
	breakMax  = 5 * time.Second // for the end of what is broken off
	asideMax  = 3 * time.Second // for an answer from there
	asideTime = 5 * time.Second // for which all is asked there
	elsewhere = "template1"

	// LookMax is for how long somebody who may give up should try.
	LookMax = lookMax + breakMax + asideMax

	queryCanceled = "57014"
)

// The statements of who looks; $1 is a backend. Backends that block one, and those that block them in turn: who just
// makes a table longer lets go of that lock by itself.
const (
	blockersStatement = "SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids($1))"
	firstStatement    = blockersStatement + " WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_lock_status() l " +
		"WHERE l.pid = $1 AND NOT l.granted AND l.locktype = 'extend')"
	chainStatement = "WITH RECURSIVE b(pid) AS (" + firstStatement + `
UNION SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids(b.pid)) FROM b) SELECT pid FROM b WHERE pid <> $1`
	rebuildsStatement = "SELECT FROM pg_catalog.unnest('{CLUSTER,CREATE INDEX}'::text[]) what, LATERAL " +
		"pg_catalog.pg_stat_get_progress_info(what) p WHERE p.pid = $1 AND p.relid < '16384' AND " +
		"pg_catalog.cardinality(pg_catalog.pg_blocking_pids($1)) = 0"
	cancelStatement    = "SELECT pg_catalog.pg_cancel_backend($1)"
	terminateStatement = "SELECT pg_catalog.pg_terminate_backend($1)"
	positionStatement  = "SELECT " + capture.WALPosition
	writesStatement    = "SELECT 1 FROM pg_catalog.pg_lock_status() WHERE pid = $1 AND locktype = 'transactionid' " +
		"AND mode = 'ExclusiveLock' AND granted"
)

func (l *looker) open(ctx context.Context, connString string, log *slog.Logger) (err error) {
	l.log, l.connString, l.elsewhere = log, connString, elsewhere
	l.turn, l.over = make(chan struct{}, 1), ctx.Done()
	l.conn, err = connect(ctx, connString, monitorName, nil, func(c *pgconn.Config) {
		c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: breakMax}
		}
	})
	if err != nil {
		return err
	}
	for _, sql := range []string{blockersStatement, firstStatement, chainStatement, rebuildsStatement, cancelStatement,
		terminateStatement, writesStatement, positionStatement} {
		if _, err := l.conn.Prepare(ctx, sql, sql, nil); err != nil {
			return fmt.Errorf("monitor: %w", err)
		}
	}
	return nil
}

// close waits for the question that is being asked.
func (l *looker) close() {
	if l.turn == nil {
		return
	}
	l.turn <- struct{}{}
	for _, c := range []*pgconn.PgConn{l.conn, l.aside} {
		if c != nil {
			_ = c.Close(context.Background()) // the server notices either way
		}
	}
}

// look runs one of the statements of who looks about backends, and returns its rows. It tries until it has an answer,
// but once only when nobody needs one any more.
func (l *looker) look(ctx context.Context, statement string, pid ...uint32) ([][][]byte, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("monitor: %w", ctx.Err())
	}
	defer func() { <-l.turn }()
	var backends [][]byte
	for _, p := range pid {
		backends = append(backends, strconv.AppendUint(nil, uint64(p), 10))
	}
	for {
		r, broken := l.here(statement, backends)
		if !broken {
			if r.Err != nil {
				return nil, fmt.Errorf("monitor: %w", r.Err)
			}
			return r.Rows, nil
		}
		r, err := l.there(statement, backends)
		if err == nil {
			return r.Rows, nil
		}
		l.log.Warn("who blocks whom cannot be asked, neither here nor in "+l.elsewhere+"; trying again", "error", err)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("monitor: %w", err)
		case <-l.over:
			return nil, fmt.Errorf("monitor: %w", err)
		default:
		}
	}
}

// here asks in the database itself, unless that was in vain lately: it is broken off then, and nothing was done.
func (l *looker) here(statement string, backends [][]byte) (r *pgconn.Result, broken bool) {
	if time.Now().Before(l.until) {
		return nil, true
	}
	if l.aside != nil {
		_ = l.aside.Close(context.Background()) // the server notices either way
		l.aside = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookMax)
	defer cancel()
	r = l.conn.ExecPrepared(ctx, statement, backends, nil, nil).Read()
	if pg := (*pgconn.PgError)(nil); errors.As(r.Err, &pg) && pg.Code == queryCanceled {
		l.until = time.Now().Add(asideTime)
		return nil, true
	}
	return r, false
}

// there asks elsewhere. What is asked about backends is the same there.
func (l *looker) there(statement string, backends [][]byte) (r *pgconn.Result, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), asideMax)
	defer cancel()
	if l.aside == nil {
		l.aside, err = connect(ctx, l.connString, monitorName, nil, func(c *pgconn.Config) { c.Database = l.elsewhere })
	}
	if err == nil {
		r = l.aside.ExecParams(ctx, statement, backends, nil, nil, nil).Read()
		err = r.Err
	}
	if err != nil {
		if l.aside != nil {
			_ = l.aside.Close(context.Background()) // the server notices either way
		}
		l.aside, l.until = nil, time.Time{}
	}
	return r, err
}
