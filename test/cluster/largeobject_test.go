package cluster

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// objects is what there is of large objects at a node: all of it, content by its hash.
const objects = `SELECT string_agg(concat_ws(' ', m.oid, pg_get_userbyid(m.lomowner), m.lomacl, ` +
	`obj_description(m.oid, 'pg_largeobject'), md5(lo_get(m.oid))), '; ' ORDER BY m.oid) FROM ` +
	`pg_largeobject_metadata m WHERE m.oid `

// same waits until all nodes say the same of large objects.
func (c *Cluster) sameObjects(which string) string {
	c.tb.Helper()
	c.Settled()
	want := c.Connect(1).Get(objects + which)
	c.Everywhere(objects+which, want)
	return want
}

// TestLargeObjects: what is written at one node is at all, and conflicts like rows.
func TestLargeObjects(t *testing.T) {
	c := use(t)
	a, b, d := c.Connect(1), c.Connect(2), c.Connect(3)
	a.Do("SELECT lo_from_bytea(4200, 'one')")
	c.Everywhere("SELECT encode(lo_get(4200), 'escape')", "one")
	b.Do("SELECT lo_put(4200, 3, ' and two')")
	c.Everywhere("SELECT encode(lo_get(4200), 'escape')", "one and two")
	d.Do("BEGIN", "SELECT lo_open(4200, 131072 + 262144)", "SELECT lo_lseek(0, 0, 2)",
		"SELECT lowrite(0, ' and three')", "SELECT lo_truncate(0, 15)", "COMMIT")
	c.Everywhere("SELECT encode(lo_get(4200), 'escape')", "one and two and")

	// Each node draws OIDs of its own.
	drawn := map[string]bool{}
	for range 5 {
		for _, s := range []*Conn{a, b, d} {
			drawn[s.Get("SELECT lo_creat(-1)")] = true
		}
	}
	if len(drawn) != 15 {
		t.Errorf("drew %v", drawn)
	}
	for o := range drawn { // order-free: each is dropped
		c.Everywhere("SELECT count(*) FROM pg_largeobject_metadata WHERE oid = "+o, "1")
		a.Do("SELECT lo_unlink(" + o + ")")
	}

	// Who writes first wins; rolled back is not written.
	a.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT lo_put(4200, 0, 'A')")
	b.Do("BEGIN", "SELECT lo_put(4200, 5000, 'B')", "COMMIT")
	if err := a.Try("COMMIT"); Code(err) != "40001" {
		t.Errorf("two wrote one object: %v", err)
	}
	a.Do("ROLLBACK")
	c.Everywhere("SELECT length(lo_get(4200))", "5001")
	a.Do("BEGIN", "SELECT lo_put(4200, 0, 'kept')", "SAVEPOINT s", "SELECT lo_put(4200, 0, 'lost')",
		"SELECT lo_unlink(4200)", "ROLLBACK TO s", "COMMIT")
	a.Do("BEGIN", "SELECT lo_put(4200, 0, 'lost')", "ROLLBACK")
	c.Everywhere("SELECT encode(lo_get(4200, 0, 4), 'escape')", "kept")
	a.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
	b.Do("SELECT lo_put(4200, 5000, 'C')")
	c.Everywhere("SELECT encode(lo_get(4200, 5000, 1), 'escape')", "C")
	err := a.Try("SELECT lo_put(4200, 0, 'A')")
	if err == nil {
		err = a.Try("COMMIT")
	}
	if Code(err) != "40001" {
		t.Errorf("a snapshot overwrote what it did not see: %v", err)
	}
	a.Do("ROLLBACK")

	// One OID is given once.
	a.Do("BEGIN", "SELECT lo_create(4201)")
	b.Do("SELECT lo_create(4201)")
	if code := Code(a.Try("COMMIT")); code != "40001" {
		t.Errorf("two made one object: %s", code)
	}
	a.Do("ROLLBACK")
	if code := Code(a.Try("SELECT lo_create(4201)")); code != "23505" {
		t.Errorf("made again: %s", code)
	}
	a.Do("BEGIN", "SELECT lo_unlink(4201)")
	b.Do("SELECT lo_unlink(4201)")
	if code := Code(a.Try("COMMIT")); code != "40001" {
		t.Errorf("two removed one object: %s", code)
	}
	a.Do("ROLLBACK")
	c.sameObjects("= 4200")
	if code := Code(b.Try("SELECT lo_unlink(4201)")); code != "42704" {
		t.Errorf("removed again: %s", code)
	}

	// At one node, who waited for a page cannot go on; a statement by itself is run again.
	e := c.Connect(1)
	for _, begin := range []string{"BEGIN", "SELECT 1"} {
		a.Do("BEGIN", "SELECT lo_put(4200, 0, 'first')")
		e.Do(begin)
		answer := e.later("SELECT lo_put(4200, 0, 'second')")
		c.blocked(1, e)
		a.Do("COMMIT")
		if code := Code(answer()); code != map[string]string{"BEGIN": "40001"}[begin] {
			t.Errorf("%s: who waited for a page got %q", begin, code)
		}
		e.Do("ROLLBACK")
	}
	c.Everywhere("SELECT encode(lo_get(4200, 0, 6), 'escape')", "second")
	a.Do("SELECT lo_unlink(4200)")
	c.Everywhere("SELECT count(*) FROM pg_largeobject WHERE loid = 4200", "0")
	c.Check()
}

