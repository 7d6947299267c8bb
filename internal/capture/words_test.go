package capture

import (
	"encoding/binary"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

func be(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func join(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// composite is a composite value of fields of one type each; nil is NULL.
func composite(oid int, values ...[]byte) []byte {
	out := be(len(values))
	for _, v := range values {
		if out = append(out, be(oid)...); v == nil {
			out = append(out, be(-1)...)
			continue
		}
		out = join(out, be(len(v)), v)
	}
	return out
}

func arrayOf(oid int, values ...[]byte) []byte {
	out := join(be(1), be(0), be(oid), be(len(values)), be(1))
	for _, v := range values {
		out = join(out, be(len(v)), v)
	}
	return out
}

// TestReadText: what PostgreSQL's own types and those of users are made of is found, and nothing
// else is taken for text.
func TestReadText(t *testing.T) {
	const user = 20000
	long := make([]byte, 200)
	for i := range long {
		long[i] = 'x'
	}
	bad, number := []byte("caf\xc3"), be(200)
	for _, x := range []struct {
		name  string
		oid   uint32
		value []byte
		want  Verdict
		hex   string
	}{
		{"text", 25, []byte("café … 🚀"), Readable, ""},
		{"cut off", 25, bad, Unreadable, "0xc3"},
		{"cut off within", 1043, []byte("\xe2\x80 x"), Unreadable, "0xe2 0x80 0x20"},
		{"zero", 25, []byte("a\x00b"), Unreadable, "0x00"},
		{"surrogate", 25, []byte("\xed\xa0\x80"), Unreadable, "0xed 0xa0 0x80"},
		{"too long a form", 25, []byte("\xc0\x80"), Unreadable, "0xc0 0x80"},
		{"no beginning", 25, []byte("\x80"), Unreadable, "0x80"},
		{"int4", 23, number, Readable, ""},
		{"bytea", 17, bad, Readable, ""},
		{"jsonb", 3802, []byte("\x01\"é\""), Readable, ""},
		{"bad jsonb", 3802, []byte("\x01\"\xff\""), Unreadable, "0xff"},
		{"text[]", 1009, arrayOf(25, long, []byte("é")), Readable, ""},
		{"bad text[]", 1009, arrayOf(25, long, bad), Unreadable, "0xc3"},
		{"tsvector", 3614, join(be(1), []byte("é\x00\x00\x01\xc0\x01")), Readable, ""},
		{"bad tsvector", 3614, join(be(1), []byte("\xc3\x00\x00\x00")), Unreadable, "0xc3"},
		{"composite", user, join(be(2), be(25), be(1), []byte("x"), be(23), be(4), number), Readable, ""},
		{"bad composite", user, join(be(2), be(23), be(4), number, be(25), be(len(bad)), bad), Unreadable, "0xc3"},
		{"array of composites", user, arrayOf(user, composite(25, long), composite(25, bad)), Unreadable, "0xc3"},
		{"of a user's", user, []byte("é"), Readable, ""},
		{"bad, of a user's", user, bad, Doubtful, ""},
	} {
		d := TableDesc{Columns: []Column{{Name: "a"}, {Name: "b", Text: x.oid}, {Name: "c", Text: 25}}}
		image := join(be(3), be(23), be(4), number, be(int(x.oid)), be(len(x.value)), x.value, be(25), be(-1))
		got, why := d.Read(writeset.FormatBinary, image)
		want := ""
		if x.hex != "" {
			want = `invalid byte sequence for encoding "UTF8": ` + x.hex
		}
		if got != x.want || got == Unreadable && (why.Message() != want || why.Column != "b") {
			t.Errorf("%s: %d %s, column %q; should be %d %s", x.name, got, why.Message(), why.Column, x.want, want)
		}
		for i := range image {
			if v, _ := d.Read(writeset.FormatBinary, image[:i]); i >= 4 && v == Readable {
				t.Errorf("%s: cut off at %d of %d bytes it is readable", x.name, i, len(image))
			}
		}
	}
}
