package adopt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// member writes the configuration of a node that has not begun yet.
func member(t *testing.T, parent string) (file, dataDir string) {
	t.Helper()
	dir := pgtest.TempDir(t)
	if parent == "" {
		parent = dir
	}
	dataDir = filepath.Join(parent, "node")
	file = filepath.Join(dir, "node.toml")
	text := fmt.Sprintf(`cluster = "c"
member = 1
data_dir = %q
listen = "127.0.0.1:1"
member_listen = "127.0.0.1:2"
secret = "a secret for tests only"
[[members]]
member = 1
name = "node1"
address = "127.0.0.1:2"
`, dataDir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, dataDir
}

// server is a stopped server on which statements have been run before, by database.
func server(t *testing.T, statements map[string][]string, settings ...string) string {
	t.Helper()
	options := []pgtest.Option{}
	for i := 0; i < len(settings); i += 2 {
		options = append(options, pgtest.Setting(settings[i], settings[i+1]))
	}
	s := pgtest.Start(t, options...)
	s.Exec(t, "", statements[""]...)
	for db, list := range statements { // order-free: after those of no database
		if db != "" {
			s.Exec(t, db, list...)
		}
	}
	if err := s.Instance().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.DataDir()
}

// run runs the command, and gives its report, if it prints one, and its exit code.
func run(t *testing.T, o Options) (r *Report, code int, err error) {
	t.Helper()
	var out bytes.Buffer
	o.Format = "json"
	err = Run(t.Context(), o, &out)
	var e *exitError
	if errors.As(err, &e) {
		code = e.ExitCode()
	} else if err != nil {
		t.Fatalf("an error without an exit code: %v", err)
	}
	if out.Len() > 0 {
		r = &Report{}
		if err := json.Unmarshal(out.Bytes(), r); err != nil {
			t.Fatalf("%v: %s", err, out.Bytes())
		}
	}
	return r, code, err
}

// TestSurvey: everything is found that would be lost, or be different, and nothing else; nothing is adopted then.
func TestSurvey(t *testing.T) {
	t.Parallel()
	from := server(t, map[string][]string{
		"": {"CREATE DATABASE shop", "CREATE DATABASE closed ALLOW_CONNECTIONS false", "CREATE ROLE tutti_owner LOGIN",
			"SET allow_in_place_tablespaces = on", "CREATE TABLESPACE fast LOCATION ''",
			"SELECT pg_create_logical_replication_slot('out', 'pgoutput')",
			"CREATE SUBSCRIPTION incoming CONNECTION 'dbname=none' PUBLICATION p WITH (connect = false)",
			"CREATE TABLE fine(k int PRIMARY KEY)", "CREATE TABLE unique_one(k int NOT NULL UNIQUE)"},
		"template1": {"CREATE FUNCTION handy() RETURNS int LANGUAGE sql AS 'SELECT 1'"},
		"shop": {"CREATE SCHEMA tutti", "CREATE UNLOGGED TABLE cache AS SELECT 1 AS v",
			"CREATE UNLOGGED TABLE none(v int)", "CREATE TABLE heap(v int)", "CREATE TABLE nullable(v int UNIQUE)",
			"CREATE TABLE t(k int PRIMARY KEY)",
			"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
			"CREATE TRIGGER always AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
			"ALTER TABLE t ENABLE ALWAYS TRIGGER always", "CREATE RULE r AS ON DELETE TO t DO ALSO NOTIFY gone",
			"ALTER TABLE t ENABLE REPLICA RULE r", "CREATE EXTENSION pgcrypto", "CREATE EXTENSION hstore",
			"UPDATE pg_extension SET extname = 'nowhere' WHERE extname = 'hstore'",
			"CREATE EXTENSION citext", "UPDATE pg_extension SET extname = 'pg_cron' WHERE extname = 'citext'",
			"CREATE FUNCTION c() RETURNS trigger LANGUAGE c AS '$libdir/pgcrypto', 'pg_digest'",
			"CREATE EXTENSION file_fdw", "CREATE SERVER s FOREIGN DATA WRAPPER file_fdw",
			"CREATE FOREIGN TABLE far(v int) SERVER s OPTIONS (filename '/none')", "SELECT lo_create(5)",
			"CREATE FUNCTION e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'",
			"CREATE EVENT TRIGGER watch ON sql_drop EXECUTE FUNCTION e()", "CREATE PUBLICATION news FOR ALL TABLES",
			"CREATE SEQUENCE few MAXVALUE 200", "CREATE SEQUENCE round MAXVALUE 5000 CYCLE",
			"CREATE SEQUENCE used AS smallint", "SELECT setval('used', 30000)", "CREATE SEQUENCE usual AS smallint",
			"CREATE SEQUENCE down INCREMENT -1 MINVALUE -30000", "SELECT setval('down', -20000)",
			"CREATE SEQUENCE wide", "SELECT setval('wide', 30000000000)"},
	}, "wal_level", "logical", "max_replication_slots", "4")
	file, dataDir := member(t, "")
	want := []struct {
		weight         Weight
		database, what string
	}{
		{Refused, "", "role tutti_owner"}, {Refused, "", "database closed"}, {Refused, "", "tablespace fast"},
		{Refused, "", `replication slot "out" (logical)`}, {Refused, "", "subscription incoming of database postgres"},
		{Refused, "shop", "schema tutti"}, {Refused, "shop", "unlogged table public.cache"},
		{Differs, "shop", `unlogged table public."none"`}, {Refused, "shop", "trigger always of public.t"},
		{Refused, "shop", "rule r of public.t"}, {Refused, "shop", "extension pg_cron"},
		{Refused, "shop", "extension nowhere 1.8"}, {Refused, "shop", "extension pg_cron 1.6"},
		{Differs, "shop", "extension file_fdw 1.0"}, {Differs, "shop", "extension nowhere 1.8"},
		{Differs, "shop", "extension pg_cron 1.6"}, {Differs, "shop", "extension pgcrypto 1.3"},
		{Differs, "shop", "function c() in $libdir/pgcrypto"}, {Differs, "shop", "table without a key public.heap"},
		{Differs, "shop", "table without a key public.nullable"}, {Differs, "shop", "foreign table public.far"},
		{Differs, "shop", "1 large objects"}, {Differs, "shop", "event trigger watch"},
		{Differs, "shop", "publication news"}, {Differs, "shop", "sequence public.few"},
		{Differs, "shop", "sequence public.round"}, {Differs, "shop", "sequence public.down"},
		{Differs, "shop", "sequence public.used"}, {Differs, "template1", "1 objects of users"},
		{Differs, "", "setting archive_mode = 'off'"},
	}
	err := os.WriteFile(filepath.Join(from, "postgresql.auto.conf"), []byte("archive_mode = off\n"), 0o600)
	err = errors.Join(err, os.Remove(filepath.Join(from, "postgresql.conf")),
		os.Remove(filepath.Join(from, "tutti.conf")))
	if err != nil {
		t.Fatal(err)
	}
	r, code, err := run(t, Options{Config: file, From: from})
	if code != exitRefused || r == nil || r.Adopted || r.Refused != 12 {
		t.Fatalf("%+v, exit code %d, %v", r, code, err)
	}
	var got []string
	for _, f := range r.Findings {
		got = append(got, fmt.Sprint(f.Weight, " ", f.Database, " ", f.What))
		if f.Why == "" || f.Weight == Refused && f.Do == "" {
			t.Errorf("%s: %+v does not say why, or what to do", f.What, f)
		}
	}
	var wanted []string
	for _, w := range want {
		wanted = append(wanted, fmt.Sprint(w.weight, " ", w.database, " ", w.what))
	}
	if a, b := strings.Join(got, "\n"), strings.Join(wanted, "\n"); a != b {
		t.Errorf("it finds\n%s\n\nwant\n%s", a, b)
	}
	if left, err := filepath.Glob(dataDir + "/*"); err != nil || len(left) > 0 {
		t.Errorf("%v is there, %v", left, err)
	}
}

// TestRun: a dry run changes nothing; what can be adopted is, as a copy, by a move, or where it is.
func TestRun(t *testing.T) {
	t.Parallel()
	from := server(t, map[string][]string{"": {"CREATE TABLE kept(k int PRIMARY KEY)", "CREATE DATABASE shop"}})
	other, _ := member(t, "") // its data_dir is on a disk
	file, dataDir := member(t, filepath.Dir(from))
	own := filepath.Join(dataDir, "postgres")
	adopted := func(dir string, want bool) {
		t.Helper()
		if is, err := instance.Adopted(dir); err != nil || is != want {
			t.Errorf("%s: %t, %v", dir, is, err)
		}
	}
	good := func(o Options, adopts bool) {
		t.Helper()
		r, code, err := run(t, o)
		if err != nil || code != 0 || r.Adopted != adopts || r.Refused > 0 || len(r.Findings) > 0 || r.To != own ||
			r.PostgreSQL == "" {
			t.Errorf("%+v, exit code %d, %v", r, code, err)
		}
	}
	bad := func(o Options, want string) {
		t.Helper()
		if _, code, err := run(t, o); code != exitNot || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("exit code %d, %v, want %q", code, err, want)
		}
	}
	good(Options{Config: file, From: from, DryRun: true}, false)
	if _, err := os.Stat(own); err == nil {
		t.Error("a dry run has made something")
	}
	good(Options{Config: file, From: from}, true)
	adopted(own, true)
	adopted(from, false)
	bad(Options{Config: file, From: from}, "this node has a database already")
	bad(Options{Config: file, From: filepath.Join(own, "base")}, "inside the other")
	good(Options{Config: file}, true) // again, where it is
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	bad(Options{Config: file}, "is no data directory")
	bad(Options{Config: file, From: filepath.Dir(other)}, "is no data directory")
	if filepath.Dir(filepath.Dir(from)) == pgtest.MemoryDir() {
		bad(Options{Config: other, From: from, Move: true}, "cannot be moved to another file system")
	}
	good(Options{Config: file, From: from, Move: true}, true)
	adopted(own, true)
	if err := os.Mkdir(filepath.Join(dataDir, "log"), 0o700); err != nil {
		t.Fatal(err)
	}
	bad(Options{Config: file}, "this node has begun already")
	bad(Options{Config: file + "x"}, "no such file")
	if err := Run(t.Context(), Options{Config: file, Format: "yaml"}, nil); err == nil {
		t.Error("it knows every format")
	}
}

