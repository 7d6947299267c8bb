package node

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tuttidb/tutti/internal/config"
)

// nameOf is a member's name, which its certificate must have, also if it was removed: it may be needed yet. Empty for a
// stranger.
func (n *Node) nameOf(member uint32) string {
	m, _ := n.config.Find(member)
	return m.Name
}

// CheckConfig says what is wrong with the files that a configuration names. It starts nothing, and can be used beside a
// running node.
func CheckConfig(c *config.Config) error {
	n := New(c, slog.New(slog.DiscardHandler))
	err := errors.Join(n.credentials.Check(), n.loadClientTLS(), n.rules.Load())
	if dir := c.Postgres.BinDir; dir != "" {
		if _, e := os.Stat(filepath.Join(dir, "postgres")); e != nil {
			err = errors.Join(err, fmt.Errorf("postgres: bin_dir: %w", e))
		}
	}
	return err
}