// TestLargeObjectsAndDefinitions: who owns an object and who may use it is the same at all nodes.
func TestLargeObjectsAndDefinitions(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE ROLE lo_owner", "CREATE ROLE lo_reader")
	a.Do("BEGIN", "SELECT lo_from_bytea(4300, 'x')", "ALTER LARGE OBJECT 4300 OWNER TO lo_owner",
		"SELECT lo_put(4300, 1, 'y')",
		"GRANT SELECT ON LARGE OBJECT 4300 TO lo_reader", "COMMENT ON LARGE OBJECT 4300 IS 'both'",
		"SELECT lo_from_bytea(4301, 'z')", "SELECT lo_unlink(4301)", "COMMIT")
	c.Everywhere(objects+"= 4300", "4300 lo_owner {lo_owner=rw/lo_owner,lo_reader=r/lo_owner} both "+
		fmt.Sprintf("%x", md5.Sum([]byte("xy"))))
	b.Do("GRANT UPDATE ON LARGE OBJECT 4300 TO lo_reader", "COMMENT ON LARGE OBJECT 4300 IS 'one'")
	c.Everywhere("SELECT lomacl, obj_description(oid, 'pg_largeobject') FROM pg_largeobject_metadata WHERE oid = 4300",
		"{lo_owner=rw/lo_owner,lo_reader=rw/lo_owner}|one")

	// A definition does not end transactions that write to other things.
	a.Do("CREATE TABLE lo_beside(k int PRIMARY KEY)", "BEGIN", "INSERT INTO lo_beside VALUES (1)")
	b.Do("REVOKE ALL ON LARGE OBJECT 4300 FROM lo_reader", "COMMENT ON LARGE OBJECT 4300 IS NULL")
	a.Do("COMMIT")

	// But those that write to large objects.
	a.Do("SELECT lo_create(4304), lo_create(4305)", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT lo_unlink(4304)")
	c.Everywhere("SELECT count(*) FROM pg_largeobject_metadata WHERE oid IN (4304, 4305)", "2")
	b.Do("GRANT SELECT ON LARGE OBJECT 4304, 4305 TO lo_reader")
	if code := Code(a.Try("COMMIT")); code != "40001" {
		t.Errorf("removed while rights on it were given: %q", code)
	}
	a.Do("ROLLBACK", "BEGIN", "GRANT UPDATE ON LARGE OBJECT 4304 TO lo_reader")
	b.Do("SELECT lo_put(4305, 0, 'other')")
	if code := Code(a.Try("COMMIT")); code != "40001" {
		t.Errorf("gave rights while large objects were written: %q", code)
	}
	a.Do("ROLLBACK", "SELECT lo_unlink(4304), lo_unlink(4305)", "CREATE ROLE lo_gone")
	for _, q := range []string{"ALTER ROLE lo_gone RENAME TO lo_named", "DROP ROLE lo_named"} {
		settle(a, b)
		b.Do("BEGIN", "SET LOCAL ROLE "+strings.Fields(q)[2], "SELECT lo_create(4306)")
		a.Do(q)
		if err := b.Try("COMMIT"); err == nil {
			c.Everywhere("SELECT pg_get_userbyid(lomowner) FROM pg_largeobject_metadata WHERE oid = 4306", "lo_named")
			b.Do("SELECT lo_unlink(4306)")
		} else if Code(err) != "40001" {
			t.Errorf("made by a role: %s: %v", q, err)
		}
		b.Do("ROLLBACK")
	}

	// Rights are those of PostgreSQL.
	b.Do("SET ROLE lo_reader")
	for _, q := range []string{"SELECT lo_get(4300)", "SELECT lo_put(4300, 0, 'x')", "SELECT lo_unlink(4300)",
		"SELECT lo_import('/etc/hostname')", "SELECT lo_export(4300, '/tmp/x')"} {
		if code := Code(b.Try(q)); code != "42501" {
			t.Errorf("%s: %q", q, code)
		}
	}
	own := b.Get("SELECT lo_from_bytea(0, 'mine')")
	c.Everywhere("SELECT pg_get_userbyid(lomowner) FROM pg_largeobject_metadata WHERE oid = "+own, "lo_reader")
	b.Do("SELECT lo_put("+own+", 0, 'more')", "SELECT lo_unlink("+own+")", "RESET ROLE")

	// Hidden in functions, and next to rows.
	settle(a, b)
	a.Do("DO $$ BEGIN PERFORM lo_from_bytea(4302, 'do'); ALTER LARGE OBJECT 4302 OWNER TO lo_reader; END $$",
		"WITH x AS (INSERT INTO lo_beside VALUES (2) RETURNING k) SELECT lo_from_bytea(4303, k::text::bytea) FROM x")
	if a.Get("SELECT count(*) FROM pg_available_extensions WHERE name = 'lo'") == "1" {
		a.Do("CREATE EXTENSION lo", "CREATE TABLE lo_managed(k int PRIMARY KEY, l lo)",
			"CREATE TRIGGER manage BEFORE UPDATE OR DELETE ON lo_managed FOR EACH ROW EXECUTE FUNCTION lo_manage(l)",
			"SELECT lo_create(4310), lo_create(4311), lo_create(4312)",
			"INSERT INTO lo_managed VALUES (1, 4310), (2, 4311), (3, 4312), (4, NULL)")
		c.Everywhere("SELECT count(*) FROM lo_managed", "4")
		b.Do("UPDATE lo_managed SET l = NULL WHERE k = 1", "DELETE FROM lo_managed WHERE k IN (2, 4)",
			"UPDATE lo_managed SET k = 5 WHERE k = 3")
		c.Everywhere("SELECT string_agg(oid::text, ',') FROM pg_largeobject_metadata WHERE oid BETWEEN 4310 AND 4312",
			"4312")
		a.Do("DELETE FROM lo_managed", "DROP EXTENSION lo CASCADE")
	}
	c.sameObjects("BETWEEN 4300 AND 4312")
	a.Do("SELECT lo_unlink(oid) FROM pg_largeobject_metadata WHERE oid BETWEEN 4300 AND 4303",
		"DROP OWNED BY lo_owner, lo_reader", "DROP ROLE lo_owner, lo_reader")
	c.Check()
}

// TestLargeObjectsOfAll: an object of many pages; a node that was away; one that is killed in between.
func TestLargeObjectsOfAll(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	a := c.Connect(1)
	megabytes := 40
	if testing.Short() {
		megabytes = 10
	}
	a.Do("BEGIN", "SELECT lo_create(4400)", "SELECT lo_open(4400, 131072)")
	for i := range megabytes {
		a.Do(fmt.Sprintf("SELECT lowrite(0, decode(repeat(md5('%d'), 65536), 'hex'))", i))
	}
	began := time.Now()
	a.Do("COMMIT")
	t.Logf("COMMIT of %d MB took %s", megabytes, time.Since(began).Round(time.Millisecond))
	c.Everywhere("SELECT count(*), sum(length(data)) FROM pg_largeobject WHERE loid = 4400",
		fmt.Sprintf("%d|%d", megabytes<<9, megabytes<<20))
	c.Kill(3)
	a.Do("SELECT lo_put(4400, 5000000, 'changed')", "BEGIN", "SELECT lo_open(4400, 131072)",
		"SELECT lo_truncate(0, 6000000)", "COMMIT", "SELECT lo_from_bytea(4401, 'made')")
	c.Run(3)
	c.WaitReady(3)
	c.sameObjects("BETWEEN 4400 AND 4401")

	// Certified, and the backend is gone: its rows are applied in its place.
	s := c.Connect(2)
	pid := s.Get("SELECT pg_backend_pid()")
	s.Do("BEGIN", "SELECT lo_put(4401, 0, 'lost')")
	c.Connect(2).Do("SELECT pg_terminate_backend(" + pid + ")")
	c.Kill(2)
	c.Run(2)
	c.WaitReady(2)
	c.Everywhere("SELECT encode(lo_get(4401), 'escape')", "made")
	c.Check()
}

// TestLargeObjectTools: psql's \lo_import, pg_dump and pg_restore, vacuumlo.
func TestLargeObjectTools(t *testing.T) {
	c := use(t)
	bin := c.Node(1).Config.Postgres.BinDir
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, name), args...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	for _, name := range []string{"psql", "pg_dump", "pg_restore"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			t.Skipf("%s is not there", name)
		}
	}
	a := c.Connect(1)
	a.Do("CREATE DATABASE lodump", "CREATE DATABASE lorestore")
	source, target := c.In("lodump"), c.In("lorestore")
	source.WaitReady()
	target.WaitReady()
	file := filepath.Join(t.TempDir(), "in")
	content := bytes.Repeat([]byte("some content, "), 5000)
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	said := run("psql", "-X", "-d", source.URL(2), "-c", `\lo_import `+file+` 'with a comment'`)
	oid := strings.TrimSpace(strings.TrimPrefix(said, "lo_import "))
	source.Everywhere("SELECT md5(lo_get("+oid+"))", fmt.Sprintf("%x", md5.Sum(content)))
	source.Everywhere("SELECT obj_description("+oid+", 'pg_largeobject')", "with a comment")
	run("psql", "-X", "-d", source.URL(3), "-c", `\lo_export `+oid+" "+file+".out")
	if got, err := os.ReadFile(file + ".out"); err != nil || !bytes.Equal(got, content) {
		t.Errorf("exported %d bytes: %v", len(got), err)
	}
	said = run("psql", "-X", "-d", source.URL(1), "-c", `\lo_import `+file)
	second := strings.TrimSpace(strings.TrimPrefix(said, "lo_import "))
	source.Settled()
	run("psql", "-X", "-d", source.URL(3), "-c", `\lo_unlink `+second)
	source.Everywhere("SELECT count(*) FROM pg_largeobject_metadata", "1")

	s := source.Connect(1)
	s.Do("CREATE TABLE uses(k int PRIMARY KEY, lo oid)",
		"INSERT INTO uses VALUES (1, "+oid+"), (2, lo_from_bytea(0, 'kept')), (3, lo_from_bytea(0, 'not kept'))")
	source.sameObjects("> 0")
	dump := file + ".dump"
	run("pg_dump", "-Fc", "-d", source.URL(2), "-f", dump)
	run("pg_restore", "-d", target.URL(3), dump)
	want := source.sameObjects("> 0")
	if got := target.sameObjects("> 0"); got != want {
		t.Errorf("restored\n%s\nof\n%s", got, want)
	}
	for _, line := range strings.Split(run("pg_dump", "-d", source.URL(1)), "\n") {
		if strings.Contains(strings.ToLower(line), "tutti") {
			t.Errorf("pg_dump says %q", line)
		}
	}
	if _, err := os.Stat(filepath.Join(bin, "vacuumlo")); err == nil {
		s.Do("DELETE FROM uses WHERE k = 3")
		source.Settled()
		run("vacuumlo", "-v", source.URL(2))
		source.Everywhere("SELECT count(*) FROM pg_largeobject_metadata", "2")
	} else {
		t.Log("vacuumlo is not there")
	}
	source.Check()
	target.Check()
}

