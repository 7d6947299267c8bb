package embedded

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Options say where to look. The zero value looks on this machine, then downloads.
type Options struct {
	// BinDir, if set, is the only place looked at.
	BinDir string
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

// FindContext returns the PostgreSQL to run: o.BinDir if given; else the highest version ≥
// MinMajor installed on this machine; else the embedded build, downloaded on first use. ctx
// bounds the download. Errors say what to install or which option to set.
func FindContext(ctx context.Context, o Options) (Build, error) {
	if o.BinDir != "" {
		return Probe(ctx, o.BinDir)
	}
	if !o.NoSystem {
		if b, ok := findSystem(ctx, o); ok {
			return b, nil
		}
	}
	b, err := findEmbedded(ctx, o)
	if err != nil {
		return Build{}, fmt.Errorf("no PostgreSQL: %w; install PostgreSQL %d or later (%s) or name its directory with --pg-bin-dir",
			err, MinMajor, installHint())
	}
	return b, nil
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

// findSystem returns the highest usable version at the known places, else the one on PATH.
func findSystem(ctx context.Context, o Options) (best Build, ok bool) {
	globs := o.system
	if globs == nil {
		globs = systemGlobs
	}
	for _, g := range globs {
		dirs, err := filepath.Glob(g)
		if err != nil {
			panic(fmt.Sprintf("embedded: bad pattern %q", g))
		}
		for _, d := range dirs {
			if b, err := Probe(ctx, d); err == nil && (!ok || newer(b, best)) {
				best, ok = b, true
			}
		}
	}
	if ok {
		return best, true
	}
	for _, d := range pathDirs(ctx) {
		if b, err := Probe(ctx, d); err == nil {
			return b, true
		}
	}
	return Build{}, false
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
