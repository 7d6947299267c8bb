package sites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/demo"
	"github.com/tuttidb/tutti/internal/fault"
	"github.com/tuttidb/tutti/internal/lead"
)

// Options are the flags of "tutti bench sites".
type Options struct {
	// Diameter is how far the sites at both ends are apart, each way, in milliseconds.
	Diameter int
	// Updates are made at each site for each median.
	Updates int
	// JSON, if set, is the file the report is written to.
	JSON string
	// Dir is where the nodes' directory is made; empty means /var/tmp. BasePort is the first node's for clients.
	Dir      string
	BasePort int
	BinDir   string // PostgreSQL's binaries; empty means this machine's, else a download
}

// Defaults are the paper's diameter, and some minutes.
func Defaults() Options { return Options{Diameter: paperDiameter, Updates: 25, BasePort: 6651} }

func (o *Options) validate() error {
	var errs []error
	if o.Diameter < 1 || o.Diameter > 1000 {
		errs = append(errs, fmt.Errorf("--diameter %d: use 1 to 1000", o.Diameter))
	}
	if o.Updates < 1 || o.Updates > 1000 {
		errs = append(errs, fmt.Errorf("--updates %d: use 1 to 1000", o.Updates))
	}
	return errors.Join(errs...)
}

const (
	settleMax  = 3 * time.Minute // for the lead to come to rest where nobody writes
	moveMax    = time.Minute     // for it to follow a writer
	awayTime   = 20 * time.Second
	backMax    = 2 * time.Minute
	pause      = 50 * time.Millisecond // between two updates
	statement  = 10 * time.Second      // for one
	rows       = 1000
	triesMax   = 5 // of a measurement during which the lead moved
	markLength = 50
)

// run is a measurement being made.
type run struct {
	o       Options
	out     io.Writer
	nodes   demo.Options
	cluster *demo.Cluster
	ways    lead.Ways
	conns   []*pgconn.PgConn // by site; nil: it is lost
	n       int              // updates made
	report  Report
}

// Run measures; progress and the result go to out.
func Run(ctx context.Context, o Options, out io.Writer) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	if o.Dir == "" {
		o.Dir = "/var/tmp" // unlike /tmp a disk, on most machines
	}
	dir, err := os.MkdirTemp(o.Dir, "tutti-sites-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL may run as another user
		return err
	}
	faults := filepath.Join(dir, "faults")
	if err := os.Mkdir(faults, 0o755); err != nil {
		return err
	}
	r := &run{o: o, out: out, ways: waysOf(tree, o.Diameter)}
	r.nodes = demo.Options{Nodes: len(r.ways), Dir: filepath.Join(dir, "nodes"), BasePort: o.BasePort, BinDir: o.BinDir,
		LogLevel: "info", Faults: faults}
	r.report = Report{Started: time.Now(), Diameter: o.Diameter, Ways: r.ways, Paper: paperMs}
	if err := os.Mkdir(r.nodes.Dir, 0o755); err != nil {
		return err
	}
	if r.cluster, err = demo.Start(ctx, r.nodes, out); err != nil {
		return err
	}
	defer r.cluster.Stop()
	err = r.measure(ctx)
	r.report.print(out)
	return errors.Join(err, r.write())
}

// write writes the report, if that is wanted.
func (r *run) write() error {
	if r.o.JSON == "" {
		return nil
	}
	b, err := json.MarshalIndent(r.report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.o.JSON, append(b, '\n'), 0o644)
}

// measure goes through all of it.
func (r *run) measure(ctx context.Context) error {
	for k := range r.ways {
		c, err := r.connect(ctx, k)
		if err != nil {
			return err
		}
		r.conns = append(r.conns, c)
	}
	if err := r.fill(ctx); err != nil {
		return err
	}
	near, err := r.turns(ctx, r.o.Updates)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		r.spread, r.settle, func(ctx context.Context) error { return r.idle(ctx, near) }, r.move, r.lose,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// connect opens a session at a site.
func (r *run) connect(ctx context.Context, site int) (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(ctx, statement)
	defer cancel()
	return pgconn.Connect(ctx, fmt.Sprintf("postgresql://postgres@%s/postgres?sslmode=disable&application_name=bench",
		r.cluster.Address(site+1)))
}

// query runs a statement and gives its rows as text, their fields joined.
func query(ctx context.Context, c *pgconn.PgConn, sql string) (out []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, statement)
	defer cancel()
	results, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	for _, row := range results[len(results)-1].Rows {
		var fields []string
		for _, v := range row {
			fields = append(fields, string(v))
		}
		out = append(out, strings.Join(fields, "|"))
	}
	return out, nil
}

