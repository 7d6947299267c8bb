package cluster

import (
	"context"
	"fmt"
	"time"
)

// Settled waits until every running node has applied what any of them has decided, definitions that go on beside the
// order included: what was acknowledged anywhere before is seen everywhere after, by every snapshot.
func (c *Cluster) Settled() {
	c.tb.Helper()
	var sessions []*Conn
	for _, k := range c.All() {
		if c.Running(k) {
			s := c.Connect(k)
			defer s.Close(context.Background())
			sessions = append(sessions, s)
		}
	}
	settle(sessions...)
}

// settle is Settled of the nodes of some sessions.
func settle(sessions ...*Conn) {
	sessions[0].c.tb.Helper()
	var decided uint64
	for _, s := range sessions {
		decided = max(decided, s.counters()["ordinal"])
	}
	for _, s := range sessions {
		applied := uint64(0)
		s.c.soon(func() bool {
			applied = s.counters()["applied"]
			return applied >= decided && s.Get(pending) == "0"
		}, func() string {
			return fmt.Sprintf("a node has applied up to ordinal %d of %d, without %s definitions", applied, decided,
				s.Get(pending))
		})
	}
}

// soon waits until something is so, and else fails the test with what it was instead.
func (c *Cluster) soon(is func() bool, instead func() string) {
	c.tb.Helper()
	for deadline := time.Now().Add(sqlTimeout); !is(); time.Sleep(pollInterval / 4) {
		if time.Now().After(deadline) {
			c.tb.Fatal(instead())
		}
	}
}

// blocked waits until a session of node k waits for a lock there.
func (c *Cluster) blocked(k int, s *Conn) {
	c.tb.Helper()
	c.Eventually(k, fmt.Sprintf("SELECT cardinality(pg_blocking_pids(%d)) > 0", s.PgConn().PID()), "t")
}
