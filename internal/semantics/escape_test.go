package semantics

import (
	"strings"
	"testing"
)

// TestEscaped: what a text means with standard_conforming_strings off, said with it on.
func TestEscaped(t *testing.T) {
	for _, x := range [][2]string{
		{`SELECT 1`, `SELECT 1`},
		{`SELECT 'a''b', 'c'`, `SELECT 'a''b', 'c'`},
		{`SELECT 'a\'; COMMIT; --'`, `SELECT E'a\'; COMMIT; --'`},
		{`SELECT 'a\\', 'b'`, `SELECT E'a\\', 'b'`},
		{`SELECT E'a\'' , e'\\'`, `SELECT E'a\'' , e'\\'`},
		{"SELECT 'a'\n 'b\\''; SELECT 'c'", "SELECT E'a'\n 'b\\''; SELECT 'c'"},
		{"SELECT 'a' -- x'\n 'b\\n'", "SELECT E'a' -- x'\n 'b\\n'"},
		{"SELECT 'a' 'b\\n'", "SELECT 'a' E'b\\n'"},
		{`SELECT $$'\'$$, '\n'`, `SELECT $$'\'$$, E'\n'`},
		{`SELECT $a$'\'$$ $a$, '\n'`, `SELECT $a$'\'$$ $a$, E'\n'`},
		{`SELECT $1, '\n', a$b$ , '\t'`, `SELECT $1, E'\n', a$b$ , E'\t'`},
		{`SELECT "a\", '\n' /* ' /* \ */ ' */, '\t' -- '\'`, `SELECT "a\", E'\n' /* ' /* \ */ ' */, E'\t' -- '\'`},
		{`SELECT x'1f', B'01', '\'`, ""},
		{`SELECT x'1f', B'01', '\\'`, `SELECT x'1f', B'01', E'\\'`},
		{`SELECT U&'\0061'`, ""},
		{`SELECT u&'a'`, ""},
		{`SELECT N'a'`, ""},
		{`SELECT 'a`, ""},
		{`SELECT /* 'a'`, ""},
		{`SELECT "a`, ""},
		{`SELECT x - -1 / 2 * 3, '\n'`, `SELECT x - -1 / 2 * 3, E'\n'`},
	} {
		got, ok, unsafe := Escaped(x[0])
		if unsafe != strings.Contains(x[0], "&'") {
			t.Errorf("%s: PostgreSQL refuses it: %v", x[0], unsafe)
		}
		if ok != (x[1] != "") || ok && got != x[1] {
			t.Errorf("%s\nbecomes %s (%v)\nshould  %s", x[0], got, ok, x[1])
		}
	}
}
