package regress

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Suite is one of PostgreSQL's suites.
type Suite struct {
	Name  string   // regress or isolation
	Files []string // in the order of its schedule
	// Groups are the same files; those of a group are meant to run beside each other.
	Groups [][]string
	Limit  time.Duration // for one file (X2)
	// dependent suites have files that use what earlier ones made.
	dependent bool
	inputs    string // pattern of a file's path, with one %s
	argv      []string
	tree      Tree
}

// isolationStep is PGISOLATIONTIMEOUT in seconds: isolationtester cancels a step that takes
// longer, and gives up at twice that.
const isolationStep = 5

// Regress is the suite of SQL files, run by psql as pg_regress runs it.
func Regress(t Tree) (Suite, error) {
	groups, err := schedule(filepath.Join(t.regress(), "parallel_schedule"))
	return Suite{
		Name: "regress", Files: slices.Concat(groups...), Groups: groups, Limit: 5 * time.Minute,
		dependent: true, tree: t,
		inputs: filepath.Join(t.regress(), "sql", "%s.sql"),
		argv:   []string{t.Programs.Program("psql"), "-X", "-a", "-q", "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on"},
	}, err
}

// Isolation is the suite of specs with several sessions.
func Isolation(t Tree) (Suite, error) {
	if _, err := os.Stat(t.Tester); err != nil {
		return Suite{}, fmt.Errorf("%w; install the distribution's package postgresql-server-dev-%d", err,
			t.Programs.Major)
	}
	groups, err := schedule(filepath.Join(t.isolation(), "isolation_schedule"))
	return Suite{
		Name: "isolation", Files: slices.Concat(groups...), Groups: groups, Limit: 2 * time.Minute, tree: t,
		inputs: filepath.Join(t.isolation(), "specs", "%s.spec"),
		argv:   []string{t.Tester, "dbname=" + database},
	}, err
}

// schedule reads the names after "test:", in order, those of a line as a group.
func schedule(path string) (groups [][]string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		if names, ok := strings.CutPrefix(line, "test:"); ok {
			groups = append(groups, strings.Fields(names))
		}
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("%s names no tests", path)
	}
	return groups, nil
}

const (
	database = "postgres"
	role     = "postgres"
)

// Arm is a server that the suites run against.
type Arm struct {
	Name string // plain or tutti
	Host string // a host name, or the directory of a unix socket
	Port int
	Dir  string // the suite's build directory, holding results, where the server may write

	Database string // empty: the first one

	// Lost, if set, reports that the server cannot go on; what runs has lostGrace to end then.
	Lost func() bool
}

// lostGrace is more than the time a COMMIT waits for a majority.
const lostGrace = 40 * time.Second

// watch calls end when the server has been lost for too long.
func (a *Arm) watch(ctx context.Context, end func()) {
	for since := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if !a.Lost() {
			since = time.Now()
		} else if time.Since(since) > lostGrace {
			end()
		}
	}
}

// environment is what pg_regress gives to its children, and nothing of ours.
func (s *Suite) environment(a *Arm, file string) []string {
	app := "pg_regress/"
	if s.Name == "isolation" {
		app = "isolation/"
	}
	return []string{
		"PATH=" + s.tree.Programs.BinDir + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + a.Dir, "LC_MESSAGES=C",
		"PGHOST=" + a.Host, fmt.Sprintf("PGPORT=%d", a.Port), "PGUSER=" + role,
		"PGDATABASE=" + cmp.Or(a.Database, database),
		"PGAPPNAME=" + app + file, "PGTZ=America/Los_Angeles", "PGDATESTYLE=Postgres, MDY",
		"PGOPTIONS=-c intervalstyle=postgres_verbose",
		"PG_ABS_SRCDIR=" + s.tree.regress(), "PG_ABS_BUILDDIR=" + a.Dir,
		"PG_LIBDIR=" + s.tree.LibDir, "PG_DLSUFFIX=.so",
		fmt.Sprintf("PGISOLATIONTIMEOUT=%d", isolationStep),
	}
}

// Output is what one file did in one arm.
type Output struct {
	Text string // standard output and error, and how the program ended if not well
	Hang bool   // it was ended at the limit
	Took time.Duration
}

// Run runs one file and waits for its end. Errors are ours, never the file's.
func (s *Suite) Run(ctx context.Context, a *Arm, file string) (Output, error) {
	in, err := os.Open(fmt.Sprintf(s.inputs, file))
	if err != nil {
		return Output{}, err
	}
	defer in.Close()
	limited, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	if a.Lost != nil {
		go a.watch(limited, cancel)
	}
	c := exec.CommandContext(limited, s.argv[0], s.argv[1:]...)
	c.Dir, c.Env, c.Stdin = a.Dir, s.environment(a, file), in
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	began := time.Now()
	err = c.Run()
	o := Output{Text: normalise(a, out.String()), Took: time.Since(began)}
	switch {
	case ctx.Err() != nil:
		return o, ctx.Err()
	case limited.Err() != nil:
		o.Hang = true
	case err != nil:
		o.Text += fmt.Sprintf("(%s)\n", err) // psql ends with 2 when its connection breaks
	}
	return o, nil
}
