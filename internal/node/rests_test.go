package node

import (
	"context"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/peers"
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
			own := replica.Own{}
			l.others.peers = peers.New(peers.Options{Config: l.config, Own: func() replica.Own { return own },
				Details: func() (d peers.Details) { return d }})
			r := restsOf(l)
			if x.caughtUp {
				own = replica.Own{Serves: true, Leader: 1}
				l.others.peers.Own()
			}
			word := `{"clients": 1}`
			if x.unasked {
				word = `{}`
			}
			if err := l.others.peers.Hear(1, []byte(word)); err != nil {
				t.Fatal(err)
			}
			r.rule.Look(-int64(restWindow), 0, 0)
			l.others.volume.applied.Store(1000)
			r.after(context.Background(), time.Millisecond)
			if rested := l.metrics.Flow.RestTime.Load(); rested > 0 != x.want || x.want && rested < 2*time.Millisecond {
				t.Errorf("it rests for %s", rested)
			}
		})
	}
}
