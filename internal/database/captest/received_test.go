package captest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/writeset"
)

// certainValues are values of columns, by type, from which others are made by changing their bytes. What is certain in
// a table with such a column must be received, and be the same.
var certainValues = map[string][]string{
	"bool": {"true"}, `"char"`: {"'x'"}, "name": {"'abc'", "'äö'"}, "int2": {"1", "-32768"},
	"int4": {"1", "-2147483648"}, "int8": {"1", "-9223372036854775808"}, "oid": {"1"}, "xid": {"'7'"}, "cid": {"'7'"},
	"tid":    {"'(1,2)'"},
	"float4": {"1.5", "'NaN'", "'-0'"}, "float8": {"1.5", "'-Infinity'", "5e-324"},
	"money": {"'-92233720368547758.08'"}, "pg_lsn": {"'16/B374D848'"}, "xid8": {"'9'"},
	"macaddr": {"'08:00:2b:01:02:03'"}, "macaddr8": {"'08:00:2b:01:02:03:04:05'"},
	"point": {"'(1,NaN)'"}, "uuid": {"'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"}, "bytea": {`'\x00ff'`},
	"text": {"'äöü🚀'", "''"}, "bpchar": {"'a '"}, "varchar": {"'abc'"}, "varchar(5)": {"'abc'"}, "refcursor": {"'c'"},
	"json":     {`'{"a": [1, null, "x"], "b": -1.5e10}'`, "'[]'", "'1'"},
	"jsonb":    {`'{"a": [1, null, "x\u00e4"], "b": -1.5e10}'`, "'\"x\"'", "'[[[]]]'"},
	"tsvector": {"'a:1A b:2,3B ccc'", "''", "to_tsvector('english', 'the quick brown fox jumps over the lazy dog')"},
	"bit(5)":   {"'10101'"}, "varbit": {"'101'", "''"}, "inet": {"'10.0.0.1/8'", "'::1/64'"},
	"cidr": {"'10.0.0.0/8'", "'fe80::/10'"}, "numeric": {"1.5", "-0.0001", "12345678901234567890.123", "'NaN'",
		"'-Infinity'", "1000000", "0.00"}, "numeric(9,2)": {"1.25"},
	"date":           {"'2000-01-01'", "'5874897-12-30'", "'4713-01-01 BC'", "'infinity'"},
	"timestamp":      {"'2000-01-01 12:00'", "'294276-12-31 23:59:59.999999'", "'4714-11-24 00:00:00 BC'"},
	"timestamptz":    {"'2000-01-01 12:00+00'", "'294276-12-31 23:59:59.999999+00'", "'-infinity'"},
	"timestamptz(0)": {"'294276-12-31 23:59:59+00'", "'4714-11-24 00:00:00+00 BC'"}, "time": {"'24:00'", "'00:00'"},
	"timetz":   {"'23:59+15:59:59'", "'00:00-15:59:59'"},
	"interval": {"'1 year -3 days 04:05:06.789'", "'178000000 years'"}, "interval(0)": {"'2 hours'"},
	"interval day to minute": {"'3 days 2 hours'"},
	"int4range":              {"'[1,5)'", "'empty'", "'(,)'"}, "int8range": {"'[1,)'"}, "numrange": {"'[1.5,2.25]'"},
	"daterange": {"'[2000-01-01,2002-01-01]'"}, "tsrange": {"'[2000-01-01,2001-01-01]'"},
	"tstzrange":      {"'(,2001-01-01)'"},
	"int4multirange": {"'{[1,2),[5,)}'", "'{}'"}, "nummultirange": {"'{[1.5,2.5]}'"},
	"int4[]": {"'{1,NULL,3}'", "'{{1,2},{3,4}}'", "'[0:1]={7,8}'", "'{}'"}, "text[]": {"'{a,\"b c\",NULL}'"},
	"numeric[]": {"'{1.5,NaN}'"}, "jsonb[]": {"ARRAY['{\"a\": 1}'::jsonb]"}, "timestamptz[]": {"'{2000-01-01}'"},
	"int4range[]": {"ARRAY['[1,2)'::int4range]"},
	"cert_mood":   {"'ok'"}, "cert_mood[]": {"'{ok,sad}'"}, "cert_word": {"'abc'"},
	"cert_pair": {"'(1,\"x y\")'", "'(,)'"}, "cert_pair[]": {"ARRAY['(1,a)'::cert_pair]"},
	"cert_deep": {"ROW(ROW(1, 'x'), 'ok', ARRAY['2000-01-01'::timestamptz])"}, "cert_floats": {"'[1.5,2.5]'"},
	"cert_floatmultis": {"'{[1,2]}'"}, "cert_moment": {"'2000-01-01'"}, "cert_range": {"'[2000-01-01,2001-01-01)'"},
	"citext": {"'CiTe'"},
}

