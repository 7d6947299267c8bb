package semantics

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestParametrized: what becomes of literals, and which texts are left as they are.
func TestParametrized(t *testing.T) {
	for _, c := range []struct{ sql, form, literals string }{
		{"UPDATE t SET a = a + -5 WHERE id=7;", "UPDATE t SET a = a + $1 WHERE id=$2;", "-5:23 7:23"},
		{"UPDATE t SET a = a -5, b = -(5), c = - - 5, d = 3 - -5, e=+ -5 WHERE t.and -5 > b*- 5 AND -5 IN (-5) " +
			"OR - 5>a",
			"UPDATE t SET a = a - $1, b = -($2), c = - - $3, d = $4 - $5, e=+ - $6 WHERE t.and - $7 > b* $8 AND $9 " +
				"IN ($10) OR $11 >a",
			"5:23 5:23 5:23 3:23 -5:23 5:23 5:23 -5:23 -5:23 -5:23 -5:23"},
		{"UPDATE t SET a = -5::int, b = -5 /* */ :: text, c = -7.50, d = -'5'",
			"UPDATE t SET a = - $1 ::int, b = - $2 /* */ :: text, c = $3, d = - $4",
			"5:23 5:23 -7.50:1700 5:0"},
		{"INSERT INTO t VALUES (-2147483648,-2147483649,-9223372036854775808,-9223372036854775809)",
			"INSERT INTO t VALUES ($1,$2,$3,$4)",
			"-2147483648:23 -2147483649:20 -9223372036854775808:20 -9223372036854775809:1700"},

		{"insert into t (a,b) values(1,'x;''y'),( 2 ,'')", "insert into t (a,b) values($1,$2),( $3 ,$4)",
			"1:23 x;'y:0 2:23 :0"},
		{"DELETE FROM t WHERE id = 2147483647 OR id=3000000000 OR id IN(00018446744073709551616,1.50,2.)",
			"DELETE FROM t WHERE id = $1 OR id=$2 OR id IN($3,$4,$5)",
			"2147483647:23 3000000000:20 00018446744073709551616:1700 1.50:1700 2.:1700"},
		{"UPDATE /* 'a' 1 */ t SET \"a1'\" = '2020-01-01'::date -- 5\nWHERE a2='x'and b>3",
			"UPDATE /* 'a' 1 */ t SET \"a1'\" = $1 ::date -- 5\nWHERE a2=$2 and b> $3", "2020-01-01:0 x:0 3:23"},
		{"UPDATE t SET a = DEFAULT WHERE b IS NULL", "UPDATE t SET a = DEFAULT WHERE b IS NULL", ""},
		{"SELECT 1", "", ""},
		{"WITH x AS (SELECT 1) UPDATE t SET a = 1", "", ""},
		{"UPDATE t SET a = $1", "", ""},
		{"UPDATE t SET a = E'\\n'", "", ""},
		{"UPDATE t SET a = U&'\\0061'", "", ""},
		{"UPDATE t SET a = b'1'", "", ""},
		{"UPDATE t SET a = N'1'", "", ""},
		{"UPDATE t SET a = $$1$$", "", ""},
		{"UPDATE t SET a = 'x'\n'y'", "", ""},
		{"UPDATE t SET a = 'x''' -- \n '''y'", "", ""},
		{"UPDATE t SET a = 'x", "", ""},
		{"UPDATE t SET a = '''", "", ""},
		{"UPDATE t SET a = - - 2147483648", "", ""},
		{"UPDATE t SET a = -2147483648::int8", "", ""},
		{"UPDATE t SET a = -(9223372036854775808)", "", ""},
		{"UPDATE t SET a = 1e5", "", ""},
		{"UPDATE t SET a = 1.5e5", "", ""},
		{"UPDATE t SET a = 0x1F", "", ""},
		{"UPDATE t SET a = 1_000", "", ""},
		{"UPDATE t SET a = 1.2.3", "", ""},
		{"UPDATE t SET a = '\xff'", "", ""},
		{"UPDATE t SET a = '" + strings.Repeat("x", literalsTextMax) + "'", "", ""},
		{"UPDATE t SET a = 1" + strings.Repeat("+1", literalsMax), "", ""},
		{"", "", ""},
	} {
		form, literals, ok := Parametrized(c.sql)
		var got []string
		for _, l := range literals {
			got = append(got, fmt.Sprintf("%s:%d", l.Value, l.Type))
			value := strings.TrimPrefix(l.Value, "-")
			if at := strings.TrimPrefix(c.sql[l.At:], "'"); !strings.HasPrefix(strings.ReplaceAll(at, "''", "'"),
				value) && value != "" {
				t.Errorf("%s: %q is not at %d", c.sql, l.Value, l.At)
			}
		}
		if ok != (c.form != "") || ok && (form != c.form || strings.Join(got, " ") != c.literals) {
			t.Errorf("%.100s\nbecomes %q of %q (%v)\nshould  %q of %q", c.sql, form, got, ok, c.form, c.literals)
		}
	}
}

