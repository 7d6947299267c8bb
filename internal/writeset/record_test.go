package writeset

import "testing"

func TestSameKey(t *testing.T) {
	record := func(values ...[]byte) []byte {
		var fields []Field
		for _, v := range values {
			fields = append(fields, Field{OID: 25, Value: v})
		}
		return AppendRecord(nil, fields)
	}
	a := record([]byte("k"), nil, []byte("x"))
	for _, c := range []struct {
		name     string
		format   Format
		columns  []int
		a, b     []byte
		same, ok bool
	}{
		{"other columns differ", FormatBinary, []int{0}, a, record([]byte("k"), []byte("v"), nil), true, true},
		{"the second part differs", FormatBinary, []int{0, 2}, a, record([]byte("k"), nil, []byte("y")), false, true},
		{"null is not empty", FormatBinary, []int{1}, a, record([]byte("k"), []byte{}, []byte("x")), false, true},
		{"no such column", FormatBinary, []int{3}, a, a, false, false},
		{"cut short", FormatBinary, []int{2}, a, a[:len(a)-1], false, false},
		{"texts", FormatText, []int{1}, []byte(`(1,"a ""b""",)`), []byte(`(2,"a \"b\"",x)`), true, true},
		{"a text differs", FormatText, []int{0, 1}, []byte(`(1,a)`), []byte(`(1,b)`), false, true},
		{"a text is null", FormatText, []int{1}, []byte(`(1,)`), []byte(`(1,"")`), false, true},
		{"no record", FormatText, []int{0}, []byte(`(1`), []byte(`(1)`), false, false},
	} {
		if same, ok := SameKey(c.format, c.columns, c.a, c.b); same != c.same || ok != c.ok {
			t.Errorf("%s: %v, %v", c.name, same, ok)
		}
	}
}

func FuzzSameKey(f *testing.F) {
	f.Add([]byte(`(1,"a")`), uint8(1))
	f.Add(AppendRecord(nil, []Field{{OID: 23, Value: []byte{0, 0, 0, 1}}, {}}), uint8(1))
	f.Fuzz(func(t *testing.T, image []byte, column uint8) {
		for _, format := range []Format{FormatText, FormatBinary} {
			if same, ok := SameKey(format, []int{int(column)}, image, image); ok && !same {
				t.Errorf("an image is not itself: %q", image)
			}
		}
	})
}
