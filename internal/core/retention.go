package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/raftlog"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/standing"
)

const (
	retainInterval = 300 * time.Millisecond
	appliedPoll    = 10 * time.Millisecond
	// cacheIdle is how long nothing is added to the log until the memory of its cache is given back.
	cacheIdle = 10 * time.Second
	// A value in PostgreSQL has less than a GiB. Only large payloads that are half way make one this large.
	checkpointBytesMost = 512 << 20
	// While so much of payloads is half way no checkpoint is taken, which would hold it in memory, unless so much was
	// written to the log since the last one.
	checkpointPartsMost, checkpointLate = 16 << 20, 4 << 30
)

// Retention keeps of the log what is needed: it takes checkpoints and lets the log before them go (replica.Retention).
type Retention struct {
	o RetentionOptions

	rule  replica.Retention
	saved atomic.Uint64 // the entry of the checkpoint that the database has; zero: none

	asked, answered atomic.Uint64 // calls of Renew, and those after which a checkpoint was tried
}

// RetentionOptions are what a retention needs of its replica.
type RetentionOptions struct {
	Config  *config.Config
	Log     *slog.Logger
	Metrics *metrics.Database
	Keep    func() int64 // bytes of the log; negative: all
	Ready   func() bool  // the database is this member's
	// Slow: the leader has found this member far too slow, and the others can do without it while it copies.
	Slow func() bool
	// Lent is the entry behind which all is kept for members that copy a database, if there are some.
	Lent       func() (entry uint64, is bool)
	Disk       *raftlog.Log
	ConnString string // of the local database
}

// NewRetention makes one, which keeps everything until it runs.
func NewRetention(o RetentionOptions) *Retention { return &Retention{o: o} }

// Run takes checkpoints and compacts the log, until ctx ends.
func (r *Retention) Run(ctx context.Context, c *Core) error {
	var end uint64 // of the log
	var added time.Time
	for process.Rest(ctx, retainInterval) {
		if last, err := r.o.Disk.LastIndex(); err == nil && last != end {
			end, added = last, time.Now()
		} else if !added.IsZero() && time.Since(added) > cacheIdle {
			r.o.Disk.ReleaseCache()
			runtime.GC() // else what was garbage before stays for minutes
			added = time.Time{}
		}
		if !r.o.Ready() {
			continue // the database may be another's yet
		}
		asked := r.asked.Load()
		if (asked > r.answered.Load() || r.rule.Wants(r.o.Disk, r.o.Keep())) && r.small(c) {
			if err := r.checkpoint(ctx, c); err != nil {
				return err
			}
		}
		r.answered.Store(asked)
		if err := r.compact(r.surplus()); err != nil {
			return &failure.Fatal{Err: err}
		}
	}
	return nil
}

// surplus is the entry up to which the log can go.
func (r *Retention) surplus() uint64 {
	if lent, is := r.o.Lent(); is {
		return r.rule.CompactBeside(r.o.Disk, r.o.Keep(), lent)
	}
	return r.rule.Compact(r.o.Disk, r.o.Keep())
}

// Saved is the entry of the checkpoint that the database has, durably; zero: it has none.
func (r *Retention) Saved() uint64 { return r.saved.Load() }

// Renew has a checkpoint taken of what is ordered now, and waits until it is stored, or ctx ends: it may not be had at
// the moment.
func (r *Retention) Renew(ctx context.Context) {
	asked := r.asked.Add(1)
	for r.answered.Load() < asked && process.Sleep(ctx, appliedPoll) {
	}
}

// small reports whether a checkpoint would be of use now: see checkpointPartsMost.
func (r *Retention) small(c *Core) bool {
	parts := 0
	c.Call(func(e *engine.Engine) { parts = engine.PartsOf(e) })
	return parts <= checkpointPartsMost || r.rule.After(r.o.Disk) > checkpointLate
}

// checkpoint stores the replicated state in the database once everything it stands for is there (K2). One that is too
// large is not stored.
func (r *Retention) checkpoint(ctx context.Context, c *Core) error {
	began := time.Now()
	p := c.checkpoint()
	if p == nil {
		return nil // the replica ends
	}
	taken := time.Since(began)
	r.rule.Took(p.Index, p.Ordinal)
	for !r.rule.Storable(c.Applied()) {
		if err := r.tooFar(c); err != nil {
			return err
		}
		if !process.Sleep(ctx, appliedPoll) {
			return nil
		}
	}
	data := p.Append(nil)
	if len(data) > checkpointBytesMost {
		r.o.Log.Warn("the checkpoint is too large, another is taken later", "bytes", len(data))
		r.rule.Dropped()
		return nil
	}
	if err := standing.StoreCheckpoint(ctx, r.o.ConnString, data); err != nil {
		return err
	}
	r.rule.Stored()
	r.saved.Store(p.Index)
	r.o.Log.Info("stored a checkpoint", "entry", p.Index, "ordinal", p.Ordinal, "bytes", len(data), "taken", taken,
		"all", time.Since(began))
	return nil
}

