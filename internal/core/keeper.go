package core

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/raftlog"
)

// Keeper is an order without an engine. That of a dropped database goes on for members that have not come so far yet:
// they must go through what it was, because definitions of what all databases share depended on it, and could have it
// from nobody else. A witness has nothing but such orders.
type Keeper struct {
	o     KeeperOptions
	order *ordering.Order
	inbox chan memberFrame
	ops   chan func(*ordering.Order)
	ended chan struct{}

	leader  uint32                   // that was seen last
	readers atomic.Pointer[[]uint32] // of the log
}

// KeeperOptions are a log and the way to the other members. The caller closes the log after Run.
type KeeperOptions struct {
	Member uint32
	Disk   *raftlog.Log
	Send   func(to uint32, data []byte) bool
	Log    *slog.Logger
	// Configured is called when who votes, or who gets the log, has changed; nil: nobody is told. It must not wait.
	Configured func()
	// Witness: this member has no database in which any of this is. It keeps the newest Retention bytes of the log and
	// drops the rest; negative: it drops nothing.
	Witness   bool
	Retention int64
}

// compactTicks is how often a witness looks whether it keeps too much.
const compactTicks = 100

// NewKeeper makes one.
func NewKeeper(o KeeperOptions) (*Keeper, error) {
	order, err := ordering.New(ordering.Options{Member: o.Member, Storage: o.Disk, Author: engine.Proposer,
		Witness: o.Witness})
	if err != nil {
		return nil, err
	}
	k := &Keeper{o: o, order: order, inbox: make(chan memberFrame, coreQueueMax), ops: make(chan func(*ordering.Order)),
		ended: make(chan struct{})}
	k.configured()
	return k, nil
}

// Readers lists who gets the log, as far as this member knows. The list must not be changed.
func (k *Keeper) Readers() []uint32 { return *k.readers.Load() }

func (k *Keeper) configured() { k.readers.Store(new(k.order.Readers())) }

// Receive takes a frame of another member; a full inbox drops it, raft sends again.
func (k *Keeper) Receive(from uint32, data []byte) {
	select {
	case k.inbox <- memberFrame{from: from, data: data}:
	default:
	}
}

// Do runs f with the order on the keeper's goroutine, unless that ends before.
func (k *Keeper) Do(f func(*ordering.Order)) {
	select {
	case k.ops <- f:
	case <-k.ended:
	}
}

// Run goes on with the order until ctx ends. An error says that the log cannot be written any more.
func (k *Keeper) Run(ctx context.Context) error {
	defer close(k.ended)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ticks := 0; ; {
		for k.order.HasReady() {
			rd := k.order.Ready()
			if err := k.order.Unread(); err != nil {
				return &failure.Newer{Err: err}
			}
			if err := k.carryOut(rd); err != nil {
				return &failure.Fatal{Err: errLog(err)}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			k.order.Tick()
			k.order.Release()
			if ticks++; ticks%compactTicks == 0 {
				if err := k.compact(); err != nil {
					return &failure.Fatal{Err: errLog(err)}
				}
			}
		case f := <-k.ops:
			f(k.order)
		case m := <-k.inbox:
			k.step(m)
		}
		k.drain()
	}
}

// drain takes what else is waiting, so that one write of the log serves all of it.
func (k *Keeper) drain() {
	for range drainMax {
		select {
		case m := <-k.inbox:
			k.step(m)
		default:
			return
		}
	}
}

func (k *Keeper) step(m memberFrame) {
	if err := k.order.Step(m.from, m.data); err != nil {
		k.o.Log.Warn("refused a member's message", "member", m.from, "error", err)
	}
}

// carryOut writes what a Ready has before anything is said that vouches for it (K1).
func (k *Keeper) carryOut(rd ordering.Ready) error {
	k.sendAll(rd.Early)
	if b := rd.Begins; b != nil {
		k.o.Log.Info("the log begins anew", "behind", b.Index)
		if err := k.o.Disk.Restart(b.Index, b.Term, b.State); err != nil {
			return err
		}
	}
	err := k.o.Disk.Append(rd.HardState, rd.Entries, rd.Sync)
	for _, now := range rd.Configured {
		if err == nil {
			err = k.o.Disk.SetConfState(now.Index, now.State)
		}
	}
	if err != nil {
		return err
	}
	if rd.Begins != nil || len(rd.Configured) > 0 {
		k.configured()
		k.o.Log.Info("who votes has changed", "voters", k.order.Voters())
		if k.o.Configured != nil {
			k.o.Configured()
		}
	}
	k.sendAll(rd.Late)
	k.order.Advance()
	if v := k.order.View(); k.leader != v.Leader {
		k.leader = v.Leader
		k.o.Log.Info("the leader changed", "leader", v.Leader, "term", v.Term)
	}
	return nil
}

// compact drops what a witness need not keep: of what is decided, all but the newest.
func (k *Keeper) compact() error {
	if !k.o.Witness || k.o.Retention < 0 {
		return nil
	}
	decided, _, stored := k.order.Stored()
	to := min(decided, k.o.Disk.Surplus(k.o.Retention))
	if first, err := k.o.Disk.FirstIndex(); err != nil || !stored || to < first {
		return err
	}
	return k.o.Disk.Compact(to)
}

func (k *Keeper) sendAll(messages []ordering.Message) {
	for _, m := range messages {
		if !k.o.Send(m.To, m.Data) {
			k.order.Unreachable(m.To)
		}
	}
}