// TestParametrizedRead: the literals of a SELECT, but not the number of its rows.
func TestParametrizedRead(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT a, b FROM t WHERE id = 7": "SELECT a, b FROM t WHERE id = $1 [{7 23 30}]",
		"select * from t where id=-7 and v='x' limit 1": "select * from t where id=$1 and v=$2 limit 1 [{-7 23 26} " +
			"{x 0 34}]",
		"UPDATE t SET a = 1":            "",
		"SELECT a FROM t WHERE id = $1": "",
	} {
		form, literals, ok := ParametrizedRead(sql)
		if got := fmt.Sprint(form, " ", literals); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %v %s, want %s", sql, ok, got, want)
		}
	}
}

// TestPinned: a form tells what its text tells.
func TestPinned(t *testing.T) {
	for sql, want := range map[string]string{
		"UPDATE t SET a = 5 WHERE id = 7 AND b = 'x' AND c > 3": "[id b]", "DELETE FROM t WHERE id IN (1, 2)": "[id]",
		"DELETE FROM t WHERE id = 1 OR b = 2": "[]", "INSERT INTO t VALUES (1)": "[]",
	} {
		if form, _, _ := Parametrized(sql); fmt.Sprint(Pinned(form)) != want || fmt.Sprint(Pinned(sql)) != want {
			t.Errorf("%s: %v, as a form %v, want %s", sql, Pinned(sql), Pinned(form), want)
		}
	}
}

// FuzzParametrized: whatever is direct of a form with its literals put back in is, for PostgreSQL's grammar, the text.
func FuzzParametrized(f *testing.F) {
	for _, sql := range []string{"UPDATE t SET a = a + -5 WHERE id=7;",
		"insert into t (a,b) values(1,'x;''y'),( 2 ,- -3.50)", "DELETE FROM t WHERE a'x' = 1",
		"UPDATE t SET a = -(2147483648)", "UPDATE t SET a = u&'x'",
		"UPDATE t SET d = '2020-01-01'::date, e = 5::int8, f = date '2020-01-01' WHERE a2='x'and b>3 AND c BETWEEN 1 " +
			"AND - 2", "UPDATE t SET a = a*-5, b = - -5, c = -5::int, d = -2147483648, e = t.and -5, f=+-3 WHERE " +
			"-1.5 < a AND case when -1 > a then -2 else -3 end = -4[1]",
		"UPDATE t SET a=.5, b=1., c=CAST('1' AS numeric(3,1)), d='1'::char(3), e='x' 'y', f='x'\n'y'",
		"UPDATE t SET a = interval '1' day, b = '1'::interval day, c[1] = 2, d = ARRAY[1,2], e = CASE 1 WHEN 2 THEN " +
			"'a' END WHERE a IN (1,'2') AND b LIKE 'x' ESCAPE 'y'", "DELETE FROM t WHERE a=1-1 AND b=1--1\nAND c=5",
		"DELETE FROM t WHERE a = 'returning' -- RETURNING 1\nRETURNING *, 1 -- x;",
		"INSERT INTO t VALUES (1)RETURNING(a), \"returning\", t.*;"} {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		form, literals, ok := Parametrized(sql)
		if !ok || strings.Contains(sql, "\x00") { // which no message can hold
			return
		}
		direct, ok := DirectOf(form)
		if !ok {
			return
		}
		if direct.Returns != "" {
			direct.Text += "\nRETURNING " + direct.Returns
		}
		tree, err := pg.Parse(direct.Text)
		if err != nil {
			t.Fatal(err)
		}
		fillIn(tree.ProtoReflect(), literals)
		want, err := pg.Parse(sql)
		if err != nil {
			t.Fatalf("%q is a statement, and %q is none", form, sql)
		}
		unplaced(tree.ProtoReflect())
		unplaced(want.ProtoReflect())
		if !proto.Equal(tree, want) {
			t.Errorf("%q and %q differ:\n%v\n%v", sql, form, want, tree)
		}
	})
}

