package witness

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/raftlog"
	"github.com/tuttidb/tutti/internal/standing"
)

// order is that of one database.
type order struct {
	keeper *core.Keeper
	stop   context.CancelFunc
	ended  chan struct{}
}

// all are the orders by their databases' numbers.
func (w *Witness) all() map[uint64]*order {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.orders)
}

// opened is a log.
type opened struct {
	group uint64
	disk  *raftlog.Log
}

// openAll opens the logs that there are, of which main is the main database's. The caller closes those that it is
// given, also with an error.
func (w *Witness) openAll(main string) (logs []opened, err error) {
	disk, err := standing.OpenLog(main, w.config, w.faults)
	if err != nil {
		return nil, &failure.Fatal{Err: err}
	}
	logs = append(logs, opened{standing.MainGroup, disk})
	if err := w.standing.Adopt(disk); err != nil {
		return logs, &failure.Fatal{Err: err}
	}
	groups, err := standing.OtherGroups(w.config)
	for _, group := range groups {
		if err == nil {
			if disk, err = w.open(group); err == nil {
				logs = append(logs, opened{group, disk})
			}
		}
	}
	return logs, err
}

// open opens the log of another database than the main one.
func (w *Witness) open(group uint64) (*raftlog.Log, error) {
	disk, err := standing.OpenLog(standing.LogDir(w.config, group), w.config, w.faults)
	if err != nil {
		return nil, &failure.Fatal{Err: err}
	}
	if err := w.standing.Made(group); err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	return disk, nil
}

// run goes on with an order until it is stopped, or its log cannot be written.
func (w *Witness) run(group uint64, disk *raftlog.Log) error {
	k, err := core.NewKeeper(core.KeeperOptions{Member: w.config.Member, Disk: disk, Witness: true,
		Retention: w.config.Limits.LogRetention, Log: w.log.With("database", group),
		Configured: w.hurry, Send: func(to uint32, data []byte) bool { return w.send(to, group, data) }})
	if err != nil {
		return &failure.Fatal{Err: errors.Join(err, disk.Close())}
	}
	ctx, cancel := context.WithCancel(w.ctx)
	o := &order{keeper: k, stop: cancel, ended: make(chan struct{})}
	w.mu.Lock()
	w.orders[group] = o
	w.mu.Unlock()
	w.running.Go(func() {
		defer close(o.ended)
		if err := errors.Join(k.Run(ctx), disk.Close()); err != nil {
			w.fail(fmt.Errorf("the order of database %d: %w", group, err))
		}
	})
	witnesses := numbers(w.config.Witnesses())
	k.Do(func(x *ordering.Order) { x.Witnesses(witnesses) })
	return nil
}

// frameRaft begins a frame about an order; the number of its database follows, as a uvarint (see package node).
const frameRaft = 'R'

func (w *Witness) send(to uint32, group uint64, data []byte) bool {
	frame := make([]byte, 1, len(data)+1+binary.MaxVarintLen64)
	frame[0] = frameRaft
	return w.transport.Send(to, append(binary.AppendUvarint(frame, group), data...))
}

// receive takes a frame of another member. All but those about an order are for members with a database.
func (w *Witness) receive(from uint32, frame []byte) {
	if len(frame) == 0 || frame[0] != frameRaft || !w.standing.Begun() {
		return
	}
	group, n := binary.Uvarint(frame[1:])
	if n <= 0 {
		w.log.Warn("a member sent a frame that names no database", "member", from)
		return
	}
	w.mu.Lock()
	o := w.orders[group]
	w.mu.Unlock()
	switch {
	case o != nil:
		o.keeper.Receive(from, frame[1+n:])
	case group != standing.MainGroup && w.coming.CompareAndSwap(false, true): // the frame is sent again
		w.running.Go(func() {
			defer w.coming.Store(false)
			if err := w.come(group, from); err != nil {
				w.fail(err)
			}
		})
	}
}

// come makes the log of a database of which this member hears for the first time (W1). Who has spoken of it knows with
// whom its order began.
func (w *Witness) come(group uint64, from uint32) error {
	m, known := w.config.Find(from)
	if !known || w.all()[group] != nil {
		return nil
	}
	l, err := standing.AskList(w.ctx, m, w.caller().Call)
	if err != nil {
		w.log.Warn("there is another database, and it is not known with whom it began", "number", group, "error", err)
		process.Sleep(w.ctx, askAgain)
		return nil
	}
	o, dir := l.Find(group), standing.LogDir(w.config, group)
	if o == nil || w.all()[group] != nil {
		return nil // it is over, has just begun, or was being opened
	}
	if err := w.standing.MayHaveVoted(group, dir); err != nil {
		return &failure.Fatal{Err: err}
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := w.standing.CreateLog(group, dir, o.Voters, o.Learners, w.faults); err != nil {
			return &failure.Fatal{Err: err}
		}
	}
	w.log.Info("there is another database", "number", group)
	disk, err := w.open(group)
	if err != nil {
		return err
	}
	return w.run(group, disk)
}

// gone tells every order that a member has ended. Nobody waits for it from then on.
func (w *Witness) gone(member uint32) {
	for _, o := range w.all() { // order-free: each for itself
		o.keeper.Do(func(x *ordering.Order) { x.Gone(member) })
	}
}

// drop removes the logs of databases that nobody needs any more, as all members with a database say (W2).
func (w *Witness) drop(said []*standing.Listed) error {
	for group, o := range w.all() { // order-free: each for itself
		needed := func(l *standing.Listed) bool { return l == nil || !l.Over(group) }
		if len(said) == 0 || slices.ContainsFunc(said, needed) {
			continue
		}
		o.stop()
		<-o.ended
		if err := raftlog.Remove(standing.LogDir(w.config, group)); err != nil {
			return err
		}
		if err := w.standing.Removed(group); err != nil {
			return err
		}
		w.mu.Lock()
		delete(w.orders, group)
		w.mu.Unlock()
		w.log.Info("a database is no more, nor is its log", "number", group)
	}
	return nil
}
