package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MinMajor is the oldest PostgreSQL major version Tutti manages.
const MinMajor = 15

// versionTimeout bounds "postgres --version".
const versionTimeout = 20 * time.Second

// required names the programs a usable directory must hold.
var required = []string{"initdb", "pg_ctl", "postgres"}

// Build is one usable set of PostgreSQL binaries. The zero value is not usable.
type Build struct {
	BinDir   string // absolute directory of initdb, pg_ctl and postgres
	Version  string // as PostgreSQL prints it: "15.18", "17beta2"
	Major    int    // 15
	Embedded bool   // the pinned download, not an installation of this machine
}

// String describes the build for a banner, with the one warning a reader needs.
func (b Build) String() string {
	if b.Embedded {
		return fmt.Sprintf("PostgreSQL %s (embedded, %s; built -Os: do not benchmark on it)", b.Version, b.BinDir)
	}
	return fmt.Sprintf("PostgreSQL %s (%s)", b.Version, b.BinDir)
}

// Program is the absolute path of one of the build's programs ("postgres").
func (b Build) Program(name string) string { return filepath.Join(b.BinDir, name) }

// versionPattern reads the output of "postgres --version".
var versionPattern = regexp.MustCompile(`PostgreSQL\) ((\d+)[0-9A-Za-z.]*)`)

func parseVersion(output string) (version string, major int, err error) {
	m := versionPattern.FindStringSubmatch(output)
	if m == nil {
		return "", 0, fmt.Errorf("cannot read a version from %q", strings.TrimSpace(output))
	}
	major, err = strconv.Atoi(m[2])
	if err != nil {
		return "", 0, fmt.Errorf("cannot read a version from %q: %w", strings.TrimSpace(output), err)
	}
	return m[1], major, nil
}

// Probe checks that dir holds a usable PostgreSQL and returns it as a Build. It runs
// "postgres --version". The error says what is missing or unusable.
func Probe(ctx context.Context, dir string) (Build, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Build{}, fmt.Errorf("PostgreSQL directory %s: %w", dir, err)
	}
	for _, name := range required {
		fi, err := os.Stat(filepath.Join(abs, name))
		if err != nil {
			return Build{}, fmt.Errorf("PostgreSQL directory %s: no usable %s: %w", abs, name, err)
		}
		if !fi.Mode().IsRegular() || fi.Mode().Perm()&0o111 == 0 {
			return Build{}, fmt.Errorf("PostgreSQL directory %s: %s is not an executable file", abs, name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(abs, "postgres"), "--version").Output()
	if err != nil {
		detail := ""
		if ee := (*exec.ExitError)(nil); errors.As(err, &ee) {
			detail = ": " + strings.TrimSpace(string(ee.Stderr))
		}
		return Build{}, fmt.Errorf("PostgreSQL directory %s: postgres does not run: %w%s", abs, err, detail)
	}
	version, major, err := parseVersion(string(out))
	if err != nil {
		return Build{}, fmt.Errorf("PostgreSQL directory %s: %w", abs, err)
	}
	if major < MinMajor {
		return Build{}, fmt.Errorf("PostgreSQL directory %s: version %s is too old, need %d or later", abs, version,
			MinMajor)
	}
	return Build{BinDir: abs, Version: version, Major: major}, nil
}
