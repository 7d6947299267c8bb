package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
)

// lostName is a file in data_dir with the numbers of members that are lost, as an operator has said. For this node they
// are no members any more, whatever a list says. It stays for ever, as numbers are never used again.
const lostName = "lost"

// Lost reads the numbers of the members that are lost.
func (c *Config) Lost() (list []uint32, err error) {
	text, err := os.ReadFile(c.lostPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("config: %s, with the members that are lost: %w", c.lostPath(), err)
	}
	return list, nil
}

func (c *Config) lostPath() string { return filepath.Join(c.DataDir, lostName) }

// Lose adds to them, durably.
func (c *Config) Lose(numbers []uint32) error {
	list, err := c.Lost()
	if err != nil {
		return err
	}
	list = append(list, numbers...)
	slices.Sort(list)
	text, err := json.Marshal(slices.Compact(list))
	if err == nil {
		err = renameio.WriteFile(c.lostPath(), text, 0o600, renameio.WithTempDir(c.DataDir))
	}
	var dir *os.File
	if err == nil {
		dir, err = os.Open(c.DataDir)
	}
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// ReadLost has Becomes leave out the members that are lost.
func (c *Config) ReadLost() error {
	list, err := c.Lost()
	if err == nil {
		c.roster.lost.Store(&list)
	}
	return err
}

// IsLost reports whether a member is lost.
func (c *Config) IsLost(member uint32) bool {
	if c.roster == nil {
		return false
	}
	lost := c.roster.lost.Load()
	return lost != nil && slices.Contains(*lost, member)
}

// Losing reports whether there are some on the list that are still to be removed by the order.
func (c *Config) Losing() bool { return c.roster.losing.Load() }

// without is a list without the members that are lost; nil is that of the configuration.
func (c *Config) without(r *Roster) *Roster {
	lost := c.roster.lost.Load()
	if lost == nil || len(*lost) == 0 {
		return r
	}
	if r == nil {
		r = &Roster{Members: c.Members}
		for _, m := range c.Members {
			r.First = append(r.First, m.Member)
		}
	}
	out := &Roster{Ordinal: r.Ordinal, Gone: slices.Clone(r.Gone), First: r.First}
	here := func(all []Member) (list []Member) {
		for _, m := range all {
			if c.IsLost(m.Member) {
				out.Gone = append(out.Gone, m)
			} else {
				list = append(list, m)
			}
		}
		return list
	}
	out.Members, out.Witnesses = here(r.Members), here(r.Witnesses)
	out.Later = slices.DeleteFunc(slices.Clone(r.Later), c.IsLost)
	c.roster.losing.Store(len(out.Gone) > len(r.Gone))
	return out
}
