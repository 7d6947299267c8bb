package grants

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/schemalock"
	"github.com/tuttidb/tutti/internal/wire"
)

const (
	rowsAbove    = 1 << 63          // numbers of turns at rows; schema locks are below
	rowGrantsMax = 4096             // of other members' sessions
	contendedMax = 1024             // rows that are known
	contendedFor = 10 * time.Second // after the last loss, or meeting
	lossesMin    = 2                // from which on a row is contended
)

// rowTurnMax is how long a transaction waits for its turn at a row.
var rowTurnMax = metrics.Most(flow.WaitRow)

// contended are the rows by which transactions of this member keep losing. Safe for concurrent use.
type contended struct {
	clock admission.Clock
	until atomic.Int64 // when the last loss is forgotten

	mu   sync.Mutex
	rows map[uint64]losses
}

// losses are those by one row.
type losses struct {
	n    int
	last time.Duration
}

func (c *contended) some() bool {
	until := c.until.Load()
	return until != 0 && int64(c.clock.Now()) < until
}

// lost notes that a transaction has lost that had named some rows.
func (c *contended) lost(rows []uint64) {
	now := c.clock.Now()
	c.until.Store(int64(now + contendedFor))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rows {
		x := c.rows[r]
		if now-x.last > contendedFor {
			x.n = 0
		}
		if x.n == 0 && !c.room(now) {
			return
		}
		c.rows[r] = losses{min(x.n+1, lossesMin), now}
	}
}

// room makes room for one more row, if it can. Called with mu held.
func (c *contended) room(now time.Duration) bool {
	if len(c.rows) < contendedMax {
		return true
	}
	for r, x := range c.rows { // order-free: each for itself
		if x.n < lossesMin || now-x.last > contendedFor {
			delete(c.rows, r)
		}
	}
	return len(c.rows) < contendedMax
}

// of gives those rows that are contended.
func (c *contended) of(rows []uint64) (hot []uint64) {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rows {
		if x := c.rows[r]; x.n >= lossesMin && now-x.last <= contendedFor {
			hot = append(hot, r)
		}
	}
	return hot
}

// asked notes that another member's session wants its turn at rows.
func (c *contended) asked(rows []uint64) {
	now := c.clock.Now()
	c.until.Store(int64(now + contendedFor))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rows {
		if _, known := c.rows[r]; known || c.room(now) {
			c.rows[r] = losses{lossesMin, now}
		}
	}
}

// Contended reports whether there may be rows by which transactions of this member keep losing, and all members take
// turns at them.
func (s *Session) Contended() bool { return s.contended.some() && s.rows.locks.o.RowTurns() }

// LostAt says that a transaction has lost that had named rows.
func (s *Session) LostAt(rows []uint64) { s.contended.lost(rows) }

// TakeTurns has the session's transaction wait for its turn at those of some rows that are contended: other members'
// sessions have none then, and what they have done is seen here (RT1 to RT3). It goes on without if that takes too
// long. If it fails, the transaction has lost meanwhile, or its client has cancelled that.
func (s *Session) TakeTurns(rows []uint64) *wire.SQLError {
	hot := s.contended.of(rows)
	for _, row := range hot { // one by one, in the order of the statements (SL5)
		want := schemalock.Tables{Keys: []uint64{row}}
		if _, failure := s.rows.hold(want, wish{most: rowTurnMax, must: true, what: flow.WaitRow}); failure != nil {
			return failure
		}
	}
	return nil
}
