package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say what to run.
type Options struct {
	// Nodes is 3 or 5.
	Nodes int
	// Seconds is how long faults are made. Start and judgement come on top.
	Seconds int
	// Seed draws the schedule of faults; zero draws a seed, which is printed.
	Seed uint64
	// Faults are the kinds to choose from; empty means all that this machine allows.
	Faults []string
	// Dir gets the cluster's files, the log of faults and the history; it must be reachable for
	// the user PostgreSQL runs as. Empty means a new temporary one.
	Dir string
	// BasePort is the first of 2 × Nodes ports in a row, and of two more where nodes join; zero takes free
	// ones. With network namespaces it has no meaning.
	BasePort int
	// Clients per node, at least the number of workloads; zero means 11.
	Clients int
	// Large has a client of each node change tens of thousands of rows at a time. On a small machine
	// that alone makes others wait.
	Large bool
	// Netns runs each node in a network namespace of its own. Needs Linux and root.
	Netns bool
	// Keep leaves all files in Dir, also after a run without problems.
	Keep bool
	// Exe is the tutti binary; empty means this process's own.
	Exe string
	// BinDir is the directory of PostgreSQL's binaries; empty: this machine's, else a download.
	BinDir string
	// GapLeader is how long clients of survivors may see no commit when a fault takes the
	// leader away, GapOther otherwise. Zero means 2 s and 0.5 s.
	GapLeader, GapOther time.Duration
	// Recover is how long after a fault's end every node must have committed again. Zero means a minute.
	Recover time.Duration
	// RSSMax bounds the resident memory of an idle node at the end, in bytes. Zero means 512 MiB.
	RSSMax int64
}

const (
	clientsMin   = 11
	gapLeader    = 2 * time.Second
	gapOther     = 500 * time.Millisecond
	rssMax       = 512 << 20
	recovers     = time.Minute
	stopTimeout  = 40 * time.Second
	readyTimeout = 2 * time.Minute
	pollInterval = 10 * time.Millisecond
)

func (o *Options) validate() error {
	if o.Nodes != 3 && o.Nodes != 5 {
		return fmt.Errorf("--nodes %d: use 3 or 5", o.Nodes)
	}
	if o.Seconds < 1 {
		return fmt.Errorf("--seconds %d: use at least 1", o.Seconds)
	}
	if o.Clients == 0 {
		o.Clients = clientsMin
	}
	if o.Clients < clientsMin {
		return fmt.Errorf("--clients %d: every node needs at least %d, one for each workload", o.Clients, clientsMin)
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&o.GapLeader, gapLeader}, {&o.GapOther, gapOther}, {&o.Recover, recovers}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if o.RSSMax == 0 {
		o.RSSMax = rssMax
	}
	if o.Exe == "" {
		var err error
		if o.Exe, err = os.Executable(); err != nil {
			return err
		}
	}
	return errors.Join(o.chooseFaults(), o.chooseDir())
}

// chooseFaults checks the list of kinds, or takes all that are possible here.
func (o *Options) chooseFaults() error {
	if len(o.Faults) == 0 {
		for _, k := range kinds {
			if k.possible(o) == nil && k.needs != needsAsking {
				o.Faults = append(o.Faults, k.name)
			}
		}
		return nil
	}
	for _, name := range o.Faults {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
		if i < 0 {
			return fmt.Errorf("--faults %s is not known: choose from %s", name, strings.Join(kindNames(), ", "))
		}
		if err := kinds[i].possible(o); err != nil {
			return fmt.Errorf("--faults %s: %w", name, err)
		}
	}
	return nil
}

// changes reports whether members come and go.
func (o *Options) changes() bool {
	return slices.ContainsFunc(o.Faults, func(name string) bool { return name == kindJoin || name == kindRemove })
}

// places are how many nodes there may be at a time.
func (o *Options) places() int {
	if o.changes() {
		return o.Nodes + 1
	}
	return o.Nodes
}

func (o *Options) chooseDir() error {
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "tutti-chaos-")
		if err != nil {
			return err
		}
		o.Dir = dir
	}
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	if left, err := filepath.Glob(filepath.Join(o.Dir, "node*")); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("--dir %s holds files of an earlier run: remove them, or choose another",
			o.Dir))
	}
	return os.Chmod(o.Dir, 0o755)
}
