package capture

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestStepsHeld: a table is held that was locked, unless rows want its key for themselves; also when that was frozen.
// What every definition holds comes last.
func TestStepsHeld(t *testing.T) {
	rows := &writeset.Writeset{
		Tables: []writeset.Table{whole([2]string{"s", "truncated"}), whole([2]string{"s", "written"})},
		Rows: []writeset.Row{{Op: writeset.OpTruncate},
			{Table: 1, Op: writeset.OpInsert, Identity: 5, Image: []byte("x")}},
	}
	rows.AddTableKeys()
	s := &steps{}
	s.rows(rows)
	if err := s.touch([]byte(`[["s","written",true],["s","truncated",true],["s","locked",true],["s","beheld",false]]`)); err != nil {
		t.Fatal(err)
	}
	if err := s.define([]byte(`{"sql":"ALTER TABLE s.locked ADD c int"}`), nil); err != nil {
		t.Fatal(err)
	}
	w, err := s.writeset()
	if err != nil {
		t.Fatal(err)
	}
	again := &steps{}
	again.take(w)
	w2, err := again.writeset()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*writeset.Writeset{w, w2} {
		var held []string
		for _, n := range w.Held {
			held = append(held, w.Tables[n].Name)
		}
		if !reflect.DeepEqual(held, []string{"written", "locked", "beheld", columnsName, typesName}) {
			t.Errorf("held %v", held)
		}
		if w.Keys[len(w.Keys)-1].Hash != DefinitionsKey {
			t.Error("what every definition holds is not the last key")
		}
	}
}

// TestBeheld: writers of a table go on beside a transaction that does nothing but validate constraints, and beside no
// other.
func TestBeheld(t *testing.T) {
	for sql, exclusive := range map[string]bool{
		"ALTER TABLE t VALIDATE CONSTRAINT c":                                  false,
		" alter table if exists only \"A b\".t\n * validate constraint \"x\";": false,
		"ALTER TABLE t VALIDATE CONSTRAINT c, ALTER COLUMN v SET STATISTICS 1": true,
		"ALTER TABLE t SET (fillfactor = 50)":                                  true,
		"ALTER TABLE t ADD CHECK (v = 'validate constraint c')":                true,
		"ALTER TABLE t /* */ VALIDATE CONSTRAINT c":                            true, // who knows
		"ALTER TABLE t ATTACH PARTITION p FOR VALUES IN (1)":                   true,
	} {
		s := &steps{}
		for _, text := range []string{"ALTER TABLE u VALIDATE CONSTRAINT c", sql} {
			image, err := json.Marshal(Definition{SQL: text, Tag: "ALTER TABLE"})
			if err == nil {
				err = s.define(image, nil)
			}
			if err == nil {
				err = s.touch([]byte(`[["s","t",false]]`))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		w, err := s.writeset()
		if err != nil {
			t.Fatal(err)
		}
		mode := map[bool]writeset.Mode{false: writeset.Shared, true: writeset.Exclusive}[exclusive]
		if i := slices.IndexFunc(w.Keys, func(k writeset.Key) bool { return k.Hash == TableKey("s", "t") }); i < 0 ||
			w.Keys[i].Mode != mode {
			t.Errorf("%s: key %d of %v", sql, i, w.Keys)
		}
	}
}

// TestSettled: an ALTER TABLE that has filled columns is settled; what a client may have noted itself empties
// no table.
func TestSettled(t *testing.T) {
	s := &steps{}
	settle := func(d *Definition) error {
		d.SQL += *d.Filled["c"]
		return nil
	}
	if err := s.define([]byte(`{"sql":"ALTER ","tag":"ALTER TABLE","filled":{"c":"settled"}}`), settle); err != nil {
		t.Fatal(err)
	}
	if want := `{"sql":"ALTER settled","tag":"ALTER TABLE","role":"","settings":null,"dropped":null}`; string(
		s.list[0].Definition) != want {
		t.Errorf("%s", s.list[0].Definition)
	}
	if err := s.define([]byte(`{"sql":"ALTER","emptied":[["s","t"]]}`), settle); err == nil {
		t.Error("a noted definition empties a table")
	}
	if err := s.empty([]byte(`["s","t"]`)); err != nil ||
		!strings.Contains(string(s.list[1].Definition), `"emptied":[["s","t"]]`) {
		t.Errorf("%v %s", err, s.list[1].Definition)
	}
}
