package lead

import (
	"testing"

	"pgregory.net/rapid"
)

// line is members on a line, at these places.
func line(at ...int64) (w Ways) {
	for _, a := range at {
		var row []int64
		for _, b := range at {
			row = append(row, max(a-b, b-a))
		}
		w = append(w, row)
	}
	return w
}

// voters are n members, of which the first ones vote.
func voters(n, vote int) []bool {
	list := make([]bool, n)
	for i := range vote {
		list[i] = true
	}
	return list
}

// spread is members on a line that all reach each other and vote; the first leads.
func spread(at ...int64) *cluster {
	c := full(len(at))
	c.in.Ways, c.in.Votes = line(at...), voters(len(at), len(at))
	c.rule = New(Options{GainMin: 2})
	return c
}

func TestCommit(t *testing.T) {
	for _, c := range []struct {
		name       string
		ways       Ways
		voters     int
		leader, at int
		want       int64
	}{
		{"three, at the leader: the nearest other one", line(0, 10, 30), 3, 0, 0, 20},
		{"three, at a follower: its own disk and the leader's word", line(0, 10, 30), 3, 0, 2, 60},
		{"three alike, at a follower: two ways", Ways{{0, 22, 22}, {22, 0, 22}, {22, 22, 0}}, 3, 1, 0, 44},
		{"two: both", line(0, 10), 2, 0, 0, 20},
		{"two, at the follower", line(0, 10), 2, 0, 1, 20},
		{"one decides alone", line(0, 10), 1, 0, 0, 0},
		{"one decides alone, for another one", line(0, 10), 1, 0, 1, 20},
		{"five, at the leader: two others", line(0, 5, 10, 20, 40), 5, 0, 0, 20},
		{"five, at a follower: who is near both tells it", line(0, 5, 10, 20, 40), 5, 0, 1, 20},
		{"five, at the far end: it has the entry last", line(0, 5, 10, 20, 40), 5, 0, 4, 80},
		{"five alike: three ways", Ways{{0, 9, 9, 9, 9}, {9, 0, 9, 9, 9}, {9, 9, 0, 9, 9}, {9, 9, 9, 0, 9},
			{9, 9, 9, 9, 0}}, 5, 0, 4, 27},
		{"who does not vote waits for the leader's word", line(0, 10, 30, 7), 3, 0, 3, 34},
		{"nobody votes", line(0, 1), 0, 0, 1, Far},
		{"the way to the leader is a long way round: the entry comes last", Ways{{0, 5, 5, 5, 50}, {5, 0, 5, 5, 5},
			{5, 5, 0, 5, 5}, {5, 5, 5, 0, 5}, {50, 5, 5, 5, 0}}, 5, 0, 4, 100},
	} {
		if got := c.ways.Commit(voters(len(c.ways), c.voters), c.leader, c.at); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestNear(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    []int64
		wrote []uint64
		want  uint32
		why   Reason
		round int
	}{
		{"all write, and one is in the middle", []int64{0, 50, 60}, []uint64{50, 50, 50}, 2, Near, 15},
		{"one writes, which is as far from the next one", []int64{0, 10, 100}, []uint64{0, 0, 50}, 3, Writes, 15},
		{"one writes at the far end", []int64{0, 100, 110, 120}, []uint64{0, 0, 0, 50}, 2, Near, 15},
		{"the leader is in the middle", []int64{50, 0, 60}, []uint64{50, 50, 50}, 0, None, 0},
		{"a seventh less", []int64{0, 6, 60, 66}, []uint64{9, 2, 1, 1}, 0, None, 0},
		{"less than two", []int64{0, 1, 2}, []uint64{20, 20, 20}, 0, None, 0},
		{"two", []int64{0, 3, 6}, []uint64{20, 20, 20}, 2, Near, 15},
		{"at one site most is written", []int64{0, 0, 0}, []uint64{0, 50, 0}, 2, Writes, 15},
		{"little is written, but for long", []int64{0, 50, 60}, []uint64{0, 0, 1}, 2, Near, 36},
		{"nobody writes: the middle, after a while", []int64{0, 50, 60}, []uint64{0, 0, 0}, 2, Near, 99},
	} {
		to, why, at := spread(c.at...).rounds(200, c.wrote...)
		if to != c.want || why != c.why || to != 0 && at != c.round {
			t.Errorf("%s: to %d because %v in round %d", c.name, to, why, at)
		}
	}
}

// TestWritesAgainstWays is L6: who writes most does not get the lead if the commits of all would take longer.
func TestWritesAgainstWays(t *testing.T) {
	c := spread(0, 20, 23, 26, 90)
	c.in.Self = 3
	if to, why, _ := c.rounds(200, 6, 6, 6, 0, 54); to != 0 {
		t.Errorf("the lead goes to %d because %v", to, why)
	}
	c = spread(0, 20, 23, 26, 90)
	c.in.Self, c.in.Ways[0][1] = 3, Unknown
	if to, why, _ := c.rounds(200, 6, 6, 6, 0, 54); to != 5 || why != Writes {
		t.Errorf("a way is not known: the lead goes to %d because %v", to, why)
	}
}

// TestNearMustLast is L4: one window is not enough, nor are two that are not in succession.
func TestNearMustLast(t *testing.T) {
	c := spread(0, 50, 60)
	for n := uint64(10); n < 1<<32; n *= 64 { // what was before matters little
		if to := c.rule.near(0, &c.in, []uint64{0, n, n}); to != 0 {
			t.Fatal("handed over after one window")
		}
		if to := c.rule.near(0, &c.in, []uint64{8 * n, 0, 0}); to != 0 {
			t.Fatal("handed over from who writes")
		}
	}
	c.rule.near(0, &c.in, []uint64{0, 1 << 40, 1 << 40})
	if to := c.rule.near(0, &c.in, []uint64{0, 1 << 40, 1 << 40}); to != 2 {
		t.Errorf("after two windows: to %d", to)
	}
}

// TestNearMustBeFit is L2 and L3 for ways.
func TestNearMustBeFit(t *testing.T) {
	c := spread(0, 50, 60)
	c.in.Members[1].Fit = false
	if to, why, _ := c.rounds(200, 50, 50, 50); to != 3 || why != Near {
		t.Errorf("who is next best is %d because %v", to, why)
	}
	c = spread(0, 50, 60)
	c.in.Members[1].Links, c.in.Members[2].Links = 1, 1
	if to, _, _ := c.rounds(200, 50, 50, 50); to != 0 {
		t.Errorf("member %d leads, which reaches fewer others", to)
	}
	c = spread(0, 50, 60)
	c.in.Ways = Ways{{0, Far, 60}, {Far, 0, Far}, {60, Far, 0}}
	c.in.Members[1].Fit = false
	if to, why, _ := c.rounds(200, 1, 90, 50); to != 0 {
		t.Errorf("two are there, as near to each other as before: %d leads because %v", to, why)
	}
}

// TestNearOfThose: who is not there counts for nothing, neither for a majority nor with what it has written.
func TestNearOfThose(t *testing.T) {
	c := spread(0, 10, 90, 100, 110)
	for i := range c.in.Ways {
		c.in.Ways[1][i], c.in.Ways[i][1] = Far, Far
	}
	c.in.Members[1].Fit = false
	if to, why, _ := c.rounds(200, 10, 10, 10, 10, 10); to != 4 || why != Near {
		t.Errorf("member %d leads because %v", to, why)
	}
}

// TestNearComesToRest is L2 with ways: with links, writers and ways that stay as they are the lead comes to rest, and
// the last move is not followed by one back.
func TestNearComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 7).Draw(t, "members")
		at := rapid.SliceOfN(rapid.Int64Range(0, 90), n, n).Draw(t, "places")
		wrote := rapid.SliceOfN(rapid.SampledFrom([]uint64{0, 0, 1, 10, 100}), n, n).Draw(t, "wrote")
		leader := 0
		for range 2*n + 1 {
			c := spread(at...)
			c.in.Self = uint32(leader + 1)
			to, _, _ := c.rounds(300, wrote...)
			if to == 0 {
				return
			}
			leader = int(to - 1)
		}
		t.Fatalf("the lead still moves after %d times", 2*n+1)
	})
}
