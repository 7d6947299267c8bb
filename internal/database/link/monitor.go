package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
)

// Monitor are two connections beside the executor's, for looking at backends and for chores. A chore may wait for a
// lock on a catalog, behind a VACUUM FULL of it that nobody ends but who looks (see looker).
type Monitor struct {
	looker looker
	chores line

	chore     atomic.Pointer[time.Time] // when the chore began that is under way; nil: there is none
	lateChore chan struct{}
}

const (
	choreMax = 250 * time.Millisecond // after which a chore is late
	cleanMax = "100ms"                // for which Clean waits for a lock on a catalog

	lockNotAvailable = "55P03"
)

// line is a connection that one uses at a time.
type line struct {
	mu   sync.Mutex
	conn *pgconn.PgConn
}

// NewMonitor opens the connections. When ctx is over, who looks gives up sooner.
func NewMonitor(ctx context.Context, connString string, log *slog.Logger) (*Monitor, error) {
	m := &Monitor{lateChore: make(chan struct{}, 1)}
	err := m.looker.open(ctx, connString, log)
	if err == nil {
		m.chores.conn, err = Connect(ctx, connString, monitorName, nil)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Connect opens a connection of Tutti's own with settings for its whole life.
func Connect(ctx context.Context, connString, name string, settings map[string]string) (*pgconn.PgConn, error) {
	return connect(ctx, connString, name, settings, func(*pgconn.Config) {})
}

// ConnectHearing is connect with somebody who takes the notifications.
func ConnectHearing(ctx context.Context, connString, name string, settings map[string]string,
	hear pgconn.NotificationHandler) (*pgconn.PgConn, error) {
	return connect(ctx, connString, name, settings, func(c *pgconn.Config) { c.OnNotification = hear })
}

// connect is Connect with more to be said about the connection.
func connect(ctx context.Context, connString, name string, settings map[string]string, more func(*pgconn.Config)) (
	*pgconn.PgConn, error) {
	c, err := pgconn.ParseConfig(connString)
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	c.RuntimeParams["application_name"] = name
	c.RuntimeParams["search_path"] = "pg_catalog" // the database's owner may have put a schema of his in front of it
	for k, v := range settings {
		c.RuntimeParams[k] = v
	}
	more(c)
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("link: connect to the local PostgreSQL as %s: %w", name, err)
	}
	return conn, nil
}

func (m *Monitor) Close() {
	m.looker.close()
	if m.chores.conn != nil {
		_ = m.chores.conn.Close(context.Background()) // the server notices either way
	}
}

// Exec does a chore. While one is under way, Chore tells which backend does it, for how long, and Late when it should
// be looked at who is in its way.
func (m *Monitor) Exec(ctx context.Context, sql string) ([]*pgconn.Result, error) {
	m.chores.mu.Lock()
	defer m.chores.mu.Unlock()
	began := time.Now()
	m.chore.Store(&began)
	defer m.chore.Store(nil)
	defer time.AfterFunc(choreMax, func() {
		select {
		case m.lateChore <- struct{}{}:
		default:
		}
	}).Stop()
	r, err := m.chores.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	return r, nil
}

// Late says after choreMax that a chore is under way.
func (m *Monitor) Late() <-chan struct{} { return m.lateChore }

// Chore is the backend that does chores, and for how long it has done the one that is under way; zero if there is none.
func (m *Monitor) Chore() (backend uint32, age time.Duration) {
	if began := m.chore.Load(); began != nil {
		age = time.Since(*began)
	}
	return m.chores.conn.PID(), age
}

// Blockers lists the backends that hold locks the backend pid waits for, or stand before it
// in the queue for one, and those that block them in turn.
func (m *Monitor) Blockers(ctx context.Context, pid uint32) ([]uint32, error) {
	return m.blockers(ctx, pid, chainStatement)
}

// FirstBlockers are Blockers without those that block them in turn.
func (m *Monitor) FirstBlockers(ctx context.Context, pid uint32) ([]uint32, error) {
	return m.blockers(ctx, pid, firstStatement)
}

func (m *Monitor) blockers(ctx context.Context, pid uint32, statement string) ([]uint32, error) {
	// Mostly nobody does, and the executor is just slow: this is the cheap question.
	rows, err := m.looker.look(ctx, blockersStatement, pid)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if rows, err = m.looker.look(ctx, statement, pid); err != nil {
		return nil, err
	}
	var pids []uint32
	for _, row := range rows {
		var p uint32
		if _, err := fmt.Sscan(string(row[0]), &p); err != nil {
			return nil, fmt.Errorf("monitor: pid %q: %w", row[0], err)
		}
		if p != 0 { // 0 stands for a prepared transaction
			pids = append(pids, p)
		}
	}
	return pids, nil
}

// Rebuilds reports whether a backend rebuilds a catalog, and waits for nobody.
func (m *Monitor) Rebuilds(ctx context.Context, backend uint32) (bool, error) {
	rows, err := m.looker.look(ctx, rebuildsStatement, backend)
	return len(rows) > 0, err
}

// Holds lists the tables, by schema and name, on which a backend has locks that keep definitions or writers out. It is
// working if there are any, and it waits for none.
func (m *Monitor) Holds(ctx context.Context, pid uint32) (tables [][2]string, working bool, err error) {
	r, err := m.Exec(ctx, fmt.Sprintf(
		`SELECT l.granted, n.nspname, c.relname FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_class c ON `+
			`c.oid = l.relation LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE l.pid = %d AND (NOT l.granted OR c.relkind IN ('r', 'p', 'm') AND c.oid >= 16384
  AND l.mode IN ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))`, pid))
	if err != nil {
		return nil, false, err
	}
	working = len(r[0].Rows) > 0
	for _, row := range r[0].Rows {
		working = working && string(row[0]) == "t"
		tables = append(tables, [2]string{string(row[1]), string(row[2])})
	}
	return tables, working, nil
}

// Position is where the server's WAL is now.
func (m *Monitor) Position(ctx context.Context) (uint64, error) {
	rows, err := m.looker.look(ctx, positionStatement)
	if err != nil {
		return 0, err
	}
	var at uint64
	if _, err := fmt.Sscan(string(rows[0][0]), &at); err != nil {
		return 0, fmt.Errorf("monitor: position of the WAL %q: %w", rows[0][0], err)
	}
	return at, nil
}

func (m *Monitor) Terminate(ctx context.Context, pid uint32) error {
	_, err := m.looker.look(ctx, terminateStatement, pid)
	return err
}

// Cancel cancels what a backend executes; the signal is sent when it returns. Failing is no
// harm: the watcher, or the client, tries again.
func (m *Monitor) Cancel(log *slog.Logger, pid uint32) {
	if _, err := m.looker.look(context.Background(), cancelStatement, pid); err != nil {
		log.Warn("a backend could not be cancelled", "pid", pid, "error", err)
	}
}

// Gone reports whether the backend pid has ended, or at least the transaction with which it wrote
// something: then its locks are gone, and what it committed can be seen.
func (m *Monitor) Gone(ctx context.Context, pid uint32) (bool, error) {
	rows, err := m.looker.look(ctx, writesStatement, pid)
	return err == nil && len(rows) == 0, err
}

// Clean empties the tables of captured rows that are no longer in use. It is done later if a catalog is locked.
func (m *Monitor) Clean(ctx context.Context) error {
	_, err := m.Exec(ctx, "SET LOCAL lock_timeout = '"+cleanMax+"'; "+capture.CleanupSQL())
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == lockNotAvailable {
		return nil
	}
	return err
}
