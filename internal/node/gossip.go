package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/version"
)

// peersOf is a replica as its gossip needs it.
func peersOf(l *life) peers.Options {
	return peers.Options{
		Config: l.config, Log: l.log, Metrics: &l.metrics,
		Own: func() replica.Own {
			o := replica.Own{Serves: l.course.ready.Load(), Stopping: l.node.stops.refuses.Load(),
				Halted: l.course.halted.Load() != nil, Incarnation: l.incarnation, Leader: l.core.Leader(),
				Ordinal: l.core.Ordinal(), Applied: l.core.Applied(), Volume: l.volume.ordered.Load(),
				VolumeApplied: l.volume.applied.Load(), Clients: l.sessions.Taken()}
			o.DelayMicros, o.Because = l.throttle.Delays()
			return o
		},
		Details: func() peers.Details {
			return peers.Details{Differs: differences(l), Version: version.String(), Halted: l.course.halted.Load()}
		},
		Send:      func(to uint32, status []byte) bool { return l.sendFrame(to, frameStatus, status) },
		Dismissed: l.course.dismissed.Load,
	}
}

// gossip is the goroutine that tells the other members this one's state.
func (l *life) gossip(ctx context.Context) error {
	for process.Rest(ctx, peers.Interval) {
		l.core.Do(func(e *engine.Engine) {
			f := e.Figures()
			l.volume.ordered.Store(f.Ordered)
			l.volume.applied.Store(f.Applied)
			l.peers.Lead(e)
		})
		l.throttle.Regulate(l.peers.Flow())
		led := l.tenure.words.Reach(l.peers, l.core.Leader()).Led
		l.age.Note(time.Since(l.course.began), max(l.peers.End().Ordinal, l.core.Ordinal()), led)
		if l.group == mainGroup {
			if err := l.tenure.forgetDropped(ctx); err != nil {
				return err
			}
		}
		if err := l.peers.TellAll(); err != nil {
			return err
		}
	}
	return nil
}
