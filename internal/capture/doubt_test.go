package capture

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// keyRow is a captured row of a table s.t whose first column is the key.
func keyRow(op writeset.Op, ident uint64, key string, value int32) captured {
	return captured{op: op, ident: ident, header: []byte("B;0;0;77;0;1;st"), image: keyImageOf(key, value)}
}

func keyImageOf(key string, value int32) []byte {
	return writeset.AppendRecord(nil, []writeset.Field{{OID: 25, Value: []byte(key)},
		{OID: 23, Value: binary.BigEndian.AppendUint32(nil, uint32(value))}})
}

// TestDoubts: wherever an identity comes again with another key, the database is asked, and nothing is netted before it
// has answered.
func TestDoubts(t *testing.T) {
	for name, rows := range map[string][]captured{
		"updates": {keyRow(writeset.OpUpdate, 5, "a", 1), keyRow(writeset.OpUpdate, 5, "b", 2)},
		"a deletion between": {keyRow(writeset.OpUpdate, 5, "a", 1), keyRow(writeset.OpDelete, 5, "b", 2),
			keyRow(writeset.OpInsert, 5, "b", 2)},
		"after the same twice": {keyRow(writeset.OpUpdate, 5, "a", 1), keyRow(writeset.OpUpdate, 5, "a", 2),
			keyRow(writeset.OpUpdate, 5, "b", 2)},
		"and others": {keyRow(writeset.OpUpdate, 4, "x", 1), keyRow(writeset.OpUpdate, 5, "a", 1),
			keyRow(writeset.OpUpdate, 6, "y", 1), keyRow(writeset.OpUpdate, 5, "b", 2)},
	} {
		for _, returned := range []bool{false, true} {
			var c Collector
			for _, r := range rows {
				if err := c.change(r, returned); err != nil {
					t.Fatal(name, err)
				}
			}
			if _, err := c.Writeset(); err == nil {
				t.Errorf("%s: a writeset is made without asking", name)
			}
			queries, err := c.Rereads()
			if err != nil {
				t.Fatal(err)
			}
			last := queries[len(queries)-1]
			if want := writeset.AppendArray(nil, writeset.FormatBinary,
				[][]byte{keyImageOf("a", 1), keyImageOf("b", 2)}); len(c.doubts) == 1 &&
				string(last.Parameter) != string(want) && name != "after the same twice" {
				t.Errorf("%s: asked about %q", name, last.Parameter)
			}
			var e *Collision
			if err := c.AddFinal(len(queries)-1, [][]byte{binary.BigEndian.AppendUint64(nil, 5), nil}); !errors.As(err,
				&e) || e.Keys != [2]string{"a", "b"} || e.Table.Name != "t" {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestDoubtsOfOneRow: if the database says nothing against it, it is one row.
func TestDoubtsOfOneRow(t *testing.T) {
	var c Collector
	for _, r := range []captured{keyRow(writeset.OpDelete, 5, "a", 1), keyRow(writeset.OpInsert, 5, "b", 2)} {
		if err := c.change(r, true); err != nil {
			t.Fatal(err)
		}
	}
	if queries, err := c.Rereads(); err != nil || len(queries) != 1 {
		t.Fatalf("%d queries, %v", len(queries), err)
	}
	w, err := c.Writeset()
	if err != nil || len(w.Rows) != 1 || w.Rows[0].Op != writeset.OpReplace ||
		string(w.Rows[0].Image) != string(keyImageOf("b", 2)) {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestTwoFinalRows: two rows that are there and have one identity are two, whatever was captured.
func TestTwoFinalRows(t *testing.T) {
	var c Collector
	for _, r := range []captured{keyRow(writeset.OpUpdate, 5, "a", 1), keyRow(writeset.OpUpdate, 5, "a", 2)} {
		if err := c.change(r, false); err != nil {
			t.Fatal(err)
		}
	}
	if queries, err := c.Rereads(); err != nil || len(queries) != 1 {
		t.Fatalf("%d queries, %v", len(queries), err)
	}
	ident := binary.BigEndian.AppendUint64(nil, 5)
	for range 2 {
		if err := c.AddFinal(0, [][]byte{ident, keyImageOf("a", 2)}); err != nil {
			t.Fatal(err)
		}
	}
	var e *Collision
	if err := c.AddFinal(0, [][]byte{ident, keyImageOf("b", 3)}); !errors.As(err, &e) {
		t.Errorf("%v", err)
	}
}

// TestDoubtsBeforeDefinitions: they are settled before a definition changes what images mean, or the transaction fails.
func TestDoubtsBeforeDefinitions(t *testing.T) {
	for tag, want := range map[string]error{"ALTER TABLE": ErrEntangled, "CREATE VIEW": nil} {
		var c Collector
		for _, r := range []captured{keyRow(writeset.OpUpdate, 5, "a", 1), keyRow(writeset.OpUpdate, 5, "b", 2)} {
			if err := c.change(r, true); err != nil {
				t.Fatal(err)
			}
		}
		err := c.add(captured{op: opDefinition, image: []byte(`{"sql":"x","tag":"` + tag + `"}`)}, nil)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", tag, err, want)
		}
		if err != nil {
			continue
		}
		if queries, err := c.Rereads(); err != nil || len(queries) != 1 {
			t.Fatalf("%d queries, %v", len(queries), err)
		}
		var e *Collision
		if err := c.AddFinal(0, [][]byte{binary.BigEndian.AppendUint64(nil, 5), nil}); !errors.As(err, &e) {
			t.Errorf("%s: %v", tag, err)
		}
	}
}

// TestTwinsOfOneStatement: two rows that one statement has changed are two.
func TestTwinsOfOneStatement(t *testing.T) {
	var c Collector
	piece := func(keys ...string) (b []byte) {
		for _, k := range keys {
			b = writeset.AppendRecord(b, []writeset.Field{{OID: 17, Value: keyImageOf(k, 1)}})
		}
		return b
	}
	r := keyRow(opBulk+writeset.OpUpdate, 1<<20, "", 0)
	r.many, r.image = []uint64{7, 5, 5, 9}, piece("w", "a", "b", "z")
	if err := c.add(r, nil); err != nil {
		t.Fatal(err)
	}
	if queries, err := c.Rereads(); err != nil || len(queries) != 0 {
		t.Fatalf("%d queries, %v", len(queries), err)
	}
	var e *Collision
	if _, err := c.Writeset(); !errors.As(err, &e) || e.Keys != [2]string{"a", "b"} {
		t.Errorf("%v", err)
	}
}
