package semantics

import (
	"slices"
	"testing"
)

func TestGlanceOf(t *testing.T) {
	for sql, want := range map[string]Glance{
		"SELECT abalance FROM pgbench_accounts WHERE aid = $1;": {Relation: `"pgbench_accounts"`,
			Alias: "pgbench_accounts", Columns: []string{"abalance"},
			Text: [2]string{" abalance FROM ", "WHERE aid = $1;"}},
		"select a.v, a.k as from_ from app.account as a where a.k=$1 LIMIT 1": {Relation: `"app"."account"`, Alias: "a",
			Columns: []string{"v", "k"},
			Text:    [2]string{" a.v, a.k as from_ from ", "where a.k=$1 LIMIT 1"}},
		`SELECT "from" FROM "The Table" x WHERE k = 1 AND l = $1`: {Relation: `"The Table"`, Alias: "x",
			Columns: []string{"from"}, Text: [2]string{` "from" FROM `, "WHERE k = 1 AND l = $1"}},
		"SELECT * FROM t WHERE k = $1": {Relation: `"t"`, Alias: "t",
			Text: [2]string{" * FROM ", "WHERE k = $1"}},
		"SELECT /* from */ v FROM t WHERE k = $1": {Relation: `"t"`, Alias: "t", Columns: []string{"v"},
			Text: [2]string{" /* from */ v FROM ", "WHERE k = $1"}},
	} {
		got, ok := GlanceOf(sql)
		if !ok || got.Relation != want.Relation || got.Alias != want.Alias || got.Text != want.Text ||
			!slices.Equal(got.Columns, want.Columns) || len(got.Finds) == 0 {
			t.Errorf("%s: %+v, %v", sql, got, ok)
		}
	}
	for _, sql := range []string{
		"SELECT v FROM t", "SELECT v FROM t WHERE k = $1 FOR UPDATE", "SELECT v FROM t, u WHERE k = $1",
		"SELECT v FROM ONLY t WHERE k = $1", "SELECT v + 1 FROM t WHERE k = $1",
		"SELECT f(v) FROM t WHERE k = $1", "SELECT v FROM t WHERE k = $1 OR k = 2", "SELECT v FROM t WHERE k > $1",
		"SELECT v FROM t WHERE k = f($1)", "SELECT DISTINCT v FROM t WHERE k = $1",
		"SELECT v FROM t WHERE k = $1 LIMIT 0", "SELECT v FROM t WHERE k = $1 LIMIT $2",
		"SELECT v FROM t WHERE k = $1 OFFSET 1", "SELECT v FROM t WHERE k = $1 ORDER BY v",
		"SELECT count(*) FROM t WHERE k = $1",
		"SELECT v INTO u FROM t WHERE k = $1", "WITH t AS (SELECT 1 AS k, 2 AS v) SELECT v FROM t WHERE k = $1",
		"SELECT v FROM t WHERE k = $1 UNION SELECT 1", "SELECT v FROM f() t WHERE k = $1",
		"SELECT v FROM (SELECT 1 AS k, 2 AS v) t WHERE k = $1", "SELECT v FROM t x(k, v) WHERE k = $1",
		"SELECT v[1] FROM t WHERE k = $1", "SELECT FROM t WHERE k = $1", "SELECT (t).v FROM t WHERE k = $1",
		"SELECT u.v FROM t WHERE k = $1", "TABLE t", "UPDATE t SET v = 1 WHERE k = $1",
		"SELECT v FROM t * WHERE k = $1", "SELECT v FROM t WHERE k = $1 GROUP BY v", "SELECT t.* FROM t WHERE k = $1",
		"SELECT v FROM t WHERE k = $1; SELECT 1", "SELECT ALL v FROM t WHERE k = $1",
		"SELECT v FROM t TABLESAMPLE system (10) WHERE k = $1",
	} {
		if got, ok := GlanceOf(sql); ok {
			t.Errorf("%s: %+v", sql, got)
		}
	}
}
