package cluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const sqlTimeout = 60 * time.Second

// URL is node k's client port, for pgx and libpq.
func (c *Cluster) URL(k int) string {
	database := c.database
	if database == "" {
		database = "postgres"
	}
	return fmt.Sprintf("postgresql://postgres@%s/%s?sslmode=disable&connect_timeout=20", c.Node(k).Config.Listen,
		database)
}

// In is the cluster with another database for its sessions.
func (c *Cluster) In(database string) *Cluster {
	d := *c
	d.database = database
	return &d
}

func probe(ctx context.Context, url, query string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	pg, err := pgconn.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = pg.Exec(ctx, query).ReadAll()
	return errors.Join(err, pg.Close(ctx))
}

// Conn is one session. Its methods fail the cluster's test.
type Conn struct {
	*pgx.Conn
	c        *Cluster
	warnings atomic.Int64 // that it was told
}

// Connect opens a session at node k, closed with the test.
func (c *Cluster) Connect(k int) *Conn {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	s := &Conn{c: c}
	config, err := pgx.ParseConfig(c.URL(k))
	if err == nil {
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
			if n.SeverityUnlocalized == "WARNING" {
				s.warnings.Add(1)
			}
		}
		s.Conn, err = pgx.ConnectConfig(ctx, config)
		// a slow machine takes its time to open a database
		for c.database != "" && Code(err) == "57P03" && ctx.Err() == nil {
			time.Sleep(pollInterval)
			s.Conn, err = pgx.ConnectConfig(ctx, config)
		}
	}
	if err != nil {
		c.tb.Fatalf("node %d: %v", k, err)
	}
	c.tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Conn.Close(ctx) // the test may have broken it on purpose
	})
	return s
}

// Try runs a text of any number of statements by the simple protocol.
func (s *Conn) Try(sql string) error {
	_, err := s.Run(sql)
	return err
}

// Run is Try, with the command tags.
func (s *Conn) Run(sql string) (tags []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	results, err := s.PgConn().Exec(ctx, sql).ReadAll()
	for _, r := range results {
		tags = append(tags, r.CommandTag.String())
	}
	return tags, err
}

// Do is Try that must succeed.
func (s *Conn) Do(sql ...string) {
	s.c.tb.Helper()
	for _, q := range sql {
		if err := s.Try(q); err != nil {
			s.c.tb.Fatalf("%s: %v", q, Explain(err))
		}
	}
}

// Get returns the rows of a query as text, columns separated by "|", rows by ",".
func (s *Conn) Get(sql string) string {
	s.c.tb.Helper()
	out, err := s.Ask(sql)
	if err != nil {
		s.c.tb.Fatalf("%s: %v", sql, Explain(err))
	}
	return out
}

// Ask is Get of what may fail.
func (s *Conn) Ask(sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	results, err := s.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	return format(results[len(results)-1]), nil
}

func format(r *pgconn.Result) string {
	var rows []string
	for _, row := range r.Rows {
		var cells []string
		for _, v := range row {
			cells = append(cells, string(v))
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	return strings.Join(rows, ",")
}

// Code is the SQLSTATE of an error; empty if it has none.
func Code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// Explain adds detail and hint to an error's text.
func Explain(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%v DETAIL: %s HINT: %s", err, pg.Detail, pg.Hint)
}

// Eventually polls until a query on node k gives want: other nodes' commits, and tables,
// arrive a moment after they were told.
func (c *Cluster) Eventually(k int, sql, want string) {
	c.tb.Helper()
	s := c.Connect(k)
	defer s.Close(s.ctx())
	var got string
	for deadline := time.Now().Add(sqlTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
		var err error
		if got, err = s.Ask(sql); err != nil {
			got = Explain(err)
		} else if got == want {
			return
		}
	}
	c.tb.Fatalf("node %d: %s gives %q, want %q", k, sql, got, want)
}

// Everywhere is Eventually on every node.
func (c *Cluster) Everywhere(sql, want string) {
	c.tb.Helper()
	for _, k := range c.All() {
		c.Eventually(k, sql, want)
	}
}

// Check runs "tutti check": every table is equal on every member at one ordinal.
func (c *Cluster) Check() {
	c.tb.Helper()
	if out, err := c.Tool("check"); err != nil {
		c.tb.Fatalf("tutti check: %v\n%s", err, out)
	}
}

// Tool runs a subcommand that asks the cluster, and returns its output.
func (c *Cluster) Tool(command string, args ...string) (string, error) {
	exe, err := Binary()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, exe, append([]string{command, "--config", c.Node(1).ConfigFile},
		args...)...).CombinedOutput()
	return string(out), err
}

// Leader is the number of the node that leads the log now.
func (c *Cluster) Leader() int {
	c.tb.Helper()
	s := c.Connect(1)
	defer s.Close(s.ctx())
	for deadline := time.Now().Add(sqlTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
		for k, row := range strings.Split(s.Get("SHOW tutti.status"), ",") {
			if strings.Contains(row, "|leader|") {
				return k + 1
			}
		}
	}
	c.tb.Fatal("there is no leader")
	return 0
}

// ctx bounds one statement.
func (s *Conn) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	s.c.tb.Cleanup(cancel)
	return ctx
}
