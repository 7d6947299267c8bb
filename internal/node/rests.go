package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replica"
)

// restWindow is for how long is measured how fast a member comes nearer to the end of the order; a few peers.Interval.
const restWindow = time.Second

var restMax = most(flow.WaitRest)

// rests are those of a member that was away, and its executor's (replica.Rests).
type rests struct {
	wanted  bool // members share a machine
	peers   *peers.Peers
	applied func() uint64 // bytes of the order
	metrics *metrics.Database

	rule replica.Rests
}

// after rests after a group that took so long, if others that have clients share the machine and this member has not
// caught up yet.
func (r *rests) after(ctx context.Context, took time.Duration) {
	if !r.wanted || r.peers.CaughtUp() {
		return
	}
	end := r.peers.End()
	r.rule.Look(r.peers.Now(), r.applied(), end.Volume)
	rest := time.Duration(r.rule.After(int64(took), end.Serve))
	if rest == 0 {
		return
	}
	began := time.Now()
	defer r.metrics.Waits.Begin(flow.WaitRest).End()
	process.Sleep(ctx, min(rest, restMax))
	r.metrics.Flow.RestTime.Add(time.Since(began))
}

// restsOf are a replica's.
func restsOf(l *life) rests {
	return rests{wanted: l.config.SharesMachine, peers: l.others.peers, applied: l.others.volume.applied.Load,
		metrics: &l.metrics,
		rule:    replica.NewRests(int64(restWindow))}
}
