package bench

import (
	"slices"
	"strings"
)

// Names of servers.
const (
	plain     = "plain"       // one PostgreSQL, every commit on disk
	plainLazy = "plain-async" // the same server with synchronous_commit = off
	bouncer   = "pgbouncer"   // PgBouncer in session mode before plain
	tutti     = "tutti"       // three nodes
)

var serverNames = []string{plain, plainLazy, bouncer, tutti}

// Protocol modes: how a statement reaches the server.
const (
	prepared = "prepared" // parsed once, under a name
	simple   = "simple"   // as a text with literals
	extended = "extended" // parsed each time, without a name
)

var modeNames = []string{prepared, simple, extended}

// load is one kind of work.
type load struct {
	name string
	// mode is the protocol mode, and a part of the name in a report unless it is prepared.
	mode string
	tool string // pgbench or sysbench
	// args are pgbench's, or the name of sysbench's test.
	args []string
	// servers are compared, in the order of a round. The last one is compared with each of
	// the others.
	servers []string
	// oneNode: all clients talk to the first node.
	oneNode bool
	// sampling is the share of pgbench's transactions whose latency is logged.
	sampling float64
}

// remoteLoad is the load that measures what applying remote transactions costs.
const remoteLoad = "wo"

// loads are in the order they run in: tpcb, which wears out its small tables, finds them
// fresh, and no other load needs those. The sysbench loads have an asynchronous server to
// compare with, because that is what others publish.
var loads = []load{
	{name: "tpcb", tool: "pgbench", args: []string{"-b", "tpcb-like"}, servers: []string{plain, bouncer, tutti}, sampling: 1},
	{name: "-N", tool: "pgbench", args: []string{"-N"}, servers: []string{plain, bouncer, tutti}, sampling: 1},
	{name: remoteLoad, tool: "pgbench", args: []string{"-N"}, servers: []string{plain, tutti}, oneNode: true, sampling: 1},
	{name: "-S", tool: "pgbench", args: []string{"-S"}, servers: []string{plain, bouncer, tutti}, sampling: 0.1},
	{name: "update_non_index", tool: "sysbench", servers: []string{plainLazy, tutti}},
	{name: "write_only", tool: "sysbench", servers: []string{plainLazy, tutti}},
	{name: "read_write", tool: "sysbench", servers: []string{plainLazy, tutti}},
	{name: "read_only", tool: "sysbench", servers: []string{plainLazy, tutti}},
}

func loadNames() (names []string) {
	for _, l := range loads {
		names = append(names, l.name)
	}
	return names
}

// label is the load's name in a report.
func (l *load) label() string {
	if l.mode == prepared {
		return l.name
	}
	return l.name + " " + l.mode
}

// inModes gives a load once for each mode that its generator has.
func (l load) inModes(modes []string) (out []load) {
	for _, m := range modes {
		if m == prepared || l.tool == "pgbench" && l.name != remoteLoad || l.tool == "sysbench" && m == simple {
			l.mode = m
			out = append(out, l)
		}
	}
	return out
}

// chosen lists the loads to run with the servers to run them on.
func (o *Options) chosen(available []string) (out []load) {
	for _, l := range loads {
		if len(o.Loads) > 0 && !slices.Contains(o.Loads, l.name) && !slices.Contains(o.Loads, strings.TrimPrefix(l.name, "-")) {
			continue
		}
		var servers []string
		for _, s := range l.servers {
			if slices.Contains(available, s) {
				servers = append(servers, s)
			}
		}
		if l.servers = servers; len(servers) > 0 {
			out = append(out, l.inModes(o.Modes)...)
		}
	}
	return out
}

// clientsOf is the numbers of clients a load runs with: remoteLoad is defined for one.
func (l *load) clientsOf(o *Options) []int {
	if l.name == remoteLoad {
		return []int{slices.Max(o.Clients)}
	}
	return o.Clients
}
