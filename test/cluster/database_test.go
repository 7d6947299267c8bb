package cluster

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/database/instance"
)

// TestDatabases: databases are created, used, renamed and dropped at any node; each has its own tables, sequences,
// channels and advisory locks, and all have the same roles.
func TestDatabases(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE ROLE of_all", "CREATE DATABASE shop OWNER of_all")
	shop := c.In("shop")
	for _, k := range c.All() { // at once
		if got := shop.Connect(k).Get("SELECT current_database()"); got != "shop" {
			t.Errorf("node %d: %s", k, got)
		}
	}
	s.Do("CREATE TABLE same(id serial PRIMARY KEY, v text)", "INSERT INTO same(v) VALUES ('main')")
	shop.Connect(2).Do("CREATE TABLE same(id serial PRIMARY KEY, v int)", "INSERT INTO same(v) VALUES (1), (2)",
		"ALTER TABLE same OWNER TO of_all")
	shop.Everywhere("SELECT id, v, (SELECT count(*) FROM pg_tables WHERE tablename = 'same' AND tableowner = "+
		"'of_all') FROM same ORDER BY 1", "1|1|1,2|2|1")
	c.Everywhere("SELECT id, v FROM same", "1|main")
	for _, k := range c.All() {
		shop.Connect(k).Do("BEGIN; UPDATE same SET v = v + 1; COMMIT")
		shop.Everywhere("SELECT sum(v) FROM same", fmt.Sprint(3+2*k))
	}

	// A row that is changed at two nodes is certified here, too.
	a, b := shop.Connect(1), shop.Connect(2)
	a.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT FROM same")
	b.Do("UPDATE same SET v = 0 WHERE id = 1")
	shop.Everywhere("SELECT v FROM same WHERE id = 1", "0")
	if err := a.Try("UPDATE same SET v = 1 WHERE id = 1; COMMIT"); Code(err) != "40001" {
		t.Errorf("a lost update gives %v", err)
	}
	a.Do("ROLLBACK")

	// Channels and locks.
	mine, theirs := shop.Connect(1), c.Connect(1)
	mine.listen("talk")
	theirs.Do("LISTEN talk")
	shop.Connect(3).Do("NOTIFY talk, 'x'")
	if got := mine.hears(1); got[0] != "talk:x" {
		t.Errorf("heard %v", got)
	}
	theirs.hearsNothing()
	locks := c.Connect(2)
	locks.Do("SELECT pg_advisory_lock(77)")
	if got := shop.Connect(1).Get("SELECT pg_try_advisory_lock(77)"); got != "t" {
		t.Errorf("another database's advisory lock is in the way")
	}
	if got := c.Connect(1).Get("SELECT pg_try_advisory_lock(77)"); got != "f" {
		t.Errorf("the same database's advisory lock is not")
	}

	// Roles, from a database that is not the main one.
	shop.Connect(3).Do("CREATE ROLE from_shop LOGIN", "GRANT SELECT ON same TO from_shop",
		"ALTER ROLE from_shop SET work_mem = '5MB'", "COMMENT ON ROLE from_shop IS 'x'")
	c.Everywhere("SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = 'from_shop'", "x")
	shop.Everywhere("SELECT has_table_privilege('from_shop', 'same', 'SELECT')", "t")
	if err := c.Connect(2).Try("DROP ROLE from_shop"); Code(err) != "2BP01" {
		t.Errorf("a role that has rights in another database: %v", err)
	}

	err := shop.Connect(2).Try("DROP ROLE from_shop")
	if !strings.Contains(Explain(err), "DETAIL: privileges for table same") {
		t.Errorf("a role that has rights here is dropped: %s", Explain(err))
	}

	// What a block does to roles is undone with it. Another role of that name comes first.
	block := shop.Connect(1)
	block.Do("BEGIN; CREATE ROLE of_block", "GRANT SELECT ON same TO of_block", "SET ROLE of_block",
		"SELECT count(*) FROM same", "ROLLBACK", "BEGIN; CREATE ROLE of_block")
	s.Do("CREATE ROLE of_block", "DROP ROLE of_block")
	if err := block.Try("COMMIT"); Code(err) != "40001" {
		t.Errorf("a block that has made a role made by another: %v", err)
	}

	for sql, code := range map[string]string{
		"BEGIN; CREATE ROLE nobody_else; COMMIT": "0A000", "DO $$ BEGIN CREATE ROLE nobody_else; END $$": "0A000",
		"DROP DATABASE shop": "55006", "DROP DATABASE postgres": "0A000",
		"ALTER DATABASE postgres RENAME TO other": "0A000",
		"ALTER DATABASE shop RENAME TO other":     "0A000", "BEGIN; CREATE DATABASE inblock": "25001",
		"CREATE DATABASE copied TEMPLATE shop":           "0A000",
		"CREATE DATABASE closed ALLOW_CONNECTIONS false": "0A000",
		"ALTER DATABASE shop ALLOW_CONNECTIONS false":    "0A000",
		"ALTER DATABASE shop SET TABLESPACE pg_default":  "0A000",
		"CREATE DATABASE shop":                           "42P04", "DROP DATABASE template1": "0A000",
		"DROP DATABASE nowhere":           "3D000",
		"CREATE DATABASE a OWNER nowhere": "42704", "ALTER DATABASE nowhere RENAME TO x": "3D000",
		"SET ROLE from_shop; CREATE DATABASE forbidden": "25001",
	} {
		if err := shop.Connect(1).Try(sql); Code(err) != code {
			t.Errorf("%s: %v, want %s", sql, err, code)
		}
	}
	counting := shop.Connect(1) // what it has counted is no business of its next transaction
	if err := counting.Try("DO $$ BEGIN COMMENT ON ROLE from_shop IS NULL; ALTER ROLE from_shop RESET work_mem; " +
		"END $$"); Code(err) != "0A000" {
		t.Errorf("a role is changed in a DO block: %v", err)
	}
	counting.Do("CREATE TABLE shop_counted(k int)", "DO $$ BEGIN INSERT INTO shop_counted VALUES (1); END $$")
	poor := shop.Connect(1)
	poor.Do("SET ROLE from_shop")
	for _, sql := range []string{"CREATE DATABASE forbidden", "CREATE ROLE forbidden"} {
		if err := poor.Try(sql); Code(err) != "42501" {
			t.Errorf("%s without the right to: %v", sql, err)
		}
	}
	if err := s.Try("DROP DATABASE shop"); Code(err) != "55006" {
		t.Errorf("DROP DATABASE of one in use: %v", err)
	}
	if _, err := pgx.Connect(context.Background(), c.In("template1").URL(1)); Code(err) != "3D000" {
		t.Errorf("template1: %v", err)
	}
	c.Check()
	s.Do("DROP DATABASE shop WITH (FORCE)")
	c.Settled()
	for _, k := range c.All() {
		if _, err := pgx.Connect(context.Background(), shop.URL(k)); Code(err) != "3D000" {
			t.Errorf("node %d: connecting to a dropped database: %v", k, err)
		}
	}
	s.Do("CREATE DATABASE shop", "ALTER DATABASE shop RENAME TO store2", "DROP ROLE from_shop, of_all")
	store := c.In("store2")
	store.Everywhere("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", "0")
	store.Connect(2).Do("CREATE TABLE t(k int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	store.Everywhere("SELECT count(*) FROM t", "1")
	c.Check()
	for k, tool := range []string{"createdb", "dropdb"} {
		if _, err := exec.LookPath(tool); err != nil {
			continue
		}
		host, port, err := net.SplitHostPort(c.Node(k + 1).Config.Listen)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(tool, "-h", host, "-p", port, "-U", "postgres",
			"tooled").CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", tool, err, out)
		}
	}
	c.Connect(3).Do("DROP DATABASE store2 WITH (FORCE)")
	c.Everywhere("SELECT count(*) FROM pg_database", "3")
}

