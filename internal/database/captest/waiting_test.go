package captest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/pgtest"
)

// A READ COMMITTED statement that waits for a row whose unique value or key is changed by what is applied
// goes on with what has become of the row, as it would after the same UPDATE in one database.
func TestWaitingStatementsFollow(t *testing.T) {
	for _, bulk := range []bool{false, true} {
		t.Run(fmt.Sprintf("bulk %t", bulk), func(t *testing.T) { follow(t, bulk) })
	}
}

func follow(t *testing.T, bulk bool) {
	p := newPair(t, "CREATE EXTENSION btree_gist",
		"CREATE TABLE t(id int PRIMARY KEY, u int UNIQUE, n int)",
		"CREATE TABLE late(id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, u int, n int)",
		"CREATE TABLE serial(id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, u int UNIQUE, n int)",
		"CREATE TABLE beside(k int PRIMARY KEY, id int GENERATED ALWAYS AS IDENTITY, u int UNIQUE, n int)",
		"CREATE TABLE keyless(u int UNIQUE, n int)", "CREATE TABLE counted(id int GENERATED ALWAYS AS IDENTITY, n int)",
		"CREATE TABLE alone(id int GENERATED ALWAYS AS IDENTITY)",
		"CREATE TABLE ex(id int PRIMARY KEY, r int4range, n int, EXCLUDE USING gist (r WITH &&))",
		"CREATE TABLE dropped(x int, id int, y int, g int GENERATED ALWAYS AS (y * 2) STORED, n int, PRIMARY KEY "+
			"(y, id))", "ALTER TABLE dropped DROP x")
	for _, c := range []struct {
		name  string
		fill  string
		txs   [][]string
		wait  string
		rows  int64
		unfit int // attempts
		want  string
	}{
		{"unique value", "INSERT INTO t VALUES (1, 1, 0)", [][]string{{"UPDATE t SET u = u + 10, n = n + 1"}},
			"UPDATE t SET u = u + 100, n = n + 1 WHERE id = 1", 1, 0, "(1,111,2)"},
		{"deleted and inserted", "INSERT INTO t VALUES (1, 1, 0)",
			[][]string{{"DELETE FROM t"}, {"INSERT INTO t VALUES (1, 7, 5)"}},
			"UPDATE t SET n = n + 1 WHERE id = 1", 1, 0, "(1,7,6)"},
		{"values handed on", "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)",
			[][]string{{"UPDATE t SET u = 3, n = 1 WHERE id = 1"}, {"UPDATE t SET u = 1, n = 1 WHERE id = 2"}},
			"UPDATE t SET n = n + 1", 2, 0, "(1,3,2) (2,1,2)"},
		{"values handed round by transactions", "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)",
			[][]string{{"UPDATE t SET u = -1, n = 1 WHERE id = 1"}, {"UPDATE t SET u = 1, n = 1 WHERE id = 2"},
				{"UPDATE t SET u = 2, n = 2 WHERE id = 1"}},
			"UPDATE t SET n = n + 1", 2, 1, "(1,2,3) (2,1,2)"},
		{"values swapped", "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)",
			[][]string{{"UPDATE t SET u = -1 WHERE id = 1", "UPDATE t SET u = 1, n = 1 WHERE id = 2",
				"UPDATE t SET u = 2, n = 1 WHERE id = 1"}},
			"UPDATE t SET n = n + 1 WHERE n < 5", 2, 1, "(1,2,2) (2,1,2)"},
		{"swapped, in two transactions", "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)",
			[][]string{{"UPDATE t SET u = -1 WHERE id = 1", "UPDATE t SET u = 1 WHERE id = 2",
				"UPDATE t SET u = 2 WHERE id = 1"}, {"UPDATE t SET n = n + 1"}},
			"UPDATE t SET n = n + 1", 2, 2, "(1,2,2) (2,1,2)"},
		{"excluded values swapped", "INSERT INTO ex VALUES (1, '[1,3)', 0), (2, '[3,5)', 0)",
			[][]string{{"UPDATE ex SET r = NULL WHERE id = 1", "UPDATE ex SET r = '[1,3)', n = 1 WHERE id = 2",
				"UPDATE ex SET r = '[3,5)' WHERE id = 1"}},
			"UPDATE ex SET n = n + 1", 2, 1, `(1,"[3,5)",1) (2,"[1,3)",2)`},
		{"key", "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)", [][]string{{"UPDATE t SET id = 11, n = 1 WHERE id = 1"}},
			"UPDATE t SET n = n + 1 WHERE n < 5", 2, 0, "(11,1,2) (2,2,1)"},
		{"key that the statement asks for", "INSERT INTO t VALUES (1, 1, 0)",
			[][]string{{"UPDATE t SET id = 11 WHERE id = 1"}},
			"UPDATE t SET n = n + 1 WHERE id = 1", 0, 0, "(11,1,0)"},
		{"keys and values", "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)",
			[][]string{{"UPDATE t SET id = id + 10, u = u + 10"}, {"UPDATE t SET id = id + 10, n = 1 WHERE id = 11"},
				{"UPDATE t SET u = 50 WHERE id = 21"}},
			"UPDATE t SET n = n + 1", 2, 0, "(12,12,1) (21,50,2)"},
		{"a key that another one had", "INSERT INTO t VALUES (5, 5, 0), (4, 4, 1)",
			[][]string{{"UPDATE t SET id = 6 WHERE id = 5"}, {"UPDATE t SET id = 5 WHERE id = 4"}},
			"UPDATE t SET n = n + 10", 2, 0, "(5,4,11) (6,5,10)"},
		{"a key that changes twice, beside another one", "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)",
			[][]string{{"UPDATE t SET id = 11 WHERE id = 1"}, {"UPDATE t SET id = 12 WHERE id = 2"},
				{"UPDATE t SET id = 21 WHERE id = 11"}},
			"UPDATE t SET n = n + 1 WHERE u = 1", 1, 0, "(12,2,0) (21,1,1)"},
		{"values swapped by new keys", "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)",
			[][]string{{"UPDATE t SET u = -1, id = 3 WHERE id = 1", "UPDATE t SET u = 1, id = 4 WHERE id = 2",
				"UPDATE t SET u = 2 WHERE id = 3"}},
			"UPDATE t SET n = n + 1", 2, 1, "(3,2,1) (4,1,1)"},
		{"keys exchanged by a third one", "INSERT INTO late VALUES (1, 1, 0), (2, 2, 0)",
			[][]string{{"UPDATE late SET id = -1 WHERE id = 1", "UPDATE late SET id = 1 WHERE id = 2",
				"UPDATE late SET id = 2 WHERE id = -1"}},
			"UPDATE late SET n = n + 1 WHERE u = 1", 1, 0, "(1,2,0) (2,1,1)"},
		{"keys exchanged at once", "INSERT INTO late VALUES (1, 1, 0), (2, 2, 0)",
			[][]string{{"UPDATE late SET id = 3 - id"}}, "UPDATE late SET n = n + 1 WHERE u = 1", 1, 0,
			"(1,2,0) (2,1,1)"},
		{"keys handed on", "INSERT INTO late VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0)",
			[][]string{{"UPDATE late SET id = id + 1"}}, "UPDATE late SET n = n + 1 WHERE u = 1", 1, 0,
			"(2,1,1) (3,2,0) (4,3,0)"},
		{"a key that was made beside it", "INSERT INTO late VALUES (1, 1, 0)",
			[][]string{{"INSERT INTO late VALUES (1, 2, 0)", "UPDATE late SET id = 2 WHERE u = 1"}},
			"UPDATE late SET n = n + 1 WHERE u = 1", 1, 0, "(1,2,0) (2,1,1)"},
		{"a key that was deleted", "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)",
			[][]string{{"DELETE FROM t WHERE id = 1", "UPDATE t SET id = 1 WHERE id = 2"}},
			"UPDATE t SET n = n + 1 WHERE u = 2", 1, 0, "(1,2,1)"},
		{"key of several columns", "INSERT INTO dropped VALUES (1, 2, DEFAULT, 0)",
			[][]string{{"UPDATE dropped SET y = 7"}},
			"UPDATE dropped SET n = n + 1", 1, 0, "(1,7,14,1)"},
		{"identity column as key", "INSERT INTO serial(u, n) VALUES (1, 0)",
			[][]string{{"UPDATE serial SET u = u + 1"}},
			"UPDATE serial SET n = n + 1", 1, 0, "(1,2,1)"},
		{"beside an identity column", "INSERT INTO beside(k, u, n) VALUES (1, 1, 0)",
			[][]string{{"UPDATE beside SET u = u + 1"}},
			"UPDATE beside SET n = n + 1", 1, 0, "(1,1,2,1)"},
		{"identity column", "INSERT INTO beside(k, u, n) VALUES (1, 1, 0)",
			[][]string{{"UPDATE beside SET id = DEFAULT"}},
			"UPDATE beside SET n = n + 1 WHERE k = 1", 1, 1, "(1,2,1,1)"},
		{"without key", "INSERT INTO keyless VALUES (1, 0)", [][]string{{"UPDATE keyless SET u = u + 1, n = n + 1"}},
			"UPDATE keyless SET n = n + 1", 1, 0, "(2,2)"},
		{"without key, swapped", "INSERT INTO keyless VALUES (1, 0), (2, 5)",
			[][]string{{"UPDATE keyless SET u = NULL WHERE u = 1", "UPDATE keyless SET u = 1 WHERE u = 2",
				"UPDATE keyless SET u = 2 WHERE u IS NULL"}},
			"UPDATE keyless SET n = n + 1", 2, 1, "(1,6) (2,1)"},
		{"without key, identity column", "INSERT INTO counted(n) VALUES (1)",
			[][]string{{"UPDATE counted SET id = DEFAULT"}},
			"UPDATE counted SET n = n + 1", 1, 1, "(2,2)"},
		{"nothing but an identity column", "INSERT INTO alone DEFAULT VALUES",
			[][]string{{"UPDATE alone SET id = DEFAULT"}},
			"DELETE FROM alone", 1, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := *p
			p.t, p.bulk = t, bulk
			all := []string{"t", "serial", "beside", "keyless", "counted", "alone", "ex", "late", "dropped"}
			p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = off; SET LOCAL backtrace_functions = 'tutti_applies'; SET LOCAL "+
				"session_replication_role = replica; TRUNCATE "+strings.Join(all, ", ")+" RESTART IDENTITY; COMMIT")
			p.exec(p.b, "TRUNCATE public."+strings.Join(all, ", public."))
			p.tx(c.fill)
			p.equal()
			for _, sql := range c.txs {
				p.tx(sql...)
			}
			p.unfit = 0
			rows := p.waits(c.wait)
			var got string
			p.scan(p.b, "SELECT coalesce(string_agg(x, ' ' ORDER BY x), '') FROM (SELECT t::text FROM public."+
				strings.Join(all, " t UNION ALL SELECT t::text FROM public.")+" t) AS _(x)", &got)
			if rows != c.rows || got != c.want || p.unfit != c.unfit {
				t.Errorf("the statement changed %d rows and left %s, want %d and %s; %d attempts failed, want %d", rows,
					got, c.rows, c.want, p.unfit, c.unfit)
			}
		})
	}
}

