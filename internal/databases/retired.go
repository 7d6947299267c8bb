package databases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/fault"
	"github.com/tuttidb/tutti/internal/raftlog"
	"github.com/tuttidb/tutti/internal/standing"
)

// RetiredOptions are a member as its retired logs need it.
type RetiredOptions struct {
	Config *config.Config
	Log    *slog.Logger
	Faults *fault.Faults // nil in production
	// Context ends all of them. Go runs f, whose end the caller waits for. Fail takes the failure of a log.
	Context context.Context
	Go      func(f func())
	Fail    func(error)
	// Send sends a word of a database's order to another member.
	Send func(to uint32, id uint64, word []byte) bool
}

// Retired are the logs of dropped databases. Safe for concurrent use.
type Retired struct {
	o RetiredOptions

	mu   sync.Mutex
	logs map[uint64]*retired
}

// retired is one of them.
type retired struct {
	order   *core.Keeper // nil if the log is not here
	id      uint64
	dropped uint64 // ordinal of its end, in the main database
	stop    context.CancelFunc
	ended   chan struct{}
}

// NewRetired makes a list of none.
func NewRetired(o RetiredOptions) *Retired { return &Retired{o: o, logs: map[uint64]*retired{}} }

// Add keeps the log of a database that was dropped at an ordinal, and has no replica any more. The log may be gone: a
// clone is already past the end of its database. An error is final.
func (r *Retired) Add(id, dropped uint64) error {
	x := &retired{id: id, dropped: dropped, ended: make(chan struct{})}
	dir := standing.LogDir(r.o.Config, id)
	ctx, cancel := context.WithCancel(r.o.Context)
	x.stop = cancel
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		close(x.ended)
	} else {
		disk, err := standing.OpenLog(dir, r.o.Config, r.o.Faults)
		if err == nil {
			send := func(to uint32, word []byte) bool { return r.o.Send(to, id, word) }
			x.order, err = core.NewKeeper(core.KeeperOptions{Member: r.o.Config.Member, Disk: disk, Send: send,
				Log: r.o.Log})
		}
		if err != nil {
			cancel()
			return &failure.Fatal{Err: err}
		}
		r.o.Go(func() {
			defer close(x.ended)
			if err := errors.Join(x.order.Run(ctx), disk.Close()); err != nil {
				r.o.Fail(fmt.Errorf("order of a dropped database: %w", err))
			}
		})
	}
	r.mu.Lock()
	r.logs[id] = x
	r.mu.Unlock()
	return nil
}

// Receive takes another member's word about the order of a database that has no replica here. If its log is not here,
// nothing happens.
func (r *Retired) Receive(id uint64, from uint32, word []byte) {
	r.mu.Lock()
	x := r.logs[id]
	r.mu.Unlock()
	if x != nil && x.order != nil {
		x.order.Receive(from, word)
	}
}

// Count is how many dropped databases other members may still need.
func (r *Retired) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.logs)
}

// Remove ends those of databases whose end every member has carried out, as all have applied up to an ordinal, and
// removes their logs. Forget is called for each when its log is gone (DB4).
func (r *Retired) Remove(applied uint64, forget func(id uint64) error) error {
	r.mu.Lock()
	all := make([]*retired, 0, len(r.logs))
	for _, x := range r.logs {
		all = append(all, x)
	}
	r.mu.Unlock()
	for _, x := range all {
		if x.dropped > applied {
			continue
		}
		x.stop()
		<-x.ended
		if err := raftlog.Remove(standing.LogDir(r.o.Config, x.id)); err != nil {
			return err
		}
		if err := forget(x.id); err != nil {
			return err
		}
		r.mu.Lock()
		delete(r.logs, x.id)
		r.mu.Unlock()
	}
	return nil
}
