package capture

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

func be2(n ...int) (out []byte) {
	for _, x := range n {
		out = binary.BigEndian.AppendUint16(out, uint16(x))
	}
	return out
}

func be8(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// TestDoubtful: what PostgreSQL stores and might not take from another server is doubtful, also within other values;
// what is ordinary is not. That the others are received is shown in database/captest.
func TestDoubtful(t *testing.T) {
	const last = int64(microsMost) - 1
	users := []UserType{{20001, KindDomain, 1184}, {20002, KindEnum, 0}, {20003, KindRange, 1184},
		{20004, KindRange, 0}, {20005, KindBase, 25}, {20006, KindBase, 0}, {20007, KindComposite, 0},
		{20008, KindArray, 0}, {20009, KindMultirange, 701}}
	span := func(flags byte, bounds ...[]byte) []byte {
		out := []byte{flags}
		for _, b := range bounds {
			out = join(out, be(len(b)), b)
		}
		return out
	}
	for _, x := range []struct {
		name    string
		oid     int
		value   []byte
		certain bool
	}{
		{"the end of time", 1184, be8(last), true}, {"past the end of time", 1184, be8(last + 1), false},
		{"infinity", 1114, be8(1<<63 - 1), true},
		{"in an array", 1185, arrayOf(1184, be8(last+1)), false},
		{"not in an array", 1185, arrayOf(1184, be8(last)), true},
		{"in a range", 3910, span(rangeLowerInf, be8(last+1)), false},
		{"not in a range", 3910, span(rangeLowerInf, be8(last)), true},
		{"in a domain", 20001, be8(last + 1), false}, {"not in a domain", 20001, be8(last), true},
		{"in a user's range", 20003, span(rangeLowerInf, be8(last+1)), false},
		{"not in a user's range", 20003, span(rangeLowerInf, be8(last)), true},
		{"in a composite", 20007, composite(1184, nil, be8(last+1)), false},
		{"not in a composite", 20007, composite(1184, nil, be8(last)), true},
		{"in a user's array", 20008, arrayOf(20001, be8(last+1)), false},
		{"not in a user's array", 20008, arrayOf(20001, be8(last)), true},
		{"a range made by users' code", 20004, span(rangeEmpty), false}, {"an enum", 20002, []byte("ok"), true},
		{"an extension's text", 20005, []byte("x"), true}, {"an extension's own", 20006, []byte("x"), false},
		{"an unknown type", 30000, []byte("x"), false},
		{"a user's multirange", 20009, join(be(1), be(1), []byte{rangeEmpty}), true},
		{"one that is cut off", 20009, be(1), false},
		{"tsquery", 3615, be(0), false}, {"circle", 718, make([]byte, 24), false}, {"xml", 142, []byte("<a/>"), false},
		{"pg_node_tree", 194, []byte("x"), false}, {"polygon", 604, be(0), false},
		{"jsonpath", 4072, []byte("\x01$"), false},
		{"timetz", 1266, join(be8(0), be(57599)), true}, {"timetz beyond zones", 1266, join(be8(0), be(72000)), false},
		{"time beyond the day", 1083, be8(86400000001), false},
		{"jsonb", 3802, []byte("\x01[[1]]"), true},
		{"deep jsonb", 3802, []byte("\x01" + strings.Repeat("[", 300) + strings.Repeat("]", 300)), false},
		{"brackets in a text", 3802, []byte("\x01\"" + strings.Repeat("[", 300) + "\""), true},
		{"json", 114, []byte(`{"a": 1}`), true}, {"no json", 114, []byte(`{"a": 1`), false},
		{"text with a zero", 25, []byte("a\x00"), false},
		{"numeric", 1700, be2(2, 0, 0, 1, 1, 5000), true},
		{"digits beyond the scale", 1700, be2(2, 0, 0, 1, 1, 5500), false},
		{"absurd scale", 1700, be2(1, 0, 0, 16383, 1), false}, {"NaN", 1700, be2(0, 0, 0xc000, 0), true},
		{"cidr", 650, join([]byte{2, 8, 1, 4}, []byte{10, 0, 0, 0}), true},
		{"cidr with a host", 650, join([]byte{2, 8, 1, 4}, []byte{10, 0, 0, 1}), false},
		{"varbit", 1562, join(be(3), []byte{0xa0}), true}, {"varbit with more", 1562, join(be(3), []byte{0xff}), false},
		{"lexemes", 3614, join(be(2), []byte("a\x00"), be2(1, 1), []byte("b\x00"), be2(0)), true},
		{"lexemes out of order", 3614, join(be(2), []byte("b\x00"), be2(0), []byte("a\x00"), be2(0)), false},
		{"a lexeme that is too long", 3614, join(be(1), []byte(strings.Repeat("x", 2047)+"\x00"), be2(0)), false},
		{"an empty lexeme", 3614, join(be(1), []byte("\x00"), be2(0)), false},
		{"an array that begins far off", 1007, join(be(1), be(0), be(23), be(1), be(2147483640), be(4), be(1)), false},
		{"an array cut off", 1007, join(be(1), be(0), be(23), be(2), be(1), be(4), be(1)), false},
		{"a range without anything", 3904, span(rangeLowerInc, be(5), be(5)), false},
		{"a range", 3904, span(rangeLowerInc, be(5), be(6)), true},
		{"a range of another form", 3904, span(rangeLowerInc|rangeUpperInc, be(5), be(6)), false},
		{"a name that is too long", 19, []byte(strings.Repeat("x", 64)), false}, {"a date", 1082, be(0), true},
		{"a date beyond dates", 1082, be(2147483640), false},
	} {
		d := &TableDesc{Columns: []Column{{Name: "c", Num: 1, OID: uint32(x.oid), Binary: true, User: users}}}
		if got := d.Doubts(writeset.FormatBinary, composite(x.oid, x.value)); (len(got) == 0) != x.certain ||
			len(got) > 0 && got[0].Column != 0 {
			t.Errorf("%s: %v", x.name, got)
		}
	}
	if got := (*TableDesc)(nil).Doubts(writeset.FormatBinary, composite(718, nil, []byte("x"))); len(got) != 1 ||
		got[0].Column != 1 {
		t.Errorf("of a table that is not known: %v", got)
	}
	if got := (&TableDesc{}).Doubts(writeset.FormatText, []byte("(1)")); len(got) != 1 || got[0].Column != -1 {
		t.Errorf("an image in text: %v", got)
	}
}

// TestUnchanged: an array forgets that it was made with nulls; nothing else may change.
func TestUnchanged(t *testing.T) {
	made, again := arrayOf(23, be(1)), arrayOf(23, be(1))
	made[7] = 1
	if !Unchanged(made, again) || !Unchanged(composite(1007, made), composite(1007, again)) || !Unchanged(made, made) {
		t.Error("an array with a flag is taken for another")
	}
	for _, x := range [][2][]byte{{again, made}, {{1}, {0}}, {composite(16, []byte{1}), composite(16, []byte{0})},
		{{1}, {1, 1}}, {be(1), be(0)}} {
		if Unchanged(x[0], x[1]) {
			t.Errorf("%x is taken for %x", x[1], x[0])
		}
	}
}

// TestWide: a row is wide for what is in indexes or cannot be stored apart, and not for the rest.
func TestWide(t *testing.T) {
	long, short := []byte(strings.Repeat("x", 2100)), []byte("x")
	d := &TableDesc{Columns: []Column{{Num: 1, OID: 25, Narrow: true}, {Num: 2, OID: 25}}}
	for _, x := range []struct {
		values [][]byte
		want   bool
	}{{[][]byte{short, short}, false}, {[][]byte{long, short}, true}, {[][]byte{short, long}, false},
		{[][]byte{long, nil}, true}, {[][]byte{nil, long}, false}} {
		if got := d.Wide(writeset.FormatBinary, composite(25, x.values...)); got != x.want {
			t.Errorf("wide is %t, want %t", got, x.want)
		}
	}
	d.Columns[0].Narrow = false
	if d.Wide(writeset.FormatBinary, composite(25, long, long)) {
		t.Error("what can be stored apart is wide")
	}
	d = &TableDesc{Columns: []Column{{Num: 1, OID: 3802, Narrow: true}}}
	if !d.Wide(writeset.FormatBinary, composite(3802, long[:1100])) {
		t.Error("what may be longer than its binary form is not wide")
	}
}
