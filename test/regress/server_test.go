package regress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/test/cluster"
)

// settings are what pg_regress gives to a server of its own, and what keeps two runs alike.
// Both arms have them (X1).
func settings() map[string]string {
	m := instance.BaseSettings()
	for name, value := range map[string]string{
		"lc_messages": "C", "lc_monetary": "C", "lc_numeric": "C", "lc_time": "C",
		"max_prepared_transactions": "10", "autovacuum_naptime": "1h",
		"fsync": "off", "full_page_writes": "off",
		"log_min_messages": "warning", "log_min_error_statement": "panic",
	} {
		m[name] = value
	}
	return m
}

// server is an arm's other side.
type server interface {
	arm() *Arm
	// look is called after each file: it repairs what the file broke and says what it did.
	look() (notes []string, ended bool)
	url() string
}

// buildDir makes an arm's build directory, where the server may write.
func buildDir(t *testing.T, name string) string {
	dir := filepath.Join(pgtest.TempDir(t), name)
	results := filepath.Join(dir, "results")
	if err := errors.Join(os.MkdirAll(results, 0o755), os.Chmod(results, 0o777)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// plain is a PostgreSQL alone.
type plain struct {
	a Arm
	s *pgtest.Server
}

func startPlain(t *testing.T, name string) *plain {
	var options []pgtest.Option
	for name, value := range settings() {
		options = append(options, pgtest.Setting(name, value))
	}
	s := pgtest.Start(t, options...)
	return &plain{Arm{Name: name, Host: s.SocketDir(), Port: s.Port(), Dir: buildDir(t, name)}, s}
}

func (p *plain) arm() *Arm              { return &p.a }
func (p *plain) look() ([]string, bool) { return nil, false }
func (p *plain) url() string            { return p.s.ConnString(database) }

// members is a cluster of three; the suites run at its first node.
type members struct {
	t     *testing.T
	a     Arm
	logs  string // directory that gets the nodes' logs at the end
	c     *cluster.Cluster
	made  int               // clusters made so far
	unity map[string]string // tables that were found to differ, and how
	again func() int        // runs the earlier files again, on a new cluster
}

func startMembers(t *testing.T, logs string) *members {
	m := &members{t: t, logs: logs, a: Arm{Name: "tutti", Dir: buildDir(t, "tutti")}, unity: map[string]string{}}
	m.a.Lost = m.lost
	m.start()
	return m
}

func (m *members) start() {
	m.t.Helper()
	m.c = cluster.Start(m.t, 3, func(_ int, c *config.Config) { c.Postgres.Settings = settings() })
	m.made++
	m.t.Cleanup(keepLogs(m.t, m.c, m.logs, m.made)) // before the cluster's own clean-up
	m.a.Host, m.a.Port = m.listens(1)
}

// listens is where node k takes clients.
func (m *members) listens(k int) (host string, port int) {
	host, number, err := net.SplitHostPort(m.c.Node(k).Config.Listen)
	if err == nil {
		port, err = strconv.Atoi(number)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return host, port
}

// lost reports whether the cluster has no majority.
func (m *members) lost() bool {
	running := 0
	for _, k := range m.c.All() {
		if m.c.Running(k) {
			running++
		}
	}
	return running < 2
}

func (m *members) arm() *Arm   { return &m.a }
func (m *members) url() string { return m.c.URL(1) }

// keepLogs copies the logs of a cluster's nodes at the end.
func keepLogs(t *testing.T, c *cluster.Cluster, dir string, number int) func() {
	return func() {
		for _, k := range c.All() {
			b, err := os.ReadFile(c.Node(k).LogFile)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("node%d-%d.log", k, number)), b, 0o644)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// look starts members that ended, compares all, and replaces a cluster that does not come
// back by a new one.
func (m *members) look() (notes []string, ended bool) {
	for _, k := range m.c.All() {
		if !m.c.Running(k) {
			ended = true
			notes = append(notes, fmt.Sprintf("node %d ended: %s", k, process.Tail(m.c.Node(k).LogFile, 1)))
			m.c.Run(k)
		}
	}
	for _, k := range m.c.All() {
		if err := m.serves(k); err != nil {
			notes = append(notes, fmt.Sprintf("node %d does not come back: %v", k, err))
			return append(notes, m.replace()), true
		}
	}
	return append(notes, m.compare()...), ended
}

const readyTimeout = 90 * time.Second

// serves waits until node k takes statements.
func (m *members) serves(k int) error {
	for deadline := time.Now().Add(readyTimeout); ; time.Sleep(50 * time.Millisecond) {
		err := execute(m.c.URL(k), "SELECT 1")
		if err == nil || !m.c.Running(k) || time.Now().After(deadline) {
			return err
		}
	}
}

// clustersMax bounds how often the earlier files are run again.
const clustersMax = 10

func (m *members) replace() string {
	for _, k := range m.c.All() {
		if m.c.Running(k) {
			m.c.Kill(k)
		}
	}
	clear(m.unity)
	m.start()
	if m.again == nil || m.made > clustersMax {
		return "a new cluster takes its place, empty"
	}
	began := time.Now()
	n := m.again()
	return fmt.Sprintf("a new cluster takes its place; the %d files before were run again, in %.0f s", n,
		time.Since(began).Seconds())
}

// compare runs tutti check, and says what differs that did not before.
func (m *members) compare() (notes []string) {
	out, err := m.c.Tool("check", "--output", "json")
	var rows []struct{ Database, Member, Table, Rows, Checksum, Verdict string }
	text, complaint, _ := strings.Cut(out, "\ntutti: ")
	if json.Unmarshal([]byte(text), &rows) != nil {
		if err != nil {
			return []string{fmt.Sprintf("tutti check: %v: %s", err, strings.TrimSpace(out))}
		}
		return nil
	}
	_ = complaint // the rows say the same
	for _, r := range rows {
		if r.Verdict == "ok" {
			continue
		}
		where := fmt.Sprintf("%s of %s at %s", r.Table, r.Database, r.Member)
		if m.unity[where] == "" {
			notes = append(notes, fmt.Sprintf("tutti check: %s: %s", where, r.Verdict))
		}
		m.unity[where] = r.Verdict
	}
	return notes
}

// restricts finds the lines of a dump that hold a random word.
var restricts = regexp.MustCompile(`(?m)^\\(un)?restrict .*\n`)

// schemas compares what pg_dump says of a database's definitions at each member, through Tutti, where sequences have
// their declared bounds; and what pg_dumpall says of the roles, asked at its own PostgreSQL.
func (m *members) schemas(b embedded.Build, database, dir string) (notes []string) {
	var first string
	for _, k := range m.c.All() {
		local := instance.New(instance.Options{Build: b,
			DataDir: filepath.Join(m.c.Node(k).Config.DataDir, "postgres")}).ConnString(role, database)
		var text string
		for _, argv := range [][]string{{"pg_dumpall", "--globals-only", "--dbname", local},
			{"pg_dump", "--schema-only", "--dbname", m.c.In(database).URL(k)}} {
			c := exec.Command(b.Program(argv[0]), argv[1:]...)
			out, err := c.Output()
			if err != nil {
				return append(notes, fmt.Sprintf("%s at node %d: %v %s", argv[0], k, err, stderrOf(err)))
			}
			text += restricts.ReplaceAllString(string(out), "")
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("schema%d.sql", k)), []byte(text), 0o644); err != nil {
			m.t.Fatal(err)
		}
		if k == 1 {
			first = text
		} else if diff, err := Diff(first, text, 1); err != nil || diff != "" {
			notes = append(notes, fmt.Sprintf("the definitions of node %d are not those of node 1: %d lines of "+
				"difference (schema1.sql, schema%d.sql) %v", k, changedLines(diff), k, err))
		}
	}
	return notes
}

func stderrOf(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return strings.TrimSpace(string(exit.Stderr))
	}
	return ""
}

// execute runs statements on a connection of its own.
func execute(url, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pg, err := pgconn.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = pg.Exec(ctx, sql).ReadAll()
	return errors.Join(err, pg.Close(ctx))
}

// endSessions ends what a file has left running, and rolls back what it has left prepared: both
// would stall the files that follow.
func endSessions(url string) error {
	return execute(url, `SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
WHERE pid <> pg_catalog.pg_backend_pid() AND datname = pg_catalog.current_database()
AND (application_name LIKE 'pg_regress/%' OR application_name LIKE 'isolation/%')`)
}

// leftQuery lists the statements that drop what a spec has left in the database: a spec whose
// set-up fails does not clean up.
const leftQuery = `SELECT pg_catalog.format('DROP SCHEMA %I CASCADE', nspname) FROM pg_catalog.pg_namespace
	WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'tutti', 'public')
UNION ALL SELECT pg_catalog.format('DROP %s IF EXISTS public.%I CASCADE', k.word, c.relname) FROM pg_catalog.pg_class c
	JOIN (VALUES ('r', 'TABLE'), ('p', 'TABLE'), ('v', 'VIEW'), ('m', 'MATERIALIZED VIEW'), ('S', 'SEQUENCE'), ('c', 'TYPE')) AS k(kind, word) ON k.kind = c.relkind
	WHERE c.relnamespace = 'public'::pg_catalog.regnamespace
UNION ALL SELECT pg_catalog.format('DROP ROUTINE IF EXISTS %s CASCADE', oid::pg_catalog.regprocedure) FROM pg_catalog.pg_proc WHERE pronamespace = 'public'::pg_catalog.regnamespace
UNION ALL SELECT pg_catalog.format('DROP TYPE IF EXISTS public.%I CASCADE', typname) FROM pg_catalog.pg_type
	WHERE typnamespace = 'public'::pg_catalog.regnamespace AND typtype IN ('d', 'e', 'r')
UNION ALL SELECT pg_catalog.format('DROP ROLE %I', rolname) FROM pg_catalog.pg_roles WHERE rolname ~ '^regress_'`

// sweep drops what a spec has left.
func sweep(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pg, err := pgconn.Connect(ctx, url)
	if err != nil {
		return err
	}
	left, err := pg.Exec(ctx, leftQuery).ReadAll()
	if err == nil {
		for _, row := range left[0].Rows {
			_, dropErr := pg.Exec(ctx, string(row[0])).ReadAll()
			err = errors.Join(err, dropErr)
		}
	}
	return errors.Join(err, pg.Close(ctx))
}
