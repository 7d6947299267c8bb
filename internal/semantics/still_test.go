package semantics

import (
	"fmt"
	"testing"
)

// TestStill: what may change a setting or a role by its text is not taken for a SELECT that leaves everything as it is.
func TestStill(t *testing.T) {
	for sql, want := range map[string]bool{
		"SELECT 1":                              true,
		"select a, b from t where id = $1 -- x": true,
		"SELECT count(*), max(n) FROM t JOIN u USING (id) WHERE a IN (1, 2) AND (b OR NOT (c)) GROUP BY 1 HAVING " +
			"sum(n) > 3 ORDER BY 1 LIMIT (2)": true,
		"SELECT lower(name), now() FROM t WHERE EXISTS (SELECT FROM u) AND x = " +
			"ANY ($1)": true,
		"SELECT x::numeric(10,2), coalesce(y, 0) FROM (SELECT * FROM " +
			"t) AS q": true,
		"SELECT set_config('role', 'x', " +
			"false)": false,
		"SELECT pg_catalog.set_config ('role', 'x', " +
			"false)": false,
		`SELECT "set_config"('role', 'x', ` +
			`false)`: false,
		"SELECT go()":                                     false,
		"SELECT a FROM go(1)":                             false,
		"SELECT app.lower(name) FROM t":                   false,
		`SELECT "lower"(name) FROM t`:                     false,
		"SELECT 1 INTO t":                                 false,
		"WITH x AS (SELECT 1) SELECT * FROM x":            false,
		"SELECT * FROM Seen":                              false,
		`SELECT 1 FROM t, s."Seen" x`:                     false,
		`SELECT * FROM U&"!0073een" UESCAPE '!'`:          false,
		`SELECT * FROM "SEEN", t`:                         true,
		"SHOW search_path":                                false,
		"SET role x":                                      false,
		"":                                                false,
		"SELECT lower/* */(name), go/*x*/(1)":             false,
		"SELECT 'set_config(1)', E'\\'', $$go()$$ FROM t": true,
	} {
		if got := Still(sql, func(name string) bool { return name == "seen" || name == "Seen" }); got != want {
			t.Errorf("%q: %v", sql, got)
		}
	}
}

// TestChanges: what an UPDATE does to a row that it finds, if it need not see it.
func TestChanges(t *testing.T) {
	for sql, want := range map[string]string{
		"UPDATE t SET a = $1, b = b + $2, c = c - 3, d = 4 + d WHERE id = $3": "[a=$1 b+$2 c-3 d+4] [id=$3]",
		"UPDATE t AS x SET a = 'it''s', b = true, c = false, d = 7 WHERE $1 = x.id": "[a='it's' b=true c=false d=7] " +
			"[id=$1]",
		"UPDATE s.t SET a = $1 WHERE x = $2 AND y = 5": "[a=$1] [x=$2 y=5]",
		"UPDATE t SET a = $1":                          "",
		"UPDATE t SET a = b WHERE id = $1":             "",
		"UPDATE t SET a = b + 1 WHERE id = $1":         "",
		"UPDATE t SET a = a * 2 WHERE id = $1":         "",
		"UPDATE t SET a = NULL WHERE id = $1":          "",
		"UPDATE t SET a = DEFAULT WHERE id = $1":       "",
		"UPDATE t SET a = $1::int WHERE id = $2":       "",
		"UPDATE t SET a = now(), b = CURRENT_TIMESTAMP, c = LOCALTIMESTAMP, d = transaction_timestamp() WHERE " +
			"id = $1": "[a=when b=when c=local d=when] [id=$1]",
		"UPDATE t SET a = CURRENT_TIMESTAMP(3) WHERE " +
			"id = $1": "",
		"UPDATE t SET a = CURRENT_DATE WHERE " +
			"id = $1": "",
		"UPDATE t SET a = clock_timestamp() WHERE " +
			"id = $1": "",
		"UPDATE t SET a = now() + $2 WHERE " +
			"id = $1": "",
		"UPDATE t SET a[1] = $1 WHERE " +
			"id = $2": "",
		"UPDATE t SET (a, b) = ($1, $2) WHERE " +
			"id = $3": "",
		"UPDATE t SET a = 1.5 WHERE " +
			"id = $1": "",
		"UPDATE t SET a = -1 WHERE " +
			"id = $1": "[a=-1] [id=$1]",
		"UPDATE t SET a = $1 WHERE " +
			"id > $2": "",
		"UPDATE t SET a = $1 WHERE id = $2 OR " +
			"id = $3": "",
		"UPDATE t SET a = $1 WHERE id " +
			"= other": "",
		"UPDATE t SET a = $1 WHERE id " +
			"IN ($2)": "",
	} {
		d, _ := DirectOf(sql)
		got := ""
		if len(d.Changes) > 0 {
			got = fmt.Sprint(changesText(d.Changes), findsText(d.Finds))
		}
		if got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

func addendText(a Addend) string {
	if a.Parameter > 0 {
		return fmt.Sprint("$", a.Parameter)
	}
	return fmt.Sprint(a.Value)
}

func changesText(list []Change) (out []string) {
	for _, c := range list {
		text := c.Column + map[[2]bool]string{{false, false}: "=", {true, false}: "+",
			{true, true}: "-"}[[2]bool{c.Add, c.Minus}]
		switch {
		case c.Text != nil:
			text += "'" + *c.Text + "'"
		case c.Clock != NoClock:
			text += map[Clock]string{StampClock: "when", LocalClock: "local"}[c.Clock]
		case c.Bool != nil:
			text += fmt.Sprint(*c.Bool)
		default:
			text += addendText(c.Value)
		}
		out = append(out, text)
	}
	return out
}

func findsText(list []Find) (out []string) {
	for _, f := range list {
		out = append(out, f.Column+"="+addendText(f.Value))
	}
	return out
}