// TestLargeObjectsUnderLoad: whatever clients of all nodes do to a few objects, all nodes have the same in the end,
// also if one is killed meanwhile.
func TestLargeObjectsUnderLoad(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	for oid := 4501; oid <= 4504; oid++ {
		c.Connect(1).Do(fmt.Sprintf("SELECT lo_create(%d)", oid))
	}
	c.Connect(1).Do("CREATE ROLE lo_other", "GRANT ALL ON SCHEMA public TO lo_other")
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var done, lost atomic.Int64
	for i := range 6 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(45, uint64(i)))
			var s *pgconn.PgConn
			for {
				select {
				case <-stop:
					return
				default:
				}
				var err error
				if s == nil || s.IsClosed() {
					if s, err = pgconn.Connect(t.Context(), c.URL(i%3+1)); err != nil {
						s = nil
						time.Sleep(50 * time.Millisecond)
						continue
					}
				}
				_, err = s.Exec(t.Context(), largeWork(random)).ReadAll()
				switch code := Code(err); code {
				case "":
					if err == nil {
						done.Add(1)
					}
				case "40001", "40P01":
					lost.Add(1)
				case "42704", "23505", "57P03", "57P01", "40003", "08006", "58000":
				case "XX000": // PostgreSQL's, of an ALTER beside an lo_unlink
					if !strings.Contains(err.Error(), "pg_largeobject_metadata") &&
						!strings.Contains(err.Error(), "tuple concurrently") {
						t.Errorf("client %d: %s", i, Explain(err))
					}
				default:
					t.Errorf("client %d: %s", i, Explain(err))
				}
				_, _ = s.Exec(t.Context(), "ROLLBACK").ReadAll() // its connection may be gone
			}
		})
	}
	time.Sleep(seconds(4*time.Second) / 2)
	c.Kill(3)
	time.Sleep(time.Second)
	c.Run(3)
	c.WaitReady(3)
	time.Sleep(seconds(4*time.Second) / 2)
	close(stop)
	clients.Wait()
	t.Logf("%d committed, %d lost", done.Load(), lost.Load())
	if done.Load() == 0 {
		t.Error("nothing was committed")
	}
	c.sameObjects("> 0")
	c.Check()
}

