package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// comparison is one being made.
type comparison struct {
	o       Options
	out     io.Writer
	tools   tools
	loads   []load
	servers *servers
	cpu     bool
	filled  map[string]bool // server and tool: its tables are there
	report  Report
}

// Compare runs the comparison: progress and tables go to out. An error of single runs is
// returned at the end; what was measured until then is in the report all the same.
func Compare(ctx context.Context, o Options, out io.Writer) (err error) {
	o.quick()
	if err := o.validate(); err != nil {
		return err
	}
	c := &comparison{o: o, out: out, filled: map[string]bool{}}
	c.report = Report{Started: time.Now(), Options: o, Machine: machine(), Settings: map[string]map[string]string{}}
	build, err := embedded.FindContext(ctx, embedded.Options{BinDir: o.BinDir})
	if err != nil {
		return err
	}
	c.tools = findTools(build)
	names, missing := o.available(c.tools)
	c.report.Missing = missing
	c.loads, missing = withTools(o.chosen(names), c.tools)
	c.report.Missing = append(c.report.Missing, missing...)
	if err := procWorks(); err != nil {
		c.report.Missing = append(c.report.Missing, "CPU times cannot be read here: "+err.Error())
	} else {
		c.cpu = true
	}
	if len(c.loads) == 0 {
		return errors.New("nothing to compare: " + strings.Join(c.report.Missing, "; "))
	}
	c.report.Versions = versions(ctx, build, c.tools)
	dir, err := o.directory()
	if err != nil {
		return err
	}
	c.servers = &servers{dir: dir, build: build, all: map[string]*server{}, profiles: o.Profiles}
	defer func() {
		c.servers.stop()
		if o.Keep {
			fmt.Fprintln(out, "files are kept in", dir)
		} else {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	return c.run(ctx)
}

// run starts the servers, measures, and prints what was found, also when it is broken off.
func (c *comparison) run(ctx context.Context) error {
	c.announce()
	if err := c.start(ctx); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return err
	}
	err := c.measureAll(ctx)
	c.report.Seconds = time.Since(c.report.Started).Seconds()
	c.report.summarize()
	c.report.print(c.out)
	if c.o.JSON != "" {
		err = errors.Join(err, c.report.write(c.o.JSON))
	}
	return err
}

// wanted reports whether any load needs a server.
func (c *comparison) wanted(names ...string) bool {
	return slices.ContainsFunc(c.loads, func(l load) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(l.servers, n) })
	})
}

func (c *comparison) start(ctx context.Context) (err error) {
	if c.report.Machine.FsyncUs, err = fsyncTime(c.servers.dir); err != nil {
		return err
	}
	port := c.o.BasePort + nodes
	if c.wanted(plain, plainLazy, bouncer) {
		fmt.Fprintln(c.out, "starting PostgreSQL", c.servers.build.Version)
		if err := c.servers.startPlain(ctx, port, c.cpu); err != nil {
			return err
		}
	}
	if c.wanted(bouncer) {
		fmt.Fprintln(c.out, "starting PgBouncer")
		if err := c.servers.startBouncer(ctx, c.tools.pgbouncer, port, port+1); err != nil {
			return err
		}
	}
	if c.wanted(tutti) {
		fmt.Fprintf(c.out, "starting %d nodes of Tutti\n", nodes)
		if err := c.servers.startTutti(ctx, c.o.BasePort, c.cpu); err != nil {
			return err
		}
	}
	return c.readSettings(ctx)
}

// measureAll goes through loads, numbers of clients, rounds, modes and servers.
func (c *comparison) measureAll(ctx context.Context) error {
	var errs []error
	for of := c.loads; len(of) > 0; {
		n := 1
		for n < len(of) && of[n].name == of[0].name {
			n++
		}
		if err := c.measureModes(ctx, of[:n], &errs); err != nil {
			return err
		}
		of = of[n:]
	}
	return errors.Join(errs...)
}

