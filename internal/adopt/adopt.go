package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
)

// Options are those of tutti adopt.
type Options struct {
	Config string // a node's
	From   string // a data directory; empty: the node's own
	Conf   string // where postgresql.conf is; empty: in the data directory
	Move   bool
	DryRun bool
	Format string // table or json
}

// Exit codes.
const (
	exitRefused = 1 // something must be changed first
	exitNot     = 3 // it could not be looked at, or not carried out
)

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// ExitCode is the process's.
func (e *exitError) ExitCode() int { return e.code }

// Usage is an error of how the command was called.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitNot, err}
}

// Report is what is printed.
type Report struct {
	From       string    `json:"from"`
	To         string    `json:"to"`
	PostgreSQL string    `json:"postgresql"`
	Findings   []Finding `json:"findings"`
	Refused    int       `json:"refused"` // of the findings
	Adopted    bool      `json:"adopted"`
}

// Run surveys a data directory, prints what it finds, and adopts the directory if nothing would be lost.
func Run(ctx context.Context, o Options, w io.Writer) error {
	if o.Format != "table" && o.Format != "json" {
		return Usage(fmt.Errorf("output %q is not known: use table or json", o.Format))
	}
	c, err := config.Load(o.Config)
	if err != nil {
		return Usage(err)
	}
	r, adoption, build, err := prepare(ctx, o, c)
	if err != nil {
		return Usage(err)
	}
	for _, f := range r.Findings {
		if f.Weight == Refused {
			r.Refused++
		}
	}
	if r.Refused == 0 && !o.DryRun {
		pg := instance.New(instance.Options{Build: build, DataDir: r.To})
		if err := instance.Adopt(ctx, pg, *adoption); err != nil {
			return Usage(errors.Join(r.print(w, o), err))
		}
		r.Adopted = true
	}
	if err := r.print(w, o); err != nil {
		return Usage(err)
	}
	if r.Refused > 0 {
		return &exitError{exitRefused, fmt.Errorf("%d things must be changed first; nothing was adopted: start the "+
			"server as before, change them, stop it, and try again", r.Refused)}
	}
	return nil
}

// prepare finds out what there is to adopt, and changes nothing.
func prepare(ctx context.Context, o Options, c *config.Config) (r *Report, a *instance.Adoption, build embedded.Build,
	err error) {
	to, err := filepath.Abs(filepath.Join(c.DataDir, "postgres"))
	if err != nil {
		return nil, nil, build, err
	}
	from := to
	if o.From != "" {
		if from, err = filepath.Abs(o.From); err == nil {
			from, err = filepath.EvalSymlinks(from)
		}
		if err != nil {
			return nil, nil, build, err
		}
	}
	if err := free(c, from, to); err != nil {
		return nil, nil, build, err
	}
	if err := instance.MayAdopt(from); err != nil {
		return nil, nil, build, err
	}
	p := c.Postgres
	build, err = embedded.FindContext(ctx, embedded.Options{BinDir: p.BinDir, NoSystem: p.NoSystem, DataDir: from})
	if err != nil {
		return nil, nil, build, err
	}
	settings, err := instance.ReadSettings(from, o.Conf)
	if err != nil {
		return nil, nil, build, err
	}
	kept, left := instance.Kept(settings)
	r = &Report{From: from, To: to, PostgreSQL: build.Version, Findings: []Finding{}}
	if r.Findings, err = look(ctx, from, build, c); err != nil {
		return nil, nil, build, err
	}
	for _, name := range left {
		if _, set := p.Settings[name]; set {
			continue
		}
		r.Findings = append(r.Findings, Finding{Differs, "", "setting " + name + " = '" + settings[name] + "'",
			"the configuration is Tutti's", "put it into [postgres.settings] of all nodes, if it is needed"})
	}
	return r, &instance.Adoption{From: from, Move: o.Move, Settings: kept}, build, nil
}

// free says why the node of a configuration cannot adopt anything any more.
func free(c *config.Config, from, to string) error {
	log := filepath.Join(c.DataDir, "log")
	if _, err := os.Stat(log); err == nil {
		return fmt.Errorf("this node has begun already (there is %s): a cluster begins with a database once", log)
	}
	inside, err := os.ReadDir(to)
	switch {
	case from == to:
		return nil
	case within(from, to) || within(to, from):
		return fmt.Errorf("one of the directories %s and %s is inside the other", from, to)
	case err == nil && len(inside) > 0:
		return fmt.Errorf("this node has a database already, in %s: remove that directory, or adopt it by naming no "+
			"other", to)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

func within(dir, of string) bool { return strings.HasPrefix(dir, of+string(filepath.Separator)) }

// look surveys a data directory.
func look(ctx context.Context, from string, build embedded.Build, c *config.Config) ([]Finding, error) {
	if found, err := unended(from); err != nil || len(found) > 0 {
		return found, err
	}
	v, err := instance.NewVisit(ctx, build, from)
	if err != nil {
		return nil, err
	}
	found, err := survey(ctx, v, c)
	return found, errors.Join(err, v.Close())
}

// print prints the report.
func (r *Report) print(w io.Writer, o Options) error {
	if o.Format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if len(r.Findings) > 0 {
		fmt.Fprintln(tw, "WEIGHT\tDATABASE\tWHAT\tWHY\tDO")
	}
	for _, f := range r.Findings {
		fmt.Fprintln(tw, strings.Join([]string{string(f.Weight), f.Database, f.What, f.Why, f.Do}, "\t"))
	}
	switch {
	case r.Adopted:
		fmt.Fprintf(tw, "%s was adopted as %s (PostgreSQL %s). Start this node, and all others: those that have "+
			"nothing copy it.\n", r.From, r.To, r.PostgreSQL)
	case r.Refused == 0:
		fmt.Fprintf(tw, "%s can be adopted (PostgreSQL %s).\n", r.From, r.PostgreSQL)
	}
	return tw.Flush()
}
