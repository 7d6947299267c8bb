package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/raftlog"
	"github.com/tuttidb/tutti/internal/standing"
)

// ghost is a dropped database's.
type ghost struct {
	*core.Retired // nil if its log is not here
	group         uint64
	dropped       uint64 // ordinal of its end, in the main database
	stop          context.CancelFunc
	ended         chan struct{}
}

// haunt starts the ghost of a database whose life has ended. There is none if its log is not here: a clone is
// already past its end.
func (t *tenure) haunt(group, dropped uint64) error {
	g := &ghost{group: group, dropped: dropped, ended: make(chan struct{})}
	c := t.node.config
	dir := standing.LogDir(c, group)
	ctx, cancel := context.WithCancel(t.ctx)
	g.stop = cancel
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		close(g.ended)
	} else {
		disk, err := standing.OpenLog(dir, c, t.node.faults)
		if err == nil {
			send := func(to uint32, data []byte) bool { return t.send(to, frameRaft, group, data) }
			g.Retired, err = core.NewRetired(c.Member, disk, send, t.node.log)
		}
		if err != nil {
			cancel()
			return &failure.Fatal{Err: err}
		}
		t.running.Go(func() {
			defer close(g.ended)
			if err := errors.Join(g.Run(ctx), disk.Close()); err != nil {
				t.fail(fmt.Errorf("order of a dropped database: %w", err))
			}
		})
	}
	t.mu.Lock()
	t.ghosts[group] = g
	t.mu.Unlock()
	return nil
}

// ghost gives the ghost of a database that has an order here; nil if it has none.
func (t *tenure) ghost(group uint64) *core.Retired {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.ghosts[group]; g != nil {
		return g.Retired
	}
	return nil
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
	all := main.peers.AllApplied()
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