// fill makes the paper's table.
func (r *run) fill(ctx context.Context) error {
	_, err := query(ctx, r.conns[0], fmt.Sprintf("CREATE TABLE sites(t_id int PRIMARY KEY, int_attr int, attr1 char(%d), "+
		"float_attr float8, date_attr date); INSERT INTO sites SELECT i, 0, '', i, '2002-01-01' FROM generate_series(1, %d) i",
		markLength, rows))
	for _, c := range r.conns {
		for end := time.Now().Add(statement); err == nil && time.Now().Before(end); time.Sleep(pause) {
			var there []string
			if there, err = query(ctx, c, "SELECT to_regclass('sites') IS NOT NULL"); len(there) == 1 && there[0] == "t" {
				break
			}
		}
	}
	return err
}

// update makes one at a site, as the paper's, of a row that nobody else updates at the moment.
func (r *run) update(ctx context.Context, site int) (time.Duration, error) {
	r.n++
	sql := fmt.Sprintf("UPDATE sites SET attr1 = 'update %d', int_attr = int_attr + 4 WHERE t_id = %d", r.n, r.n%rows+1)
	began := time.Now()
	_, err := query(ctx, r.conns[site], sql)
	return time.Since(began), err
}

// turns has all sites that are there make so many updates in turn, and gives what they took, by site (BS2).
func (r *run) turns(ctx context.Context, n int) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(r.conns))
	for range n {
		for k, c := range r.conns {
			if c == nil {
				continue
			}
			d, err := r.update(ctx, k)
			if err != nil {
				return nil, fmt.Errorf("site %d: %w", k+1, err)
			}
			took[k] = append(took[k], d)
			time.Sleep(pause)
		}
	}
	return took, nil
}

// leader is the site that leads; -1 if none does.
func (r *run) leader(ctx context.Context) (int, error) {
	for _, c := range r.conns {
		if c != nil {
			status, err := query(ctx, c, "SHOW tutti.status")
			return leads(status), err
		}
	}
	return -1, nil
}

// leads finds the leader among the rows of SHOW tutti.status, which are in the order of the sites.
func leads(status []string) int {
	for k, row := range status {
		if fields := strings.Split(row, "|"); len(fields) > 2 && fields[2] == "leader" {
			return k
		}
	}
	return -1
}

// spread has the sites be far from each other from now on.
func (r *run) spread(context.Context) error {
	for from, row := range r.ways {
		if err := rulesFor(from, row).Write(r.nodes.FaultsOf(from + 1)); err != nil {
			return err
		}
	}
	return nil
}

// rulesFor are a site's faults: for how long its frames travel.
func rulesFor(site int, ways []int64) fault.Rules {
	f := fault.Rules{Delay: map[uint32]int{}}
	for to, ms := range ways {
		if to != site {
			f.Delay[uint32(to)+1] = int(ms)
		}
	}
	return f
}

// until asks again and again who leads, with do before each time, until it is this one; false if that takes too long.
func (r *run) until(ctx context.Context, leader int, long time.Duration, do func() error) (bool, error) {
	for end := time.Now().Add(long); time.Now().Before(end); {
		if err := do(); err != nil {
			return false, err
		}
		now, err := r.leader(ctx)
		if err != nil || now == leader {
			return err == nil, err
		}
	}
	return false, nil
}

// settle waits until the lead has come to rest where all need least.
func (r *run) settle(ctx context.Context) error {
	began, every := time.Now(), []int(nil)
	for k := range r.ways {
		every = append(every, k)
	}
	best := bestFor(r.ways, every...)
	is, err := r.until(ctx, best, settleMax, func() error { time.Sleep(time.Second); return nil })
	r.report.Settled = time.Since(began).Seconds()
	r.say("after %.0f s: site %d leads, where updates of all need least: %v", r.report.Settled, best+1, is)
	return err
}

