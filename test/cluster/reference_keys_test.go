package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestReferencesToOtherIndexes: the index by which a foreign key knows rows becomes another one, without a lock on the
// table that refers to them. Those who delete such a row and those who refer to it meet all the same, also if one of
// them is older than the change.
func TestReferencesToOtherIndexes(t *testing.T) {
	c := use(t)
	a, b, inside := c.Connect(1), c.Connect(2), c.alone(1, "postgres")
	for _, s := range []struct {
		name, change string
		before       []string
	}{
		{"a primary key of an index", "ALTER TABLE rk.t ADD PRIMARY KEY USING INDEX u", []string{
			"CREATE TABLE rk.t(id int NOT NULL)", "CREATE UNIQUE INDEX u ON rk.t(id)"}},
		{"a table attached", "ALTER TABLE rk.root ATTACH PARTITION rk.t FOR VALUES FROM (0) TO (100)", []string{
			"CREATE TABLE rk.t(id int PRIMARY KEY)",
			"CREATE TABLE rk.root(id int PRIMARY KEY) PARTITION BY RANGE (id)"}},
		{"a primary key of all partitions", "ALTER TABLE rk.root ADD PRIMARY KEY (id)", []string{
			"CREATE TABLE rk.root(id int) PARTITION BY RANGE (id)",
			"CREATE TABLE rk.t PARTITION OF rk.root FOR VALUES FROM (0) TO (100)",
			"ALTER TABLE rk.t ADD PRIMARY KEY (id)"}},
		{"a unique index of all partitions", "CREATE UNIQUE INDEX ON rk.root(id)", []string{
			"CREATE TABLE rk.root(id int) PARTITION BY RANGE (id)",
			"CREATE TABLE rk.t PARTITION OF rk.root FOR VALUES FROM (0) TO (100)", "CREATE UNIQUE INDEX ON rk.t(id)"}},
		{"an index attached", "ALTER INDEX rk.root_pkey ATTACH PARTITION rk.t_pkey", []string{
			"CREATE TABLE rk.root(id int) PARTITION BY RANGE (id)",
			"CREATE TABLE rk.t PARTITION OF rk.root FOR VALUES FROM (0) TO (100)",
			"ALTER TABLE rk.t ADD PRIMARY KEY (id)", "ALTER TABLE ONLY rk.root ADD PRIMARY KEY (id)"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			a.Do("CREATE SCHEMA rk")
			a.Do(s.before...)
			a.Do("CREATE TABLE rk.r(k int PRIMARY KEY, t int REFERENCES rk.t(id))",
				"INSERT INTO rk.t VALUES (1), (2), (3)")
			c.Everywhere("SELECT count(*) FROM rk.t", "3")
			b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "INSERT INTO rk.r VALUES (1, 1)")
			a.Do(s.change)
			if code := Code(b.Try("COMMIT")); code != "40001" {
				t.Errorf("who has referred to a row before: COMMIT gives %q, want 40001", code)
			}
			b.Do("ROLLBACK")
			holds := false
			err := inside.QueryRow(context.Background(),
				`SELECT tutti.extent(ARRAY['rk.t'], '{}', false, true, 'below') LIKE '%"r"%'`).Scan(&holds)
			if err != nil || !holds {
				t.Errorf("a definition that changes keys does not hold the table that refers to them: %v", err)
			}
			a.Do("INSERT INTO rk.t VALUES (4)")
			c.Everywhere("SELECT count(*) FROM rk.t", "4")
			for _, first := range []bool{true, false} {
				id := map[bool]string{true: "2", false: "3"}[first]
				a.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "DELETE FROM rk.t WHERE id = "+id)
				b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "INSERT INTO rk.r VALUES ("+id+", "+id+")")
				one, other := a, b
				if !first {
					one, other = b, a
				}
				one.Do("COMMIT")
				if err := other.Try("COMMIT"); Code(err) != "40001" {
					t.Errorf("a row was deleted and referred to (deleted first: %t): COMMIT gives %v, want 40001",
						first, err)
				}
				other.Do("ROLLBACK")
			}
			c.Everywhere("SELECT count(*) FROM rk.r WHERE t NOT IN (SELECT id FROM rk.t)", "0")
			a.Do("DROP SCHEMA rk CASCADE")
		})
	}
	c.Check()
}

