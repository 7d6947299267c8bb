package flow

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTurns(t *testing.T) {
	var turns Turns
	next := func(want int, o Outcomes) {
		t.Helper()
		if got := turns.Next(o, 20); got != want {
			t.Fatalf("after %+v the limit is %d, want %d", o, got, want)
		}
	}
	next(0, Outcomes{Won: 100, Lost: 20, Most: 8}) // few lose
	next(0, Outcomes{Won: 1, Lost: 5, Most: 8})    // too little to say
	next(6, Outcomes{Won: 50, Lost: 50, Most: 8})  // many
	next(4, Outcomes{Won: 50, Lost: 50, Waited: true})
	next(4, Outcomes{Won: 85, Lost: 15, Waited: true}) // between half the share and all of it
	next(5, Outcomes{Won: 100, Lost: 5, Waited: true})
	for _, want := range []int{3, 2, 1, 1} {
		next(want, Outcomes{Won: 50, Lost: 50, Waited: true})
	}
	for range calmMax - 1 {
		next(1, Outcomes{Won: 1})
	}
	next(0, Outcomes{Won: 1}) // nobody waits any more
	next(0, Outcomes{Won: 1000, Most: 50})
	next(1, Outcomes{Lost: 10, Most: 1})
}

// TestTurnsAreBounded: whatever happens, the limit is none, or lets one run at least; it shrinks only while too many
// lose, and grows by one at most.
func TestTurnsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var turns Turns
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		for last := 0; ; {
			o := Outcomes{Won: rapid.IntRange(0, 100).Draw(t, "won"), Lost: rapid.IntRange(0, 100).Draw(t, "lost"),
				Most: rapid.IntRange(1, 50).Draw(t, "most"), Waited: rapid.Bool().Draw(t, "waited")}
			now := turns.Next(o, percent)
			many := 100*o.Lost > percent*(o.Won+o.Lost)
			if now < 0 || now > 0 && last > 0 && now > last+1 || now > 0 && (last == 0 || now < last) && !many {
				t.Fatalf("after %+v the limit is %d, and was %d", o, now, last)
			}
			if last = now; rapid.IntRange(0, 20).Draw(t, "end") == 0 {
				return
			}
		}
	})
}
