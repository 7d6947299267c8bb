package regress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// Tree is PostgreSQL's unpacked source, with what was compiled from it.
type Tree struct {
	Source   string // the root of the source
	LibDir   string // holds regress.so, refint.so and autoinc.so
	Tester   string // isolationtester
	Programs embedded.Build
}

func (t Tree) regress() string   { return filepath.Join(t.Source, "src", "test", "regress") }
func (t Tree) isolation() string { return filepath.Join(t.Source, "src", "test", "isolation") }

// Present finds the source for b, and compiles regress.so beside the cache. source names an
// existing tree; if it is empty, the cache must have one.
func Present(ctx context.Context, b embedded.Build, source string) (Tree, error) {
	cache, err := embedded.DefaultCacheDir()
	if err != nil {
		return Tree{}, err
	}
	t := Tree{Source: source, Programs: b, LibDir: filepath.Join(cache, "regress-lib-"+b.Version)}
	if t.Source == "" {
		if t.Source, err = cached(cache, b.Major); err != nil {
			return Tree{}, err
		}
	}
	if _, err := os.Stat(filepath.Join(t.regress(), "parallel_schedule")); err != nil {
		return Tree{}, fmt.Errorf("%s is not a source tree of PostgreSQL: %w", t.Source, err)
	}
	if _, err := os.Stat(b.Program("psql")); err != nil {
		return Tree{}, fmt.Errorf("the suites need psql of the same build: %w; install the distribution's packages "+
			"postgresql-%d and postgresql-server-dev-%d", err, b.Major, b.Major)
	}
	return t, t.compile(ctx)
}

// Prepare is Present that fetches the source if the cache has none (X5).
func Prepare(ctx context.Context, b embedded.Build, source string) (Tree, error) {
	cache, err := embedded.DefaultCacheDir()
	if err != nil {
		return Tree{}, err
	}
	if _, err := cached(cache, b.Major); source == "" && err != nil {
		if err := fetch(ctx, sourceDir(cache, b.Major), b.Major); err != nil {
			return Tree{}, err
		}
	}
	return Present(ctx, b, source)
}

func sourceDir(cache string, major int) string {
	return filepath.Join(cache, fmt.Sprintf("source-%d", major))
}

// cached is the newest unpacked source of this major version in the cache. Its minor version
// may be another one than that of the binaries, which changes both arms alike.
func cached(cache string, major int) (string, error) {
	dir := sourceDir(cache, major)
	found, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("postgresql-%d-%d.*", major, major)))
	if err != nil {
		return "", err
	}
	for i := len(found) - 1; i >= 0; i-- {
		if fi, err := os.Stat(found[i]); err == nil && fi.IsDir() {
			return found[i], nil
		}
	}
	return "", fmt.Errorf("%s has no source of PostgreSQL %d", dir, major)
}

// fetch lets apt-get download and unpack the source package into dir, with lists of its own:
// the machine's sources of packages need not name the archive's sources.
func fetch(ctx context.Context, dir string, major int) error {
	lists := filepath.Join(dir, "lists", "partial")
	if err := os.MkdirAll(lists, 0o755); err != nil {
		return err
	}
	lines, err := sourceLines()
	if err != nil {
		return err
	}
	list := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(list, []byte(lines), 0o644); err != nil {
		return err
	}
	options := []string{"-o", "Dir::Etc::SourceList=" + list, "-o", "Dir::Etc::SourceParts=-", "-o",
		"Dir::State::Lists=" + filepath.Dir(lists), "-o", "APT::Sandbox::User=root"}
	apt := func(program string, args ...string) (string, error) {
		c := exec.CommandContext(ctx, program, append(options, args...)...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
		}
		return string(out), nil
	}
	if _, err := apt("apt-get", "update"); err != nil {
		return err
	}
	name := fmt.Sprintf("postgresql-%d", major)
	shown, err := apt("apt-cache", "showsrc", "--only-source", name)
	if err != nil {
		return err
	}
	// An archive may list a version whose files it has no more, so each is tried.
	errs := []error{fmt.Errorf("no source of %s can be fetched; unpack one and set TUTTI_PG_SOURCE", name)}
	for _, version := range versions(shown) {
		if _, err = apt("apt-get", "source", name+"="+version); err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// versions reads the versions out of what apt-cache showsrc prints, in its order: newest first.
func versions(shown string) (out []string) {
	for line := range strings.Lines(shown) {
		if v, ok := strings.CutPrefix(line, "Version: "); ok && !slices.Contains(out, strings.TrimSpace(v)) {
			out = append(out, strings.TrimSpace(v))
		}
	}
	return out
}

// sourceLines turns the machine's deb lines into deb-src lines.
func sourceLines() (string, error) {
	out, err := exec.Command("apt-get", "indextargets", "--format", "deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)",
		"Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("the source is fetched with apt-get, which did not work: %w; unpack PostgreSQL's "+
			"source and set TUTTI_PG_SOURCE", err)
	}
	seen := map[string]bool{}
	var lines strings.Builder
	for line := range strings.Lines(string(out)) {
		if !seen[line] {
			seen[line] = true
			lines.WriteString(line)
		}
	}
	return lines.String(), nil
}

// compile makes regress.so, and copies the two libraries of contrib that the suite loads from
// the same directory. What is there already is kept.
func (t *Tree) compile(ctx context.Context) error {
	config := func(what string) (string, error) {
		out, err := exec.CommandContext(ctx, t.Programs.Program("pg_config"), what).Output()
		if err != nil {
			return "", fmt.Errorf("pg_config: %w; install the distribution's package postgresql-server-dev-%d", err,
				t.Programs.Major)
		}
		return strings.TrimSpace(string(out)), nil
	}
	headers, err := config("--includedir-server")
	if err != nil {
		return err
	}
	libraries, err := config("--pkglibdir")
	if err != nil {
		return err
	}
	t.Tester = filepath.Join(libraries, "pgxs", "src", "test", "isolation", "isolationtester")
	if err := os.MkdirAll(t.LibDir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"refint.so", "autoinc.so"} {
		if err := copyFile(filepath.Join(libraries, name), filepath.Join(t.LibDir, name)); err != nil {
			return err
		}
	}
	library := filepath.Join(t.LibDir, "regress.so")
	if _, err := os.Stat(library); err == nil {
		return nil
	}
	out, err := exec.CommandContext(ctx, "cc", "-O1", "-fPIC", "-shared", "-D_GNU_SOURCE", "-I"+headers,
		filepath.Join(t.regress(), "regress.c"), "-o", library).CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("compiling regress.so: %w\n%s", err, out), os.RemoveAll(library))
	}
	return nil
}

func copyFile(from, to string) (err error) {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
