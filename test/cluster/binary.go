package cluster

import (
	"fmt"
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
		args := []string{"build", "-ldflags=-compressdwarf=false", "-o", built.path} // half the time to link
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

// Clean removes the binary; call it after the tests.
func Clean() error {
	if built.dir == "" {
		return nil
	}
	return os.RemoveAll(built.dir)
}
