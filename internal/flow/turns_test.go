package flow

import "testing"

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
