package writeset

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
)

// unseen is a blind writeset.
func unseen() *Writeset {
	record := []Field{{OID: 23, Value: []byte{0, 0, 0, 7}}, {OID: 25, Value: []byte("x")},
		{OID: 20, Value: []byte{0, 0, 0, 0, 0, 0, 0, 1}}}
	return &Writeset{
		Tables: []Table{{Schema: "public", Name: "account", Format: FormatBinary, Key: 0x1122334455667788}},
		Rows: []Row{{Op: OpSet, Identity: 0xfedcba9876543210,
			Image: AppendSet(nil, []Setting{{Column: 1}, {Column: 2, Add: true}}, record)}},
		Keys: []Key{{Hash: 0x1122334455667788, Mode: Shared}},
	}
}

// TestGoldenBlind: bytes written by version 3 must stay readable for ever, see TestGolden.
func TestGoldenBlind(t *testing.T) {
	golden := goldenBytes(t, "v3.hex")
	w, err := Decode(golden)
	if err != nil || !reflect.DeepEqual(w, unseen()) {
		t.Errorf("decoded to %+v, %v", w, err)
	}
	if got := unseen().Append(nil); !bytes.Equal(got, golden) {
		t.Errorf("encoded to\n%x, want\n%x", got, golden)
	}
	for i := range golden {
		if _, err := Decode(golden[:i]); !errors.Is(err, ErrMalformed) {
			t.Errorf("the first %d of %d bytes: %v", i, len(golden), err)
		}
	}
	drop := unseen()
	drop.Rows = append(drop.Rows, Row{Op: OpDrop, Identity: 3, Image: []byte("d")}, Row{Op: OpPut, Image: []byte("p")})
	if got, err := Decode(drop.Append(nil)); err != nil || !reflect.DeepEqual(got, drop) {
		t.Errorf("a dropped row and one that is put decode to %+v, %v", got, err)
	}
	if !w.Blind() || !drop.Blind() || full().Blind() || (&Writeset{}).Blind() {
		t.Error("what is blind is not told from what is not")
	}
}

// TestBlindRefuses: what is no blind writeset is not taken for one.
func TestBlindRefuses(t *testing.T) {
	for name, change := range map[string]func(*Writeset){
		"a row that was seen first": func(w *Writeset) {
			w.Rows = slices.Insert(w.Rows, 0, Row{Op: OpUpdate, Identity: 2, Image: []byte("u")})
		},
		"a row that was seen last": func(w *Writeset) {
			w.Rows = append(w.Rows, Row{Op: OpUpdate, Identity: 2, Image: []byte("u")})
		},
		"no row":                          func(w *Writeset) { w.Rows[0].Identity = 0 },
		"a row that is put and has a key": func(w *Writeset) { w.Rows[0].Op = OpPut },
		"text":                            func(w *Writeset) { w.Tables[0].Format = FormatText },
		"held tables":                     func(w *Writeset) { w.Held = []uint32{0} },
		"no settings":                     func(w *Writeset) { w.Rows[0].Image = []byte{0, 1} },
		"cut short":                       func(w *Writeset) { w.Rows[0].Image = w.Rows[0].Image[:1] },
		"a far column":                    func(w *Writeset) { w.Rows[0].Image = []byte{1, 0xff, 0xff, 1} },
	} {
		w := unseen()
		change(w)
		if w.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
	}
}

// TestReadSet: what is read is what was written, and a row's record is a record.
func TestReadSet(t *testing.T) {
	w := unseen()
	settings, record, err := ReadSet(w.Rows[0].Image)
	if err != nil || !slices.Equal(settings, []Setting{{Column: 1}, {Column: 2, Add: true}}) {
		t.Errorf("settings are %v, %v", settings, err)
	}
	if fields, err := ReadRecord(record); err != nil || len(fields) != 3 || !bytes.Equal(record, w.Rows[0].Record()) {
		t.Errorf("the record is %v, %v", fields, err)
	}
	if seen := (&Row{Op: OpUpdate, Image: []byte("u")}); string(seen.Record()) != "u" {
		t.Error("another row's image is not its record")
	}
	if broken := (&Row{Op: OpSet, Image: []byte{9}}); broken.Record() != nil {
		t.Error("a broken image has a record")
	}
}

// FuzzReadSet: no input panics, and settings are written as they were read.
func FuzzReadSet(f *testing.F) {
	f.Add(unseen().Rows[0].Image)
	f.Add([]byte{0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		settings, record, err := ReadSet(b)
		if err != nil {
			return
		}
		fields, err := ReadRecord(record)
		if err != nil {
			return
		}
		again, _, err := ReadSet(AppendSet(nil, settings, fields))
		if err != nil || !slices.Equal(again, settings) {
			t.Errorf("%v became %v, %v", settings, again, err)
		}
	})
}

// TestBlindKeys: a row that was not seen conflicts with nobody before it.
func TestBlindKeys(t *testing.T) {
	var got []Key
	unseen().EachKey(func(k Key) bool {
		got = append(got, k)
		return true
	})
	if want := []Key{{Hash: 0xfedcba9876543210, Mode: Update, Blind: true},
		{Hash: 0x1122334455667788, Mode: Shared}}; !slices.Equal(got, want) {
		t.Errorf("keys are %v, want %v", got, want)
	}
}
