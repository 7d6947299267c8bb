package speakers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// Max is how many such transactions a database collects and commits at a time; more wait.
	Max = 8
	// Idle is how long a connection is kept that nobody needs, about.
	Idle = 5 * time.Second
)

// Conn is a connection to the local database.
type Conn interface {
	// Query runs statements, and gives a result of each.
	Query(ctx context.Context, sql string) ([]*pgconn.Result, error)
	// With runs one that has a parameter.
	With(ctx context.Context, sql string, value []byte, oid uint32, format int16) *pgconn.Result
	// Close closes it. The server notices either way.
	Close()
}

// Connection is a Conn over a connection of a driver's.
type Connection struct{ *pgconn.PgConn }

// Query is described in Conn.
func (c Connection) Query(ctx context.Context, sql string) ([]*pgconn.Result, error) {
	return c.Exec(ctx, sql).ReadAll()
}

// With is described in Conn.
func (c Connection) With(ctx context.Context, sql string, value []byte, oid uint32, format int16) *pgconn.Result {
	return c.ExecParams(ctx, sql, [][]byte{value}, []uint32{oid}, []int16{format}, nil).Read()
}

// Close is described in Conn.
func (c Connection) Close() { _ = c.PgConn.Close(context.Background()) }

// Pool are the connections of a database. Each is made when it is first needed, and closed when nobody has needed it
// for a while. Safe for concurrent use.
type Pool struct {
	turns chan struct{} // as many as may be in use

	mu      sync.Mutex
	free    []speaker // the one used last at the end
	watched bool      // sweep will come
	closed  bool
}

type speaker struct {
	conn Conn
	used time.Time // when it was given back
}

// NewPool makes one without connections.
func NewPool() *Pool { return &Pool{turns: make(chan struct{}, Max)} }

// take gives one that is connected already, or nil.
func (s *Pool) take() Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 {
		return nil
	}
	conn := s.free[n-1].conn
	s.free = s.free[:n-1]
	return conn
}

// put gives one back.
func (s *Pool) put(conn Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return
	}
	s.free = append(s.free, speaker{conn, time.Now()})
	s.watch()
}

// watch has sweep called in time. s is locked.
func (s *Pool) watch() {
	if !s.watched {
		s.watched = true
		time.AfterFunc(Idle, func() { s.sweep(Idle) })
	}
}

// sweep closes those that nobody has used for a while.
func (s *Pool) sweep(idle time.Duration) {
	s.mu.Lock()
	n := 0
	for n < len(s.free) && time.Since(s.free[n].used) >= idle {
		n++
	}
	old := s.free[:n:n]
	s.free = slices.Clone(s.free[n:])
	s.watched = false
	if len(s.free) > 0 {
		s.watch()
	}
	s.mu.Unlock()
	for _, x := range old {
		x.conn.Close()
	}
}

// Close ends those that nobody uses; the others' sessions end theirs.
func (s *Pool) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.sweep(0)
}
