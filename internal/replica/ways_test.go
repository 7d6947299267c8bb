package replica

import (
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/lead"
)

// talk has members tell each other what they know again and again, each on its own clock, with these ways between them
// and so much that is late in each word; late may be nil.
func talk(tables []*Table, ways [][]int64, until int64, late func() int64) {
	clock := func(i int, now int64) int64 { return now + int64(i)*100_000 + 1 }
	type word struct {
		at       int64
		from, to int
		s        Status
	}
	var under []word
	for now := int64(0); now < until; now++ {
		for i, t := range tables {
			if now%30 != int64(i) {
				continue
			}
			s := t.Tell(clock(i, now), Own{Serves: true, Leader: 1, Incarnation: 1})
			for j := range tables {
				d := ways[i][j]
				if late != nil {
					d += late()
				}
				under = append(under, word{now + d, i, j, s})
			}
		}
		under = slices.DeleteFunc(under, func(w word) bool {
			if w.at > now {
				return false
			}
			if w.to != w.from {
				tables[w.to].Hear(clock(w.to, now), uint32(w.from)+1, w.s, 0, 0)
			}
			return true
		})
	}
}

// members are the tables of so many.
func members(n int) (list []*Table) {
	var all []uint32
	for i := range n {
		all = append(all, uint32(i)+1)
	}
	for _, m := range all {
		list = append(list,
			NewTable(Options{Self: m, Members: all, Deaf: 100, Silent: 300, NearItems: 9, NearBytes: 9}))
	}
	return list
}

// known is what a member gives the rule about the lead.
func known(t *Table, now int64) lead.Ways {
	own := t.Tell(now, Own{Serves: true, Leader: 1, Incarnation: 1})
	return t.Lead(now, own, true, func(uint32) bool { return true }, func(uint32) uint64 { return 0 }).Ways
}

// TestWays is RE12: clocks differ, ways differ in both directions, words are late.
func TestWays(t *testing.T) {
	ways := [][]int64{{0, 10, 44}, {20, 0, 30}, {46, 30, 0}}
	want := lead.Ways{{0, 15, 45}, {15, 0, 30}, {45, 30, 0}}
	n := int64(0)
	for _, late := range []func() int64{nil, func() int64 { n++; return n * 7 % 5 }} {
		all := members(3)
		talk(all, ways, 2000, late)
		for i, table := range all {
			got := known(table, 2000+int64(i)*100_000)
			for a, row := range got {
				for b, d := range row {
					if d < want[a][b] || d > want[a][b]+2 {
						t.Errorf("member %d knows of %d and %d: %d, want %d", i+1, a+1, b+1, d, want[a][b])
					}
				}
			}
		}
	}
}

// TestWaysUnknown: what nobody has measured is not known, and who is silent is far.
func TestWaysUnknown(t *testing.T) {
	x := table3()
	x.Hear(1, 2, Status{State: Synced, At: 5}, 0, 0)
	x.Hear(1, 3, Status{State: Synced}, 0, 0) // of a release that does not say when
	x.Tell(2, Own{Incarnation: 7})
	if w := x.tellWays(3); len(w) != 1 || w[0] != (Way{Member: 2, At: 5, After: 2}) {
		t.Errorf("it tells %+v", w)
	}
	if w := known(x, 3); w[0][1] != lead.Unknown || w[1][2] != lead.Unknown {
		t.Errorf("%v is known", w)
	}
	for _, way := range []Way{
		{Member: 1, Incarnation: 6, At: 2, After: 1}, // an earlier one
		{Member: 3, Incarnation: 7, At: 2, After: 1}, // another's
		{Member: 1, Incarnation: 7, After: 1},        // it has heard nothing
		{Member: 1, Incarnation: 7, At: 2, After: 9}, // it cannot be
	} {
		x.Tell(3, Own{Incarnation: 7})
		if x.Hear(9, 2, Status{State: Synced, At: 6, Ways: []Way{way}}, 0, 0); x.row(2).rounds.least() != 0 {
			t.Errorf("%+v is taken for a round trip", way)
		}
	}
	x.Hear(9, 2, Status{State: Synced, At: 7, Ways: []Way{{Member: 1, Incarnation: 7, At: 2, After: 1}}}, 0, 0)
	if w := known(x, 9); w[0][1] != 3 || w[1][0] != 3 {
		t.Errorf("%v is known of 1 and 2", w)
	}
	if w := known(x, 99); w[0][1] != lead.Far || w[2][0] != lead.Far {
		t.Errorf("%v is known of who is silent", w)
	}
}

// TestRoundsForget: a way that has become longer is known as such after a while.
func TestRoundsForget(t *testing.T) {
	var r rounds
	for range 5 {
		r.add(10)
	}
	for range roundsKept - 1 {
		r.add(30)
	}
	if r.least() != 10 {
		t.Errorf("it is known as %d", r.least())
	}
	if r.add(30); r.least() != 30 || len(r) != roundsKept {
		t.Errorf("it is known as %d of %d", r.least(), len(r))
	}
}
