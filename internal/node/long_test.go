package node

import (
	"testing"

	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A row of a table that a long definition holds can be locked beside it. The table cannot.
func TestWhatTouchesALongDefinition(t *testing.T) {
	g := &replay.Job{Held: map[uint64]bool{7: true}}
	for _, c := range []struct {
		table uint64
		row   writeset.Row
		want  bool
	}{
		{7, writeset.Row{Op: writeset.OpLock, Identity: 1, Image: []byte("k")}, false},
		{7, writeset.Row{Op: writeset.OpShare, Identity: 1, Image: []byte("k")}, false},
		{7, writeset.Row{Op: writeset.OpLock, Image: []byte{byte(writeset.ShareUpdateExclusive)}}, true},
		{7, writeset.Row{Op: writeset.OpUpdate, Identity: 1, Image: []byte("k")}, true},
		{8, writeset.Row{Op: writeset.OpUpdate, Identity: 1, Image: []byte("k")}, false},
		{8, writeset.Row{Op: writeset.OpLock, Image: []byte{byte(writeset.ExclusiveTable)}}, false},
	} {
		if got := g.Touches(&writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t", Key: c.table}},
			Rows: []writeset.Row{c.row}}); got != c.want {
			t.Errorf("operation %d on a row of %d: %v", c.row.Op, c.table, got)
		}
	}
}
