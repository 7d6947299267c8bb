package drivers

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

// settings are those of both arms (D1).
func settings() map[string]string {
	m := instance.BaseSettings()
	for name, value := range map[string]string{
		"autovacuum_naptime": "1h", "fsync": "off", "full_page_writes": "off",
		"log_min_messages": "warning", "log_min_error_statement": "panic",
	} {
		m[name] = value
	}
	return m
}

// server is an arm's other side.
type server interface {
	arm() *Arm
	// logins puts lines before the others of pg_hba.conf.
	logins(t *testing.T, lines []string)
	// look says what is wrong with the servers after the suite.
	look(t *testing.T, out string) []string
}

func scratch(t *testing.T, name string) string {
	dir := filepath.Join(pgtest.TempDir(t), name)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o777)); err != nil {
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
	at := forward(t, s.SocketPath())
	return &plain{Arm{Name: name, Host: at.IP.String(), Port: at.Port, Dir: scratch(t, name)}, s}
}

func (p *plain) arm() *Arm { return &p.a }

func (p *plain) logins(t *testing.T, lines []string) {
	var dir string
	if err := p.s.Connect(t, "").QueryRow(t.Context(), "SHOW data_directory").Scan(&dir); err != nil {
		t.Fatal(err)
	}
	prepend(t, dir, lines)
	p.s.Exec(t, "", "SELECT pg_reload_conf()")
}

func (p *plain) look(*testing.T, string) []string { return nil }

// members is a cluster of three; the suites run at its first node.
type members struct {
	a Arm
	c *cluster.Cluster
}

func startMembers(t *testing.T) *members {
	c := cluster.Start(t, 3, func(_ int, c *config.Config) { c.Postgres.Settings = settings() })
	host, port, err := net.SplitHostPort(c.Node(1).Config.Listen)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return &members{Arm{Name: "tutti", Host: host, Port: n, Dir: scratch(t, "tutti")}, c}
}

func (m *members) arm() *Arm { return &m.a }

func (m *members) data(k int) string { return filepath.Join(m.c.Node(k).Config.DataDir, "postgres") }

func (m *members) logins(t *testing.T, lines []string) {
	for _, k := range m.c.All() {
		prepend(t, m.data(k), lines)
		if err := execute(m.c.URL(k), "SELECT pg_reload_conf()"); err != nil {
			t.Fatal(err)
		}
	}
}

// prepend puts lines before the others, which let everybody in.
func prepend(t *testing.T, dir string, lines []string) {
	path := filepath.Join(dir, "pg_hba.conf")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, l := range lines {
		text.WriteString("local " + l + "\n")
	}
	if err := os.WriteFile(path, append([]byte(text.String()), old...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// look compares the members: processes, rows, definitions, roles.
func (m *members) look(t *testing.T, out string) (notes []string) {
	for _, k := range m.c.All() {
		if !m.c.Running(k) {
			notes = append(notes, fmt.Sprintf("node %d ended: %s", k, process.Tail(m.c.Node(k).LogFile, 3)))
		}
		b, err := os.ReadFile(m.c.Node(k).LogFile)
		if err == nil {
			err = os.WriteFile(filepath.Join(out, fmt.Sprintf("node%d.log", k)), b, 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if len(notes) > 0 {
		return notes
	}
	return append(m.check(), m.definitions(t, out)...)
}

// check runs tutti check.
func (m *members) check() (notes []string) {
	out, err := m.c.Tool("check", "--output", "json")
	var rows []struct{ Member, Table, Rows, Checksum, Verdict string }
	text, _, _ := strings.Cut(out, "\ntutti: ")
	if jerr := json.Unmarshal([]byte(text), &rows); jerr != nil {
		return []string{fmt.Sprintf("tutti check: %v %v: %s", err, jerr, strings.TrimSpace(out))}
	}
	for _, r := range rows {
		if r.Verdict != "ok" {
			notes = append(notes, fmt.Sprintf("tutti check: %s at %s: %s", r.Table, r.Member, r.Verdict))
		}
	}
	return notes
}

// restricts finds the lines of a dump that hold a random word.
var restricts = regexp.MustCompile(`(?m)^\\(un)?restrict .*\n`)

// definitions compares what pg_dump says at each member, through Tutti, where sequences have their declared bounds;
// and what pg_dumpall says at its own PostgreSQL.
func (m *members) definitions(t *testing.T, out string) (notes []string) {
	build, err := embedded.Find(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var first string
	for _, k := range m.c.All() {
		local := instance.New(instance.Options{Build: build, DataDir: m.data(k)}).ConnString(role, database)
		var text string
		for _, argv := range [][]string{{"pg_dumpall", "--globals-only", "--dbname", local},
			{"pg_dump", "--schema-only", "--dbname", m.c.URL(k)}} {
			b, err := exec.Command(build.Program(argv[0]), argv[1:]...).Output()
			if err != nil {
				return append(notes, fmt.Sprintf("%s at node %d: %v", argv[0], k, err))
			}
			text += restricts.ReplaceAllString(string(b), "")
		}
		if err := os.WriteFile(filepath.Join(out, fmt.Sprintf("schema%d.sql", k)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if k == 1 {
			first = text
		} else if text != first {
			notes = append(notes, fmt.Sprintf("the definitions of node %d are not those of node 1: compare "+
				"schema1.sql and schema%d.sql", k, k))
		}
	}
	return notes
}

// execute runs statements on a connection of its own.
func execute(url string, sql ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pg, err := pgconn.Connect(ctx, url)
	if err != nil {
		return err
	}
	for _, q := range sql {
		if _, err = pg.Exec(ctx, q).ReadAll(); err != nil {
			err = fmt.Errorf("%s: %w", q, err)
			break
		}
	}
	return errors.Join(err, pg.Close(ctx))
}
