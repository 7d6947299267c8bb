package core

import (
	"context"
	"log/slog"
	"time"

	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/raftlog"
)

// Retired is what is left of a dropped database: its order, which goes on for members that have not come so far yet.
// They must go through what it was, because definitions of what all databases share depended on it, and could
// have it from nobody else.
type Retired struct {
	disk  *raftlog.Log
	order *ordering.Order
	inbox chan memberFrame
	send  func(to uint32, data []byte) bool
	log   *slog.Logger
}

// NewRetired makes one of a log, which the caller closes after Run.
func NewRetired(
	member uint32, disk *raftlog.Log, send func(to uint32, data []byte) bool, log *slog.Logger,
) (*Retired, error) {
	order, err := ordering.New(ordering.Options{Member: member, Storage: disk})
	if err != nil {
		return nil, err
	}
	return &Retired{disk: disk, order: order, inbox: make(chan memberFrame, coreQueueMax), send: send, log: log}, nil
}

// Receive takes a frame of another member; a full inbox drops it, raft sends again.
func (r *Retired) Receive(from uint32, data []byte) {
	select {
	case r.inbox <- memberFrame{from, data}:
	default:
	}
}

// Run goes on with the order until ctx ends. An error says that the log cannot be written any more.
func (r *Retired) Run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		for r.order.HasReady() {
			rd := r.order.Ready()
			if err := r.order.Unread(); err != nil {
				return &failure.Newer{Err: err}
			}
			r.sendAll(rd.Early)
			if err := r.disk.Append(rd.HardState, rd.Entries, rd.Sync); err != nil {
				return &failure.Fatal{Err: errLog(err)}
			}
			r.sendAll(rd.Late)
			r.order.Advance()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			r.order.Tick()
			r.order.Release()
		case m := <-r.inbox:
			if err := r.order.Step(m.from, m.data); err != nil {
				r.log.Warn("refused a member's message", "member", m.from, "error", err)
			}
		}
	}
}

func (r *Retired) sendAll(messages []ordering.Message) {
	for _, m := range messages {
		if !r.send(m.To, m.Data) {
			r.order.Unreachable(m.To)
		}
	}
}
