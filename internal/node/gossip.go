package node

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/version"
)

// peersOf is a replica as its gossip needs it.
func peersOf(l *life) peers.Options {
	return peers.Options{
		Config: l.config, Log: l.log, Metrics: &l.metrics,
		Own: func() replica.Own {
			o := replica.Own{Serves: l.ready.Load(), Stopping: l.node.stops.refuses.Load(),
				Halted: l.halted.Load() != nil, Incarnation: l.incarnation, Leader: l.core.Leader(),
				Ordinal: l.core.Ordinal(), Applied: l.core.Applied(), Volume: l.volume.Load(),
				VolumeApplied: l.volumeApplied.Load(), Clients: l.sessions.Taken()}
			o.DelayMicros, o.Because = l.throttle.Delays()
			return o
		},
		Details: func() peers.Details {
			return peers.Details{Differs: l.differences(), Version: version.String(), Halted: l.halted.Load()}
		},
		Send:      func(to uint32, status []byte) bool { return l.sendFrame(to, frameStatus, status) },
		Dismissed: l.dismissed.Load,
	}
}

// gossip is the goroutine that tells the other members this one's state.
func (l *life) gossip(ctx context.Context) error {
	for process.Rest(ctx, peers.Interval) {
		l.core.Do(func(e *engine.Engine) {
			f := e.Figures()
			l.volume.Store(f.Ordered)
			l.volumeApplied.Store(f.Applied)
			l.peers.Lead(e)
		})
		l.throttle.Regulate(l.peers.Flow())
		led := l.tenure.words.Reach(l.peers, l.core.Leader()).Led
		l.age.Note(time.Since(l.began), max(l.peers.End().Ordinal, l.core.Ordinal()), led)
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

var statusColumns = []string{"member", "address", "role", "state", "ordinal", "applied", "lag", "throttle_ms",
	"because_of", "reason", "differs", "version"}

// showStatus answers SHOW tutti.status, one row per member.
func showStatus(l *life) session.Result {
	r := session.Result{Tag: "SHOW", Columns: statusColumns}
	leader := l.core.Leader()
	differs := l.differing()
	for _, m := range l.config.Members {
		s, alive := l.peers.Of(m.Member)
		role := "follower"
		if m.Member == leader {
			role = "leader"
		}
		if !alive {
			r.Rows = append(r.Rows, []string{m.Name, m.Clients, role, "unreachable", "", "", "", "", "", "",
				differs[m.Member], ""})
			continue
		}
		lag := l.core.Ordinal() - min(l.core.Ordinal(), s.Applied)
		because := ""
		if s.Because != 0 {
			because = l.name(s.Because)
		}
		why := ""
		if s.Halted != nil {
			why = s.Halted.Text()
		}
		r.Rows = append(r.Rows, []string{m.Name, m.Clients, role, string(s.State),
			strconv.FormatUint(s.Ordinal, 10), strconv.FormatUint(s.Applied, 10), fmt.Sprint(lag),
			admission.Millis(s.DelayMicros), because, why, differs[m.Member], s.Version})
	}
	return r
}