// waits applies what is pending to b, while a statement waits for it, and returns how many rows that one changed.
func (p *pair) waits(sql string) int64 {
	p.t.Helper()
	form := apply.InPlace
	tx, loose, err := p.open(p.pending, form)
	for ; loose; tx, loose, err = p.open(p.pending, form) {
		p.unfit++
		form = form.Next(len(p.pending))
	}
	if err != nil {
		p.t.Fatal(explain(err))
	}
	defer tx.Rollback(ctx)
	s := pgtest.Shared(p.t)
	other, watch := s.Connect(p.t, p.dbB), s.Connect(p.t, p.dbB)
	p.exec(other, "BEGIN; SET LOCAL tutti.tx = on")
	type answer struct {
		rows int64
		err  error
	}
	done := make(chan answer, 1)
	pid := other.PgConn().PID()
	go func() {
		tag, err := other.Exec(ctx, sql, pgx.QueryExecModeExec)
		done <- answer{tag.RowsAffected(), err}
	}()
	for blocked := false; !blocked && len(done) == 0; time.Sleep(time.Millisecond) {
		p.scan(watch, fmt.Sprintf("SELECT cardinality(pg_blocking_pids(%d)) > 0", pid), &blocked)
	}
	if err := tx.Commit(ctx); err != nil {
		p.t.Fatal(explain(err))
	}
	p.pending = nil
	a := <-done
	if a.err != nil {
		p.t.Fatal(explain(a.err))
	}
	p.exec(other, "COMMIT")
	return a.rows
}
