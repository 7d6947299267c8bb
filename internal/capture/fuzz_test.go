package capture

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

func FuzzCollector(f *testing.F) {
	f.Add([]byte{0, 1}, make([]byte, 8), []byte("\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x14\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x07"), []byte("B;1;0;7;0;6;publict"), []byte{1})
	f.Add([]byte{0, 5}, []byte(nil), []byte(nil), []byte("T;0;0;7;1;st"), []byte(nil))
	f.Add([]byte("1"), []byte("-5"), []byte("{1,NULL}"), []byte("423b303b303b373b313b7374"), []byte("00"))
	f.Fuzz(func(t *testing.T, op, ident, keys, header, image []byte) {
		row := [][]byte{op, ident, keys, header, image}
		for _, add := range []func(*Collector) error{
			func(c *Collector) error { return c.AddBinary(row) },
			func(c *Collector) error { return c.AddText(row) },
		} {
			var c Collector
			if add(&c) != nil {
				continue
			}
			if w, err := c.Writeset(); err == nil {
				if err := w.Validate(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func FuzzDecodeDescribe(f *testing.F) {
	f.Add([]byte(`{"tables":[{"schema":"s","name":"t","columns":[{"name":"i","num":1}],"indexes":[{"primary":true,"uses":[1],"parts":[{"num":1,"form":"own"}]}]}]}`))
	f.Add([]byte(`{"tables":[{"indexes":[{"parts":[{"num":2}]}]}]}`))
	f.Add([]byte(`{"tables":[{"indexes":[{"primary":true,"parts":[{"num":0}]}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeDescribe(b); err == nil {
			Refresh(c)
		}
	})
}

func FuzzKeyText(f *testing.F) {
	f.Add(true, []byte("\x00\x00\x00\x01\x00\x00\x00\x17\x00\x00\x00\x04\x00\x00\x00\x05"))
	f.Add(false, []byte(`("a ""b""")`))
	d := &TableDesc{Schema: "s", Name: "t", Columns: []Column{{Name: "i", Num: 1}},
		Indexes: []Index{{Primary: true, Parts: []Part{{Num: 1}}}}}
	f.Fuzz(func(t *testing.T, binary bool, image []byte) {
		format := writeset.FormatText
		if binary {
			format = writeset.FormatBinary
		}
		if columns, _, ok := KeyText(d, format, image); ok && columns != "i" {
			t.Fatalf("columns are %q", columns)
		}
	})
}

// FuzzReadRecord: whatever is told, reading it ends, and gives no more than was there.
func FuzzReadRecord(f *testing.F) {
	f.Add("00000002000000170000000400000001000000190000ffff")
	f.Add("0000000100000017ffffffff")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := ReadRecord(text)
		size := 0
		for _, v := range values {
			size += 8 + len(v)
		}
		if err == nil && 4+size > len(text)/2 {
			t.Errorf("%d values of %d bytes were read from %q", len(values), size, text)
		}
	})
}
