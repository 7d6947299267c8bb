package config

import (
	"fmt"
	"os"
	"path/filepath"
)

// aloneName is a file in data_dir that says that the node begins a cluster of one. It goes with the disk.
const aloneName = "begins"

// MarkAlone makes that file, and the directory.
func MarkAlone(dataDir string) error {
	err := os.MkdirAll(dataDir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dataDir, aloneName), nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// MayBegin refuses to begin a cluster with a list of one member, unless there is that file: with an empty disk, or
// another one, it could be the first member of a cluster that others have joined, and would begin a second one.
func (c *Config) MayBegin() error {
	if len(c.All()) > 1 {
		return nil
	}
	mark := filepath.Join(c.DataDir, aloneName)
	if _, err := os.Stat(mark); err != nil {
		return fmt.Errorf("[[members]] has nobody but %s, which has no log. If others have joined its cluster, and "+
			"it has lost its disk, name one of them there as well, as SHOW tutti.members has it, and start it again. "+
			"If it is to begin a cluster of one (tutti init), make the file %s", c.Self().Name, mark)
	}
	return nil
}

// Begun removes the file, if there is one. Where it stays nothing is wrong: it is looked at only by who has no log.
func (c *Config) Begun() { _ = os.Remove(filepath.Join(c.DataDir, aloneName)) }
