package capture

import (
	"reflect"
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
	if err := s.define([]byte(`{"sql":"ALTER TABLE s.locked ADD c int"}`)); err != nil {
		t.Fatal(err)
	}
	again := &steps{}
	again.take(s.writeset())
	for _, w := range []*writeset.Writeset{s.writeset(), again.writeset()} {
		var held []string
		for _, n := range w.Held {
			held = append(held, w.Tables[n].Name)
		}
		if !reflect.DeepEqual(held, []string{"written", "locked"}) {
			t.Errorf("held %v", held)
		}
	}
}
