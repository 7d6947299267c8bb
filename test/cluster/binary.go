package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// previous is the binary of the release before.
var previous struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// errNoHistory says that the release before cannot be had.
var errNoHistory = errors.New("the history does not have the commit of the release before, as in a shallow clone")

// Previous builds the release before, whose commit docs/RELEASES.md names, once per test process.
func Previous() (string, error) {
	previous.once.Do(func() { previous.path, previous.err = buildPrevious() })
	return previous.path, previous.err
}

func buildPrevious() (string, error) {
	pages, err := os.ReadFile(filepath.Join("..", "..", "docs", "RELEASES.md"))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`The release before: commit \x60([0-9a-f]{40})\x60`).FindSubmatch(pages)
	if found == nil {
		return "", errors.New("docs/RELEASES.md does not name the commit of the release before")
	}
	commit := string(found[1])
	const anybodys = "safe.directory=*" // the repository may be another user's
	if exec.Command("git", "-c", anybodys, "cat-file", "-e", commit+"^{tree}").Run() != nil {
		return "", fmt.Errorf("%w (%s)", errNoHistory, commit)
	}
	if previous.dir, err = os.MkdirTemp("", "tutti-before-"); err != nil {
		return "", err
	}
	source, path := filepath.Join(previous.dir, "source.tar"), filepath.Join(previous.dir, "tutti")
	for _, c := range []*exec.Cmd{
		exec.Command("git", "-c", anybodys, "-C", filepath.Join("..", ".."), "archive", "-o", source, commit),
		exec.Command("tar", "-xf", source, "-C", previous.dir),
		exec.Command("go", "build", "-buildvcs=false", "-ldflags=-compressdwarf=false", "-o", path, "./cmd/tutti"),
	} {
		if c.Args[0] == "go" {
			c.Dir = previous.dir
		}
		if out, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", c, err, out)
		}
	}
	return path, nil
}

// Clean removes the binaries; call it after the tests.
func Clean() (err error) {
	for _, dir := range []string{built.dir, previous.dir} {
		if dir != "" {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}
