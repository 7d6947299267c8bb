package capture

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestStepsHeld: a table is held that was locked, unless rows want its key for themselves; also when that was frozen.
func TestStepsHeld(t *testing.T) {
	rows := &writeset.Writeset{
		Tables: []writeset.Table{whole([2]string{"s", "truncated"}), whole([2]string{"s", "written"})},
		Rows:   []writeset.Row{{Op: writeset.OpTruncate}, {Table: 1, Op: writeset.OpInsert, Identity: 5, Image: []byte("x")}},
	}
	rows.AddTableKeys()
	s := &steps{}
	s.rows(rows)
	if err := s.touch([]byte(`[["s","written"],["s","truncated"],["s","locked"]]`)); err != nil {
		t.Fatal(err)
	}
	if err := s.define([]byte(`{"sql":"ALTER TABLE s.locked ADD c int"}`), nil); err != nil {
		t.Fatal(err)
	}
	again := &steps{}
	again.take(s.writeset())
	for _, w := range []*writeset.Writeset{s.writeset(), again.writeset()} {
		var held []string
		for _, n := range w.Held {
			held = append(held, w.Tables[n].Name)
		}
		if !reflect.DeepEqual(held, []string{"written", "locked", columnsName, typesName}) {
			t.Errorf("held %v", held)
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
	if want := `{"sql":"ALTER settled","tag":"ALTER TABLE","role":"","settings":null,"dropped":null}`; string(s.list[0].Definition) != want {
		t.Errorf("%s", s.list[0].Definition)
	}
	if err := s.define([]byte(`{"sql":"ALTER","emptied":[["s","t"]]}`), settle); err == nil {
		t.Error("a noted definition empties a table")
	}
	if err := s.empty([]byte(`["s","t"]`)); err != nil || !strings.Contains(string(s.list[1].Definition), `"emptied":[["s","t"]]`) {
		t.Errorf("%v %s", err, s.list[1].Definition)
	}
}