// TestReferencesWhileKeysChange: the same by definitions that are carried out at their member before they are ordered.
// Between their place in the order and the time at which a member has them, who refers to a row there has the old keys,
// and who deletes it at the first member the new ones.
func TestReferencesWhileKeysChange(t *testing.T) {
	const slow = 1500 * time.Millisecond
	c := use(t)
	b, d, flag := c.Connect(3), c.Connect(1), c.Connect(3)
	for _, s := range []struct{ name, before, change string }{
		{"while another session of the member reads", "READER", "ALTER TABLE rw.t ADD PRIMARY KEY USING INDEX u"},
		{"with a temporary table", "CREATE TEMP TABLE mine(id int)", "ALTER TABLE rw.t ADD PRIMARY KEY USING INDEX u"},
		{"in a DO block", "", "DO $$ BEGIN ALTER TABLE rw.t ADD PRIMARY KEY USING INDEX u; END $$"},
		{"attached in a DO block", "CREATE TABLE rw.root(id int PRIMARY KEY) PARTITION BY RANGE (id)",
			"DO $$ BEGIN ALTER TABLE rw.root ATTACH PARTITION rw.t FOR VALUES FROM (0) TO (100); END $$"},
		{"in a block", "", "BEGIN; ALTER TABLE rw.t ADD PRIMARY KEY USING INDEX u; COMMIT"},
	} {
		t.Run(s.name, func(t *testing.T) {
			a := c.Connect(1)
			a.Do("CREATE SCHEMA rw", "CREATE UNLOGGED TABLE rw.flag(id int)",
				fmt.Sprintf("CREATE FUNCTION rw.slow(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF "+
					"EXISTS (SELECT FROM rw.flag) THEN PERFORM pg_sleep(%f); END IF; RETURN i; END $$", slow.Seconds()),
				"CREATE TABLE rw.y(id int)", "CREATE INDEX ON rw.y(rw.slow(id))", "GRANT ALL ON SCHEMA rw TO PUBLIC",
				"GRANT ALL ON rw.flag TO PUBLIC",
				"CREATE TABLE rw.t(id int NOT NULL)", "CREATE UNIQUE INDEX u ON rw.t(id)",
				"CREATE TABLE rw.r(k int PRIMARY KEY, t int REFERENCES rw.t(id))",
				"INSERT INTO rw.t VALUES (1), (2), (3)")
			c.Everywhere("SELECT count(*) FROM rw.t", "3")
			switch s.before {
			case "":
			case "READER":
				d.Do("BEGIN", "SELECT count(*) FROM rw.t")
			default:
				a.Do(s.before)
			}
			c.Settled()
			flag.Do("INSERT INTO rw.flag VALUES (1)") // at node 3 only: it is slow from now on
			b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "INSERT INTO rw.r VALUES (1, 1)")
			a.Do("INSERT INTO rw.y VALUES (1)")
			changed := make(chan error, 1)
			go func() { changed <- a.Try(s.change) }()
			if s.before == "READER" {
				time.Sleep(200 * time.Millisecond)
				d.Do("COMMIT")
			}
			if err := <-changed; err != nil {
				t.Fatal(Explain(err))
			}
			d.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "DELETE FROM rw.t WHERE id = 1")
			refers := make(chan error, 1)
			go func() { refers <- b.Try("COMMIT") }()
			time.Sleep(slow / 4)
			deleted, referred := d.Try("COMMIT"), <-refers
			t.Logf("who deletes: %v; who refers: %v", deleted, referred)
			if deleted == nil && referred == nil {
				t.Error("a row was deleted and referred to")
			}
			_, _ = b.Try("ROLLBACK"), d.Try("ROLLBACK")
			flag.Do("DELETE FROM rw.flag")
			c.Everywhere("SELECT count(*) FROM rw.r WHERE t NOT IN (SELECT id FROM rw.t)", "0")
			a.Do("DROP SCHEMA rw CASCADE")
		})
	}
	c.Check()
}
