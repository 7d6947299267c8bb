package cluster

import (
	"fmt"
	"strings"
	"testing"
)

// attempt is one try to produce an anomaly with two transactions.
type attempt struct {
	t    *testing.T
	c    *Cluster
	a, b *Conn
	lost map[*Conn]bool // its transaction has failed
}

// run executes a statement and returns its rows; nothing once the transaction has failed.
func (x *attempt) run(s *Conn, sql string) string {
	x.t.Helper()
	if x.lost[s] {
		return ""
	}
	out, err := s.Ask(sql)
	if err != nil {
		if code := Code(err); code != "40001" && code != "55P03" && code != "40P01" {
			x.t.Errorf("%s: %s", sql, Explain(err))
		}
		x.lost[s] = true
		if sql != "COMMIT" {
			s.Do("ROLLBACK")
		}
	}
	return out
}

// commit reports whether a transaction has committed; then it is everywhere.
func (x *attempt) commit(s *Conn) bool {
	x.run(s, "COMMIT")
	if !x.lost[s] {
		x.c.Settled()
	}
	return !x.lost[s]
}

func (x *attempt) final(k int) string {
	x.c.Settled()
	return x.c.Connect(1).Get(fmt.Sprint("SELECT v FROM anomaly WHERE k = ", k))
}

const read = "SELECT v FROM anomaly WHERE k = "

// anomalies are tried in this order; each reports whether it has happened. Both transactions are open,
// and the rows 1 and 2 are 0.
var anomalies = []struct {
	name string
	try  func(x *attempt) bool
	// below is the first level that promises to prevent it.
	below string
	// waits: at one node, the second transaction waits for the first, and the try ends there.
	waits bool
}{
	{"G0", func(x *attempt) bool {
		x.run(x.a, "UPDATE anomaly SET v = 1 WHERE k = 1")
		x.run(x.b, "UPDATE anomaly SET v = 2 WHERE k = 1")
		x.run(x.a, "UPDATE anomaly SET v = 1 WHERE k = 2")
		x.run(x.b, "UPDATE anomaly SET v = 2 WHERE k = 2")
		x.commit(x.a)
		x.commit(x.b)
		return x.final(1) != x.final(2)
	}, "READ COMMITTED", false},
	{"G1a", func(x *attempt) bool {
		x.run(x.a, "UPDATE anomaly SET v = 1 WHERE k = 1")
		got := x.run(x.b, read+"1")
		x.run(x.a, "ROLLBACK")
		got += x.run(x.b, read+"1")
		x.commit(x.b)
		return strings.Contains(got, "1")
	}, "READ COMMITTED", false},
	{"G1b", func(x *attempt) bool {
		x.run(x.a, "UPDATE anomaly SET v = 1 WHERE k = 1")
		got := x.run(x.b, read+"1")
		x.run(x.a, "UPDATE anomaly SET v = 2 WHERE k = 1")
		x.commit(x.a)
		got += x.run(x.b, read+"1")
		x.commit(x.b)
		return strings.Contains(got, "1")
	}, "READ COMMITTED", false},
	{"G1c", func(x *attempt) bool {
		x.run(x.a, "UPDATE anomaly SET v = 1 WHERE k = 1")
		x.run(x.b, "UPDATE anomaly SET v = 1 WHERE k = 2")
		a, b := x.run(x.a, read+"2"), x.run(x.b, read+"1")
		return x.commit(x.a) && x.commit(x.b) && a == "1" && b == "1"
	}, "READ COMMITTED", false},
	{"lost update", func(x *attempt) bool {
		x.run(x.a, read+"1")
		x.run(x.b, read+"1")
		x.run(x.a, "UPDATE anomaly SET v = 0 + 1 WHERE k = 1")
		a := x.commit(x.a)
		x.run(x.b, "UPDATE anomaly SET v = 0 + 1 WHERE k = 1")
		return x.commit(x.b) && a
	}, "REPEATABLE READ", false},
	{"lost update, both before", func(x *attempt) bool {
		x.run(x.a, read+"1")
		x.run(x.b, read+"1")
		x.run(x.a, "UPDATE anomaly SET v = 0 + 1 WHERE k = 1")
		x.run(x.b, "UPDATE anomaly SET v = 0 + 1 WHERE k = 1")
		a := x.commit(x.a)
		return x.commit(x.b) && a
	}, "REPEATABLE READ", true},
	{"read skew", func(x *attempt) bool {
		x.run(x.a, read+"1")
		x.run(x.b, "UPDATE anomaly SET v = 1")
		x.commit(x.b)
		got := x.run(x.a, read+"2")
		return x.commit(x.a) && got == "1"
	}, "REPEATABLE READ", false},
	{"phantom", func(x *attempt) bool {
		before := x.run(x.a, "SELECT count(*) FROM anomaly WHERE v = 0")
		x.run(x.b, "INSERT INTO anomaly VALUES (3, 0)")
		x.commit(x.b)
		after := x.run(x.a, "SELECT count(*) FROM anomaly WHERE v = 0")
		return x.commit(x.a) && before != after
	}, "REPEATABLE READ", false},
	{"write skew", func(x *attempt) bool {
		for _, s := range []*Conn{x.a, x.b} {
			x.run(s, "SELECT sum(v) FROM anomaly WHERE k IN (1, 2)")
		}
		x.run(x.a, "UPDATE anomaly SET v = 1 WHERE k = 1")
		x.run(x.b, "UPDATE anomaly SET v = 1 WHERE k = 2")
		a := x.commit(x.a)
		return x.commit(x.b) && a
	}, "SERIALIZABLE", false},
	{"phantom skew", func(x *attempt) bool {
		for _, s := range []*Conn{x.a, x.b} {
			x.run(s, "SELECT count(*) FROM anomaly WHERE k > 2")
		}
		x.run(x.a, "INSERT INTO anomaly VALUES (3, 1)")
		x.run(x.b, "INSERT INTO anomaly VALUES (4, 1)")
		a := x.commit(x.a)
		return x.commit(x.b) && a
	}, "SERIALIZABLE", false},
	{"two tables", func(x *attempt) bool {
		x.run(x.a, "SELECT count(*) FROM anomaly")
		x.run(x.b, "SELECT count(*) FROM other")
		x.run(x.a, "INSERT INTO other VALUES (1)")
		x.run(x.b, "INSERT INTO anomaly VALUES (3, 1)")
		a := x.commit(x.a)
		return x.commit(x.b) && a
	}, "SERIALIZABLE", false},
	{"own writes", func(x *attempt) bool {
		x.run(x.a, "UPDATE anomaly SET v = 7 WHERE k = 1")
		inside := x.run(x.a, read+"1")
		x.run(x.a, "COMMIT")
		return inside != "7" || x.a.Get(read+"1") != "7"
	}, "READ COMMITTED", false},
}