// tooFar is the end of a member that is far too slow, and so far behind that its log would grow for ever: it copies
// another one's database.
func (r *Retention) tooFar(c *Core) error {
	leader := c.Leader()
	if leader == 0 || leader == r.o.Config.Member || !r.rule.TooFar(r.o.Disk, r.o.Keep()) || !r.o.Slow() {
		return nil
	}
	return &explained{&LostError{ordering.Lost{Leader: leader}}, fmt.Sprintf("%s is far too slow: %d bytes of its log "+
		"are yet to be applied, more than %d times log_retention", r.o.Config.Self().Name,
		r.rule.After(r.o.Disk), replica.LoanFactor)}
}

// compact forgets the log up to an entry of which there is a durable checkpoint, or an earlier one.
func (r *Retention) compact(to uint64) error {
	first, err := r.o.Disk.FirstIndex()
	if err != nil || to < first {
		return err
	}
	if err := r.o.Disk.Compact(to); err != nil {
		return fmt.Errorf("the log cannot be compacted, so this member stops: %w", err)
	}
	r.o.Metrics.Log.Compacted.Add(1)
	r.o.Log.Info("compacted the log", "entry", to, "bytes", r.o.Disk.Bytes())
	return nil
}

// StartAt returns the checkpoint to start from, nil for the log's beginning. It restarts the log at
// the checkpoint of a clone that is further than it, and moves the position: what a checkpoint stands
// for is in its database. Errors are final, but for an UnfitError.
func (r *Retention) StartAt(saved []byte, position *engine.Position) (*engine.Checkpoint, error) {
	c, err := r.startAt(saved, position)
	if unfit := (*UnfitError)(nil); err != nil && !errors.As(err, &unfit) {
		err = &failure.Fatal{Err: err}
	}
	return c, err
}

func (r *Retention) startAt(saved []byte, position *engine.Position) (*engine.Checkpoint, error) {
	var c *engine.Checkpoint
	if saved != nil {
		var err error
		if c, err = engine.DecodeCheckpoint(saved); err != nil {
			first, ferr := r.o.Disk.FirstIndex()
			if ferr != nil {
				return nil, ferr
			}
			if first > 1 {
				return nil, fmt.Errorf("%w; what the log said before entry %d is known only from it. %s", err, first,
					standing.HowToClone(r.o.Config))
			}
			r.o.Log.Warn("the checkpoint cannot be read; the whole log is read again", "error", err)
		}
	}
	foreign := position.Member != r.o.Config.Member
	restart, err := c.Fit(r.o.Disk, foreign)
	if foreign && errors.Is(err, engine.ErrBehind) {
		return nil, &UnfitError{err}
	}
	if err != nil {
		return nil, fmt.Errorf("%w. %s", err, standing.HowToClone(r.o.Config))
	}
	if c == nil {
		return nil, nil
	}
	if restart {
		err = r.restartLog(c)
	} else { // a clone may be behind changes that this member has in its log, and never knew to be decided
		err = raftlog.Continue(r.o.Disk, c.Index, c.Conf())
	}
	if err != nil {
		return nil, err
	}
	r.rule = replica.NewRetention(c.Index)
	r.saved.Store(c.Index)
	position.Ordinal, position.Floor = max(position.Ordinal, c.Ordinal), max(position.Floor, c.Ordinal)
	r.o.Log.Info("starts from a checkpoint", "entry", c.Index, "ordinal", c.Ordinal, "log_bytes_after",
		r.o.Disk.BytesAfter(c.Index))
	return c, nil
}

// restartLog makes the log begin behind c. Terms and votes stay.
func (r *Retention) restartLog(c *engine.Checkpoint) error {
	if err := r.o.Disk.Restart(c.Index, c.Term, c.Conf()); err != nil {
		return err
	}
	r.o.Log.Info("restarted the log behind the clone's checkpoint", "entry", c.Index)
	return nil
}

// UnfitError is that the database is a copy of another member's whose checkpoint does not come up to where the log
// begins. A later copy does.
type UnfitError struct{ error }

func (e *UnfitError) Unwrap() error { return e.error }

// ExplainLost says what happened to a member that was away for too long; nil if err is something else.
func ExplainLost(err error, c *config.Config) error {
	var lost *LostError
	if !errors.As(err, &lost) {
		return nil
	}
	return &explained{lost, fmt.Sprintf("%s was away for longer than log_retention allows: it has the order up to "+
		"entry %d of the log, and %s, which leads, keeps it from entry %d on",
		c.Self().Name, lost.Have, c.Name(lost.Leader), lost.First)}
}

// explained is an error in the words of people.
type explained struct {
	error
	words string
}

func (e *explained) Error() string { return e.words }
func (e *explained) Unwrap() error { return e.error }
