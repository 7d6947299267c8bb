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

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
)

// Options are those of tutti adopt.
type Options struct {
	Config string // a node's
	From   string // a data directory; empty: the node's own
	Conf   string // where postgresql.conf is; empty: in the data directory
	Server string // with DryRun: connection string of a server that runs, in the place of a directory
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
	var r *Report
	var adoption *instance.Adoption
	var build embedded.Build
	if o.Server == "" {
		r, adoption, build, err = prepare(ctx, o, c)
	} else {
		r, err = ahead(ctx, o, c)
	}
	if err != nil {
		return Usage(err)
	}
	r.count()
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

// count counts what is refused.
func (r *Report) count() {
	for _, f := range r.Findings {
		if f.Weight == Refused {
			r.Refused++
		}
	}
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
	r.Findings = append(r.Findings, ofSettings(left, settings, c)...)
	return r, &instance.Adoption{From: from, Move: o.Move, Settings: kept}, build, nil
}

// ahead surveys a server that runs, before anybody stops it.
func ahead(ctx context.Context, o Options, c *config.Config) (*Report, error) {
	if !o.DryRun || o.From != "" || o.Move || o.Conf != "" {
		return nil, errors.New("a server that runs can only be looked at: --server goes with --dry-run, and with no " +
			"directory")
	}
	cfg, err := pgx.ParseConfig(o.Server)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["default_transaction_read_only"] = "on"
	reach := func(ctx context.Context, database string) (*pgx.Conn, error) {
		cfg := cfg.Copy()
		cfg.Database = database
		return pgx.ConnectConfig(ctx, cfg)
	}
	conn, err := reach(ctx, "template1")
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	r := &Report{From: fmt.Sprintf("%s:%d", cfg.Host, cfg.Port), To: filepath.Join(c.DataDir, "postgres")}
	var major int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version'), "+
		"current_setting('server_version_num')::int / 10000").Scan(&r.PostgreSQL, &major); err != nil {
		return nil, err
	}
	where := embedded.Options{BinDir: c.Postgres.BinDir, NoSystem: c.Postgres.NoSystem, Major: major}
	if _, err := embedded.FindContext(ctx, where); err != nil {
		return nil, err
	}
	if r.Findings, err = survey(ctx, reach, c); err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, "SELECT name, current_setting(name) FROM pg_settings WHERE source IN "+
		"('configuration file', 'command line')")
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		settings[strings.ToLower(name)] = value
		return nil
	}); err != nil {
		return nil, err
	}
	_, left := instance.Kept(settings)
	r.Findings = append(r.Findings, ofSettings(left, settings, c)...)
	return r, nil
}

// ofSettings are the settings of before that a node's configuration does not have.
func ofSettings(left []string, settings map[string]string, c *config.Config) (found []Finding) {
	for _, name := range left {
		if _, set := c.Postgres.Settings[name]; !set {
			found = append(found, Finding{Differs, "", "setting " + name + " = '" + settings[name] + "'",
				"the configuration is Tutti's", "put it into [postgres.settings] of all nodes, if it is needed"})
		}
	}
	return found
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
	found, err := survey(ctx, func(ctx context.Context, database string) (*pgx.Conn, error) {
		return pgx.Connect(ctx, v.ConnString(database))
	}, c)
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
		when := ""
		if o.Server != "" {
			when = ", once it is stopped"
		}
		fmt.Fprintf(tw, "%s can be adopted (PostgreSQL %s)%s.\n", r.From, r.PostgreSQL, when)
	}
	return tw.Flush()
}
