package node

import (
	"testing"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestPresent: what the executor has applied is there, but for what it has missed, which is left alone; and nothing is
// remembered if that is switched off.
func TestPresent(t *testing.T) {
	for _, off := range []bool{false, true} {
		p := &present{off: off}
		w := &writeset.Writeset{Tables: []writeset.Table{{Name: "t", Key: 5}}, Rows: []writeset.Row{
			{Op: writeset.OpInsert, Identity: 7, Image: []byte{1}}, {Op: writeset.OpSet, Identity: 8, Image: []byte{1}},
		}}
		p.applied([]engine.Task{{Writeset: w}, {}}, map[*writeset.Row]bool{&w.Rows[1]: true})
		if there, resting := p.has(5, 7); there == off || resting {
			t.Errorf("off %v: a row that was made is there: %v, to be left alone: %v", off, there, resting)
		}
		if there, resting := p.has(5, 8); there || resting == off {
			t.Errorf("off %v: a row that was missed is there: %v, to be left alone: %v", off, there, resting)
		}
		if p.rest(7); off != (p.rows == nil) {
			t.Errorf("off %v: something is remembered: %v", off, p.rows != nil)
		}
		p.forget(&writeset.Writeset{Barrier: true})
		if there, _ := p.has(5, 7); there {
			t.Error("a row is known behind a barrier")
		}
	}
}