// TestDatabasesMeet: what all databases share is defined at the same place in every order, however far a member's
// copy of one is behind.
func TestDatabasesMeet(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE DATABASE apart", "CREATE ROLE met1", "CREATE ROLE met2")
	apart := c.In("apart")
	x := apart.Connect(1)
	x.Do("CREATE TABLE ofmet(k int)", "ALTER TABLE ofmet OWNER TO met1", "CREATE TABLE granted(k int)")
	apart.Everywhere("SELECT count(*) FROM pg_tables WHERE tableowner = 'met1'", "1")

	// The third node has not applied yet that the role owns nothing.
	thaw := apart.freezeApplier(3)
	x.Do("DROP TABLE ofmet")
	s.Do("DROP ROLE met1")
	thaw()
	c.Everywhere("SELECT count(*) FROM pg_roles WHERE rolname = 'met1'", "0")

	// The third node has not applied yet that there is a role.
	thaw = c.freezeApplier(3)
	s.Do("CREATE ROLE met3")
	x.Do("GRANT SELECT ON granted TO met3", "BEGIN; CREATE TABLE of_met3(); ALTER TABLE of_met3 OWNER TO met3; COMMIT")
	s.Do("ALTER ROLE met3 RENAME TO met4")
	thaw()
	c.Everywhere("SELECT count(*) FROM pg_roles WHERE rolname = 'met4'", "1")
	apart.Everywhere("SELECT has_table_privilege('met4', 'granted', 'SELECT'), (SELECT count(*) FROM pg_tables WHERE "+
		"tableowner = 'met4')", "t|1")

	// Nor in a block.
	thaw = c.freezeApplier(3)
	s.Do("BEGIN; CREATE ROLE met5; CREATE TABLE meets(k int); COMMIT")
	x.Do("GRANT SELECT ON granted TO met5")
	thaw()
	apart.Everywhere("SELECT has_table_privilege('met5', 'granted', 'SELECT')", "t")
	c.Check()
	s.Do("DROP TABLE meets", "DROP DATABASE apart WITH (FORCE)", "DROP ROLE met2, met4, met5")
	c.Everywhere("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'met_'", "0")
}

