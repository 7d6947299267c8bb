package node

import (
	"context"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/replica"
)

// TestRests: it rests for others' clients only, until it has caught up.
func TestRests(t *testing.T) {
	for _, x := range []struct {
		name                     string
		alone, caughtUp, unasked bool
		want                     bool
	}{
		{name: "another member has a client", want: true},
		{name: "it has the machine to itself", alone: true},
		{name: "it has caught up", caughtUp: true},
		{name: "nobody has a client", unasked: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := &life{config: &config.Config{SharesMachine: !x.alone, Members: []config.Member{{}, {Member: 1}}}}
			l.peers.init(peersOptions{Config: l.config})
			r := restsOf(l)
			if x.caughtUp {
				l.peers.with(func(t *replica.Table, now int64) { t.Tell(now, replica.Own{Serves: true, Leader: 1}) })
			}
			s := status{Status: replica.Status{Clients: 1}}
			if x.unasked {
				s.Clients = 0
			}
			l.peers.put(1, s, 0, 0)
			r.rule.Look(-int64(restWindow), 0, 0)
			l.volumeApplied.Store(1000)
			r.after(context.Background(), time.Millisecond)
			if rested := l.metrics.Flow.RestTime.Load(); rested > 0 != x.want || x.want && rested < 2*time.Millisecond {
				t.Errorf("it rests for %s", rested)
			}
		})
	}
}