// TestAnomalies tries every anomaly at every level, with the transactions at one node and at two. What a
// level promises to prevent does not happen. What it allows does, at one node at least, or the try
// would show nothing.
func TestAnomalies(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE anomaly(k int PRIMARY KEY, v int); CREATE TABLE other(k int PRIMARY KEY)")
	levels := []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}
	for at, level := range levels {
		for _, an := range anomalies {
			for _, second := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s/%s/%d", level, an.name, second), func(t *testing.T) {
					x := &attempt{t: t, c: c.in(t), a: c.Connect(1), b: c.Connect(second), lost: map[*Conn]bool{}}
					x.a.Do("DELETE FROM anomaly; DELETE FROM other; INSERT INTO anomaly VALUES (1, 0), (2, 0)")
					x.c.Settled()
					for _, s := range []*Conn{x.a, x.b} {
						s.Do("SET lock_timeout = '300ms'", "BEGIN ISOLATION LEVEL "+level)
						s.Get("SELECT 1")
					}
					happened := an.try(x)
					promised := false
					for _, l := range levels[:at+1] {
						promised = promised || l == an.below
					}
					if happened && promised {
						t.Errorf("%s happened at %s", an.name, level)
					}
					if !happened && !promised && second == 1 && !an.waits {
						t.Errorf("%s did not happen at %s, so this test shows nothing", an.name, level)
					}
				})
			}
		}
	}
	c.Connect(1).Do("DROP TABLE anomaly, other")
	c.Check()
}

// TestRowsMadeBesideTheSnapshot: a transaction with a snapshot may make a row where there was one, and refer to one
// that is newer, as on one server. What it changes it must have seen, and no other may have made the row unseen.
func TestRowsMadeBesideTheSnapshot(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE made_rows(k int PRIMARY KEY, v int)",
		"CREATE TABLE made_parents(k int PRIMARY KEY) PARTITION BY LIST (k)",
		"CREATE TABLE made_parents_1 PARTITION OF made_parents DEFAULT",
		"CREATE TABLE made_children(k int REFERENCES made_parents)")
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		for _, writer := range []int{1, 2} { // the other transaction's node
			for _, x := range []struct{ theirs, ours, code string }{
				{"DELETE FROM made_rows WHERE k = 1", "INSERT INTO made_rows VALUES (1, 3)", ""},
				{"DELETE FROM made_rows WHERE k = 1", "INSERT INTO made_rows VALUES (1, 3) ON CONFLICT DO NOTHING", ""},
				{"UPDATE made_rows SET k = 5 WHERE k = 1", "INSERT INTO made_rows VALUES (1, 3)", ""},
				{"INSERT INTO made_parents VALUES (7)", "INSERT INTO made_children VALUES (7)", ""},
				{"UPDATE made_rows SET v = 4 WHERE k = 1", "UPDATE made_rows SET v = v + 1 WHERE k = 1", "40001"},
				{"DELETE FROM made_rows WHERE k = 1", "UPDATE made_rows SET v = v + 1 WHERE k = 1", "40001"},
			} {
				what := fmt.Sprintf("%s, %s at node %d, then %s", level, x.theirs, writer, x.ours)
				c.Connect(1).Do("DELETE FROM made_rows", "DELETE FROM made_children", "DELETE FROM made_parents",
					"INSERT INTO made_rows VALUES (1, 1)")
				c.Settled()
				s := c.Connect(1)
				s.Do("BEGIN ISOLATION LEVEL "+level, "SELECT 1")
				c.Connect(writer).Do(x.theirs)
				c.Settled()
				err := s.Try(x.ours)
				if err == nil {
					err = s.Try("COMMIT")
				}
				if x.code == "" && err != nil {
					t.Errorf("%s: %v", what, err)
				} else if x.code != "" {
					wantCode(t, what, err, x.code)
				}
				_ = s.Try("ROLLBACK")
			}
		}
	}
	a, b := c.Connect(1), c.Connect(2)
	for _, s := range []*Conn{a, b} {
		s.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "INSERT INTO made_rows VALUES (9, 9)")
	}
	if a.Try("COMMIT") == nil == (b.Try("COMMIT") == nil) {
		t.Error("of two that made one row, not exactly one has committed")
	}
	c.Connect(1).Do("DROP TABLE made_rows, made_children, made_parents")
	c.Check()
}
