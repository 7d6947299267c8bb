package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/instance"
)

// reloads lets the configuration be read again, once at a time.
type reloads struct{ mu sync.Mutex }

// reloadTimeout bounds what PostgreSQL is asked meanwhile.
const reloadTimeout = 30 * time.Second

// settled is the configuration as it was read last. Of keys that cannot be changed while the node runs it has the
// values of the start.
func (n *Node) settled() *config.Config { return n.latest.Load() }

func (l *life) settled() *config.Config { return l.node.settled() }

// reload takes what can be changed while the node runs from a configuration that was read again, and logs what has
// changed, and what waits for the next start. With an error nothing has changed.
func (n *Node) reload(c *config.Config, level *slog.LevelVar) error {
	last, next := n.settled(), n.config.Changed(c)
	if _, err := next.ClientTLS.ServerTLS(); err != nil {
		return err
	}
	if err := instance.CheckSettings(n.settingsOf(next)); err != nil {
		return fmt.Errorf("[postgres.settings]: %w", err)
	}
	var waits []string
	n.mu.Lock()
	pg := n.pg
	n.mu.Unlock()
	if pg != nil {
		ctx, cancel := context.WithTimeout(context.Background(), reloadTimeout)
		defer cancel()
		later, err := pg.Reload(ctx, n.settingsOf(next))
		if err != nil {
			return fmt.Errorf("[postgres.settings]: %w", err)
		}
		for _, s := range later {
			waits = append(waits, "postgres.settings."+s)
		}
	}
	n.latest.Store(next)
	level.Set(next.Level())
	if t := n.current(); t != nil {
		for _, l := range t.all() {
			l.obey()
		}
	}
	err := errors.Join(n.loadClientTLS(), n.credentials.Load(), n.rules.Load())
	n.log.Info("the configuration was read again", "changed", config.Diff(last, next))
	if waits = append(config.Diff(next, c), waits...); len(waits) > 0 {
		n.log.Warn("some of the configuration is used from the next start on", "keys", waits)
	}
	return err
}

// obey takes limits over that parts of the life have for themselves.
func (l *life) obey() {
	c := l.settled().Limits
	l.flow.turns.Set(c.TurnsPercent)
	l.notices.Set(c.Channels, c.NotifyQueue)
}

// again reads the configuration and takes it over; what is wrong with it is logged.
func (n *Node) again(load func() (*config.Config, error), level *slog.LevelVar) {
	n.reloads.mu.Lock() // the last file to be read is the one in force
	defer n.reloads.mu.Unlock()
	c, err := load()
	if err == nil {
		err = n.reload(c, level)
	}
	if err != nil {
		n.log.Error("the configuration stays as it was", "error", err)
	}
}
