package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/pgtest"
)

// earlier is a PostgreSQL that was there before the cluster.
type earlier struct {
	tb  testing.TB
	dir string
	pg  *instance.Instance
}

// earlier makes one, which runs.
func (c *Cluster) earlier() *earlier {
	c.tb.Helper()
	build, err := findBuild()
	if err != nil {
		c.tb.Fatal(err)
	}
	e := &earlier{tb: c.tb, dir: filepath.Join(c.Dir, "earlier", "main")}
	err = os.Mkdir(filepath.Dir(e.dir), 0o755)
	if err == nil {
		err = pgtest.NewDataDir(c.tb.Context(), build, e.dir)
	}
	e.pg = instance.New(instance.Options{Build: build, DataDir: e.dir})
	if err == nil {
		err = e.pg.Start(c.tb.Context())
	}
	if err != nil {
		c.tb.Fatal(err)
	}
	c.tb.Cleanup(func() {
		if err := e.pg.Stop(context.Background()); err != nil {
			c.tb.Error(err)
		}
	})
	return e
}

// do runs statements in one of its databases.
func (e *earlier) do(database string, statements ...string) {
	e.tb.Helper()
	conn, err := pgx.Connect(e.tb.Context(), e.pg.ConnString("postgres", database))
	if err != nil {
		e.tb.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(e.tb.Context()))
	for _, sql := range statements {
		if _, err := conn.Exec(e.tb.Context(), sql); err != nil {
			e.tb.Fatalf("%s: %v", sql, err)
		}
	}
}

// stop stops it, and gives it a configuration as nobody has whose server Tutti runs.
func (e *earlier) stop() {
	e.tb.Helper()
	err := e.pg.Stop(e.tb.Context())
	for name, text := range map[string]string{ // order-free: files
		"postgresql.conf":      "include_dir = 'conf.d'\nport = 5433\ntimezone = 'Europe/Berlin'\t# ours\n",
		"postgresql.auto.conf": "work_mem = '7MB'\nhba_file = '/nowhere'\n",
		"pg_hba.conf":          "local all all peer\n",
	} {
		if err == nil {
			err = os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o600)
		}
	}
	if err == nil {
		err = os.Remove(filepath.Join(e.dir, "tutti.conf"))
	}
	if err != nil {
		e.tb.Fatal(err)
	}
}

