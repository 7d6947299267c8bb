package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// forcedName is a file in data_dir that says that the member goes on without all others, which are lost.
const forcedName = "forced"

// MarkForced makes that file, durably.
func (c *Config) MarkForced() error {
	err := os.WriteFile(filepath.Join(c.DataDir, forcedName), nil, 0o600)
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

// Forced reports whether there is that file.
func (c *Config) Forced() bool {
	_, err := os.Stat(filepath.Join(c.DataDir, forcedName))
	return err == nil
}

// ForcedOver removes it: the list of members has nobody else any more.
func (c *Config) ForcedOver() error { return os.Remove(filepath.Join(c.DataDir, forcedName)) }
