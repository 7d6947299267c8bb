package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// sampleInterval is how often helpers are looked at during a run, so that the time of an
// autovacuum worker that ends is not taken for a client's.
const sampleInterval = 500 * time.Millisecond

// reading is what one database server and the process before it have used so far.
type reading struct {
	treeTimes
	middleware time.Duration
	applier    time.Duration
	walSyncs   uint64
	counters   map[string]uint64 // of the node
}

// cost is the difference of two readings.
type cost struct {
	total, sessions, applier, helpers, middleware time.Duration
	walSyncs                                      uint64
	counters                                      map[string]uint64
}

// meter reads everything a server consists of.
type meter struct {
	s  *server
	mu sync.Mutex // trees are read by the sampler as well
	// cpu is false where processes cannot be looked at.
	cpu   bool
	major int // PostgreSQL's
}

// machine is what the whole machine has done; nothing where CPU cannot be read.
func (m *meter) machine() (machineTimes, error) {
	if !m.cpu {
		return machineTimes{}, nil
	}
	return readMachine()
}

// read takes the state of every database of the server now.
func (m *meter) read(ctx context.Context) ([]reading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]reading, len(m.s.databases))
	for i, d := range m.s.databases {
		if err := m.readOne(ctx, d, i, &out[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return out, nil
}

func (m *meter) readOne(ctx context.Context, d *database, i int, r *reading) (err error) {
	if r.walSyncs, err = walSyncs(ctx, d, m.major); err != nil {
		return err
	}
	if i < len(m.s.nodes) {
		if r.counters, err = m.s.counters(ctx, i); err != nil {
			return err
		}
	}
	if !m.cpu {
		return nil
	}
	if r.treeTimes, err = d.tree.read(); err != nil {
		return err
	}
	if i < len(m.s.middleware) {
		p, err := readTimes(m.s.middleware[i].PID())
		if err != nil {
			return fmt.Errorf("the process before it: %w\n%s", err, m.s.middleware[i].Tail())
		}
		r.middleware = p.own
	}
	pids, err := applierPIDs(ctx, d)
	for _, pid := range pids {
		r.applier += r.of[pid]
	}
	return err
}

// sample keeps looking at helpers until ctx ends.
func (m *meter) sample(ctx context.Context) {
	for m.cpu {
		select {
		case <-ctx.Done():
			return
		case <-time.After(sampleInterval):
		}
		m.mu.Lock()
		for _, d := range m.s.databases {
			_, _ = d.tree.read() // a server that is gone is reported by the run itself
		}
		m.mu.Unlock()
	}
}

// sub gives what happened between two readings. Sessions are whatever is neither a helper
// nor the applier: backends have mostly ended with their clients.
func (r *reading) sub(before *reading) cost {
	c := cost{
		total: r.total - before.total, helpers: r.helpers - before.helpers, applier: r.applier - before.applier,
		middleware: r.middleware - before.middleware, walSyncs: r.walSyncs - before.walSyncs,
	}
	c.sessions = c.total - c.helpers - c.applier
	if r.counters != nil {
		c.counters = map[string]uint64{}
		for name, v := range r.counters {
			c.counters[name] = v - before.counters[name]
		}
	}
	return c
}

// walSyncs is how often the server has flushed its own log.
func walSyncs(ctx context.Context, d *database, major int) (uint64, error) {
	query := "SELECT wal_sync FROM pg_stat_wal"
	if major >= 18 {
		query = "SELECT coalesce(sum(fsyncs), 0)::bigint FROM pg_stat_io WHERE object = 'wal'"
	}
	got, err := rows(ctx, d.conn, query)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(got[0][0], 10, 64)
}

// applierPIDs are the backends through which a node writes other members' rows.
func applierPIDs(ctx context.Context, d *database) (pids []int, err error) {
	got, err := rows(ctx, d.conn, "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tutti applier%'")
	for _, r := range got {
		pid, err := strconv.Atoi(r[0])
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, err
}

// counters asks node i what it has done.
func (s *server) counters(ctx context.Context, i int) (map[string]uint64, error) {
	got, err := rows(ctx, s.nodes[i], "SHOW tutti.counters")
	if err != nil {
		return nil, err
	}
	out := map[string]uint64{}
	for _, r := range got {
		if out[r[0]], err = strconv.ParseUint(r[1], 10, 64); err != nil {
			return nil, fmt.Errorf("counter %s: %w", r[0], err)
		}
	}
	return out, nil
}

// drain waits until every node has applied what any node knows to be ordered.
func (s *server) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	for {
		var ordinal uint64
		applied := ^uint64(0)
		for i := range s.nodes {
			c, err := s.counters(ctx, i)
			if err != nil {
				return err
			}
			ordinal, applied = max(ordinal, c["ordinal"]), min(applied, c["applied"])
		}
		if len(s.nodes) == 0 || applied >= ordinal {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the nodes have not caught up %s after the clients ended", drainTimeout)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// drainTimeout bounds how far a node may be behind when the clients end.
const drainTimeout = 2 * time.Minute

// clientsGone waits until the backends of clients have ended: only then do the statistics
// know all they have done. PgBouncer would keep them.
func (s *server) clientsGone(ctx context.Context) error {
	if s.console != nil {
		if err := do(ctx, s.console, "RECONNECT"); err != nil {
			return err
		}
	}
	for _, d := range s.databases {
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			got, err := rows(ctx, d.conn, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client "+
				"backend' AND application_name NOT LIKE 'tutti%'")
			if err != nil {
				return err
			}
			if got[0][0] == "0" {
				break
			}
			if time.Since(began) > goneTimeout {
				return fmt.Errorf("%s: %s backends of clients are left", d.name, got[0][0])
			}
		}
	}
	return nil
}

const goneTimeout = 10 * time.Second
