package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/raftlog"
	"github.com/tuttidb/tutti/internal/standing"
)

// ghost is what is left of a dropped database: its order, which goes on for members that have not come so far yet.
// They must go through what it was, because definitions of what all databases share depended on it, and could
// have it from nobody else.
type ghost struct {
	group   uint64
	dropped uint64 // ordinal of its end, in the main database
	tenure  *tenure
	disk    *raftlog.Log
	order   *ordering.Order
	inbox   chan memberFrame
	stop    context.CancelFunc
	ended   chan struct{}
}

// haunt starts the ghost of a database whose life has ended. There is none if its log is not here: a clone is
// already past its end.
func (t *tenure) haunt(group, dropped uint64) error {
	g := &ghost{group: group, dropped: dropped, tenure: t, inbox: make(chan memberFrame, coreQueueMax),
		ended: make(chan struct{})}
	c := t.node.config
	dir := standing.LogDir(c, group)
	ctx, cancel := context.WithCancel(t.ctx)
	g.stop = cancel
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		close(g.ended)
	} else {
		if g.disk, err = standing.OpenLog(dir, c, t.node.faults); err == nil {
			g.order, err = ordering.New(ordering.Options{Member: c.Member, Storage: g.disk})
		}
		if err != nil {
			cancel()
			return &failure.Fatal{Err: err}
		}
		t.running.Go(func() {
			defer close(g.ended)
			if err := errors.Join(g.run(ctx), g.disk.Close()); err != nil {
				t.fail(fmt.Errorf("order of a dropped database: %w", err))
			}
		})
	}
	t.mu.Lock()
	t.ghosts[group] = g
	t.mu.Unlock()
	return nil
}

func (g *ghost) receive(from uint32, data []byte) {
	select {
	case g.inbox <- memberFrame{from, data}:
	default: // raft sends again
	}
}

func (g *ghost) run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		for g.order.HasReady() {
			rd := g.order.Ready()
			g.send(rd.Early)
			if err := g.disk.Append(rd.HardState, rd.Entries, rd.Sync); err != nil {
				return &failure.Fatal{Err: errLog(err)}
			}
			g.send(rd.Late)
			g.order.Advance()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			g.order.Tick()
			g.order.Release()
		case m := <-g.inbox:
			if err := g.order.Step(m.from, m.data); err != nil {
				g.tenure.node.log.Warn("refused a member's message", "member", m.from, "error", err)
			}
		}
	}
}

func (g *ghost) send(messages []ordering.Message) {
	for _, m := range messages {
		if !g.tenure.send(m.To, frameRaft, g.group, m.Data) {
			g.order.Unreachable(m.To)
		}
	}
}

// ghost gives the ghost of a database; nil if it has none.
func (t *tenure) ghost(group uint64) *ghost {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ghosts[group]
}

// count is how many databases there are, ghosts included.
func (t *tenure) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lives) + len(t.ghosts)
}

// layToRest ends the ghosts of databases that every member has dropped.
func (t *tenure) layToRest(ctx context.Context) error {
	main := t.life(mainGroup)
	t.mu.Lock()
	ghosts := make([]*ghost, 0, len(t.ghosts))
	for _, g := range t.ghosts {
		ghosts = append(ghosts, g)
	}
	t.mu.Unlock()
	if main == nil || len(ghosts) == 0 {
		return nil
	}
	all := main.peers.allApplied()
	for _, g := range ghosts {
		if g.dropped > all {
			continue
		}
		g.stop()
		<-g.ended
		if err := raftlog.Remove(standing.LogDir(main.config, g.group)); err != nil {
			return err
		}
		if err := t.standing.Removed(g.group); err != nil {
			return err
		}
		if _, err := main.monitor.Exec(ctx, fmt.Sprintf("DELETE FROM tutti.database WHERE id = %d AND state = '%s'",
			g.group, databaseDropped)); err != nil {
			return err
		}
		t.mu.Lock()
		delete(t.ghosts, g.group)
		t.mu.Unlock()
	}
	return nil
}
