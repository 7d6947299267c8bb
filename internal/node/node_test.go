package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
)

// TestConflict: of two transactions that change a row at the same time one loses, is told by which key, and does not
// lose again.
func TestConflict(t *testing.T) {
	a, b := both(t)
	x, y := a.connect(t, "postgres"), b.connect(t, "postgres")
	exec(t, x, "CREATE TABLE conflict (k int PRIMARY KEY, v text)", "INSERT INTO conflict VALUES (1, 'old')")
	level(t, a, b)
	before := a.main().metrics.Transactions.Blocked.Load()
	exec(t, x, "BEGIN", "SELECT FROM conflict WHERE k = 1 FOR UPDATE")
	exec(t, y, "UPDATE conflict SET v = 'y' WHERE k = 1")
	level(t, a, b)
	e := fails(t, x, "40001", "UPDATE conflict SET v = 'z' WHERE k = 1")
	if !strings.Contains(e.Detail, "(k)=(1)") || !strings.Contains(e.Detail, "beta") {
		t.Errorf("it is told %q, %q", e.Message, e.Detail)
	}
	if n := a.main().metrics.Transactions.Blocked.Load() - before; n != 1 {
		t.Errorf("%d transactions are counted that were in the way", n)
	}
	exec(t, x, "ROLLBACK", "BEGIN", "UPDATE conflict SET v = v || 'z' WHERE k = 1", "COMMIT")
	level(t, a, b)
	for _, c := range []*member{a, b} {
		if got := query(t, c.connect(t, "postgres"), "SELECT v FROM conflict"); got != "yz" {
			t.Errorf("at %s it is %q", c.config.Self().Name, got)
		}
	}
}

// TestCertified: who loses when it commits, as its rows were not in anybody's way, is told so by the log.
func TestCertified(t *testing.T) {
	a, b := both(t)
	x, y := a.connect(t, "postgres"), b.connect(t, "postgres")
	exec(t, x, "CREATE TABLE parent (k int PRIMARY KEY)", "INSERT INTO parent VALUES (1)",
		"CREATE TABLE child (k int PRIMARY KEY, p int REFERENCES parent)")
	level(t, a, b)
	exec(t, x, "BEGIN", "INSERT INTO child VALUES (1, 1)")
	release := stall(a)
	exec(t, y, "DELETE FROM parent")
	lost := make(chan error, 1)
	go func() { _, err := x.Exec(context.Background(), "COMMIT"); lost <- err }()
	await(t, "the commit is ordered", func() bool {
		return a.main().metrics.Waits.Waiting.Load(flow.WaitOrder) > 0 ||
			a.main().order.core.Ordinal() > a.main().order.core.Applied()
	})
	release()
	if err := <-lost; code(err) != "40001" {
		t.Errorf("it is told %v", err)
	}
	level(t, a, b)
	if n := query(t, x, "SELECT count(*)::text FROM child"); n != "0" {
		t.Errorf("it has %s rows", n)
	}
}

// stall keeps a member's executor from applying anything until release is called: a snapshot is being taken.
func stall(m *member) (release func()) {
	l := m.main()
	if !l.flow.gate.Enter(func() bool { return false }) {
		return func() {}
	}
	return l.flow.gate.Leave
}

// TestOwnCommitsAreSeen: a session's next transaction, and another one's that begins after an answer, sees what was
// committed.
func TestOwnCommitsAreSeen(t *testing.T) {
	a, _ := both(t)
	x := a.connect(t, "postgres")
	exec(t, x, "CREATE TABLE seen (k int PRIMARY KEY, n int)", "INSERT INTO seen VALUES (1, 0)")
	for range 20 {
		exec(t, x, "BEGIN", "UPDATE seen SET n = n + 1 WHERE k = 1", "COMMIT")
	}
	if n := query(t, a.connect(t, "postgres"), "SELECT n::text FROM seen"); n != "20" {
		t.Errorf("it is %s", n)
	}
}

