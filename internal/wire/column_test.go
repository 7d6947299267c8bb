package wire

import (
	"bytes"
	"slices"
	"testing"
)

func TestCutColumn(t *testing.T) {
	row := AppendDataRow(nil, [][]byte{[]byte("a"), nil, []byte("place")})
	rest, value, err := CutColumn(row)
	if err != nil || string(value) != "place" || !bytes.Equal(rest, AppendDataRow(nil, [][]byte{[]byte("a"), nil})) {
		t.Errorf("%q, %q, %v", rest, value, err)
	}
	rest, value, err = CutColumn(AppendDataRow(nil, [][]byte{nil}))
	if err != nil || value != nil || !bytes.Equal(rest, AppendDataRow(nil, nil)) {
		t.Errorf("%q, %q, %v", rest, value, err)
	}
	columns := []Column{{Name: "x", TypeOID: 25}, {Name: "concat", TypeOID: 25}}
	rest, _, err = CutColumn(AppendRowDescription(nil, columns))
	if err != nil || !bytes.Equal(rest, AppendRowDescription(nil, columns[:1])) {
		t.Errorf("%q, %v", rest, err)
	}
	for _, bad := range [][]byte{AppendDataRow(nil, nil), AppendRowDescription(nil, nil),
		{TypeDataRow, 0, 0, 0, 8, 0, 1, 0, 0}} {
		if _, _, err := CutColumn(bad); err == nil {
			t.Errorf("%q was cut", bad)
		}
	}
}

func TestAppendBindColumn(t *testing.T) {
	params := [][]byte{[]byte("p"), nil}
	for _, formats := range [][]int16{nil, {1}, {0, 1}, {1, 1, 1}} {
		want := formats
		if len(formats) > 1 {
			want = append(slices.Clone(formats), 0)
		}
		got := AppendBindColumn(nil, AppendBind(nil, "portal", "statement", []int16{0, 1}, params, formats))
		if !bytes.Equal(got, AppendBind(nil, "portal", "statement", []int16{0, 1}, params, want)) {
			t.Errorf("formats %v: %q", formats, got)
		}
	}
	many := AppendBind(nil, "", "", nil, nil, make([]int16, 65535))
	for _, bad := range [][]byte{{TypeBind, 0, 0, 0, 7, 0, 0, 9}, many} {
		if got := AppendBindColumn(nil, bad); !bytes.Equal(got, bad) {
			t.Errorf("%.20q became %.20q", bad, got)
		}
	}
}

func FuzzColumn(f *testing.F) {
	f.Add(AppendDataRow(nil, [][]byte{[]byte("a"), nil}))
	f.Add(AppendRowDescription(nil, []Column{{Name: "x"}}))
	f.Add(AppendBind(nil, "p", "s", nil, [][]byte{{1}}, []int16{0, 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 5 {
			return
		}
		AppendBindColumn(nil, b)
		if rest, value, err := CutColumn(b); err == nil && len(rest)+len(value) > len(b) {
			t.Error("more came out than was put in")
		}
	})
}