// TestCommentOnRemovedObject: PostgreSQL lets a COMMENT that has waited for the removal of a large object go on. Nobody
// else would have it, and the next object of that number would be found with it.
func TestCommentOnRemovedObject(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(1)
	a.Do("SELECT lo_create(4421)")
	for _, level := range []string{"READ COMMITTED", "REPEATABLE READ"} {
		a.Do("BEGIN", "SELECT lo_unlink(4421)")
		b.Do("BEGIN ISOLATION LEVEL " + level)
		comment := b.later("COMMENT ON LARGE OBJECT 4421 IS 'nobody else has it'")
		c.blocked(1, b)
		a.Do("COMMIT")
		if err := comment(); Code(err) != "42704" {
			t.Errorf("%s: %v", level, err)
		}
		if err := b.Try("COMMIT"); err != nil {
			t.Error(Explain(err))
		}
		a.Do("SELECT lo_create(4421)")
		c.Everywhere("SELECT count(*), obj_description(4421, 'pg_largeobject') IS NULL FROM pg_largeobject_metadata "+
			"WHERE oid = 4421", "1|t")
	}
	a.Do("BEGIN", "COMMENT ON LARGE OBJECT 4421 IS 'all have it'", "COMMIT")
	c.Everywhere("SELECT obj_description(4421, 'pg_largeobject')", "all have it")
}