// fillIn puts literals back for parameters. A sign before a number is a part of it, as in PostgreSQL's grammar.
func fillIn(m protoreflect.Message, literals []Literal) {
	var nodes []*pg.Node
	walk(m, func(m protoreflect.Message) {
		if n, ok := m.Interface().(*pg.Node); ok {
			nodes = append(nodes, n)
		}
	})
	for _, n := range nodes {
		p := n.GetParamRef()
		if p == nil {
			continue
		}
		c := &pg.A_Const{}
		switch l := literals[p.Number-1]; l.Type {
		case 0:
			c.Val = &pg.A_Const_Sval{Sval: &pg.String{Sval: l.Value}}
		case oidInt4:
			i, _ := strconv.Atoi(l.Value)
			if i == math.MinInt32 { // without its sign it was read as too large
				c.Val = &pg.A_Const_Fval{Fval: &pg.Float{Fval: "-" + strings.TrimPrefix(l.Value, "-")}}
				break
			}
			c.Val = &pg.A_Const_Ival{Ival: &pg.Integer{Ival: int32(i)}}
		default:
			c.Val = &pg.A_Const_Fval{Fval: &pg.Float{Fval: l.Value}}
		}
		n.Node = &pg.Node_AConst{AConst: c}
	}
	for i := len(nodes) - 1; i >= 0; i-- { // the innermost first
		x := nodes[i].GetAExpr()
		if x == nil || x.Kind != pg.A_Expr_Kind_AEXPR_OP || len(x.Name) != 1 ||
			x.Name[0].GetString_().GetSval() != "-" || x.Lexpr != nil {
			continue
		}
		switch v := x.Rexpr.GetAConst().GetVal().(type) {
		case *pg.A_Const_Ival:
			v.Ival.Ival = -v.Ival.Ival
		case *pg.A_Const_Fval:
			if rest, ok := strings.CutPrefix(v.Fval.Fval, "-"); ok {
				v.Fval.Fval = rest
			} else {
				v.Fval.Fval = "-" + v.Fval.Fval
			}
		default:
			continue
		}
		nodes[i].Node = x.Rexpr.Node
	}
}

// TestFolds: what PostgreSQL computes from constants when it plans is told from what it computes for a row.
func TestFolds(t *testing.T) {
	for sql, want := range map[string]bool{
		"UPDATE t SET a = $1 / $2":                                           true,
		"UPDATE t SET a = CASE WHEN id > 0 THEN 3 ELSE $1 / 0 END":           true,
		"UPDATE t SET a = a / $1":                                            false,
		"UPDATE t SET a = $1 WHERE id = $2":                                  false,
		"UPDATE t SET a = a + ($1::pg_catalog.int4 + ($2)::pg_catalog.int4)": true,
		"INSERT INTO t VALUES ($1, $2 || $3)":                                true,
	} {
		if d, ok := DirectOf(sql); !ok || d.Folds != want {
			t.Errorf("%s: %v %v", sql, ok, d.Folds)
		}
	}
}

// TestDirectOf: which statements do nothing but change one table, as far as their texts tell.
func TestDirectOf(t *testing.T) {
	for sql, want := range map[string]string{
		"UPDATE t SET a = b, c = t.d WHERE x.y = $1": "UPDATE t SET a = b, c = t.d " +
			"WHERE x.y = $1||[b d y]",
		"INSERT INTO t VALUES ($1, DEFAULT) RETURNING id, t.*, * ;": "INSERT INTO t VALUES ($1, " +
			"DEFAULT) |id, t.*, *|[id]",
		"DELETE FROM s.t u WHERE a = 'returning' -- returning\nreturning(a), b--c;": "DELETE FROM s.t u WHERE a = " +
			"'returning' -- returning\n|(a), b--c|[a a b]",
		"UPDATE t SET a = t":                             "UPDATE t SET a = t||[t]",
		"UPDATE t SET a = (t.*)::text":                   "",
		"UPDATE t SET a = 1 WHERE t.* IS NULL":           "",
		"DELETE FROM t WHERE true RETURNING (t.*)::text": "",
		"UPDATE t SET a = now(), b = pg_catalog.lower(c) WHERE d = extract(day FROM e)": "UPDATE t SET a = now(), b " +
			"= pg_catalog.lower(c) WHERE d = extract(day FROM e)||[c d e]",
		"UPDATE t SET a = public.lower(c)":                            "",
		"UPDATE t SET a = repeat(c, 2)":                               "",
		"UPDATE t SET a = lower(VARIADIC c)":                          "",
		"UPDATE t SET a = round(c) OVER ()":                           "",
		"UPDATE t SET a = round(c) FILTER (WHERE true)":               "",
		"DELETE FROM t RETURNING f(a)":                                "",
		"DELETE FROM t RETURNING (SELECT 1)":                          "",
		"DELETE FROM t RETURNING (t).a":                               "",
		"DELETE FROM t RETURNING a::mytype":                           "",
		"INSERT INTO t SELECT 1 RETURNING a":                          "",
		"INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING RETURNING a": "",
		"DELETE FROM t USING u RETURNING a":                           "",
		"WITH x AS (SELECT 1) DELETE FROM t RETURNING a":              "",
		"DELETE FROM t; DELETE FROM u":                                "",
		"UPDATE t SET a = 1 WHERE b = NULL":                           "",
		"UPDATE t SET a = (NULL = b)":                                 "",
	} {
		d, ok := DirectOf(sql)
		if got := fmt.Sprintf("%s|%s|%v", d.Text, d.Returns, d.Columns); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %v %s, want %s", sql, ok, got, want)
		}
	}
}
