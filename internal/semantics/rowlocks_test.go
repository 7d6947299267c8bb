package semantics

import (
	"fmt"
	"testing"
)

func TestRowLocks(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT * FROM t FOR UPDATE": `SELECT * , pg_catalog.concat("t".tableoid, ' ', "t".ctid) FROM t FOR ` +
			`UPDATE [t:false]`,
		"select from t for no key update": `select pg_catalog.concat("t".tableoid, ' ', "t".ctid) from t for no key ` +
			`update [t:false]`,
		"SELECT a FROM t FOR SHARE;": `SELECT a , pg_catalog.concat("t".tableoid, ' ', "t".ctid) FROM t FOR ` +
			`SHARE; [t:true]`,
		`SELECT a IS DISTINCT FROM b, extract(year FROM c) FROM s.t AS "Ü x" WHERE d = $1 FOR UPDATE`: `SELECT a IS ` +
			`DISTINCT FROM b, extract(year FROM c) , pg_catalog.concat("Ü x".tableoid, ' ', "Ü x".ctid) FROM s.t AS ` +
			`"Ü x" WHERE d = $1 FOR UPDATE [t:false]`,
		"SELECT 1 FROM a JOIN b USING (x), c FOR UPDATE OF b, c FOR SHARE OF a, c": `SELECT 1 , ` +
			`pg_catalog.concat("a".tableoid, ' ', "a".ctid, ' ', "b".tableoid, ' ', "b".ctid, ' ', "c".tableoid, ' ` +
			`', "c".ctid) FROM a JOIN b USING (x), c FOR UPDATE OF b, c FOR SHARE OF a, c [a:true b:false c:false]`,
		"WITH x AS (SELECT 1 FROM y) SELECT (SELECT 1 FROM z), /* FROM */ 'FROM' FROM x, t FOR UPDATE": `WITH x AS ` +
			`(SELECT 1 FROM y) SELECT (SELECT 1 FROM z), /* FROM */ 'FROM' , pg_catalog.concat("t".tableoid, ' ', ` +
			`"t".ctid) FROM x, t FOR UPDATE [t:false]`,
		"(SELECT a FROM t) FOR UPDATE": `(SELECT a , ` +
			`pg_catalog.concat("t".tableoid, ' ', "t".ctid) FROM t) FOR UPDATE [t:false]`,
		"SELECT * FROM (a CROSS JOIN b) AS j FOR UPDATE":                   "not followed",
		"SELECT * FROM (SELECT * FROM t) AS s FOR UPDATE":                  "not followed",
		"TABLE t FOR UPDATE":                                               "not followed",
		"SELECT * FROM t WHERE u = 'for update'":                           "",
		"SELECT * FROM (SELECT * FROM t FOR UPDATE) s":                     "not followed",
		"DECLARE c CURSOR FOR SELECT * FROM t FOR UPDATE":                  "",
		"WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM u FOR UPDATE": "",
	} {
		l := Classify(sql)[0].Locks
		got := ""
		if l != nil && !l.Followed() {
			got = "not followed"
		} else if l != nil {
			got = l.Text + " ["
			for i, n := range l.Names {
				if i > 0 {
					got += " "
				}
				got += fmt.Sprint(n, ":", l.share[i])
			}
			got += "]"
			before, after := []rune(sql), []rune(l.Text)
			if string(before[:l.At]) != string(after[:l.At]) || string(before[l.At:]) != string(after[l.At+l.More:]) {
				t.Errorf("%s: %d characters were put in at %d", sql, l.More, l.At)
			}
		}
		if got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", sql, got, want)
		}
	}
	list := Classify("SELECT 1; SELECT * FROM t FOR UPDATE")
	if list[1].Locks == nil || list[0].Locks != nil {
		t.Error("the second of two statements locks rows")
	}
	l := list[1].Locks
	if rows, ok := l.Read("17 (0,1)"); !ok || len(rows) != 1 || rows[0] != (LockedRow{"17", "(0,1)", false}) {
		t.Errorf("read %+v", rows)
	}
	if _, ok := l.Read("17"); ok {
		t.Error("half a place was read")
	}
}

// TestRowName: how a statement names its rows, whatever it does to them; nil where its condition is more than
// equalities, or there are several tables.
func TestRowName(t *testing.T) {
	const want = "{t [{a {1 0}} {b {0 7}}]}"
	for sql, want := range map[string]string{
		"SELECT * FROM t WHERE a = $1 AND b = 7 FOR UPDATE":              want,
		"SELECT x FROM s.t AS u WHERE 7 = u.b AND (u.a = $1) FOR UPDATE": want,
		"SELECT * FROM t WHERE a = $1 AND b = 7 FOR SHARE":               "",
		"UPDATE t SET c = c * 2, d = now() WHERE b = 7 AND a = $1":       want,
		"DELETE FROM t WHERE b = 7 AND a = $1":                           want,
		"UPDATE t SET c = 1 WHERE a = $1 OR b = 7":                       "",
		"UPDATE t SET c = 1 WHERE a = $1 AND b > 7":                      "",
		"UPDATE t SET c = 1":                                             "",
		"SELECT * FROM t, u WHERE a = $1 AND b = 7 FOR UPDATE OF t":      "",
		"SELECT * FROM t WHERE (a, b) IN ((1, 2), (3, 4)) FOR UPDATE":    "",
		"SELECT * FROM t WHERE a = $1 AND b = 7 FOR UPDATE NOWAIT":       "",
		"SELECT * FROM t WHERE a = $1 AND b = 7 FOR UPDATE SKIP LOCKED":  "",
		"INSERT INTO t VALUES (1, 7)":                                    "",
	} {
		var name *RowName
		if l := Classify(sql)[0].Locks; l != nil {
			name = l.Row
		} else if d, ok := DirectOf(sql); ok {
			name = d.Row
		}
		got := ""
		if name != nil {
			got = fmt.Sprint(*name)
		}
		if got != want {
			t.Errorf("%s names %s, and should %s", sql, got, want)
		}
	}
}