// idle measures updates of all sites, one at a time. Near is what they took when nothing was far.
func (r *run) idle(ctx context.Context, near [][]time.Duration) error {
	for range triesMax {
		before, err := r.leader(ctx)
		if err != nil {
			return err
		}
		took, err := r.turns(ctx, r.o.Updates)
		if err != nil {
			return err
		}
		var sites []At
		if after, err := r.leader(ctx); err != nil || after != before || before < 0 {
			continue // BS1
		}
		for k := range r.ways {
			sites = append(sites, at(k, floor(r.ways, before, k), near[k], took[k]))
		}
		r.report.Idle = measured(before, sites)
		return nil
	}
	return errors.New("the lead does not come to rest")
}

// move has only one site write, until the lead has followed.
func (r *run) move(ctx context.Context) error {
	from := r.report.Idle.Leader - 1
	site := mover(r.ways, from)
	m := Moved{Site: site + 1, From: from + 1, To: bestFor(r.ways, site) + 1}
	updates := func(leader int) (At, error) {
		var took []time.Duration
		for range r.o.Updates {
			d, err := r.update(ctx, site)
			if err != nil {
				return At{}, err
			}
			took = append(took, d)
			if now, err := r.leader(ctx); err != nil || now != leader {
				break
			}
		}
		return at(site, floor(r.ways, leader, site), nil, took), nil
	}
	began := time.Now()
	var err error
	if m.Before, err = updates(from); err != nil {
		return err
	}
	is, err := r.until(ctx, m.To-1, moveMax, func() error { _, err := r.update(ctx, site); return err })
	if err != nil {
		return err
	}
	if is {
		m.Seconds = time.Since(began).Seconds()
		m.After, err = updates(m.To - 1)
	}
	r.report.Moved = m
	return err
}

// lose kills the site that leads, has the others go on, starts it again and waits until it takes part.
func (r *run) lose(ctx context.Context) error {
	site, err := r.leader(ctx)
	if err != nil || site < 0 {
		return errors.Join(errors.New("no site leads"), err)
	}
	l := &r.report.Lost
	l.Site, l.Led = site+1, true
	node := r.cluster.Process(site + 1)
	r.say("site %d is killed", l.Site)
	if err := syscall.Kill(-node.PID(), syscall.SIGKILL); err != nil {
		return err
	}
	r.conns[site] = nil
	var took []time.Duration
	for end := time.Now().Add(awayTime); time.Now().Before(end); {
		round, err := r.turns(ctx, 1)
		if err != nil {
			return err
		}
		for _, d := range round {
			took = append(took, d...)
		}
	}
	l.Updates, l.Median = len(took), ms(median(took))
	for _, d := range took {
		l.Longest = max(l.Longest, ms(d))
	}
	node.Wait()
	r.say("site %d is started again", l.Site)
	if err := node.Start(); err != nil {
		return err
	}
	if l.Back, err = r.back(ctx, site); err != nil {
		return err
	}
	l.Equal, err = r.equal(ctx)
	return err
}

// back waits until a site makes an update again, and gives how many seconds that took.
func (r *run) back(ctx context.Context, site int) (float64, error) {
	began := time.Now()
	for time.Since(began) < backMax {
		time.Sleep(pause)
		c, err := r.connect(ctx, site)
		if err != nil {
			continue
		}
		r.conns[site] = c
		if _, err := r.update(ctx, site); err == nil {
			return time.Since(began).Seconds(), nil
		}
	}
	return 0, fmt.Errorf("site %d is not back after %v", site+1, backMax)
}

// equal compares the databases, once all have everything.
func (r *run) equal(ctx context.Context) (is bool, err error) {
	for end := time.Now().Add(statement); !is && err == nil && time.Now().Before(end); time.Sleep(pause) {
		first := ""
		is = true
		for k, c := range r.conns {
			var got []string
			if got, err = query(ctx, c, "SELECT md5(string_agg(s::text, ',' ORDER BY t_id)) FROM sites s"); err != nil {
				break
			}
			if k == 0 {
				first = got[0]
			}
			is = is && got[0] == first
		}
	}
	return is, err
}
