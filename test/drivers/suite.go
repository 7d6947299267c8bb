package drivers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	database = "postgres"
	role     = "postgres"
)

// Suite is one project's tests.
type Suite struct {
	Name    string
	What    string // what is run, with its version
	Limit   time.Duration
	Setup   []string // statements that both arms run first, as the suite's documents ask
	Logins  []string // lines of pg_hba.conf, without the word local
	Parts   []string // what the command is given to run: packages, files, labels
	Apart   bool     // it is given them one after the other, and what became of each is kept
	fetch   func(ctx context.Context, cache string) (dir string, err error)
	command func(a *Arm, dir string) (argv, env []string) // without the parts
	parse   func(out []byte) (Outcomes, error)
	report  bool // parse gets the file that the command wrote at Arm.Report
}

// Arm is a server that a suite runs against.
type Arm struct {
	Name string // plain or tutti
	Host string
	Port int
	Dir  string // for the suite's scratch files
}

// Report is where a suite writes its report in JUnit's form.
func (a *Arm) Report() string { return filepath.Join(a.Dir, "report.xml") }

// URL is for drivers, with the role given; parameters follow a question mark.
func (a *Arm) URL(user, parameters string) string {
	return fmt.Sprintf("postgres://%s@%s:%d/%s?sslmode=disable%s", user, a.Host, a.Port, database, parameters)
}

// Keywords is the same in libpq's other form.
func (a *Arm) Keywords() string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=disable", a.Host, a.Port, role, database)
}

// environment is ours without what names a server or turns on tests, and with the arm's.
func environment(a *Arm) (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "TUTTI_") {
			env = append(env, v)
		}
	}
	return append(env, "PGHOST="+a.Host, fmt.Sprintf("PGPORT=%d", a.Port), "PGUSER="+role, "PGDATABASE="+database,
		"PGSSLMODE=disable")
}

// Run runs parts of the suite in one arm and waits for their end. A test that fails is no error.
func (s *Suite) Run(ctx context.Context, a *Arm, dir string, parts []string) (o Outcomes, out []byte, err error) {
	limited, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	if err := os.RemoveAll(a.Report()); err != nil {
		return nil, nil, err
	}
	argv, env := s.command(a, dir)
	c := exec.CommandContext(limited, argv[0], append(argv[1:], parts...)...)
	c.Dir, c.Env = dir, append(environment(a), env...)
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	err = c.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, text.Bytes(), ctx.Err()
	case limited.Err() != nil:
		fmt.Fprintf(&text, "\n(ended at the limit of %v)\n", s.Limit)
	case err != nil && !errors.As(err, &exit):
		return nil, text.Bytes(), err
	}
	from := text.Bytes()
	if s.report {
		if from, err = os.ReadFile(a.Report()); err != nil {
			return nil, text.Bytes(), fmt.Errorf("%w; the output ends with:\n%s", err, tail(text.Bytes()))
		}
	}
	o, err = s.parse(from)
	return o, text.Bytes(), err
}
