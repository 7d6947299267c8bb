package bench

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Options are the flags of "tutti bench compare".
type Options struct {
	// Rounds is how often every server gets every load.
	Rounds int `json:"rounds"`
	// Seconds is how long one run takes.
	Seconds int `json:"seconds"`
	// Clients are the numbers of connections, over all client processes.
	Clients []int `json:"clients"`
	// Loads are names of loads, with or without hyphen, Servers of servers; empty means all.
	Loads   []string `json:"loads,omitempty"`
	Servers []string `json:"only,omitempty"`
	// Modes are the protocol modes in which every load is run: prepared, simple, extended. Sysbench has no extended
	// one.
	Modes []string `json:"modes"`
	// Scale is pgbench's: 100,000 accounts each.
	Scale int `json:"scale"`
	// Tables and TableSize are sysbench's: number of tables, rows in each.
	Tables    int `json:"tables"`
	TableSize int `json:"table_size"`
	// RandType is how sysbench chooses rows: uniform, gaussian, pareto or special (three
	// quarters of the accesses go to one row in a hundred). Special is sysbench's own default,
	// but with several writes in a transaction a single PostgreSQL then spends its time in
	// deadlocks of one second each, which flatters whatever it is compared with.
	RandType string `json:"rand_type"`
	// JSON, if set, is the file the report is written to.
	JSON string `json:"-"`
	// Profiles, if set, is the directory where the nodes' profiles of processor time are written to, node1.pprof and so on.
	Profiles string `json:"-"`
	// Dir is where the servers' directory is made; empty means /var/tmp. It should be on the
	// disk whose speed is to be measured.
	Dir string `json:"-"`
	// BasePort: the nodes listen on it and the next two, the plain server and PgBouncer on
	// the two after that.
	BasePort int `json:"-"`
	// BinDir is PostgreSQL's binaries; empty means this machine's, else a download.
	BinDir string `json:"-"`
	// Keep leaves the servers' files where they are.
	Keep bool `json:"-"`
	// Quick replaces rounds, seconds, clients, loads and sizes that have their default values
	// by the smallest sensible ones.
	Quick bool `json:"quick"`
}

// Defaults are what a full comparison runs with: about twenty minutes.
func Defaults() Options {
	return Options{
		Rounds: 3, Seconds: 5, Clients: []int{1, 8, 24}, Modes: []string{prepared}, Scale: 10, Tables: 4, TableSize: 25000,
		RandType: "uniform", BasePort: 6601,
	}
}

// quick applies Quick.
func (o *Options) quick() {
	if !o.Quick {
		return
	}
	d := Defaults()
	for _, x := range []struct {
		of       *int
		was, now int
	}{{&o.Rounds, d.Rounds, 1}, {&o.Seconds, d.Seconds, 2}, {&o.Scale, d.Scale, 1}, {&o.Tables, d.Tables, 2}, {&o.TableSize, d.TableSize, 10000}} {
		if *x.of == x.was {
			*x.of = x.now
		}
	}
	if slices.Equal(o.Clients, d.Clients) {
		o.Clients = []int{8}
	}
	if len(o.Loads) == 0 {
		o.Loads = []string{"-N", "-S"}
	}
}

func (o *Options) validate() error {
	var errs []error
	atLeastOne := func(flag string, v int) {
		if v < 1 {
			errs = append(errs, fmt.Errorf("--%s %d: use at least 1", flag, v))
		}
	}
	atLeastOne("rounds", o.Rounds)
	atLeastOne("seconds", o.Seconds)
	atLeastOne("scale", o.Scale)
	atLeastOne("tables", o.Tables)
	atLeastOne("table-size", o.TableSize)
	for _, c := range o.Clients {
		if c < 1 || c > clientsMax {
			errs = append(errs, fmt.Errorf("--clients %d: use 1 to %d", c, clientsMax))
		}
	}
	if len(o.Clients) == 0 {
		errs = append(errs, errors.New("--clients: name at least one number"))
	}
	for _, name := range o.Loads {
		if !slices.Contains(loadNames(), name) && !slices.Contains(loadNames(), "-"+name) {
			errs = append(errs, fmt.Errorf("--loads %s: known are %s", name, strings.Join(loadNames(), ", ")))
		}
	}
	for _, s := range o.Servers {
		if !slices.Contains(serverNames, s) {
			errs = append(errs, fmt.Errorf("--only %s: known are %s", s, strings.Join(serverNames, ", ")))
		}
	}
	for _, m := range o.Modes {
		if !slices.Contains(modeNames, m) {
			errs = append(errs, fmt.Errorf("--modes %s: known are %s", m, strings.Join(modeNames, ", ")))
		}
	}
	if o.Profiles != "" && len(o.Servers) > 0 && !slices.Contains(o.Servers, tutti) {
		errs = append(errs, fmt.Errorf("--profiles %s: --only leaves %s out", o.Profiles, tutti))
	}
	return errors.Join(errs...)
}

// clientsMax stays below what servers and nodes accept.
const clientsMax = 120

// directory makes the directory of all files of this comparison.
func (o *Options) directory() (string, error) {
	parent := o.Dir
	if parent == "" {
		parent = "/var/tmp" // unlike /tmp a disk, on most machines
		if _, err := os.Stat(parent); err != nil {
			parent = os.TempDir()
		}
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(parent, "tutti-bench-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) // PostgreSQL may run as another user
}