// TestDatabasesOfAnAbsentMember: a member comes back after databases were created, and dropped again, with what
// depended on them.
func TestDatabasesOfAnAbsentMember(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	s := c.Connect(1)
	c.Stop(3)
	s.Do("CREATE ROLE absent", "CREATE DATABASE gone")
	gone := c.In("gone").Connect(2)
	gone.Do("CREATE TABLE t()", "ALTER TABLE t OWNER TO absent")
	if err := s.Try("DROP ROLE absent"); Code(err) != "2BP01" { // at the third member, too, when it comes so far
		t.Errorf("the role owns a table: %v", err)
	}
	gone.Do("DROP TABLE t", "CREATE TABLE t2()")
	s.Do("DROP ROLE absent")
	_ = gone.Close(context.Background()) // it is in the way
	s.Do("DROP DATABASE gone WITH (FORCE)", "CREATE DATABASE gone", "ALTER ROLE postgres SET work_mem = '5MB'")
	c.In("gone").Connect(1).Do("CREATE TABLE again(k int PRIMARY KEY)", "INSERT INTO again VALUES (1)")
	if got := s.Get("SELECT count(*) FROM tutti.database"); got != "2" {
		t.Errorf("the dropped database's order is not kept for the third member: %s", got)
	}
	c.Kill(2) // it is kept by a member that starts again, too
	c.Run(2)
	c.WaitReady(2)
	c.Run(3)
	c.WaitReady()
	c.In("gone").Everywhere("SELECT k FROM again", "1")
	c.Everywhere("SELECT count(*) FROM pg_roles WHERE rolname = 'absent'", "0")
	c.Everywhere("SELECT string_agg(state, ',') FROM tutti.database", "open")
	c.Check()
}

