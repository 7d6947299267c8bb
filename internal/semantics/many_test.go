package semantics

import (
	"slices"
	"strings"
	"testing"
)

// expected words what a statement's text says of how many rows it changes.
func expected(s Statement) string {
	switch c := s.Compared; {
	case s.Many && c != nil:
		return "both"
	case s.Many:
		return "many"
	case c == nil:
		return "few"
	case c.Schema != "":
		return c.Schema + "." + c.Table + ": " + strings.Join(c.Columns, " ")
	default:
		return c.Table + ": " + strings.Join(c.Columns, " ")
	}
}

// TestMany is the table of what statements are expected to change.
func TestMany(t *testing.T) {
	for _, c := range []struct{ want, texts string }{ // one text per line
		{"many", "DELETE FROM t\nDELETE FROM t WHERE id > 5\nupdate t set a = 1\nUPDATE t SET a = 1 WHERE b\nUPDATE " +
			"t SET a = 1 FROM u WHERE t.id = u.id\nDELETE FROM t USING u WHERE t.id = 1 AND u.id = 2\n" +
			"INSERT INTO t SELECT * FROM u\ninsert into t (a, b) (select 1, 2)\nINSERT INTO t WITH x AS (SELECT 1) " +
			"SELECT * FROM x\nWITH x AS (SELECT 1) UPDATE t SET a = 1 WHERE id = 1\n" +
			"MERGE INTO t USING s ON a = b WHEN MATCHED THEN DELETE\nCOPY t FROM STDIN\nCOPY t FROM '/x'\nUPDATE t " +
			"SET a = 1 WHERE b <= 3 AND c >= 4 AND d <> 5 AND e != 6\n" +
			"/* x */ DELETE FROM t WHERE a LIKE '=' -- b = 1\nUPDATE t SET a = (SELECT max(b) FROM u WHERE u.id = " +
			"1)\nDELETE FROM t WHERE id IN (SELECT id FROM u)\nDELETE FROM t WHERE id BETWEEN 1 AND 5\n" +
			"DELETE FROM t WHERE id IN (1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17)\nDELETE FROM t WHERE id NOT IN " +
			"(1, 2)\nUPDATE t SET a = b RETURNING id = 5"},
		{"few", "INSERT INTO t VALUES (1)\nINSERT INTO t VALUES ((SELECT max(id) FROM u))\nINSERT INTO t(name) " +
			"VALUES ('select it')\n/* select */ INSERT INTO t VALUES (1), (2)\nINSERT INTO t DEFAULT VALUES\n" +
			"UPDATE t SET a = 1 WHERE CURRENT OF c\nDELETE FROM t WHERE current of c\nDELETE FROM t WHERE ctid = " +
			"'(0,1)'\nUPDATE t SET a = 1 WHERE ctid = $1 AND b = 2\nINSERT INTO t VALUES (1) ON CONFLICT (id) DO " +
			"UPDATE SET a = (SELECT 1)\n" +
			"DELETE FROM t WHERE b = '" + strings.Repeat("x", ManyTextMax) + "'"},
		{"t: id", "DELETE FROM t WHERE id = 5\nDELETE FROM t WHERE id=$1;\nDELETE FROM ONLY t WHERE id=-1\ndelete " +
			"from T as x where X.ID = 5 returning a = 7\n/* app='x' */ UPDATE t SET a = 'it''s = 5' WHERE id = 5 AND " +
			"a > 3\nUPDATE t SET a = 1 WHERE (id = 5)\n" +
			"UPDATE t SET a = 1 WHERE ((((id)) = (5)) AND b < 7)\nDELETE FROM t WHERE 5 = id\nDELETE FROM t WHERE " +
			"$1::int = id\nUPDATE t SET a = extract(epoch FROM now()) WHERE id = 1\nUPDATE t SET a = b IS DISTINCT " +
			"FROM c WHERE id = 1\n" +
			"UPDATE t * SET a = 1 WHERE id = (SELECT max(id) FROM u WHERE u.b = 3)\nDELETE FROM t WHERE id IN (1, 2, " +
			"3)\nDELETE FROM t WHERE id IN ($1)\nDELETE FROM t WHERE id = ANY ('{1,2,3}')\nDELETE FROM t WHERE id = " +
			"any(ARRAY[1,2])\n" +
			"UPDATE t SET a = 1 WHERE id IN (SELECT id FROM t WHERE a = 1 ORDER BY id FOR UPDATE SKIP LOCKED LIMIT " +
			"10)\nDELETE FROM t WHERE id = 1 OR id = 2\nDELETE FROM t WHERE id = 1 AND NOT b OR c < 4 AND id = 2 AND " +
			"d IS NULL\n" +
			"UPDATE \"t\" SET \"a\" = 'b' WHERE \"t\".\"id\" = E'\\'x = y' AND lower(a) = 'y'\nDELETE FROM t WHERE " +
			"id = now() /* or b = 2 */ -- or c = 3\nDELETE FROM t WHERE id = $$ or b = 2 $$\nDELETE FROM t WHERE a = " +
			"ANY($1) AND id = current_user\n" +
			"DELETE FROM t WHERE id = 'x' COLLATE \"C\" AND b IS NOT NULL\nDELETE FROM t WHERE id = date " +
			"'2020-01-01'\nDELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE c = 1) AND id = 3"},
		{"t: w d", "UPDATE t SET a = 1 WHERE w = $1 AND d = $2\nDELETE FROM t WHERE (w, d) = (1, 2)\nDELETE FROM t " +
			"WHERE (w, d) IN ((1, 2), (3, 4))\nDELETE FROM t WHERE (w = 1 AND d = 2) OR (w = 3 AND d = 4 AND x = " +
			"5)\nDELETE FROM t WHERE (w = 1) AND (d IN (2) OR false AND d = 7)"},
		{"s.t: id", "DELETE FROM s.t WHERE id = 5\nUPDATE db.s.t SET a = 1 WHERE s.t.id = 5"},
		{`S.a"b: I d`, `UPDATE "S"."a""b" SET x = 1 WHERE "I d" = 5`},
		{"t: ", "DELETE FROM t WHERE id % 2 = 0\nDELETE FROM t WHERE lower(id) = 'y'\nDELETE FROM t WHERE id = 1 OR " +
			"b = 2\nDELETE FROM t WHERE NOT id = 1\nDELETE FROM t WHERE NOT (id = 1)\nDELETE FROM t WHERE id = " +
			"id\nDELETE FROM t WHERE 1 = 1\n" +
			"DELETE FROM t WHERE id = other AND a.b = c.d\nDELETE FROM t WHERE id = ANY($1)\nDELETE FROM t WHERE id " +
			"= ANY(SELECT b FROM u)\nDELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id)\nDELETE FROM t " +
			"WHERE coalesce(id = 1, false)\n" +
			"DELETE FROM t WHERE id + 1 = 5\nDELETE FROM t WHERE 'x' = ANY (tags)\nDELETE FROM t WHERE id::text = " +
			"'x'\nDELETE FROM t WHERE id IN (SELECT id FROM t WHERE a = 1)\nDELETE FROM t WHERE (id = 1) IS NOT " +
			"TRUE\nDELETE FROM t WHERE id < 5 OR id = 5"},
	} {
		for _, text := range strings.Split(c.texts, "\n") {
			got := Classify(text)
			if len(got) != 1 || expected(got[0]) != c.want {
				t.Errorf("%q: %q, want %q", text, expected(got[0]), c.want)
			}
			if g := grammar(text); expected(g[0]) != c.want {
				t.Errorf("%q: by the grammar %q, want %q", text, expected(g[0]), c.want)
			}
		}
	}
	for i, want := range []string{"t: id", "u: ", "few"} {
		if got := Classify("DELETE FROM t WHERE id = 1; DELETE FROM u WHERE a = b; SELECT 1")[i]; expected(got) !=
			want {
			t.Errorf("statement %d of several: %q, want %q", i, expected(got), want)
		}
	}
}