// TestAdopted: a cluster begins with a PostgreSQL that was there before it, with all databases, roles and sequences.
// The members that have nothing copy it by themselves.
func TestAdopted(t *testing.T) {
	t.Parallel()
	c := New(t, 3, func(_ int, c *config.Config) { c.Postgres.CloneFrom = "" })
	e := c.earlier()
	e.do("postgres", "CREATE EXTENSION pgcrypto", "CREATE ROLE staff", "CREATE ROLE clerk LOGIN PASSWORD 'opensesame'",
		"GRANT staff TO clerk", "SET password_encryption = 'md5'", "CREATE ROLE oldie LOGIN PASSWORD 'friend'",
		"CREATE DATABASE shop OWNER clerk", "CREATE DATABASE \"Archive-1\"",
		"CREATE TABLE stock(id serial PRIMARY KEY, v text)", "GRANT ALL ON stock, stock_id_seq TO staff",
		"INSERT INTO stock(v) SELECT md5(i::text) FROM generate_series(1, 5000) i",
		"CREATE TABLE events(at int, what text)", "INSERT INTO events SELECT i, 'x' FROM generate_series(1, 500) i",
		"CREATE TABLE parted(k int GENERATED ALWAYS AS IDENTITY, at int) PARTITION BY RANGE (at)",
		"CREATE TABLE parted1 PARTITION OF parted FOR VALUES FROM (0) TO (100)",
		"INSERT INTO parted(at) SELECT i FROM generate_series(1, 50) i",
		"CREATE SEQUENCE loose", "SELECT setval('loose', 70)",
		"CREATE SEQUENCE far", "SELECT setval('far', 50000000)", // in a part of the values that is another member's
		"SELECT lo_from_bytea(12345, 'large')")
	e.do("shop", "CREATE TABLE sold(id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int)",
		"INSERT INTO sold(n) SELECT i FROM generate_series(1, 100) i", "ALTER TABLE sold OWNER TO clerk")
	e.do("Archive-1", "CREATE TABLE a(k int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
	e.stop()

	out, err := c.Tool("adopt", "--dry-run", e.dir)
	if err != nil || !strings.Contains(out, "table without a key public.events") ||
		!strings.Contains(out, "setting work_mem = '7MB'") || !strings.Contains(out, "can be adopted") {
		t.Fatalf("a dry run says %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(c.Node(1).Config.DataDir, "postgres")); err == nil {
		t.Fatal("a dry run has made a directory")
	}
	if out, err := c.Tool("adopt", e.dir); err != nil || !strings.Contains(out, "was adopted") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, k := range []int{3, 2, 1} {
		c.Run(k)
	}
	c.WaitReady()
	shop, archive := c.In("shop"), c.In("Archive-1")
	shop.WaitReady()
	archive.WaitReady()

	c.Everywhere("SELECT count(*), (SELECT count(*) FROM events), (SELECT count(*) FROM parted) FROM stock",
		"5000|500|50")
	c.Everywhere("SHOW timezone", "Europe/Berlin")
	c.Everywhere("SELECT convert_from(lo_get(12345), 'UTF8')", "large")
	archive.Everywhere("SELECT count(*) FROM a", "1")
	given := map[string]bool{}
	for _, k := range c.All() {
		s := c.Connect(k)
		for name, last := range map[string]int{"stock_id_seq": 5000, "loose": 70, "far": 50000000} {
			v, err := strconv.Atoi(s.Get(fmt.Sprintf("SELECT nextval('%s')", name)))
			if what := fmt.Sprint(name, " ", v); err != nil || v <= last || given[what] {
				t.Errorf("node %d gives %s (%v), which was at %d", k, what, err, last)
			} else {
				given[what] = true
			}
		}
		s.Do("INSERT INTO stock(v) VALUES ('new')", "INSERT INTO parted(at) VALUES (60)",
			fmt.Sprintf("UPDATE events SET what = 'y' WHERE at = %d", k),
			fmt.Sprintf("UPDATE stock SET v = 'y' WHERE id = %d", k))
		shop.Connect(k).Do("INSERT INTO sold(n) VALUES (1)")
		archive.Connect(k).Do(fmt.Sprintf("INSERT INTO a VALUES (%d)", 10+k))
		for role, password := range map[string]string{"clerk": "opensesame", "oldie": "friend"} {
			url := strings.Replace(shop.URL(k), "postgres@", role+":"+password+"@", 1)
			if err := probe(t.Context(), url, "SELECT 1"); err != nil {
				t.Errorf("%s cannot log in at node %d: %v", role, k, err)
			}
			url = strings.Replace(url, password, "wrong", 1)
			if err := probe(t.Context(), url, "SELECT 1"); Code(err) != "28P01" {
				t.Errorf("%s with a wrong password at node %d: %v", role, k, err)
			}
		}
	}
	c.Everywhere("SELECT count(*), count(*) FILTER (WHERE v = 'y') FROM stock", "5003|3")
	c.Everywhere("SELECT count(*) FILTER (WHERE what = 'y') FROM events", "3")
	shop.Everywhere("SELECT count(*) FROM sold", "103")
	archive.Everywhere("SELECT count(*) FROM a", "4")
	c.Check()

	// They are databases like others: when a member comes back, when it has lost its disk, and when they go.
	c.Stop(2)
	c.Connect(1).Do("CREATE DATABASE later", "DROP DATABASE \"Archive-1\" WITH (FORCE)")
	shop.Connect(3).Do("INSERT INTO sold(n) VALUES (2)")
	c.Kill(3)
	c.lose(3, "")
	c.Run(2)
	c.Run(3)
	c.WaitReady()
	shop.WaitReady()
	shop.Connect(3).Do("INSERT INTO sold(n) VALUES (3)")
	shop.Everywhere("SELECT count(*) FROM sold", "105")
	c.In("later").Connect(2).Do("CREATE TABLE l(k int PRIMARY KEY)")
	if err := probe(t.Context(), archive.URL(2), "SELECT 1"); Code(err) != "3D000" {
		t.Errorf("a database that was dropped: %v", err)
	}
	c.Check()
}
