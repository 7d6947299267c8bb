package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// directory makes the data directory. remove takes away at the end what is not to be kept.
func directory(o Options) (dir string, remove func() error, err error) {
	keep := func() error { return nil }
	if o.Ephemeral {
		return ephemeral(o.Dir)
	}
	if dir = o.Dir; dir == "" {
		dir = "/var/lib/tutti/demo" // PostgreSQL does not run as root, and must reach it
		if os.Geteuid() != 0 {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", nil, fmt.Errorf("--dir is needed: %w", err)
			}
			dir = filepath.Join(home, ".local", "share", "tutti", "demo")
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	return dir, keep, os.MkdirAll(dir, 0o755)
}

// ephemeral makes a directory that is removed at the end: a temporary one, or the given one, which must have nothing in
// it that would be lost.
func ephemeral(dir string) (string, func() error, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "tutti-demo-")
		if err != nil {
			return "", nil, err
		}
		return dir, func() error { return os.RemoveAll(dir) }, os.Chmod(dir, 0o755)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	switch files, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", nil, err
	case len(files) > 0:
		return "", nil, fmt.Errorf("--dir %s is not empty (%s), and --ephemeral would remove it at the end: give a "+
			"new directory", dir, files[0].Name())
	}
	return dir, func() error { return os.RemoveAll(dir) }, os.MkdirAll(dir, 0o755)
}

// errInUse is in the chain of the error of who comes second.
var errInUse = errors.New("another demo runs in")

// lockDir keeps other demos from a directory until the process ends, or unlocks it.
func lockDir(dir string) (*flock.Flock, error) {
	path := filepath.Join(dir, "demo.lock")
	l := flock.New(path)
	mine, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	owner := filepath.Join(dir, "demo.pid")
	if !mine {
		pid, _ := os.ReadFile(owner) // only for the message
		return nil, fmt.Errorf("%w %s (process %s): stop it, or give another --dir and --base-port", errInUse, dir,
			strings.TrimSpace(string(pid)))
	}
	return l, renameio.WriteFile(owner, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644)
}
