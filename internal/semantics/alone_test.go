package semantics

import "testing"

// TestReadsAlone: what the only relation of a SELECT is, where that is certain.
func TestReadsAlone(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT abalance FROM pgbench_accounts WHERE aid = $1": "pgbench_accounts", "select * from S.T;": "t",
		`SELECT a, b FROM "S"."T" x WHERE a = 'b (c' ORDER BY a LIMIT 1`: "T",
		"SELECT a FROM t AS u WHERE a < 5 -- (":                          "t",
		"SELECT 1":                                                       "", "": "", "SELECT f(a) FROM t": "",
		"SELECT a FROM t, u":               "",
		"SELECT a FROM t JOIN u USING (a)": "", "SELECT a FROM t NATURAL JOIN u": "",
		"SELECT a FROM t UNION TABLE u": "", "SELECT (SELECT a) FROM t": "",
		"SELECT t.f FROM t": "", "SELECT a FROM t WHERE t.f = 1": "", "SELECT a FROM ONLY t": "",
		"SELECT a FROM f(1)": "", "SELECT a INTO b FROM t": "", "SELECT a FROM t FOR UPDATE": "",
		"SELECT a FROM t; SELECT b FROM u":       "",
		"SELECT a FROM t WHERE EXISTS (TABLE u)": "", "SELECT a FROM U&\"\\0074\"": "",
		"WITH x AS (SELECT 1) SELECT a FROM t": "", "SELECT a FROM t WHERE a IN (SELECT 1)": "", "VALUES (1)": "",
		"SELECT a FROM t ORDER BY a, b": "", "SELECT a FROM t x FROM u": "",
		"UPDATE t SET a = 1": "", "SELECT a FROM (SELECT 1) t": "", "SELECT 1 UNION SELECT a FROM t": "",
		"SELECT a FROM LATERAL f(1)": "", `SELECT a FROM "a""b"`: "",
	} { // order-free: each by itself
		if name, ok := ReadsAlone(sql); name != want && ok || ok != (want != "") {
			t.Errorf("%s: %q, %v", sql, name, ok)
		}
	}
}
