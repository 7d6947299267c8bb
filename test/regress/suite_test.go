package regress

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/test/cluster"
)

var (
	outFlag   = flag.String("out", "", "directory for outputs and differences")
	filesFlag = flag.String("files", "", "run only these files, with commas")
	checkFlag = flag.Bool("check-each", false, "compare the members after each file")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := cluster.Clean(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// settings are what pg_regress gives to a server of its own, and what keeps runs alike.
var settings = map[string]string{
	"shared_buffers": "128MB", "max_connections": "200", "max_prepared_transactions": "10",
	"lc_messages": "C", "lc_monetary": "C", "lc_numeric": "C", "lc_time": "C",
	"fsync": "off", "full_page_writes": "off", "autovacuum_naptime": "1h",
	"log_min_messages": "warning", "log_min_error_statement": "panic",
	"synchronous_commit": "off", "max_wal_senders": "4", "max_replication_slots": "10",
}

func TestSuite(t *testing.T) {
	names := os.Getenv("TUTTI_REGRESS")
	if names == "" {
		t.Skip("TUTTI_REGRESS is not set: regress, isolation or both")
	}
	build, err := embedded.Find(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Prepare(t.Context(), build, os.Getenv("TUTTI_PG_SOURCE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Split(names, ",") {
		t.Run(name, func(t *testing.T) {
			s, err := map[string]func(Tree) (Suite, error){"regress": Regress, "isolation": Isolation}[name](tree)
			if err != nil {
				t.Fatal(err)
			}
			runSuite(t, s)
		})
	}
}

func runSuite(t *testing.T, s Suite) {
	out := *outFlag
	if out == "" {
		out = t.TempDir()
	}
	out = filepath.Join(out, s.Name)
	for _, d := range []string{"plain", "tutti", "diff"} {
		if err := os.MkdirAll(filepath.Join(out, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var options []pgtest.Option
	for name, value := range settings {
		options = append(options, pgtest.Setting(name, value))
	}
	plain := pgtest.Start(t, options...)
	arms := []*Arm{{Name: "plain", Host: plain.SocketDir(), Port: plain.Port()}, {Name: "tutti", Host: "127.0.0.1"}}
	for _, a := range arms {
		a.Dir = filepath.Join(pgtest.TempDir(t), a.Name)
		if err := os.MkdirAll(filepath.Join(a.Dir, "results"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(a.Dir, "results"), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	r := &run{t: t, s: s, out: out, arms: arms}
	r.start()
	for _, file := range s.Files {
		if *filesFlag != "" && !slices.Contains(strings.Split(*filesFlag, ","), file) {
			continue
		}
		r.file(file)
	}
	r.check("end")
}

type run struct {
	t    *testing.T
	s    Suite
	out  string
	arms []*Arm
	c    *cluster.Cluster
	bad  string
}

func (r *run) start() {
	r.c = cluster.Start(r.t, 3, func(_ int, c *config.Config) {
		c.Postgres.Settings = settings
	})
	_, port, _ := strings.Cut(r.c.Node(1).Config.Listen, ":")
	fmt.Sscan(port, &r.arms[1].Port)
}

func (r *run) say(format string, args ...any) {
	fmt.Printf("%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

func (r *run) file(file string) {
	var outs [2]Output
	for i, a := range r.arms {
		o, err := r.s.Run(r.t.Context(), a, file)
		if err != nil {
			r.t.Fatal(err)
		}
		o.Text = normalise(a, o.Text)
		outs[i] = o
		if err := os.WriteFile(filepath.Join(r.out, a.Name, file+".out"), []byte(o.Text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	diff, err := Diff(outs[0].Text, outs[1].Text)
	if err != nil {
		r.t.Fatal(err)
	}
	verdict := "equal"
	os.Remove(filepath.Join(r.out, "diff", file+".diff"))
	if diff != "" || outs[1].Hang {
		verdict = "differs"
		if err := os.WriteFile(filepath.Join(r.out, "diff", file+".diff"), []byte(diff), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	if outs[1].Hang {
		verdict = "hang"
	}
	if outs[0].Hang {
		verdict = "plain hangs"
	}
	r.say("RESULT %s %s %s lines=%d plain=%.1fs tutti=%.1fs", r.s.Name, file, verdict, changedLines(diff), outs[0].Took.Seconds(), outs[1].Took.Seconds())
	r.revive(file)
	if outs[1].Hang {
		r.terminate()
	}
	if *checkFlag {
		r.check(file)
	}
}

func (r *run) terminate() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	pg, err := pgconn.Connect(ctx, r.c.URL(1))
	if err != nil {
		r.say("EVENT cannot connect: %v", err)
		return
	}
	defer pg.Close(ctx)
	_, err = pg.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid<>pg_backend_pid() AND (application_name LIKE 'pg_regress/%' OR application_name LIKE 'isolation/%')").ReadAll()
	r.say("EVENT sessions ended: %v", err)
}

// revive starts nodes that ended.
func (r *run) revive(file string) {
	dead := false
	for _, k := range r.c.All() {
		if r.c.Running(k) {
			continue
		}
		r.say("EVENT %s: node %d ended\n%s", file, k, process.Tail(r.c.Node(k).LogFile, 12))
		r.c.Run(k)
		dead = true
	}
	ready := true
	for _, k := range r.c.All() {
		ready = r.ready(k, file) && ready
	}
	if dead && !ready {
		r.say("EVENT %s: a new cluster is made", file)
		for _, k := range r.c.All() {
			if r.c.Running(k) {
				r.c.Kill(k)
			}
		}
		r.start()
		r.bad = ""
		if r.s.Name == "regress" {
			o, err := r.s.Run(r.t.Context(), r.arms[1], "test_setup")
			r.say("EVENT test_setup again: %v %v", o.Took, err)
		}
	}
}

func (r *run) ready(k int, file string) bool {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if !r.c.Running(k) {
			r.say("EVENT %s: node %d ended again\n%s", file, k, process.Tail(r.c.Node(k).LogFile, 5))
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		pg, err := pgconn.Connect(ctx, r.c.URL(k))
		if err == nil {
			_, err = pg.Exec(ctx, "SELECT 1").ReadAll()
			pg.Close(ctx)
		}
		cancel()
		if err == nil {
			return true
		}
	}
	r.say("EVENT %s: node %d does not serve", file, k)
	return false
}

func (r *run) check(file string) {
	exe, err := cluster.Binary()
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, exe, "check", "--config", r.c.Node(1).ConfigFile).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err == nil {
		if file == "end" {
			r.say("CHECK %s: %s", file, text)
		}
		return
	}
	if text != r.bad {
		r.say("CHECK %s: %v\n%s", file, err, text)
	}
	r.bad = text
}
