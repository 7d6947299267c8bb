package collect

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
)

const (
	boolType, bigint, int4Type, text, varchar, numeric, date = 16, 20, 23, 25, 1043, 1700, 1082
	float, bigints, unknown                                  = 701, 1016, 705
)

// TestValue: a value stands for a row's key only where it is compared as one of the column's type, whatever the session
// has set.
func TestValue(t *testing.T) {
	param := func(n int, alone bool, cast string) semantics.Operand {
		return semantics.Operand{Kind: semantics.ParamOperand, Param: n, Alone: alone, Cast: cast}
	}
	constant := func(kind semantics.OperandKind, text, cast string) semantics.Operand {
		return semantics.Operand{Kind: kind, Text: text, Cast: cast}
	}
	array := func(cast string) semantics.Operand {
		return semantics.Operand{Kind: semantics.ArrayOperand, Param: 2, Alone: true, Cast: cast}
	}
	run := session.Run{Types: []uint32{bigint, 0, unknown, text},
		Values: [][]byte{[]byte("1"), []byte("2"), nil, []byte("x"), []byte("5")}}
	for _, x := range []struct {
		what   string
		column uint32
		o      semantics.Operand
		typ    uint32
		value  string
		ok     bool
	}{
		{"a text", text, constant(semantics.TextOperand, "a", ""), text, "a", true},
		{"a text for an integer", int4Type, constant(semantics.TextOperand, "7", ""), int4Type, "7", true},
		{"a text with a cast", int4Type, constant(semantics.TextOperand, "7", "int8"), bigint, "7", true},
		{"a text that is a day", date, constant(semantics.TextOperand, "today", ""), 0, "", false},
		{"an unknown cast", text, constant(semantics.TextOperand, "a", "money"), 0, "", false},
		{"a number", int4Type, constant(semantics.NumberOperand, "3", ""), bigint, "3", true},
		{"a number for a numeric", numeric, constant(semantics.NumberOperand, "3", ""), bigint, "3", true},
		{"a number for a float", float, constant(semantics.NumberOperand, "3", ""), 0, "", false},
		{"a number as text", text, constant(semantics.NumberOperand, "3", "text"), 0, "", false},
		{"a truth", boolType, constant(semantics.BoolOperand, "t", ""), boolType, "t", true},
		{"a truth for a text", text, constant(semantics.BoolOperand, "t", ""), 0, "", false},
		{"a parameter of a type", int4Type, param(1, false, ""), bigint, "1", true},
		{"a parameter of another", varchar, param(1, false, ""), 0, "", false},
		{"one of no type, alone", int4Type, param(2, true, ""), int4Type, "2", true},
		{"one of no type, elsewhere too", int4Type, param(2, false, ""), 0, "", false},
		{"one of no type with a cast", int4Type, param(2, true, "int8"), bigint, "2", true},
		{"one that is NULL", varchar, param(3, true, ""), varchar, "", true},
		{"a text for a varchar", varchar, param(4, false, ""), text, "x", true},
		{"one behind the types that are told", bigint, param(5, true, ""), bigint, "5", true},
		{"one that is not given", int4Type, param(6, true, ""), 0, "", false},
		{"number zero", int4Type, param(0, true, ""), 0, "", false},
		{"an array", bigint, array(""), bigints, "2", true},
		{"an array with a cast", bigint, array("int8"), 0, "", false},
		{"anything else", int4Type, semantics.Operand{}, 0, "", false},
	} {
		v, ok := value(x.column, &x.o, &run)
		if ok != x.ok || ok && (v.Type != x.typ || string(v.Value) != x.value) {
			t.Errorf("%s: %+v, %v; want type %d, %q, %v", x.what, v, ok, x.typ, x.value, x.ok)
		}
	}
}

// keyed is a table with a key of two columns.
func keyed() *capture.TableDesc {
	part := func(n int) capture.Part { return capture.Part{Num: n, Form: "own", Equal: "OPERATOR(pg_catalog.=)"} }
	return &capture.TableDesc{Schema: "s", Name: "t", OID: 4711, Plain: true, Single: true,
		Columns: []capture.Column{
			{Name: "a", Num: 1, OID: int4Type, Type: "integer", Binary: true, Portable: true},
			{Name: "b", Num: 2, OID: text, Type: "text", Binary: true, Portable: true},
			{Name: "v", Num: 3, OID: int4Type, Type: "integer", Binary: true, Portable: true},
		},
		Indexes: []capture.Index{{Name: "t_pkey", RootSchema: "s", RootTable: "t", Primary: true, Names: true,
			Uses: []int{1, 2}, Parts: []capture.Part{part(1), part(2)}}}}
}