// TestAhead: a server that runs is looked at as well as a stopped one, and goes on.
func TestAhead(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Setting("max_prepared_transactions", "2"), pgtest.Setting("work_mem", "7MB"))
	s.Exec(t, "", "CREATE DATABASE shop")
	s.Exec(t, "shop", "CREATE TABLE heap(v int)", "BEGIN", "INSERT INTO heap VALUES (1)",
		"PREPARE TRANSACTION 'it''s'")
	file, dataDir := member(t, "")
	o := Options{Config: file, DryRun: true, Server: s.ConnString("postgres")}
	r, code, err := run(t, o)
	if code != exitRefused || r == nil || r.Adopted || r.Refused != 1 {
		t.Fatalf("%+v, exit code %d, %v", r, code, err)
	}
	var got []string
	for _, f := range r.Findings {
		got = append(got, fmt.Sprint(f.Database, " ", f.What))
	}
	for _, want := range []string{" prepared transaction 'it''s'", "shop table without a key public.heap",
		" setting work_mem = '7MB'"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	s.Exec(t, "shop", "COMMIT PREPARED 'it''s'")
	if r, code, err := run(t, o); code != 0 || err != nil || r.Refused != 0 || r.Adopted {
		t.Errorf("%+v, exit code %d, %v", r, code, err)
	}
	for what, wrong := range map[string]Options{ // order-free: each for itself
		"it is to be adopted":  {Config: file, Server: o.Server},
		"a directory is named": {Config: file, Server: o.Server, DryRun: true, From: s.DataDir()},
		"nobody answers":       {Config: file, Server: "host=/none", DryRun: true},
		"it is to be moved":    {Config: file, Server: o.Server, DryRun: true, Move: true},
		"it cannot be read":    {Config: file, Server: "port=many", DryRun: true},
		"a file is named, too": {Config: file, Server: o.Server, DryRun: true, Conf: file},
	} {
		if _, code, err := run(t, wrong); code != exitNot || err == nil {
			t.Errorf("%s: exit code %d, %v", what, code, err)
		}
	}
	if left, err := filepath.Glob(dataDir + "/*"); err != nil || len(left) > 0 {
		t.Errorf("%v is there, %v", left, err)
	}
}

