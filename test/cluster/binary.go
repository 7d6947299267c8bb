package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// findBuild looks for PostgreSQL once per process.
var findBuild = sync.OnceValues(func() (embedded.Build, error) { return embedded.Find(embedded.Options{}) })

// built is the binary under test.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Binary builds cmd/tutti once per test process and returns its path. Clean removes it.
func Binary() (string, error) {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "tutti-bin-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "tutti")
		args := []string{"build", "-o", built.path}
		if raceEnabled {
			args = append(args, "-race")
		}
		out, err := exec.Command("go", append(args, "github.com/tuttidb/tutti/cmd/tutti")...).CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	return built.path, built.err
}

// discarded are directories that Clean removes.
var discarded struct {
	mu   sync.Mutex
	dirs []string
}

// discard empties the files of a directory and leaves the rest to Clean: ext4 without a journal does not use an inode again for
// minutes, and looks at all those that were freed lately for each new one, which took an eighth of the time of these tests.
func discard(dir string) error {
	discarded.mu.Lock()
	discarded.dirs = append(discarded.dirs, dir)
	discarded.mu.Unlock()
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return os.Truncate(path, 0)
	})
}

// Clean removes the binary and what the clusters have left; call it after the tests.
func Clean() error {
	var err error
	for _, dir := range append(discarded.dirs, built.dir) {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}
