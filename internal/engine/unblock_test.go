package engine

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestUnblockAdds: what adds to rows at its commit does not join a group that may have what it would wait for.
func TestUnblockAdds(t *testing.T) {
	for _, joins := range []bool{true, false} {
		for adds, want := range map[int]Way{0: Joins, 1: Ends} {
			if adds == 0 && !joins {
				want = Stays
			}
			e := mayDeliver(Options{Member: 1, Incarnation: 1})
			e.own.owns[7] = &own{ordinal: 2,
				Submission: Submission{Seq: 7, Writeset: &writeset.Writeset{}, AddBases: make([]uint64, adds)}}
			task := Task{Local: true, Ordinal: 2, Item: Item{ID: writeset.TxID{Member: 1, Incarnation: 1, Seq: 7}}}
			e.queue.running, e.queue.queue = &Group{}, []Task{task}
			way, got := e.Unblock(7, joins)
			if way != want || (got.Ordinal == 2) != (want == Joins) {
				t.Errorf("%d additions, joins %t: %v, ordinal %d; want %v", adds, joins, way, got.Ordinal, want)
			}
		}
	}
}