// TestNotAsItIs: the version, the configuration, or the server itself is not as it must be.
func TestNotAsItIs(t *testing.T) {
	t.Parallel()
	from := server(t, map[string][]string{"": {"ALTER ROLE postgres NOLOGIN"}})
	file, _ := member(t, "")
	if r, code, err := run(t, Options{Config: file, From: from}); code != exitRefused || len(r.Findings) != 1 ||
		r.Findings[0].What != "role postgres" {
		t.Errorf("without its role: %+v, exit code %d, %v", r, code, err)
	}
	if err := os.WriteFile(filepath.Join(from, "PG_VERSION"), []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code, err := run(t, Options{Config: file, From: from}); code != exitNot ||
		!strings.Contains(fmt.Sprint(err), "is of PostgreSQL 99, and this machine has no binaries of that version") {
		t.Errorf("of another version: exit code %d, %v", code, err)
	}

	// What a member was of another cluster, and a transaction that is prepared.
	from = server(t, map[string][]string{"": {"CREATE EXTENSION IF NOT EXISTS plpgsql", "CREATE SCHEMA tutti",
		"CREATE TABLE tutti.progress(one int PRIMARY KEY, cluster text)",
		"INSERT INTO tutti.progress VALUES (1, 'old')",
		"CREATE EXTENSION hstore", "UPDATE pg_extension SET extname = 'tutti' WHERE extname = 'hstore'"}})
	if r, code, err := run(t, Options{Config: file, From: from}); code != exitRefused || len(r.Findings) != 1 ||
		r.Findings[0].What != "the position in the order of cluster old" {
		t.Errorf("of another cluster: %+v, exit code %d, %v", r, code, err)
	}
	if err := os.WriteFile(filepath.Join(from, "pg_twophase", "000002EA"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, code, err := run(t, Options{Config: file, From: from}); code != exitRefused || len(r.Findings) != 1 ||
		r.Findings[0].What != "prepared transaction 000002EA" {
		t.Errorf("with a prepared transaction: %+v, exit code %d, %v", r, code, err)
	}
}

// TestOfList: the configured database must be there, and not too many.
func TestOfList(t *testing.T) {
	c := &config.Config{Database: "shop", Limits: config.Limits{Databases: 2}}
	for _, x := range []struct {
		names string
		want  string
	}{
		{"postgres shop template1", ""},
		{"postgres template1", "the configured database"},
		{"a b shop template1", "3 databases"},
		{"a b c template1", "the configured database, 3 databases"},
	} {
		var what []string
		for _, f := range ofList(strings.Fields(x.names), c) {
			what = append(what, f.What)
		}
		if got := strings.Join(what, ", "); got != x.want {
			t.Errorf("%s: %q, want %q", x.names, got, x.want)
		}
	}
}

// TestPrint: people are told what was found, why, and what comes next.
func TestPrint(t *testing.T) {
	r := Report{From: "/old", To: "/new", PostgreSQL: "15.18", Adopted: true, Findings: []Finding{{Differs, "shop",
		"a thing", "a reason", "a deed"}}}
	var out bytes.Buffer
	if err := r.print(&out, Options{Format: "table"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"differs  shop      a thing  a reason  a deed\n",
		"/old was adopted as /new (PostgreSQL 15.18)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
