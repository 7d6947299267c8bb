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
	Rounds int
	// Seconds is how long one run takes.
	Seconds int
	// Clients are the numbers of connections, over all client processes.
	Clients []int
	// Loads are names of loads, Servers of servers; empty means all.
	Loads, Servers []string
	// Scale is pgbench's: 100,000 accounts each.
	Scale int
	// Tables and TableSize are sysbench's: number of tables, rows in each.
	Tables, TableSize int
	// RandType is how sysbench chooses rows: special (its default: three quarters of the
	// accesses go to one row in a hundred), uniform, gaussian or pareto.
	RandType string
	// JSON, if set, is the file the report is written to.
	JSON string
	// Dir is where the servers' directory is made; empty means /var/tmp. It should be on the
	// disk whose speed is to be measured.
	Dir string
	// BasePort: the nodes listen on it and the next two, the plain server and PgBouncer on
	// the two after that.
	BasePort int
	// BinDir is PostgreSQL's binaries; empty means this machine's, else a download.
	BinDir string
	// Keep leaves the servers' files where they are.
	Keep bool
	// Quick replaces rounds, seconds, clients, loads and sizes by the smallest sensible.
	Quick bool
}

// Defaults are what a full comparison runs with: about twenty minutes.
func Defaults() Options {
	return Options{
		Rounds: 3, Seconds: 5, Clients: []int{1, 8, 24}, Scale: 10, Tables: 4, TableSize: 25000, RandType: "special", BasePort: 6601,
	}
}

// quick applies Quick.
func (o *Options) quick() {
	if !o.Quick {
		return
	}
	o.Rounds, o.Seconds, o.Clients, o.Scale, o.Tables, o.TableSize = 1, 2, []int{8}, 1, 2, 2000
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
	for i, name := range o.Loads {
		if o.Loads[i] = "-" + name; !slices.ContainsFunc(loads, func(l load) bool { return l.name == o.Loads[i] }) {
			o.Loads[i] = name
		}
		if !slices.ContainsFunc(loads, func(l load) bool { return l.name == o.Loads[i] }) {
			errs = append(errs, fmt.Errorf("--loads %s: known are %s", name, strings.Join(loadNames(), ", ")))
		}
	}
	for _, s := range o.Servers {
		if !slices.Contains(serverNames, s) {
			errs = append(errs, fmt.Errorf("--only %s: known are %s", s, strings.Join(serverNames, ", ")))
		}
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
