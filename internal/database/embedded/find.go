package embedded

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Options say where to look. The zero value looks on this machine, then downloads.
type Options struct {
	// BinDir, if set, is the only place looked at.
	BinDir string
	// DataDir, if it holds a database, says which major version is wanted. Major, if not zero, says so as well.
	DataDir string
	Major   int
	// NoSystem skips the installations of this machine: always the embedded build.
	NoSystem bool
	// NoDownload forbids the network. A build already in the cache is still used.
	NoDownload bool
	// CacheDir holds downloaded builds, one directory each; empty: DefaultCacheDir().
	// It must be readable by the user the server will run as.
	CacheDir string
	// Progress, if set, is called while downloading, with bytes. total is always known.
	Progress func(done, total int64)
	// Client does the download; nil: http.DefaultClient.
	Client *http.Client

	system   []string  // globs instead of systemGlobs, for tests
	artifact *artifact // instead of this platform's, for tests
}

// systemGlobs are where distributions put the binaries.
var systemGlobs = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // PGDG on Red Hat
	"/usr/libexec/postgresql*",           // Alpine
	"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
	"/Library/PostgreSQL/*/bin",          // EDB installer
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// Find is FindContext without a way to cancel it.
func Find(o Options) (Build, error) { return FindContext(context.Background(), o) }

// FindContext returns the PostgreSQL to run: o.BinDir if given; else the newest one installed on this machine; else
// the embedded build, downloaded on first use. Where a major version is wanted, the newest is that of this version,
// and a build of another one is refused: a data directory can be used by its own version only. Without, it is
// MinMajor or later. ctx bounds the download. Errors say what to install or which option to set.
func FindContext(ctx context.Context, o Options) (Build, error) {
	major, err := o.wanted()
	if err != nil {
		return Build{}, err
	}
	if o.BinDir != "" {
		b, err := Probe(ctx, o.BinDir)
		switch {
		case err != nil && ctx.Err() == nil:
			return Build{}, &SetupError{err}
		case err != nil:
			return Build{}, err
		case major != 0 && b.Major != major:
			return Build{}, missing(major, o, []string{b.String()})
		}
		return b, nil
	}
	var others []string // of other versions
	if !o.NoSystem {
		b, more, ok := findSystem(ctx, o, major)
		if ok {
			return b, nil
		}
		others = more
	}
	if embedded, _, _ := strings.Cut(Version, "."); major != 0 && strconv.Itoa(major) != embedded {
		return Build{}, missing(major, o, others)
	}
	b, err := findEmbedded(ctx, o)
	if err != nil {
		return Build{}, fmt.Errorf("no PostgreSQL: %w; install PostgreSQL %d or later (%s) or name its directory "+
			"with --pg-bin-dir",
			err, max(major, MinMajor), installHint())
	}
	return b, nil
}

// wanted is the major version that must be found; zero if any will do.
func (o *Options) wanted() (int, error) {
	if o.DataDir == "" {
		return o.Major, nil
	}
	major, err := DataMajor(o.DataDir)
	if err != nil || major == 0 {
		return o.Major, err
	}
	if major < MinMajor {
		return 0, Setupf("data directory %s is of PostgreSQL %d: Tutti needs %d or later", o.DataDir, major, MinMajor)
	}
	return major, nil
}

// installHint is the command that most likely installs PostgreSQL here.
func installHint() string {
	if runtime.GOOS == "darwin" {
		return "`brew install postgresql@17`"
	}
	return "`apt-get install postgresql`"
}

// DefaultCacheDir is where builds are kept when Options.CacheDir is empty: below /var/cache
// for root, because the server runs as another user, else below the user's cache directory.
func DefaultCacheDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/tutti", nil
	}
	d, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory: %w", err)
	}
	return filepath.Join(d, "tutti"), nil
}

// findSystem returns the newest usable version at the known places, else the one on PATH; of a major version only, if
// that is not zero. It names those of others that it has seen.
func findSystem(ctx context.Context, o Options, major int) (best Build, others []string, ok bool) {
	globs := o.system
	if globs == nil {
		globs = systemGlobs
	}
	look := func(dir string) {
		switch b, err := Probe(ctx, dir); {
		case err != nil:
		case major != 0 && b.Major != major:
			others = append(others, b.String())
		case !ok || newer(b, best):
			best, ok = b, true
		}
	}
	for _, g := range globs {
		dirs, err := filepath.Glob(g)
		if err != nil {
			panic(fmt.Sprintf("embedded: bad pattern %q", g))
		}
		for _, d := range dirs {
			look(d)
		}
	}
	for _, d := range pathDirs(ctx) {
		if ok {
			break
		}
		look(d)
	}
	return best, others, ok
}

// newer compares by major, then by minor; a release is newer than its betas.
func newer(a, b Build) bool {
	if a.Major != b.Major {
		return a.Major > b.Major
	}
	return minor(a) > minor(b)
}

// minor is the number behind the point, -1 for a beta, a candidate or a development build.
func minor(b Build) int {
	n := -1
	if _, after, ok := strings.Cut(b.Version, "."); ok {
		if _, err := fmt.Sscanf(after, "%d", &n); err != nil {
			return -1
		}
	}
	return n
}

// pathDirs are the directories that PATH's pg_config and postgres point to.
func pathDirs(ctx context.Context) (dirs []string) {
	if pc, err := exec.LookPath("pg_config"); err == nil {
		ctx, cancel := context.WithTimeout(ctx, versionTimeout)
		defer cancel()
		if out, err := exec.CommandContext(ctx, pc, "--bindir").Output(); err == nil {
			dirs = append(dirs, strings.TrimSpace(string(out)))
		}
	}
	if pg, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(pg); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	return dirs
}