// TestCertain: what is taken for certain PostgreSQL receives, and sends again as it was; whatever bytes it is of, and
// even if no function could have made it.
func TestCertain(t *testing.T) {
	types := []string{}
	for x := range certainValues {
		types = append(types, x)
	}
	slices.Sort(types)
	ddl := []string{"CREATE EXTENSION citext", "CREATE TYPE cert_mood AS ENUM ('sad', 'ok')",
		"CREATE DOMAIN cert_word AS varchar(9)", "CREATE TYPE cert_pair AS (a int, b text)",
		"CREATE TYPE cert_deep AS (p cert_pair, m cert_mood, z timestamptz[])",
		"CREATE TYPE cert_floats AS RANGE (subtype = float8, multirange_type_name = cert_floatmultis)",
		"CREATE DOMAIN cert_moment AS timestamptz", "CREATE TYPE cert_range AS RANGE (subtype = cert_moment)"}
	for i, x := range types {
		ddl = append(ddl, fmt.Sprintf("CREATE TABLE cert%d(v %s)", i, x))
	}
	p := newPair(t, ddl...)
	tx, err := p.a.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := catalog.Describe(ctx, tx)
	if err = errors.Join(err, tx.Rollback(ctx)); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	for i, of := range types {
		d := tables.Capture("public", fmt.Sprintf("cert%d", i))
		var images [][]byte
		for _, v := range certainValues[of] {
			var image string
			p.scan(p.a, fmt.Sprintf("SELECT encode(record_send(ROW(v)), 'hex') FROM (SELECT CAST(%s AS %s) AS v) x", v,
				of), &image)
			b, err := hex.DecodeString(image)
			if err != nil {
				t.Fatal(err)
			}
			if doubts := d.Doubts(writeset.FormatBinary, b); len(doubts) > 0 {
				t.Errorf("%s: %s is doubtful", of, v)
			}
			images = append(images, b)
		}
		many := 600
		if strings.HasPrefix(of, "cert_") || strings.Contains(of, "multirange") || strings.ContainsAny(of, "( ") ||
			strings.HasPrefix(of, "jsonb") {
			many = 0 // other labels, types, lengths, orders or syntax are in no value that is stored
		}
		n, bad := p.received(t, of, d, mutants(r, images, many, strings.HasSuffix(of, "[]")))
		if bad > 0 || n < len(images) {
			t.Errorf("%s: of %d certain values %d were not received as they were sent", of, n, bad)
		}
	}
}

// mutants are values whose bytes were changed.
func mutants(r *rand.Rand, images [][]byte, n int, array bool) (out [][]byte) {
	out = append(out, images...)
	edges := []byte{0, 1, 2, 0x7f, 0x80, 0xff, 0x1f, 0x20, '"', '[', '{', '\\', 0xd0}
	for range n {
		original := images[r.IntN(len(images))]
		m := bytes.Clone(original)
		const head = 12 // number of columns, type and length
		for range 1 + r.IntN(3) {
			if len(m) == head {
				break
			}
			switch at := head + r.IntN(len(m)-head); r.IntN(5) {
			case 0:
				m[at] ^= 1 << r.IntN(8)
			case 1:
				m[at] = edges[r.IntN(len(edges))]
			case 2:
				m = slices.Delete(m, at, at+1)
			case 3:
				m = slices.Insert(m, at, edges[r.IntN(len(edges))])
			default:
				m[at] = byte(r.IntN(256))
			}
		}
		if array && len(m) >= 2*head {
			copy(m[head:2*head], original[head:2*head]) // dimensions and type
		}
		m[8], m[9], m[10], m[11] = 0, 0, byte((len(m)-head)>>8), byte(len(m)-head)
		out = append(out, m)
	}
	return out
}

// received reads values in that are certain, and counts them, and those that fail or become others.
func (p *pair) received(t *testing.T, of string, d *capture.TableDesc, images [][]byte) (n, bad int) {
	t.Helper()
	conn, array := p.a.PgConn(), fmt.Sprintf("SELECT pg_catalog.unnest($1::public.%s[])", d.Name)
	name := "received " + d.Name
	if _, err := conn.Prepare(ctx, name, array, nil); err != nil {
		t.Fatal(err)
	}
	for _, m := range images {
		if len(d.Doubts(writeset.FormatBinary, m)) > 0 {
			continue
		}
		n++
		got := conn.ExecPrepared(ctx, name, [][]byte{writeset.AppendArray(nil, writeset.FormatBinary, [][]byte{m})},
			[]int16{1}, []int16{1}).Read()
		if got.Err == nil && len(got.Rows) == 1 && capture.Unchanged(m, got.Rows[0][0]) {
			continue
		}
		if got.Err != nil && strings.Contains(got.Err.Error(), "range lower bound must be") {
			continue // nor is that
		}
		if bad++; bad <= 3 {
			again := ""
			if got.Err == nil && len(got.Rows) == 1 {
				again = hex.EncodeToString(got.Rows[0][0])
			}
			t.Errorf("%s: %x gives %v %s", of, m, got.Err, again)
		}
	}
	return n, bad
}
