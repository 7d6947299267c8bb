package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// keptName is a file in data_dir with the list of members that a witness has heard last. It has no database that says
// who they are, and those of its configuration may be gone.
const keptName = "members"

// KeepRoster writes the list of members down, if it is another one than was written last.
func KeepRoster(c *Config) error {
	r := c.Roster()
	if r == nil || r.Ordinal == c.roster.kept {
		return nil
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = renameio.WriteFile(filepath.Join(c.DataDir, keptName), text, 0o600, renameio.WithTempDir(c.DataDir))
	}
	if err != nil {
		return fmt.Errorf("config: keep the list of members: %w", err)
	}
	c.roster.kept = r.Ordinal
	return nil
}

// ReadRoster goes by the list that was written down, if there is one.
func ReadRoster(c *Config) error {
	path := filepath.Join(c.DataDir, keptName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r := &Roster{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err == nil && len(r.Members) == 0 {
		err = errors.New("it names nobody")
	}
	if err != nil {
		return fmt.Errorf("config: %s, with the list of members (remove it, and the configuration's is taken): %w",
			path, err)
	}
	c.Becomes(r)
	c.roster.kept = r.Ordinal
	return nil
}
