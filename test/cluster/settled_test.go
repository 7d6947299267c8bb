package cluster

import (
	"context"
	"time"
)

// Settled waits until every running node has applied what any of them has decided: what was acknowledged anywhere
// before is seen everywhere after, by every snapshot.
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
		for deadline := time.Now().Add(sqlTimeout); s.counters()["applied"] < decided; time.Sleep(pollInterval / 4) {
			if time.Now().After(deadline) {
				s.c.tb.Fatalf("a node has applied up to ordinal %d, others to %d", s.counters()["applied"], decided)
			}
		}
	}
}
