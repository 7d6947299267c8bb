package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestRely: who has read a row, was told UPDATE 1, and sets it to what that made of it, overwrites nothing that came in
// between, at no level. Who has not read it at READ COMMITTED may, as if the other one had come first: that is where
// this level is weaker than PostgreSQL's, whose other one would wait.
func TestRely(t *testing.T) {
	ctx := context.Background()
	c := use(t)
	c.Connect(1).Do("CREATE TABLE relied (id int PRIMARY KEY, bal int NOT NULL, note text)",
		"INSERT INTO relied VALUES (1, 100, ''), (2, 100, '')",
		"CREATE VIEW relied_view AS SELECT * FROM relied")
	c.Everywhere("SELECT sum(bal) FROM relied", "200")
	s, others := c.Connect(1), []*Conn{c.Connect(1), c.Connect(2)} // at the same node, and at another one
	const set, add, drop = "UPDATE relied SET bal = 90 WHERE id = $1", "UPDATE relied SET bal = bal - 10 WHERE id = $1",
		"DELETE FROM relied WHERE id = $1"
	const read, plus, condition = "SELECT bal FROM relied WHERE id = 1",
		"UPDATE relied SET bal = bal + 50 WHERE id = 1 RETURNING bal",
		"UPDATE relied SET bal = bal - 100 WHERE id = 1 AND bal >= 100 RETURNING bal"
	for _, x := range []struct {
		level, read, write, other string
		told                      string // to the other one
		code, rows                string
		unseen                    bool // it is carried out unseen if nobody comes in between
		here                      bool // the other one is at the same node
	}{
		{"READ COMMITTED", read, set, plus, "150", "40001", "1,150, 2,100,", true, false},
		{"READ COMMITTED", "SELECT sum(bal) FROM relied", set, plus, "150", "40001", "1,150, 2,100,", true, false},
		{"READ COMMITTED", "SELECT bal FROM relied_view WHERE id = 1", set, plus, "150", "40001", "1,150, 2,100,",
			false, false}, // a view may change who the session is
		{"READ COMMITTED", "WITH x AS (SELECT bal FROM relied) SELECT sum(bal) FROM x", set, plus, "150", "40001",
			"1,150, 2,100,", false, false},
		{"READ COMMITTED", "SELECT bal FROM relied WHERE id = 1 FOR UPDATE", set, plus, "150", "40001", "1,150, 2,100,",
			false, false},
		{"READ COMMITTED", "UPDATE relied SET note = '' WHERE id = 1 RETURNING bal", set, plus, "150", "40001",
			"1,150, 2,100,", false, false},
		{"READ COMMITTED", read, add, condition, "0", "40001", "1,0, 2,100,", true, false},
		{"READ COMMITTED", read, drop, plus, "150", "40001", "1,150, 2,100,", true, false},
		// done again, and it reads the same
		{"READ COMMITTED", read, set, "UPDATE relied SET note = 'x' WHERE id = 1 RETURNING bal", "100", "",
			"1,90,x 2,100,", true, false},
		{"READ COMMITTED", read, set, strings.ReplaceAll(plus, "id = 1", "id = 2"), "150", "", "1,90, 2,150,", true,
			false},
		// weaker: PostgreSQL has the other one wait, and 140
		{"READ COMMITTED", "", set, plus, "150", "", "1,90, 2,100,", true, false},
		{"READ COMMITTED", read, set, plus, "150", "40001", "1,150, 2,100,", true, true},
		{"READ COMMITTED", read, add, condition, "0", "40001", "1,0, 2,100,", true, true},
		{"REPEATABLE READ", read, set, plus, "150", "40001", "1,150, 2,100,", false, false},
		{"REPEATABLE READ", "", set, plus, "150", "40001", "1,150, 2,100,", false, false},
		{"SERIALIZABLE", read, set, plus, "150", "40001", "1,150, 2,100,", false, false},
		{"SERIALIZABLE", "", set, plus, "150", "40001", "1,150, 2,100,", false, false},
	} {
		name := fmt.Sprint(x.level, ": ", x.read, "; ", x.write, "; ", x.other)
		other := others[1]
		if x.here {
			other = others[0]
		}
		block := func(between string) error {
			other.Do("DELETE FROM relied", "INSERT INTO relied VALUES (1, 100, ''), (2, 100, '')")
			c.Everywhere("SELECT sum(bal) FROM relied", "200")
			s.Do("BEGIN ISOLATION LEVEL " + x.level)
			if x.read != "" {
				s.Get(x.read)
			}
			if tag, err := s.Exec(ctx, x.write, 1); err != nil || tag.RowsAffected() != 1 {
				t.Fatalf("%s: %s, %v", name, tag, Explain(err))
			}
			if between != "" {
				if told := other.Get(between); told != x.told {
					t.Errorf("%s: the other one is told %s, want %s", name, told, x.told)
				}
			}
			return s.Try("COMMIT")
		}
		for range 3 { // the node and the session learn
			if err := block(""); err != nil {
				t.Fatalf("%s: %v", name, Explain(err))
			}
		}
		unseen := -int(c.counters(1)["blind"])
		if err := block(""); err != nil {
			t.Fatalf("%s: %v", name, Explain(err))
		}
		unseen += int(c.counters(1)["blind"])
		if (unseen > 0) != x.unseen {
			t.Errorf("%s: %d blocks are carried out unseen", name, unseen)
		}
		if err := block(x.other); Code(err) != x.code {
			t.Errorf("%s: COMMIT says %v, want %s", name, Explain(err), x.code)
		}
		s.Do("ROLLBACK")
		c.Everywhere("SELECT coalesce(string_agg(concat_ws(',', id, bal, note), ' ' ORDER BY id), '') FROM relied",
			x.rows)
	}
	c.Check()
}