// largeWork is a transaction of one to three things done to large objects.
func largeWork(random *rand.Rand) string {
	var b strings.Builder
	b.WriteString("BEGIN")
	if random.IntN(3) == 0 {
		b.WriteString(" ISOLATION LEVEL REPEATABLE READ")
	}
	for range 1 + random.IntN(3) {
		oid, at := 4501+random.IntN(4), random.IntN(40_000)
		switch random.IntN(9) {
		case 0:
			fmt.Fprintf(&b, "; SELECT lo_unlink(%d)", oid)
		case 1:
			fmt.Fprintf(&b, "; SELECT lo_from_bytea(%d, repeat('new', %d)::bytea)", oid, at/10)
		case 2, 3:
			fmt.Fprintf(&b, "; SELECT lo_truncate(lo_open(%d, 131072), %d)", oid, at)
		case 4:
			fmt.Fprintf(&b, "; SAVEPOINT s; SELECT lo_put(%d, %d, 'undone'); ROLLBACK TO s", oid, at)
		case 5:
			fmt.Fprintf(&b, "; COMMENT ON LARGE OBJECT %d IS '%d'", oid, at)
		case 6:
			fmt.Fprintf(&b, "; ALTER LARGE OBJECT %d OWNER TO %s", oid,
				[]string{"postgres", "lo_other"}[random.IntN(2)])
		default:
			fmt.Fprintf(&b, "; SELECT lo_put(%d, %d, repeat('%d', %d)::bytea)", oid, at, at, 1+at/100)
		}
	}
	b.WriteString("; COMMIT")
	return b.String()
}