// measureModes measures one load, which is given once for each mode. What fails in single runs is added to errs.
func (c *comparison) measureModes(ctx context.Context, modes []load, errs *[]error) error {
	for _, name := range modes[0].servers {
		if err := c.fill(ctx, &modes[0], name); err != nil {
			return fmt.Errorf("filling %s for %s: %w", name, modes[0].name, err)
		}
	}
	for _, clients := range modes[0].clientsOf(&c.o) {
		for round := 1; round <= c.o.Rounds; round++ {
			for i := range modes {
				if err := c.measureServers(ctx, &modes[i], clients, round, errs); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measureServers is one round of a load at all of its servers.
func (c *comparison) measureServers(ctx context.Context, l *load, clients, round int, errs *[]error) error {
	for _, name := range l.servers {
		r, err := c.measure(ctx, l, c.servers.all[name], clients, round)
		if ctx.Err() != nil {
			return errors.Join(append(*errs, context.Cause(ctx))...)
		}
		if err != nil {
			r.Error = err.Error()
			*errs = append(*errs, fmt.Errorf("%s with %d clients on %s: %w", l.label(), clients, name, err))
		}
		c.report.Runs = append(c.report.Runs, r)
		c.progress(&r)
	}
	return nil
}

// fill makes a load's data on a server unless it is there. PgBouncer and plain share theirs.
func (c *comparison) fill(ctx context.Context, l *load, name string) error {
	if name == bouncer {
		name = plain
	}
	s := c.servers.all[name]
	key := name + " " + l.tool
	if c.filled[key] {
		return nil
	}
	c.filled[key] = true
	began := time.Now()
	fmt.Fprintf(c.out, "filling %s for %s", name, l.tool)
	fill := c.fillPgbench
	if l.tool == "sysbench" {
		fill = c.fillSysbench
	}
	err := fill(ctx, s)
	fmt.Fprintf(c.out, ": %.1f s\n", time.Since(began).Seconds())
	return err
}

func (c *comparison) sysbench() sysbench {
	return sysbench{c.tools.sysbench, c.o.Tables, c.o.TableSize, c.o.RandType}
}

func (c *comparison) toolOf(l *load) tool {
	if l.tool == "sysbench" {
		return c.sysbench()
	}
	return pgbench{c.tools.pgbench}
}

// measure is one run.
func (c *comparison) measure(ctx context.Context, l *load, s *server, clients, round int) (Run, error) {
	r := Run{Load: l.label(), Clients: clients, Server: s.name, Round: round}
	dir, err := os.MkdirTemp(c.servers.dir, "clients-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir) // with the servers' files at the latest
	cs := spread(clients, l, s)
	for i := range cs {
		cs[i].seconds, cs[i].dir = c.o.Seconds, dir
		cs[i].seed = 1000*clients + 10*round + i + 1 // the same for every server (B2)
	}
	m := &meter{s: s, cpu: c.cpu, major: c.servers.build.Major}
	before, err := m.read(ctx)
	if err != nil {
		return r, err
	}
	idle, err := m.machine()
	if err != nil {
		return r, err
	}
	watch, stopWatching := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() { m.sample(watch); close(watching) }()
	o, err := runClients(ctx, c.toolOf(l), l, cs)
	ended := time.Now()
	if err == nil {
		err = s.drain(ctx)
	}
	r.CatchUpMs = float64(time.Since(ended).Microseconds()) / 1000
	stopWatching()
	<-watching
	if err != nil {
		return r, err
	}
	if err := s.clientsGone(ctx); err != nil {
		return r, err
	}
	after, err := m.read(ctx)
	if err != nil {
		return r, err
	}
	busy, err := m.machine()
	if err != nil {
		return r, err
	}
	if o.transactions == 0 {
		return r, errors.New("not one transaction was done")
	}
	r.fill(o, s, before, after, c.cpu)
	r.others(idle, busy)
	return r, nil
}

// fill computes a run's figures.
func (r *Run) fill(o outcome, s *server, before, after []reading, cpu bool) {
	n := float64(o.transactions)
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / n }
	r.Transactions, r.TPS, r.MeanMs, r.P95Ms = o.transactions, o.tps, o.meanMs, percentile(o.latencies, 0.95)
	r.Aborts, r.Failed = o.aborts, o.failed
	r.AbortShare = float64(o.aborts) / float64(o.aborts+o.transactions)
	if cpu {
		r.CPU = &CPU{Client: each(o.cpu)}
	}
	var lost uint64
	for i := range after {
		d := after[i].sub(&before[i])
		m := Member{Name: s.databases[i].name, Sessions: each(d.sessions), Applier: each(d.applier), Helpers: each(d.helpers),
			Middleware: each(d.middleware), WALSyncs: float64(d.walSyncs) / n, LogSyncs: float64(d.counters["fsyncs"]) / n, Counters: d.counters}
		r.Members = append(r.Members, m)
		r.Fsyncs += (m.WALSyncs + m.LogSyncs) / float64(len(after))
		if cpu {
			r.CPU.Database += each(d.total)
			r.CPU.Middleware += m.Middleware
			r.CPU.Applying += m.Applier
		}
		lost += d.counters["aborted"]
	}
	r.LostShare = float64(lost) / (float64(lost) + n)
}

// others computes how much of the machine went to processes that do not belong to the run.
func (r *Run) others(before, after machineTimes) {
	if r.CPU == nil || after.all <= before.all {
		return
	}
	us := (r.CPU.Database + r.CPU.Middleware + r.CPU.Client) * float64(r.Transactions)
	ours := time.Duration(us * float64(time.Microsecond))
	r.OthersShare = max(0, float64(after.busy-before.busy-ours)/float64(after.all-before.all))
}