// TestForgottenRows: what a node knows of rows is gone with them, however they went: a block of it is told UPDATE 0,
// and then COMMIT.
func TestForgottenRows(t *testing.T) {
	ctx := context.Background()
	c := use(t)
	admin := c.Connect(1)
	admin.Do("CREATE TABLE emptied (id int PRIMARY KEY, n int NOT NULL)",
		"CREATE TABLE emptied_parent (id int PRIMARY KEY, n int NOT NULL) PARTITION BY RANGE (id)",
		"CREATE TABLE emptied_part PARTITION OF emptied_parent FOR VALUES FROM (0) TO (1000)",
		"CREATE TABLE emptied_far (id int PRIMARY KEY)",
		"CREATE TABLE emptied_near (id int PRIMARY KEY, n int NOT NULL, far int REFERENCES emptied_far)",
		"CREATE TABLE emptied_log (id int PRIMARY KEY)",
		"CREATE FUNCTION empty_it() RETURNS void LANGUAGE plpgsql AS 'BEGIN TRUNCATE emptied; END'")
	const again = "DROP TABLE emptied; CREATE TABLE emptied (id int PRIMARY KEY, n int NOT NULL)"
	notes := 0
	for _, x := range []struct {
		table, how string
		by         int // the node where it is done
		kept       bool
	}{
		{"emptied", "TRUNCATE emptied", 1, false}, {"emptied", "TRUNCATE emptied", 2, false},
		{"emptied", "DELETE FROM emptied", 1, false}, {"emptied", "DELETE FROM emptied", 2, false},
		{"emptied", again, 1, false}, {"emptied", again, 2, false},
		{"emptied", "BEGIN; " + again + "; COMMIT", 1, false},
		{"emptied", "BEGIN; CREATE TABLE emptied_more (i int); DELETE FROM emptied; DROP TABLE emptied_more; COMMIT", 1,
			false},
		{"emptied", "SELECT empty_it()", 1, false}, {"emptied", "SELECT empty_it()", 2, false},
		{"emptied", "BEGIN; TRUNCATE emptied; ROLLBACK", 1, true},
		{"emptied", "BEGIN; TRUNCATE emptied; INSERT INTO emptied_log VALUES (0); COMMIT", 1, false},
		{"emptied_part", "TRUNCATE emptied_parent", 1, false}, {"emptied_part", "TRUNCATE emptied_parent", 2, false},
		{"emptied_near", "TRUNCATE emptied_far CASCADE", 1, false},
		{"emptied_near", "TRUNCATE emptied_far CASCADE", 2, false},
	} {
		s := c.Connect(1)
		admin.Do(fmt.Sprintf("INSERT INTO %s (id, n) SELECT i, 0 FROM generate_series(1, 3) i ON CONFLICT (id) DO "+
			"UPDATE SET n = 0", x.table), "DELETE FROM emptied_log")
		changes := func(id, n int) int64 {
			tag, err := s.Exec(ctx, fmt.Sprintf("UPDATE %s SET n = $2 WHERE id = $1", x.table), id, n)
			if err != nil {
				t.Fatal(Explain(err))
			}
			return tag.RowsAffected()
		}
		adds := func(id int) int64 {
			notes++
			if _, err := s.Exec(ctx, "INSERT INTO emptied_log VALUES ($1)", notes); err != nil {
				t.Fatal(Explain(err))
			}
			tag, err := s.Exec(ctx, fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id = $1", x.table), id)
			if err != nil {
				t.Fatal(Explain(err))
			}
			return tag.RowsAffected()
		}
		want := int64(1)
		for i := range 3 { // twice they are changed, then they go
			for id := 1; id <= 3; id++ {
				s.Do("BEGIN")
				if got := changes(id, i); got != want {
					t.Errorf("%s at node %d: UPDATE %d of row %d, want %d", x.how, x.by, got, id, want)
				}
				if err := s.Try("COMMIT"); err != nil {
					t.Errorf("%s at node %d: row %d: %v", x.how, x.by, id, Explain(err))
				}
				s.Do("BEGIN")
				if got := adds(id); got != want {
					t.Errorf("%s at node %d: an addition is told UPDATE %d of row %d, want %d", x.how, x.by, got, id,
						want)
				}
				if err := s.Try("COMMIT"); err != nil {
					t.Errorf("%s at node %d: an addition to row %d: %v", x.how, x.by, id, Explain(err))
				}
			}
			if i != 1 {
				continue
			}
			if !x.kept {
				want = 0
			}
			if x.by == 1 {
				for _, sql := range strings.Split(x.how, "; ") {
					s.Do(sql)
				}
				continue
			}
			by := c.Connect(x.by)
			for _, sql := range strings.Split(x.how, "; ") {
				by.Do(sql)
			}
			c.Everywhere("SELECT count(*) FROM "+x.table, "0")
		}
	}
	c.Check()
}