// TestTarget: the table that a statement writes to is told from its text.
func TestTarget(t *testing.T) {
	for sql, want := range map[string]string{
		"INSERT INTO t SELECT 1": ".t", "/* x */ insert into S.T (a) SELECT 1": "s.t",
		"UPDATE ONLY \"T x\".\"y\"\"z\" SET a = 1": "T x.y\"z", "DELETE FROM only t": ".t",
		"MERGE INTO t USING u ON true": ".t",
		"COPY t (a) FROM STDIN":        ".t", "COPY (SELECT 1) TO STDOUT": ".",
		"WITH x AS (SELECT 1) UPDATE t SET a = 1": ".",
		"SELECT 1": ".", "": ".", "DELETE": ".", "INSERT INTO": ".",
	} {
		if schema, table := Target(sql); schema+"."+table != want {
			t.Errorf("%s: %s.%s, want %s", sql, schema, table, want)
		}
	}
}

// FuzzMany: nothing panics, and what PostgreSQL's grammar says that a column is compared with, at the top of an UPDATE
// or DELETE of one table, is seen.
func FuzzMany(f *testing.F) {
	for _, s := range []string{"DELETE FROM t WHERE id = 5", "UPDATE t SET a = 1 WHERE (w, d) IN ((1, 2))",
		"DELETE FROM t WHERE a = 1 OR (b = 2 AND c = ANY('{1}'))", "delete from \"T\" where \"a\"=E'\\'' and $1=b",
		"UPDATE t SET a=-1 WHERE b=-$1 AND c = $x$ = $x$",
		"DELETE FROM t WHERE a = b'1' AND c = 'd' -- e = 1\n 'f' AND /* /* */ g = 1 */ h = 1", "DELETE FROM t WHERE ((",
		"delete from t where a in (select b limit 1)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		all, c := many(sql)
		if all && c != nil || c != nil && c.Table == "" {
			t.Fatalf("%q: %t, %+v", sql, all, c)
		}
		r := ReadsOf(sql)
		if r == nil || len(sql) > ManyTextMax || len(r.Tables) != 1 ||
			r.Tables[0].Verb != Update && r.Tables[0].Verb != Delete || len(r.Tables[0].Looks) != 1 {
			return
		}
		// names and strings with escapes; OPERATOR(=)
		if strings.ContainsAny(sql, "\x00&\\[") || ascii(sql) != sql ||
			strings.Contains(strings.ToLower(sql), "case") || strings.Contains(strings.ToLower(sql), "operator") {
			return
		}
		for i, column := range r.Tables[0].Looks[0].Columns {
			values := r.Tables[0].Looks[0].Values[i]
			if len(values) > listMax || values[0].Kind == ArrayOperand || column == "ctid" ||
				strings.ToLower(column) != column {
				continue
			}
			if c == nil || !slices.Contains(c.Columns, column) {
				t.Errorf("%q: %t, %+v without %q", sql, all, c, column)
			}
		}
	})
}

func BenchmarkMany(b *testing.B) {
	for name, sql := range map[string]string{
		"key":    "UPDATE pgbench_accounts SET abalance = abalance + -1234 WHERE aid = 123456",
		"keys":   "UPDATE order_line SET ol_delivery_d = $1 WHERE ol_o_id = $2 AND ol_d_id = $3 AND ol_w_id = $4",
		"insert": "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 2, 3, 4, CURRENT_TIMESTAMP)",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				many(sql)
			}
		})
		b.Run(name+" classified", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Classify(sql)
			}
		})
	}
}
