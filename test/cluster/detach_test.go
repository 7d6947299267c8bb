package cluster

import (
	"context"
	"sync"
	"testing"
	"time"
)

// partitioned makes a table with two partitions and rows in each, known everywhere.
func partitioned(c *Cluster, name string) *Conn {
	s := c.Connect(1)
	s.Do("CREATE TABLE "+name+"(a int PRIMARY KEY, v int) PARTITION BY LIST (a)",
		"CREATE TABLE "+name+"1 PARTITION OF "+name+" FOR VALUES IN (1)",
		"CREATE TABLE "+name+"2 PARTITION OF "+name+" FOR VALUES IN (2, 3)",
		"INSERT INTO "+name+" VALUES (1, 0), (2, 0)")
	c.Everywhere("SELECT count(*) FROM "+name, "2")
	return s
}

// inherits says whether a partition is attached (f), detached in part (t), or detached (nothing).
func inherits(partition string) string {
	return "SELECT coalesce((SELECT inhdetachpending::text FROM pg_inherits WHERE inhrelid = '" + partition +
		"'::regclass), '')"
}

// TestDetachConcurrently: the partition is gone from the parent at all members when the first step has its place,
// readers do not wait, and it is detached everywhere when those who have used the parent before have ended.
func TestDetachConcurrently(t *testing.T) {
	c := use(t)
	partitioned(c, "parted")
	reader, s := c.Connect(1), c.Connect(1)
	reader.Do("BEGIN", "SELECT count(*) FROM parted")
	got := background(s, "ALTER TABLE parted DETACH PARTITION parted2 CONCURRENTLY")
	c.Everywhere(inherits("parted2"), "true")
	c.blocked(1, s)
	for k := range c.Size() {
		began := time.Now()
		c.Eventually(k+1, "SELECT count(*) FROM parted", "1")
		if d := time.Since(began); d > 20*time.Second { // else it waits until the other one ends
			t.Errorf("a reader at node %d has waited %v", k+1, d)
		}
		c.Connect(k + 1).Do("UPDATE parted2 SET v = v + 1")
	}
	select {
	case err := <-got:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	reader.Do("COMMIT")
	if err := <-got; err != nil {
		t.Fatal(Explain(err))
	}
	c.Everywhere(inherits("parted2"), "")
	c.Everywhere("SELECT v FROM parted2 WHERE a = 2", "3")
	s.Do("ALTER TABLE parted ATTACH PARTITION parted2 FOR VALUES IN (2, 3)")
	c.Everywhere("SELECT count(*) FROM parted", "2")
	c.Check()
}

// detaches has a session of node 1 detach a partition, which waits for a reader there, and gives what it is told in the
// end.
func (c *Cluster) detaches(table, partition string) (reader, s *Conn, told chan error) {
	reader, s = c.Connect(1), c.Connect(1)
	reader.Do("BEGIN", "SELECT count(*) FROM "+table)
	told = background(s, "ALTER TABLE "+table+" DETACH PARTITION "+partition+" CONCURRENTLY")
	c.Everywhere(inherits(partition), "true")
	c.blocked(1, s)
	return reader, s, told
}

// TestDetachCancelled: a detachment that is cancelled while it waits leaves the partition detached in part, at all
// members; FINALIZE, or DROP, ends that. In between its rows can be written, definitions of other tables go on, and its
// own cannot be changed.
func TestDetachCancelled(t *testing.T) {
	c := use(t)
	partitioned(c, "halfway")
	reader, s, told := c.detaches("halfway", "halfway2")
	if err := s.PgConn().CancelRequest(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-told; Code(err) != "57014" {
		t.Fatalf("cancelled: %v", err)
	}
	c.Everywhere(inherits("halfway2"), "true")
	reader.Do("COMMIT")
	for k := range c.Size() {
		c.Connect(k + 1).Do("UPDATE halfway2 SET v = v + 1")
	}
	c.Everywhere("SELECT v FROM halfway2", "3")
	b := c.Connect(2)
	if err := b.Try("ALTER TABLE halfway DETACH PARTITION halfway1 CONCURRENTLY"); Code(err) != "55000" {
		t.Errorf("another one of the table: %v", err)
	}
	if err := b.Try("ALTER TABLE halfway2 ADD COLUMN w int"); Code(err) == "" {
		t.Error("the partition was altered")
	}
	b.Do("CREATE TABLE halfway_ref(a int REFERENCES halfway1)", "CREATE UNIQUE INDEX ON halfway2(v)",
		"DROP TABLE halfway_ref")
	old := c.Connect(3)
	old.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
	b.Do("ALTER TABLE halfway DETACH PARTITION halfway2 FINALIZE")
	c.Everywhere(inherits("halfway2"), "")
	old.Do("COMMIT") // it has used none of the tables
	if err := b.Try("ALTER TABLE halfway DETACH PARTITION halfway2 FINALIZE"); err == nil {
		t.Error("FINALIZE of what is no partition")
	}
	for _, names := range []string{`ALTER TABLE other.public.halfway DETACH PARTITION halfway1`,
		`ALTER TABLE halfway DETACH PARTITION a.b.halfway1`, `ALTER TABLE nowhere DETACH PARTITION halfway1`} {
		for _, how := range []string{" CONCURRENTLY", " FINALIZE"} {
			if err := b.Try(names + how); err == nil || Code(err) == "" {
				t.Errorf("%s%s: %v", names, how, err)
			}
		}
	}
	s.Do("ALTER TABLE halfway ATTACH PARTITION halfway2 FOR VALUES IN (2, 3)")
	reader, s, told = c.detaches("halfway", "halfway2")
	_ = s.Close(context.Background())
	<-told
	reader.Do("COMMIT")
	c.Connect(1).Do("DROP TABLE halfway2")
	c.Everywhere("SELECT count(*) FROM halfway", "1")
	c.Check()
}

// TestDetachSurvives: wherever a node, or a PostgreSQL, ends while a partition is being detached, it is in the same
// state at all members.
func TestDetachSurvives(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	partitioned(c, "lasting")
	for i, kill := range []func(){
		func() { c.Kill(1); c.Run(1); c.WaitReady(1) },
		func() { c.KillPostgres(1); c.WaitReady(1) },
		func() { c.Kill(2); c.Run(2); c.WaitReady(2) },
		func() { c.KillAll(); c.StartNodes(); c.WaitReady(1, 2, 3) },
	} {
		reader, s, told := c.detaches("lasting", "lasting2")
		kill()
		if i == 2 { // another member is nothing to the client
			reader.Do("COMMIT")
			if err := <-told; err != nil {
				t.Errorf("node 2 was killed: %v", Explain(err))
			}
			c.Everywhere(inherits("lasting2"), "")
		} else {
			<-told
			c.Everywhere(inherits("lasting2"), "true")
			c.Connect(2).Do("UPDATE lasting2 SET v = v + 1", "ALTER TABLE lasting DETACH PARTITION lasting2 FINALIZE")
			c.Everywhere(inherits("lasting2"), "")
		}
		_ = s.Close(context.Background())
		c.Connect(3).Do("UPDATE lasting2 SET v = v + 1",
			"ALTER TABLE lasting ATTACH PARTITION lasting2 FOR VALUES IN (2, 3)")
		c.Everywhere(inherits("lasting2"), "false")
		c.Check()
	}
}

// TestDetachHeldBack: if the backend that holds a detachment back ends, as when PostgreSQL ends it first, that does not
// go on. A member that is far behind does not hold it up.
func TestDetachHeldBack(t *testing.T) {
	c := use(t)
	partitioned(c, "early")
	reader, s, told := c.detaches("early", "early2")
	if got := c.Connect(1).Get("SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 60000)) FROM " +
		"pg_stat_activity WHERE application_name = 'tutti detacher'"); got != "1" {
		t.Fatalf("%s hold it back", got)
	}
	reader.Do("COMMIT")
	if err := <-told; Code(err) != "40001" {
		t.Errorf("ahead of its place: %v", err)
	}
	c.Everywhere(inherits("early2"), "true")
	s.Do("ALTER TABLE early DETACH PARTITION early2 FINALIZE",
		"ALTER TABLE early ATTACH PARTITION early2 FOR VALUES IN (2, 3)")
	c.Everywhere(inherits("early2"), "false")
	thaw := c.freezeApplier(3)
	s.Do("ALTER TABLE early DETACH PARTITION early2 CONCURRENTLY", "UPDATE early2 SET v = 7")
	c.Eventually(2, inherits("early2"), "")
	thaw()
	c.Everywhere(inherits("early2"), "")
	c.Everywhere("SELECT v FROM early2", "7")
	c.Check()
}

// TestDetachUnderLoad: partitions are detached and attached while clients of all nodes write to them and read the
// parent. Who loses is told so, and all members have the same.
func TestDetachUnderLoad(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	partitioned(c, "busy")
	c.Connect(1).Do("CREATE TABLE busy_ref(id serial PRIMARY KEY, a int REFERENCES busy)",
		"INSERT INTO busy_ref(a) VALUES (1)")
	c.Everywhere("SELECT count(*) FROM busy_ref", "1")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for k := range 6 {
		s := c.Connect(k%3 + 1)
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				for _, sql := range []string{"UPDATE busy2 SET v = v + 1", "UPDATE busy SET v = v + 1 WHERE a = 1",
					"BEGIN; SELECT count(*) FROM busy; INSERT INTO busy_ref(a) VALUES (1); COMMIT",
					"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM busy; UPDATE busy2 SET v = v + 1; " +
						"COMMIT"} {
					if err := s.Try(sql); err != nil && Code(err) != "40001" && Code(err) != "40P01" {
						t.Errorf("%s: %v", sql, Explain(err))
					} else if err != nil {
						_ = s.Try("ROLLBACK")
					}
				}
			}
		})
	}
	definer := c.Connect(2)
	for deadline := time.Now().Add(seconds(5 * time.Second)); time.Now().Before(deadline); {
		definer.Do("ALTER TABLE busy DETACH PARTITION busy2 CONCURRENTLY")
		definer.want(inherits("busy2"), "")
		for err := definer.Try("ALTER TABLE busy ATTACH PARTITION busy2 FOR VALUES IN (2, 3)"); err !=
			nil; err = definer.Try("ALTER TABLE busy ATTACH PARTITION busy2 FOR VALUES IN (2, 3)") {
			if Code(err) != "40001" {
				t.Fatal(Explain(err))
			}
		}
	}
	close(stop)
	wg.Wait()
	c.Everywhere(inherits("busy2"), "false")
	c.Check()
}

