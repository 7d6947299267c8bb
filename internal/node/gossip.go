package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
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
			o := replica.Own{Serves: l.course.ready.Load(), Stopping: l.node.stops.Refuses(),
				Halted: l.course.halted.Load() != nil, Incarnation: l.id.incarnation, Leader: l.order.core.Leader(),
				Ordinal: l.order.core.Ordinal(), Applied: l.order.core.Applied(),
				Volume:        l.others.volume.ordered.Load(),
				VolumeApplied: l.others.volume.applied.Load(), Clients: l.sessions.Taken(), Lent: l.lent()}
			o.DelayMicros, o.Because = l.flow.throttle.Delays()
			return o
		},
		Details: func() peers.Details {
			return peers.Details{Differs: differences(l), Version: version.String(), Halted: l.course.halted.Load()}
		},
		Voters:    func() []uint32 { return l.order.core.Voters() },
		Flow:      func() flow.Options { return admission.FlowOptions(&l.settled().Limits) },
		Send:      func(to uint32, status []byte) bool { return l.sendFrame(to, frameStatus, status) },
		Dismissed: l.course.dismissed.Load,
	}
}

// gossip is the goroutine that tells the other members this one's state.
func (l *life) gossip(ctx context.Context) error {
	for process.Rest(ctx, peers.Interval) {
		l.order.core.Do(func(e *engine.Engine) {
			f := e.Figures()
			l.others.volume.ordered.Store(f.Ordered)
			l.others.volume.applied.Store(f.Applied)
			l.others.peers.Lead(e)
		})
		l.flow.throttle.Regulate(l.others.peers.Flow())
		led := l.reach().Led
		l.others.age.Note(time.Since(l.course.began), max(l.others.peers.End().Ordinal, l.order.core.Ordinal()), led)
		if l.id.group == mainGroup {
			l.tenure.connect()
			if err := l.tenure.forgetDropped(ctx); err != nil {
				return err
			}
		}
		if err := l.others.peers.TellAll(); err != nil {
			return err
		}
	}
	return nil
}