// TestDatabasesAfterKills: databases are created and dropped, and roles used in them, while nodes and their servers are
// killed; then all nodes have the same ones, with the same rows.
func TestDatabasesAfterKills(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	c.Connect(1).Do("CREATE DATABASE busy")
	busy := c.In("busy")
	l := busy.NewLoad("busy")
	stop, done := make(chan struct{}), make(chan struct{})
	var definers sync.WaitGroup
	go func() { defer close(done); l.Run(3, stop) }()
	for _, k := range c.All() {
		definers.Go(func() { defineBeside(c, busy, k, stop) })
	}
	for _, disturb := range []func(){
		func() { c.Kill(2); time.Sleep(500 * time.Millisecond); c.Run(2) },
		func() { c.KillPostgres(3) },
		func() { c.KillAll(); c.StartNodes() },
	} {
		time.Sleep(time.Second)
		disturb()
		c.WaitReady()
		busy.WaitReady()
	}
	time.Sleep(time.Second)
	close(stop)
	<-done
	definers.Wait()
	t.Log(l.Counts())
	l.Verify()
	c.Connect(1).Do("CREATE ROLE last_of_all") // ordered after everything
	c.Everywhere("SELECT count(*) FROM pg_roles WHERE rolname = 'last_of_all'", "1")
	c.Settled()
	busy.Settled()
	for what, sql := range map[string]string{
		"roles":     "SELECT rolname FROM pg_roles WHERE rolname LIKE 'beside%' ORDER BY 1",
		"databases": "SELECT datname, datacl FROM pg_database ORDER BY 1",
		"list":      "SELECT id, name, state FROM tutti.database WHERE state <> 'dropped' ORDER BY 1",
	} {
		c.Everywhere(sql, c.Connect(1).Get(sql))
		t.Log(what, c.Connect(1).Get(sql))
	}
	rights := "SELECT relname, relacl, pg_get_userbyid(relowner) FROM pg_class WHERE relname LIKE 'beside%' ORDER BY 1"
	busy.Everywhere(rights, busy.Connect(1).Get(rights))
	// the dropped ones are gone in the end
	c.Everywhere("SELECT string_agg(DISTINCT state, ',') FROM tutti.database", "open")
	c.Check()
	c.Stop(c.All()...)
}

// defineBeside creates and drops what databases share, with what depends on it, until stop is closed.
func defineBeside(c, busy *Cluster, k int, stop <-chan struct{}) {
	connect := func(c *Cluster) *pgx.Conn {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		conn, _ := pgx.Connect(ctx, c.URL(k)) // it may be down
		return conn
	}
	for i := 0; ; i++ {
		main, in := connect(c), connect(busy)
		for main != nil && in != nil && !main.IsClosed() && !in.IsClosed() {
			select {
			case <-stop:
				closeConn(main)
				closeConn(in)
				return
			default:
			}
			i++
			for _, do := range []struct {
				conn *pgx.Conn
				sql  string
			}{
				{main, "CREATE ROLE beside%d"}, {in, "CREATE TABLE beside_t%d(k int)"},
				{in, "ALTER TABLE beside_t%d OWNER TO beside%d"}, {in, "GRANT SELECT ON beside_t%d TO beside%d"},
				{main, "CREATE DATABASE beside_d%d"}, {main, "DROP ROLE beside%d"}, {in, "DROP TABLE beside_t%d"},
				{main, "DROP ROLE beside%d"}, {main, "DROP DATABASE beside_d%d"},
			} {
				ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
				// others do the same
				_, _ = do.conn.Exec(ctx, strings.ReplaceAll(do.sql, "%d", fmt.Sprint(10*k+i%3)),
					pgx.QueryExecModeSimpleProtocol)
				cancel()
			}
		}
		closeConn(main)
		closeConn(in)
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestRenamedHalfWay: a node that ends when its PostgreSQL has renamed a database, and Tutti has not noted that, goes
// on with it at its next start.
func TestRenamedHalfWay(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	s := c.Connect(1)
	s.Do("CREATE DATABASE halfway")
	before := c.In("halfway").Connect(1)
	before.Do("CREATE TABLE of_it (k int PRIMARY KEY)", "INSERT INTO of_it VALUES (1)")
	closeConn(before.Conn)
	c.Stop(3)
	s.Do("ALTER DATABASE halfway RENAME TO arrived")
	c.In("arrived").Connect(1).Do("INSERT INTO of_it VALUES (2)")
	build, err := findBuild()
	if err != nil {
		t.Fatal(err)
	}
	pg := instance.New(instance.Options{Build: build, DataDir: c.Node(3).Config.DataDir + "/postgres"})
	if err := pg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := probe(t.Context(), pg.ConnString("postgres", "postgres"),
		"ALTER DATABASE halfway RENAME TO arrived"); err != nil {
		t.Fatal(err)
	}
	if err := pg.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Run(3)
	c.WaitReady(3)
	c.In("arrived").Everywhere("SELECT count(*) FROM of_it", "2")
	c.In("arrived").Check()
}
