package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/raftlog"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/standing"
)

const (
	retainInterval = 250 * time.Millisecond
	appliedPoll    = 10 * time.Millisecond
	// A value in PostgreSQL has less than a GiB. Only large payloads that are half way make one this large.
	checkpointBytesMost = 512 << 20
)

// retention keeps of the log what is needed: it takes checkpoints and lets the log before them go (replica.Retention).
type retention struct {
	config     *config.Config
	log        *slog.Logger
	metrics    *metrics.Database
	keep       func() int64 // bytes of the log; negative: all
	ready      func() bool  // the database is this member's
	disk       *raftlog.Log
	core       *core
	connString string // of the local database

	rule replica.Retention
}

// run takes checkpoints and compacts the log, until ctx ends.
func (r *retention) run(ctx context.Context) error {
	for process.Sleep(ctx, retainInterval) {
		if !r.ready() {
			continue // the database may be another's yet
		}
		if r.rule.Wants(r.disk, r.keep()) {
			if err := r.checkpoint(ctx); err != nil {
				return err
			}
		}
		if err := r.compact(r.rule.Compact(r.disk, r.keep())); err != nil {
			return &failure.Fatal{Err: err}
		}
	}
	return nil
}

// checkpoint stores the replicated state in the database once everything it stands for is there (N6). One that is too
// large is not stored.
func (r *retention) checkpoint(ctx context.Context) error {
	began := time.Now()
	c := r.core.checkpoint()
	if c == nil {
		return nil // the replica ends
	}
	taken := time.Since(began)
	r.rule.Took(c.Index, c.Ordinal)
	for !r.rule.Storable(r.core.applied.Load()) {
		if !process.Sleep(ctx, appliedPoll) {
			return nil
		}
	}
	data := c.Append(nil)
	if len(data) > checkpointBytesMost {
		r.log.Warn("the checkpoint is too large, another is taken later", "bytes", len(data))
		r.rule.Dropped()
		return nil
	}
	if err := standing.StoreCheckpoint(ctx, r.connString, data); err != nil {
		return err
	}
	r.rule.Stored()
	r.log.Info("stored a checkpoint", "entry", c.Index, "ordinal", c.Ordinal, "bytes", len(data), "taken", taken, "all",
		time.Since(began))
	return nil
}

// compact forgets the log up to an entry of which there is a durable checkpoint, or an earlier one.
func (r *retention) compact(to uint64) error {
	first, err := r.disk.FirstIndex()
	if err != nil || to < first {
		return err
	}
	if err := r.disk.Compact(to); err != nil {
		return fmt.Errorf("the log cannot be compacted, so this member stops: %w", err)
	}
	r.metrics.Log.Compacted.Add(1)
	r.log.Info("compacted the log", "entry", to, "bytes", r.disk.Bytes())
	return nil
}

// startAt returns the checkpoint to start from, nil for the log's beginning. It restarts the log at
// the checkpoint of a clone that is further than it, and moves the position: what a checkpoint stands
// for is in its database. Errors are final.
func (r *retention) startAt(saved []byte, position *engine.Position) (*engine.Checkpoint, error) {
	var c *engine.Checkpoint
	if saved != nil {
		var err error
		if c, err = engine.DecodeCheckpoint(saved); err != nil {
			first, ferr := r.disk.FirstIndex()
			if ferr != nil {
				return nil, ferr
			}
			if first > 1 {
				return nil, fmt.Errorf("%w; what the log said before entry %d is known only from it. %s", err, first,
					standing.HowToClone(r.config))
			}
			r.log.Warn("the checkpoint cannot be read; the whole log is read again", "error", err)
		}
	}
	restart, err := c.Fit(r.disk, position.Member != r.config.Member)
	if err != nil {
		return nil, fmt.Errorf("%w. %s", err, standing.HowToClone(r.config))
	}
	if c == nil {
		return nil, nil
	}
	if restart {
		if err := r.restartLog(c); err != nil {
			return nil, err
		}
	}
	r.rule = replica.NewRetention(c.Index)
	position.Ordinal, position.Floor = max(position.Ordinal, c.Ordinal), max(position.Floor, c.Ordinal)
	r.log.Info("starts from a checkpoint", "entry", c.Index, "ordinal", c.Ordinal, "log_bytes_after",
		r.disk.BytesAfter(c.Index))
	return c, nil
}

// restartLog makes the log begin behind c. Terms and votes stay.
func (r *retention) restartLog(c *engine.Checkpoint) error {
	if err := r.disk.Restart(c.Index, c.Term); err != nil {
		return err
	}
	r.log.Info("restarted the log behind the clone's checkpoint", "entry", c.Index)
	return nil
}

// explainLost says what happened to a member that was away for too long, and how it comes back.
func explainLost(err error, c *config.Config) error {
	var lost *lostError
	if !errors.As(err, &lost) {
		return err
	}
	return fmt.Errorf("%s was away for longer than log_retention allows: it has the order up to entry %d of the log, "+
		"and %s, which leads, keeps it from entry %d on; what is between cannot be had any more, so this member "+
		"stops. %s",
		c.Self().Name, lost.Have, c.Name(lost.Leader), lost.First, standing.HowToClone(c))
}

// retentionOf is a replica as the retention of its log needs it; its core comes later.
func retentionOf(l *life) retention {
	return retention{config: l.config, log: l.log, metrics: &l.metrics, disk: l.disk, connString: l.connString,
		keep: func() int64 { return l.settled().Limits.LogRetention }, ready: l.ready.Load}
}
