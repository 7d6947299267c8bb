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

const (
	statement = 10 * time.Second // for one
	rows      = 1000
	markBytes = 50
)

// nodes are those that are measured.
type nodes struct {
	ctx     context.Context
	o       demo.Options
	cluster *demo.Cluster
	conns   []*pgconn.PgConn // by site
	n       int              // updates made
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
	x := &nodes{ctx: ctx, o: demo.Options{Nodes: len(tree) + 1, Dir: filepath.Join(dir, "nodes"), BasePort: o.BasePort,
		BinDir: o.BinDir, LogLevel: "info", Faults: filepath.Join(dir, "faults")}}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(x.o.Dir, 0o755), os.Mkdir(x.o.Faults, 0o755)); err != nil {
		return err
	}
	if x.cluster, err = demo.Start(ctx, x.o, out); err != nil {
		return err
	}
	defer x.cluster.Stop()
	if err := x.fill(); err != nil {
		return err
	}
	m := newMeasurement(x.world(waysOf(tree, o.Diameter), out), o)
	err = m.run()
	m.report.print(out)
	return errors.Join(err, m.report.write(o.JSON))
}

// write writes the report, if that is wanted.
func (r *Report) write(path string) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// world is that of these nodes.
func (x *nodes) world(ways lead.Ways, out io.Writer) world {
	return world{
		spread: func() error {
			for from, row := range ways {
				if err := rulesFor(from, row).Write(x.o.FaultsOf(from + 1)); err != nil {
					return err
				}
			}
			return nil
		},
		update: x.update,
		leader: func(ask int) (int, error) {
			status, err := x.query(ask, "SHOW tutti.status")
			return leads(status), err
		},
		kill: func(site int) error {
			node := x.cluster.Process(site + 1)
			err := syscall.Kill(-node.PID(), syscall.SIGKILL)
			node.Wait()
			return err
		},
		start:   func(site int) error { return x.cluster.Process(site + 1).Start() },
		connect: x.connect,
		digest: func(site int) (string, error) {
			got, err := x.query(site, "SELECT md5(string_agg(s::text, ',' ORDER BY t_id)) FROM sites s")
			return strings.Join(got, ""), err
		},
		now: time.Now, sleep: time.Sleep,
		say: func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) },
	}
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

// leads finds the leader among the rows of SHOW tutti.status, which are in the order of the sites; -1 if there is none.
func leads(status []string) int {
	for k, row := range status {
		if fields := strings.Split(row, "|"); len(fields) > 2 && fields[2] == "leader" {
			return k
		}
	}
	return -1
}

// connect opens the session at a site.
func (x *nodes) connect(site int) (err error) {
	ctx, cancel := context.WithTimeout(x.ctx, statement)
	defer cancel()
	x.conns[site], err = pgconn.Connect(ctx, fmt.Sprintf(
		"postgresql://postgres@%s/postgres?sslmode=disable&application_name=bench", x.cluster.Address(site+1)))
	return err
}

// query runs a statement at a site and gives the last one's rows as text, their fields joined.
func (x *nodes) query(site int, sql string) (out []string, err error) {
	ctx, cancel := context.WithTimeout(x.ctx, statement)
	defer cancel()
	results, err := x.conns[site].Exec(ctx, sql).ReadAll()
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

// fill connects with all sites and makes the paper's table.
func (x *nodes) fill() error {
	x.conns = make([]*pgconn.PgConn, x.o.Nodes)
	for k := range x.conns {
		if err := x.connect(k); err != nil {
			return err
		}
	}
	if _, err := x.query(0, fmt.Sprintf("CREATE TABLE sites(t_id int PRIMARY KEY, int_attr int, attr1 char(%d), "+
		"float_attr float8, date_attr date); "+
		"INSERT INTO sites SELECT i, 0, '', i, '2002-01-01' FROM generate_series(1, %d) i",
		markBytes, rows)); err != nil {
		return err
	}
	for k := range x.conns {
		for end := time.Now().Add(statement); ; time.Sleep(pause) {
			there, err := x.query(k, "SELECT to_regclass('sites')")
			if err != nil || time.Now().After(end) {
				return errors.Join(err, fmt.Errorf("site %d does not get the table", k+1))
			}
			if strings.Join(there, "") != "" {
				break
			}
		}
	}
	return nil
}

// update makes one at a site, as the paper's, of a row that nobody else updates at the moment.
func (x *nodes) update(site int) (time.Duration, error) {
	x.n++
	sql := fmt.Sprintf("UPDATE sites SET attr1 = 'update %d', int_attr = int_attr + 4 WHERE t_id = %d", x.n, x.n%rows+1)
	began := time.Now()
	_, err := x.query(site, sql)
	return time.Since(began), err
}