// TestDetachReferenced: of a detachment and a transaction of another member that detach_refers to the partition only
// one is carried out.
func TestDetachReferenced(t *testing.T) {
	c := use(t)
	s := partitioned(c, "referred")
	s.Do("CREATE TABLE detach_refers(a int REFERENCES referred)")
	c.Everywhere("SELECT count(*) FROM detach_refers", "0")
	const detach = "ALTER TABLE referred DETACH PARTITION referred2 CONCURRENTLY"
	for i, begin := range []string{"BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM " +
		"detach_refers"} {
		b := c.Connect(2)
		b.Do(begin, "INSERT INTO detach_refers VALUES (2)")
		s.Do(detach)
		if err := b.Try("COMMIT"); Code(err) != "40001" {
			t.Errorf("%d: it detach_refers to a row of the partition: %v", i, err)
		}
		c.Everywhere(inherits("referred2"), "")
		s.Do("ALTER TABLE referred ATTACH PARTITION referred2 FOR VALUES IN (2, 3)")
		c.Everywhere(inherits("referred2"), "false")
	}
	s.Do("INSERT INTO detach_refers VALUES (2)")
	if err := s.Try(detach); Code(err) != "23503" {
		t.Errorf("a row of the partition is referred to: %v", err)
	}
	c.Everywhere(inherits("referred2"), "false")
	s.Do("DELETE FROM detach_refers")
	s.Do(detach, "DELETE FROM referred2")
	c.Everywhere("SELECT count(*) FROM referred2", "0")
	hash := c.Connect(3)
	hash.Do("CREATE TABLE hashed(a int) PARTITION BY HASH (a)",
		"CREATE TABLE hashed1 PARTITION OF hashed FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
		"INSERT INTO hashed SELECT generate_series(1, 10)",
		"ALTER TABLE hashed DETACH PARTITION hashed1 CONCURRENTLY")
	c.Everywhere("SELECT count(*) FROM hashed1", "10")
	c.Check()
}
