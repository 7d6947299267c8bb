package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// SetupError is an error that does not go away by itself: what is configured, or what is installed on this machine,
// must be changed first.
type SetupError struct{ Err error }

func (e *SetupError) Error() string { return e.Err.Error() }
func (e *SetupError) Unwrap() error { return e.Err }

// Setupf words a SetupError.
func Setupf(format string, args ...any) error { return &SetupError{fmt.Errorf(format, args...)} }

// versionFile is where a data directory says of which major version it is.
const versionFile = "PG_VERSION"

// DataMajor is the major version of the database in a data directory; zero if the directory is empty, or not there.
func DataMajor(dir string) (int, error) {
	b, err := os.ReadFile(filepath.Join(dir, versionFile))
	if err == nil {
		major, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil || major <= 0 {
			return 0, Setupf("data directory %s: its file %s holds %q, which is no version that Tutti can run",
				dir, versionFile, strings.TrimSpace(string(b)))
		}
		return major, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("data directory %s: %w", dir, err)
	}
	inside, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("data directory %s: %w", dir, err)
	}
	if len(inside) > 0 {
		return 0, Setupf("data directory %s is not empty, and has no file %s that says of which PostgreSQL it is: "+
			"restore that file, or name an empty directory", dir, versionFile)
	}
	return 0, nil
}

// missing says that no build of the version is there.
func missing(major int, o Options, found []string) error {
	what, where := fmt.Sprintf("PostgreSQL %d is needed", major), "none was found"
	if o.DataDir != "" {
		what = fmt.Sprintf("data directory %s is of PostgreSQL %d", o.DataDir, major)
	}
	if len(found) > 0 {
		where = "found: " + strings.Join(found, ", ")
	}
	return Setupf("%s, and this machine has no binaries of that version (%s); "+
		"install PostgreSQL %d or name the directory of its binaries (bin_dir)", what, where, major)
}
