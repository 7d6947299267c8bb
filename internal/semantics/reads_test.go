package semantics

import (
	"fmt"
	"strings"
	"testing"
)

// tellReads is what ReadsOf finds, in short.
func tellReads(r *Reads) string {
	if r == nil {
		return "?"
	}
	var out []string
	for _, t := range r.Tables {
		s := t.Relation
		if t.Scans {
			s += " all"
		}
		for _, l := range t.Looks {
			s += " " + strings.Join(l.Columns, ",") + "="
			for i, v := range l.Values {
				if i > 0 {
					s += "/"
				}
				for _, o := range v {
					s += fmt.Sprintf("%d:%s", o.Kind, o.Text)
					if o.Param > 0 {
						s += fmt.Sprintf("$%d", o.Param)
					}
					if o.Kind == ParamOperand && !o.Alone {
						s += "*"
					}
					if o.Cast != "" {
						s += "::" + o.Cast
					}
					s += ";"
				}
			}
		}
		if len(t.Sets) > 0 {
			s += " sets " + strings.Join(t.Sets, ",")
		}
		out = append(out, s)
	}
	return strings.Join(out, " | ")
}

// TestReadsOf: rows are told only where an equality that all rows of the result meet says which they are. What could
// read anything else, through a function, a query inside, a view's text that is not here, is not told at all ("?").
func TestReadsOf(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT 1":                                       "",
		"SELECT v FROM t WHERE k = 5":                    `"t" k=2:5;`,
		"SELECT v FROM s.t x WHERE 5=x.k":                `"s"."t" k=2:5;`,
		"SELECT v FROM t WHERE k = -5":                   `"t" k=2:-5;`,
		"SELECT v FROM t WHERE k = 5000000000":           `"t" k=2:5000000000;`,
		"SELECT v FROM t WHERE k = 99999999999999999999": `"t" all`,
		"SELECT v FROM t WHERE k = 5.0":                  `"t" all`,
		"SELECT v FROM t WHERE k = 'x' AND (v > 3 OR v IS NULL) ORDER BY v LIMIT 1": `"t" k=1:x;`,
		`SELECT v FROM t WHERE k = 'x\y'`:                                           `"t" all`,
		"SELECT v FROM t WHERE k = $1 AND j = $2":                                   `"t" k,j=4:$1;/4:$2;`,
		"SELECT v FROM t WHERE k = $1 AND v = $1":                                   `"t" k,v=4:$1*;/4:$1*;`,
		"SELECT v FROM t WHERE k = $1::int8":                                        `"t" k=4:$1::int8;`,
		"SELECT v FROM t WHERE k = $1::varchar(3)":                                  `"t" all`,
		"SELECT v FROM t WHERE k = $1::mine":                                        "?",
		"SELECT v FROM t WHERE k IN (1, 2, $1)":                                     `"t" k=2:1;2:2;4:$1;`,
		"SELECT v FROM t WHERE k NOT IN (1, 2)":                                     `"t" all`,
		"SELECT v FROM t WHERE k = ANY ($1)":                                        `"t" k=5:$1;`,
		"SELECT v FROM t WHERE k = ALL ($1)":                                        `"t" all`,
		"SELECT v FROM t WHERE k = 5 OR v = 1":                                      `"t" all`,
		"SELECT v FROM t WHERE NOT k = 5":                                           `"t" all`,
		"SELECT v FROM t WHERE k >= 5":                                              `"t" all`,
		"SELECT v FROM t WHERE k = v":                                               `"t" all`,
		"SELECT v FROM t WHERE k = 2 + 3":                                           `"t" all`,
		"SELECT v FROM t WHERE k = CURRENT_DATE":                                    `"t" all`,
		"SELECT v FROM t WHERE k + 0 = 5":                                           `"t" all`,
		"SELECT v FROM t WHERE k = NULL":                                            `"t" all`,
		"SELECT v FROM t WHERE k COLLATE \"C\" = 'x'":                               "?",
		"SELECT v FROM t WHERE (k, j) = (1, 2)":                                     "?",
		"SELECT v FROM t WHERE k OPERATOR(mine.=) 5":                                "?",
		"SELECT v FROM t WHERE k OPERATOR(pg_catalog.=) 5":                          `"t" k=2:5;`,
		"SELECT v FROM t WHERE k = 5 FOR UPDATE":                                    `"t" k=2:5;`,
		// no column, see Named
		"SELECT ctid FROM t WHERE k = 5":                                `"t" k=2:5;`,
		"SELECT t.fn FROM t WHERE k = 5":                                `"t" k=2:5;`, // likewise
		"SELECT (t).fn FROM t WHERE k = 5":                              "?",
		"SELECT t FROM t WHERE k = 5":                                   "?",
		"SELECT x.v FROM t WHERE k = 5":                                 "?",
		"SELECT count(*) FROM t":                                        `"t" all`,
		"SELECT fn(v) FROM t WHERE k = 5":                               "?",
		"SELECT mine.count(v) FROM t WHERE k = 5":                       "?",
		"SELECT v FROM t WHERE k = fn(5)":                               "?",
		"SELECT v FROM t WHERE k = (SELECT 5)":                          "?",
		"SELECT v FROM t WHERE k = 5 AND EXISTS (SELECT FROM u)":        "?",
		"SELECT v FROM (SELECT * FROM t) x WHERE k = 5":                 "?",
		"SELECT v FROM t(k) WHERE k = 5":                                "?",
		"SELECT v FROM t AS t(k, v) WHERE k = 5":                        "?",
		"SELECT v FROM t TABLESAMPLE system (5) WHERE k = 5":            "?",
		"SELECT v FROM d.s.t WHERE k = 5":                               "?",
		"WITH x AS (SELECT 1) SELECT v FROM t WHERE k = 5":              "?",
		"SELECT v FROM t WHERE k = 5 UNION SELECT v FROM t WHERE k = 6": "?",
		"SELECT v FROM fn() WHERE k = 5":                                "?",
		"SELECT a.v FROM t a JOIN u ON a.k = u.k WHERE a.k = 5":         `"t" all | "u" all`,
		"SELECT a.v FROM t a, u WHERE a.k = 5":                          `"t" all | "u" all`,
		"UPDATE t SET v = v + 1 WHERE k = $2 RETURNING v":               `"t" k=4:$2; sets v`,
		"UPDATE t SET v = 1":                                            `"t" all sets v`,
		"UPDATE t SET v = u.v FROM u WHERE t.k = 5":                     `"t" all sets v | "u" all`,
		"UPDATE t SET v = 1 WHERE CURRENT OF c":                         "?",
		"DELETE FROM t WHERE k = 5":                                     `"t" k=2:5;`,
		"DELETE FROM t USING u WHERE t.k = 5":                           `"t" all | "u" all`,
		"INSERT INTO t VALUES (1, 2), (3, DEFAULT)":                     `"t"`,
		"INSERT INTO t DEFAULT VALUES":                                  `"t"`,
		"INSERT INTO t SELECT * FROM u":                                 `"t" | "u" all`,
		"INSERT INTO t VALUES ((SELECT 1))":                             "?",
		"INSERT INTO t (k, v) VALUES (1, 2) ON CONFLICT DO NOTHING":     `"t" k,v=2:1;/2:2;`,
		"INSERT INTO t AS l VALUES ($1, ARRAY[$2::bigint]) ON CONFLICT (k) DO UPDATE SET v = l.v || " +
			"excluded.v": `"t" sets v`,
		"INSERT INTO t VALUES ($1, 1) ON CONFLICT (k) DO UPDATE SET v = 2 WHERE " +
			"t.v = 1": `"t" =4:$1;/2:1; sets v`,
		"INSERT INTO t SELECT * FROM u ON CONFLICT DO " +
			"NOTHING": `"t" all | "u" all`,
		"SAVEPOINT a":                          "",
		"RELEASE a":                            "",
		"ROLLBACK TO a":                        "?",
		"SHOW work_mem":                        "",
		"SET LOCAL lock_timeout = 5":           "",
		"SET LOCAL search_path = x":            "?",
		"EXPLAIN ANALYZE SELECT 1":             "?",
		"EXECUTE p":                            "?",
		"DECLARE c CURSOR FOR SELECT v FROM t": "?",
		"FETCH c":                              "?",
		"COPY (SELECT 1) TO STDOUT":            "?",
		"COPY t FROM STDIN":                    "?",
		"CALL p()":                             "?",
		"DO 'BEGIN END'":                       "?",
		"TRUNCATE t":                           "?",
		"MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN DELETE": "?",
		"LOCK TABLE t":           "?",
		"SELECT 1; SELECT 2":     "?",
		"CREATE TABLE t (k int)": "?",
		"not a statement":        "?",
	} {
		if got := tellReads(ReadsOf(sql)); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
	r := ReadsOf("SELECT t.a, b, x.c FROM t AS x, t WHERE t.k = 5")
	if r == nil || fmt.Sprint(r.Tables[0].Named, r.Tables[1].Named) != "[c] [a k]" {
		t.Errorf("%+v", r)
	}
}