// TestLookups: rows were read by key if each way in which they were looked for gives all columns of the key; the rows
// are all combinations of what it gives, up to a bound.
func TestLookups(t *testing.T) {
	number := func(n string) semantics.Operand { return semantics.Operand{Kind: semantics.NumberOperand, Text: n} }
	word := func(s string) semantics.Operand { return semantics.Operand{Kind: semantics.TextOperand, Text: s} }
	all := func(o ...semantics.Operand) []semantics.Operand { return o }
	one, two, x := all(number("1")), all(number("1"), number("2")), all(word("x"))
	read := func(looks ...semantics.Look) semantics.TableRead { return semantics.TableRead{Looks: looks} }
	look := func(columns string, values ...[]semantics.Operand) semantics.Look {
		l := semantics.Look{Values: values}
		if columns != "" {
			l.Columns = strings.Split(columns, ",")
		}
		return l
	}
	for _, c := range []struct {
		what string
		of   semantics.TableRead
		max  int
		want string // keys
		ok   bool
	}{
		{"a key", read(look("b,a", x, one)), 9, "1 x", true},
		{"several", read(look("a,b", two, all(word("x"), word("y")))), 9, "1 x|2 x|1 y|2 y", true},
		{"two ways", read(look("a,b", one, x), look("a,b", all(number("2")), all(word("z")))), 9, "1 x|2 z", true},
		{"in the table's order", semantics.TableRead{Verb: semantics.Insert,
			Looks: []semantics.Look{look("", one, x, all(number("5")))}}, 9, "1 x", true},
		{"too many", read(look("a,b", two, all(word("x"), word("y")))), 3, "", false},
		{"a part of the key", read(look("a", one)), 9, "", false},
		{"a value that says nothing", read(look("a,b", one, all(number("2")))), 9, "", false},
		{"a scan", semantics.TableRead{Scans: true, Looks: []semantics.Look{look("a,b", one, x)}}, 9, "", false},
		{"nothing is looked for", semantics.TableRead{Verb: semantics.Insert}, 9, "", true},
	} {
		rows, ok := lookups(keyed(), &c.of, &session.Run{}, c.max)
		var got []string
		for _, r := range rows {
			var values []string
			for _, v := range r {
				values = append(values, string(v.Value))
			}
			got = append(got, strings.Join(values, " "))
		}
		if ok != c.ok || ok && strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q, %v; want %q, %v", c.what, got, ok, c.want, c.ok)
		}
	}
}

// TestNames: the answer about relations is taken as it is, and one that is not understood is none.
func TestNames(t *testing.T) {
	row := func(values ...string) (out [][]byte) {
		for _, v := range values {
			out = append(out, []byte(v))
		}
		return out
	}
	n, ok := Collector{}.Names([][][]byte{row("true", "false"), row("4711", "true"), row("12", "false")})
	if !ok || !n.Operators || n.Functions || len(n.OIDs) != 2 || n.OIDs[0] != 4711 || n.OIDs[1] != 0 {
		t.Errorf("%+v, %v", n, ok)
	}
	for _, rows := range [][][][]byte{nil, {row("true")}, {row("true", "true"), row("x", "true")}} {
		if _, ok := (Collector{}).Names(rows); ok {
			t.Errorf("%q was understood", rows)
		}
	}
}

// TestPinFrames are the bytes that ask for pinned rows: the statement is prepared anew, bound and run.
func TestPinFrames(t *testing.T) {
	p := &pins{query: &capture.PinQuery{SQL: "SELECT 1", OIDs: []uint32{20}, Formats: []int16{0},
		Values: [][]byte{[]byte("7")}}}
	const want = "4300000010537475747469207069" + "6e7300" + // Close S tutti pins
		"500000001e74757474692070696e730053454c4543542031000001" + "00000014" + // Parse
		"420000001f0074757474692070696e7300000100000001000000013700010001" + // Bind, results in binary
		"45000000090000000000" // Execute
	if got := hex.EncodeToString(p.Append(nil)); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}