// TestAddsAndBlindWrites: single statements that add to a row from both members at once lose nothing, and one that sets
// a row by its key has not seen it.
func TestAddsAndBlindWrites(t *testing.T) {
	a, b := both(t)
	x := a.connect(t, "postgres")
	exec(t, x, "CREATE TABLE adds (k int PRIMARY KEY, n int NOT NULL, v text)",
		"INSERT INTO adds SELECT g, 0, '' FROM generate_series(1, 3) g")
	level(t, a, b)
	over := make(chan error, 2)
	for _, m := range []*member{a, b} {
		c := m.connect(t, "postgres")
		go func() {
			var err error
			for i := 0; i < 40 && err == nil; i++ {
				_, err = c.Exec(context.Background(), "UPDATE adds SET n = n + $1 WHERE k = $2", 2, 1)
			}
			over <- err
		}()
	}
	for range 2 {
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
	before := a.main().metrics.Writes.Blind.Load()
	for i := range 10 {
		if _, err := x.Exec(t.Context(), "UPDATE adds SET v = $1 WHERE k = $2", strings.Repeat("v", i), 2); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.main().metrics.Writes.Blind.Load() - before; n == 0 {
		t.Error("no write was blind")
	}
	if tag, err := x.Exec(t.Context(), "UPDATE adds SET v = $1 WHERE k = $2", "v", 99); err != nil ||
		tag.RowsAffected() != 0 {
		t.Errorf("a row that is not there: %s, %v", tag, err)
	}
	level(t, a, b)
	for _, m := range []*member{a, b} {
		got := query(t, m.connect(t, "postgres"), "SELECT string_agg(concat(n, v), ' ' ORDER BY k) FROM adds")
		if got != "160 0vvvvvvvvv 0" {
			t.Errorf("at %s there is %q", m.config.Self().Name, got)
		}
	}
}

// TestSerializable: two that read what the other writes do not both commit, wherever they run.
func TestSerializable(t *testing.T) {
	a, b := both(t)
	x, y := a.connect(t, "postgres"), b.connect(t, "postgres")
	exec(t, x, "CREATE TABLE skew (k int PRIMARY KEY, n int)", "INSERT INTO skew VALUES (1, 1), (2, 1)")
	level(t, a, b)
	const begin = "BEGIN ISOLATION LEVEL SERIALIZABLE"
	exec(t, x, begin)
	exec(t, y, begin)
	query(t, x, "SELECT sum(n)::text FROM skew")
	query(t, y, "SELECT sum(n)::text FROM skew")
	exec(t, x, "UPDATE skew SET n = 0 WHERE k = 1")
	_, first := y.Exec(t.Context(), "UPDATE skew SET n = 0 WHERE k = 2")
	if first == nil {
		_, first = y.Exec(t.Context(), "COMMIT")
	}
	_, second := x.Exec(t.Context(), "COMMIT")
	if (code(first) == "40001") == (code(second) == "40001") {
		t.Errorf("one says %v, the other %v", first, second)
	}
}

// TestLarge: a transaction that does not fit into one batch comes to the other member whole, and one that is larger
// than may be is refused.
func TestLarge(t *testing.T) {
	a, b := both(t)
	x := a.connect(t, "postgres")
	exec(t, x, "CREATE TABLE large (k int PRIMARY KEY, v text)",
		"INSERT INTO large SELECT g, repeat(md5(g::text), 20) FROM generate_series(1, 3000) g")
	level(t, a, b)
	const sum = "SELECT md5(string_agg(v, '' ORDER BY k)) FROM large"
	if one, other := query(t, x, sum), query(t, b.connect(t, "postgres"), sum); one != other {
		t.Error("the members' rows differ")
	}
	fails(t, x, "54000", "UPDATE large SET v = repeat(v, 4)")
}

// TestDefinitions: what is defined at one member is defined at the other when it is answered and applied there, and a
// definition that fails says the same as in PostgreSQL.
func TestDefinitions(t *testing.T) {
	a, b := both(t)
	x, y := a.connect(t, "postgres"), b.connect(t, "postgres")
	exec(t, x, "CREATE TABLE defined (k int PRIMARY KEY, v text)", "CREATE INDEX defined_v ON defined (v)")
	level(t, a, b)
	exec(t, y, "INSERT INTO defined VALUES (1, 'one')", "ALTER TABLE defined ADD w int DEFAULT 7")
	level(t, a, b)
	if got := query(t, x, "SELECT k || v || w FROM defined"); got != "1one7" {
		t.Errorf("there is %q", got)
	}
	fails(t, x, "42P07", "CREATE TABLE defined (k int)")
	exec(t, x, "BEGIN", "ALTER TABLE defined ADD u int", "UPDATE defined SET u = 8", "INSERT INTO defined VALUES (2)",
		"COMMIT")
	level(t, a, b)
	if got := query(t, y, "SELECT sum(u)::text FROM defined"); got != "8" {
		t.Errorf("there is %q", got)
	}
	exec(t, y, "CREATE INDEX CONCURRENTLY defined_w ON defined (w)", "DROP TABLE defined")
	level(t, a, b)
	fails(t, x, "42P01", "SELECT FROM defined")
}

// TestLongDefinition: what is ordered behind a definition that takes long does not wait for it, unless it writes to the
// table; its own session waits.
func TestLongDefinition(t *testing.T) {
	a, b := both(t)
	x, y := a.connect(t, "postgres"), b.connect(t, "postgres")
	exec(t, x, "CREATE FUNCTION slow(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "+
		"$$ BEGIN PERFORM pg_sleep(0.3); RETURN n; END $$",
		"CREATE TABLE long (k int PRIMARY KEY)", "INSERT INTO long SELECT generate_series(1, 10)",
		"CREATE TABLE beside (k int PRIMARY KEY)")
	level(t, a, b)
	over := make(chan error, 1)
	go func() {
		_, err := x.Exec(context.Background(), "CREATE INDEX long_slow ON long (slow(k))")
		over <- err
	}()
	await(t, "it is long at both members", func() bool {
		return a.main().db.jobs.Under() != nil && b.main().db.jobs.Under() != nil
	})
	exec(t, y, "INSERT INTO beside VALUES (1)")
	if b.main().db.jobs.Under() == nil {
		t.Error("what is beside it waits for it")
	}
	exec(t, y, "INSERT INTO long VALUES (11)")
	if b.main().db.jobs.Under() != nil {
		t.Error("a row of its table is beside it")
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	level(t, a, b)
	if n := query(t, x, "SELECT count(*)::text FROM long WHERE slow(k) > 0"); n != "11" {
		t.Errorf("there are %s rows", n)
	}
}

// TestDetach: a partition is detached CONCURRENTLY at both members.
func TestDetach(t *testing.T) {
	a, b := both(t)
	x := a.connect(t, "postgres")
	exec(t, x, "CREATE TABLE parts (k int) PARTITION BY LIST (k)",
		"CREATE TABLE part PARTITION OF parts (PRIMARY KEY (k)) FOR VALUES IN (1)", "INSERT INTO parts VALUES (1)",
		"ALTER TABLE parts DETACH PARTITION part CONCURRENTLY")
	level(t, a, b)
	for _, m := range []*member{a, b} {
		if got := query(t, m.connect(t, "postgres"), "SELECT concat((SELECT count(*) FROM parts), "+
			"(SELECT count(*) FROM part))"); got != "01" {
			t.Errorf("at %s rows are %s", m.config.Self().Name, got)
		}
	}
}

// TestProcedure: what a procedure commits is at the other member, and its last transaction too.
func TestProcedure(t *testing.T) {
	a, b := both(t)
	x := a.connect(t, "postgres")
	exec(t, x, "CREATE TABLE steps (k int PRIMARY KEY)", "CREATE PROCEDURE fill() LANGUAGE plpgsql AS $$ BEGIN "+
		"FOR i IN 1..4 LOOP INSERT INTO steps VALUES (i); COMMIT; END LOOP; INSERT INTO steps VALUES (9); END $$",
		"CALL fill()")
	level(t, a, b)
	if got := query(t, b.connect(t, "postgres"), "SELECT string_agg(k::text, ' ' ORDER BY k) FROM steps"); got !=
		"1 2 3 4 9" {
		t.Errorf("there is %q", got)
	}
}

// TestNotify: a session hears what one of the other member notifies, once its rows are there, and there are no more
// channels than may be.
func TestNotify(t *testing.T) {
	a, b := both(t)
	x, y := a.connect(t, "postgres"), b.connect(t, "postgres")
	exec(t, y, "LISTEN news")
	exec(t, x, "CREATE TABLE noted (k int PRIMARY KEY)", "BEGIN", "INSERT INTO noted VALUES (1)", "NOTIFY news, 'one'",
		"COMMIT")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	n, err := y.WaitForNotification(ctx)
	if err != nil || n.Channel != "news" || n.Payload != "one" {
		t.Fatalf("it hears %+v, %v", n, err)
	}
	if got := query(t, y, "SELECT count(*)::text FROM noted"); got != "1" {
		t.Errorf("%s rows are there", got)
	}
	if got := b.main().notices.Count(); got != 1 {
		t.Errorf("it listens to %d channels", got)
	}
	reloaded(t, b, func(c *config.Config) { c.Limits.Channels = 1 })
	fails(t, y, "54000", "LISTEN other")
	if b.main().metrics.Limits.Channels.Load() == 0 {
		t.Error("it is not counted")
	}
	exec(t, y, "UNLISTEN *")
	await(t, "nobody listens", func() bool { return b.main().notices.Count() == 0 })
}

// TestAdvisoryLock: a lock that is held at one member is waited for at the other, and given back when its session ends.
func TestAdvisoryLock(t *testing.T) {
	a, b := both(t)
	x, y := a.connect(t, "postgres"), b.connect(t, "postgres")
	exec(t, x, "SELECT pg_advisory_lock(7)")
	if got := query(t, y, "SELECT pg_try_advisory_lock(7)::text"); got != "false" {
		t.Errorf("it is held, and tried: %s", got)
	}
	over := make(chan error, 1)
	go func() { _, err := y.Exec(context.Background(), "SELECT pg_advisory_lock(7)"); over <- err }()
	select {
	case err := <-over:
		t.Fatalf("it is not waited for: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := x.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	shown := a.main().shows.Show("locks")
	if len(shown.Rows) != 1 || !slices.Contains(shown.Rows[0], "beta") {
		t.Errorf("shown is %q", shown.Rows)
	}
}

// TestLockTable: who has locked a table keeps the other member's sessions from committing writes to it, until it ends.
func TestLockTable(t *testing.T) {
	a, b := both(t)
	x, y := a.connect(t, "postgres"), b.connect(t, "postgres")
	exec(t, x, "CREATE TABLE locked (k int PRIMARY KEY)")
	level(t, a, b)
	exec(t, x, "BEGIN", "LOCK TABLE locked")
	over := make(chan error, 1)
	go func() { _, err := y.Exec(context.Background(), "INSERT INTO locked VALUES (1)"); over <- err }()
	select {
	case err := <-over:
		t.Fatalf("it is not waited for: %v", err)
	case <-time.After(150 * time.Millisecond):
	}
	exec(t, x, "INSERT INTO locked VALUES (2)", "COMMIT")
	if err := <-over; err != nil {
		t.Error(err)
	}
	exec(t, x, "BEGIN", "LOCK TABLE ONLY locked IN SHARE MODE NOWAIT", "ROLLBACK")
	fails(t, x, "42P01", "BEGIN; LOCK TABLE nowhere")
}

// TestSequence: values of both members differ, also those of later chunks.
func TestSequence(t *testing.T) {
	a, b := both(t)
	x, y := a.connect(t, "postgres"), b.connect(t, "postgres")
	exec(t, x, "CREATE SEQUENCE numbers", "CREATE SEQUENCE few MAXVALUE 20",
		"CREATE TABLE given (n bigint PRIMARY KEY)")
	level(t, a, b)
	exec(t, x, "INSERT INTO given SELECT nextval('numbers') FROM generate_series(1, 300)")
	exec(t, y, "INSERT INTO given SELECT nextval('numbers') FROM generate_series(1, 300)")
	query(t, x, "SELECT setval('numbers', 16777210)::text") // near the end of a chunk
	exec(t, x, "INSERT INTO given SELECT nextval('numbers') FROM generate_series(1, 20)")
	level(t, a, b)
	if n := query(t, x, "SELECT count(*)::text FROM given"); n != "620" {
		t.Errorf("%s values were given", n)
	}
	fails(t, x, "2200H", "SELECT nextval('few') FROM generate_series(1, 30)")
}

// TestCancel: a client's cancel reaches what its backend executes, and what waits for the order.
func TestCancel(t *testing.T) {
	a, b := both(t)
	x, y := a.connect(t, "postgres"), b.connect(t, "postgres")
	exec(t, x, "CREATE TABLE cancelled (k int PRIMARY KEY)")
	level(t, a, b)
	exec(t, x, "BEGIN", "LOCK TABLE cancelled")
	for _, sql := range []string{"SELECT pg_sleep(60)", "INSERT INTO cancelled VALUES (1)"} {
		over := make(chan error, 1)
		go func() { _, err := y.Exec(context.Background(), sql); over <- err }()
		await(t, "it is cancelled", func() bool { // one may come before it has begun
			time.Sleep(50 * time.Millisecond)
			if err := y.PgConn().CancelRequest(t.Context()); err != nil {
				t.Error(err)
			}
			return len(over) > 0
		})
		if err := <-over; code(err) != "57014" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	exec(t, x, "ROLLBACK")
	exec(t, y, "INSERT INTO cancelled VALUES (1)")
}

// TestCancelledDefinition: one that is not proposed yet is withdrawn.
func TestCancelledDefinition(t *testing.T) {
	a, _ := both(t)
	l := a.main()
	result, over := l.submitted.definitions.Begin(1 << 40)
	defer over()
	l.cancelDefinition(1 << 40) // nobody has submitted it
	l.order.core.Call(func(*engine.Engine) {})
	if len(result) > 0 {
		t.Errorf("one that is not under way is answered: %+v", <-result)
	}
}

// TestReload: what can be changed while the node runs is in force at once, PostgreSQL's settings too; a file that is no
// good changes nothing.
func TestReload(t *testing.T) {
	a, _ := both(t)
	x := a.connect(t, "postgres")
	reloaded(t, a, func(c *config.Config) {
		c.LogLevel, c.Limits.TurnsPercent, c.Postgres.Settings["work_mem"] = "debug", -1, "7MB"
		c.Limits.Sessions = 1
	})
	if a.level.Level() != slog.LevelDebug {
		t.Error("the log is not at another level")
	}
	await(t, "PostgreSQL has the setting", func() bool { return query(t, x, "SHOW work_mem") == "7MB" })
	before := a.main().metrics.Limits.Sessions.Load()
	if _, err := a.dial(t.Context(), "postgres"); code(err) != "53300" ||
		a.main().metrics.Limits.Sessions.Load() != before+1 {
		t.Errorf("one session too many: %v", err)
	}
	was := a.settled()
	for name, c := range map[string]*config.Config{
		"that cannot be read": nil,
		"with a setting of ours": {LogLevel: "info", Postgres: config.Postgres{
			Settings: map[string]string{"port": "3"}}},
		"with TLS of no file": {LogLevel: "info", ClientTLS: config.TLS{Cert: "/nonexistent", Key: "/nonexistent"}},
	} {
		a.again(func() (*config.Config, error) {
			if c == nil {
				return nil, errors.New("no")
			}
			return c, nil
		}, &a.level)
		if a.settled() != was {
			t.Errorf("a file %s is in force", name)
		}
	}
}

// TestShown: what a member tells of itself, in SQL and at its admin port.
func TestShown(t *testing.T) {
	a, b := both(t)
	x := a.connect(t, "postgres")
	exec(t, x, "CREATE TABLE shown (k int PRIMARY KEY)", "INSERT INTO shown VALUES (1)")
	columns, rows, ok := statusRows(a.Node)
	if !ok || len(rows) != 2 || len(columns) != len(rows[0]) || !slices.Contains(rows[1], "beta") {
		t.Errorf("the status is %q, %q", columns, rows)
	}
	for _, c := range []struct {
		database           string
		starting, draining bool
		known              bool
	}{{"", false, false, true}, {"postgres", false, false, true}, {"nowhere", true, false, false}} {
		f, known := facts(b.Node, c.database)
		if known != c.known || f.Starting != c.starting || f.Draining || known && (f.Reach.Heard != 2 || f.Lag > 100) {
			t.Errorf("of database %q it says %+v, known %v", c.database, f, known)
		}
	}
	l := a.main()
	at := levels(l)
	if at.Sessions < 1 || at.LogBytes == 0 || at.Delay != 0 {
		t.Errorf("the levels are %+v", at)
	}
	measure(l)
	measureNode(a.Node)
	m := &l.metrics.Member
	if m.Ready.Load() != 1 || m.Synced.Load() != 1 || m.Halted.Load() != 0 || m.Members.Load() != 2 ||
		m.Reached.Load() != 2 || m.Ordinal.Load() == 0 || m.Sessions.Load() < 1 ||
		m.Leads.Load()+leads(b) != 1 {
		t.Errorf("the gauges are %+v", m)
	}
	n := &a.Node.metrics.Process.Node
	if n.Ready.Load() != 1 || n.Draining.Load() != 0 || n.Goroutines.Load() < 20 {
		t.Errorf("the node's gauges are %+v", n)
	}
	for _, what := range []string{"status", "limits", "databases", "plans", "checksums"} {
		if r := l.shows.Show(what); len(r.Columns) == 0 {
			t.Errorf("%s is not shown", what)
		}
	}
}

func leads(m *member) int64 {
	measure(m.main())
	return m.main().metrics.Member.Leads.Load()
}

// TestDatabases: a database that is created at one member can be used at both at once, renamed, and dropped; roles are
// for all of them.
func TestDatabases(t *testing.T) {
	a, b := both(t)
	x := a.connect(t, "postgres")
	exec(t, x, "CREATE DATABASE shop")
	y := b.connect(t, "shop") // known or not
	exec(t, y, "CREATE TABLE goods (k int PRIMARY KEY)", "INSERT INTO goods VALUES (1)", "CREATE ROLE seller",
		"GRANT SELECT ON goods TO seller")
	await(t, "the row is there", func() bool {
		z, err := a.dial(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close(t.Context())
		var n int
		return z.QueryRow(t.Context(), "SELECT count(*) FROM goods").Scan(&n) == nil && n == 1
	})
	level(t, a, b)
	if n := query(t, x, "SELECT count(*)::text FROM pg_roles WHERE rolname = 'seller'"); n != "1" {
		t.Errorf("there are %s such roles", n)
	}
	if _, err := a.dial(t.Context(), "nowhere"); code(err) != "3D000" {
		t.Errorf("a database that is not there: %v", err)
	}
	await(t, "its session is known", func() bool { return a.current().named("shop").others.peers.Clients() > 0 })
	fails(t, x, "55006", "DROP DATABASE shop")
	fails(t, x, "55006", "DROP DATABASE postgres")
	fails(t, x, "42P04", "CREATE DATABASE shop")
	fails(t, x, "3D000", "DROP DATABASE nowhere")
	fails(t, y, "55006", "DROP DATABASE shop")
	if list := a.main().shows.Show("databases").Rows; len(list) != 2 || !slices.Contains(list[1], "shop") {
		t.Errorf("the databases are %q", list)
	}
	exec(t, y, "REVOKE SELECT ON goods FROM seller")
	if err := y.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, x, "DROP ROLE seller")
	await(t, "it is renamed", func() bool {
		_, err := x.Exec(t.Context(), "ALTER DATABASE shop RENAME TO store")
		return err == nil
	})
	z := b.connect(t, "store")
	if n := query(t, z, "SELECT count(*)::text FROM goods"); n != "1" {
		t.Errorf("%s rows are left", n)
	}
	dirs := func(m *member) (n int) {
		found, err := filepath.Glob(filepath.Join(m.config.DataDir, "log-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if dirs(a) != 1 || dirs(b) != 1 {
		t.Errorf("there are %d and %d logs beside the main one's", dirs(a), dirs(b))
	}
	exec(t, x, "DROP DATABASE store WITH (FORCE)")
	if err := z.Ping(t.Context()); code(err) != "57P01" {
		t.Errorf("a session of a dropped database is told %v", err)
	}
	await(t, "its logs are removed", func() bool { return dirs(a) == 0 && dirs(b) == 0 && a.current().count() == 1 })
}

// TestWhoComesIn: who has no user, asks for replication, or cannot be let in by PostgreSQL, is told so.
func TestWhoComesIn(t *testing.T) {
	a, _ := both(t)
	for params, want := range map[string]string{
		"user=nobody":                        "28000",
		"user=postgres replication=database": "0A000",
		"user=postgres dbname=postgres":      "",
	} {
		host, port, err := net.SplitHostPort(a.config.Listen)
		if err != nil {
			t.Fatal(err)
		}
		c, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%s sslmode=disable dbname=postgres %s", host, port,
			params))
		if code(err) != want {
			t.Errorf("%s: %v, want %q", params, err, want)
		}
		if err == nil {
			_ = c.Close(t.Context())
		}
	}
	x := a.connect(t, "postgres")
	exec(t, x, "CREATE ROLE secretive LOGIN PASSWORD 'hush'")
	if got := query(t, x, "SELECT left(rolpassword, 14) FROM pg_authid WHERE rolname = 'secretive'"); got !=
		"SCRAM-SHA-256$" {
		t.Errorf("its password is kept as %q", got)
	}
}

// TestDeferred: what is checked at COMMIT only is checked before the order has it.
func TestDeferred(t *testing.T) {
	a, b := both(t)
	x := a.connect(t, "postgres")
	exec(t, x, "CREATE TABLE due (k int PRIMARY KEY, p int REFERENCES due DEFERRABLE INITIALLY DEFERRED)",
		"BEGIN", "INSERT INTO due VALUES (1, 2)", "INSERT INTO due VALUES (2, 1)", "COMMIT", "BEGIN",
		"INSERT INTO due VALUES (3, 4)")
	fails(t, x, "23503", "COMMIT")
	level(t, a, b)
	if !a.main().db.tables.Load().Deferrable() || !b.main().db.tables.Load().Deferrable() {
		t.Error("it is not known that something is deferred")
	}
	if n := query(t, b.connect(t, "postgres"), "SELECT count(*)::text FROM due"); n != "2" {
		t.Errorf("there are %s rows", n)
	}
}
