package lead

import (
	"testing"

	"pgregory.net/rapid"
)

// cluster is a situation that is given to a Rule round by round.
type cluster struct {
	rule *Rule
	in   Input
}

// full is n members that all reach each other; member 1 leads.
func full(n int) *cluster {
	c := &cluster{rule: New(Options{}), in: Input{Self: 1, Leads: true}}
	for i := range n {
		c.in.Members = append(c.in.Members, Member{ID: uint32(i + 1), Links: n - 1, Fit: true})
	}
	return c
}

// rounds gives the situation up to n times, with so many transactions of each member in a round, and returns the first
// decision, and in which round it was.
func (c *cluster) rounds(n int, wrote ...uint64) (uint32, Reason, int) {
	for i := range n {
		for k, w := range wrote {
			c.in.Members[k].Wrote += w
		}
		if to, why := c.rule.Next(c.in); to != 0 {
			return to, why, i + 1
		}
	}
	return 0, None, n
}

func TestWrites(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrote []uint64
		want  uint32
	}{
		{"nobody writes", []uint64{0, 0, 0}, 0},
		{"all write", []uint64{50, 50, 50}, 0},
		{"the leader writes", []uint64{50, 0, 0}, 0},
		{"another writes", []uint64{0, 50, 0}, 2},
		{"another writes three quarters", []uint64{10, 5, 45}, 3},
		{"another writes nearly three quarters", []uint64{11, 5, 45}, 0},
		{"another writes next to nothing", []uint64{0, 2, 0}, 0},
		{"another writes a little", []uint64{0, 3, 0}, 2},
	} {
		to, why, at := full(3).rounds(100, c.wrote...)
		if to != c.want || (why == Writes) != (to != 0) {
			t.Errorf("%s: handed over to %d because %v, not to %d", c.name, to, why, c.want)
		}
		if to != 0 && at != 15 {
			t.Errorf("%s: in round %d, not when two windows of seven were over", c.name, at)
		}
	}
}

// TestWritesMustLast: a window of another's writes is not enough (L4), nor are two that are not in succession.
func TestWritesMustLast(t *testing.T) {
	c := full(3)
	for range 10 {
		if to, _, _ := c.rounds(7, 0, 50, 0); to != 0 {
			t.Fatal("handed over after one window")
		}
		if to, _, _ := c.rounds(7, 50, 0, 0); to != 0 {
			t.Fatal("handed over to who no longer writes")
		}
	}
}

func TestWriterMustBeFit(t *testing.T) {
	c := full(3)
	c.in.Members[1].Fit = false
	if to, _, _ := c.rounds(50, 0, 50, 0); to != 0 {
		t.Error("handed over to a member that lags")
	}
	c = full(3)
	c.in.Members[1].Links = 1
	if to, _, _ := c.rounds(50, 0, 50, 0); to != 0 {
		t.Error("handed over to a member that reaches fewer others (L2)")
	}
	c.in.Members[0].Links = 1
	c.in.Members[1].Links, c.in.Members[2].Links = 1, 1
	if to, why, _ := c.rounds(50, 0, 50, 0); to != 2 || why != Writes {
		t.Errorf("all reach one other: handed over to %d because %v", to, why)
	}
}

// TestReach: a member that reaches one that the leader does not.
func TestReach(t *testing.T) {
	c := full(3)
	c.in.Members[0].Links, c.in.Members[2] = 1, Member{ID: 3, Links: 1}
	if to, why, at := c.rounds(50, 50, 0, 0); to != 2 || why != Reach || at != 6 {
		t.Errorf("handed over to %d because %v in round %d", to, why, at)
	}
	c = full(3)
	c.rounds(20)
	c.in.Members[0].Links, c.in.Members[2] = 1, Member{ID: 3, Links: 1}
	for range 10 {
		c.in.Members[0].Links = 1
		if to, _, _ := c.rounds(3); to != 0 {
			t.Fatal("handed over on the evidence of a moment (L4)")
		}
		c.in.Members[0].Links = 2
		c.rounds(1)
	}
	c.in.Members[0].Links = 1
	if to, why, at := c.rounds(50, 0, 0, 50); to != 2 || why != Reach || at != 4 {
		t.Errorf("a settled leader: handed over to %d because %v in round %d", to, why, at)
	}
}

// TestReachBeforeWrites is L3: in the round in which both are evident.
func TestReachBeforeWrites(t *testing.T) {
	c := full(5)
	c.rounds(11, 0, 50, 0, 0, 0)
	for i, links := range []int{3, 3, 4, 4, 2} {
		c.in.Members[i].Links = links
	}
	if to, why, at := c.rounds(10, 0, 50, 0, 0, 0); to != 3 || why != Reach || at != 4 {
		t.Errorf("to %d because %v in round %d", to, why, at)
	}
	c = full(5)
	c.rounds(11, 0, 50, 0, 0, 0)
	if to, why, at := c.rounds(10, 0, 50, 0, 0, 0); to != 2 || why != Writes || at != 4 {
		t.Errorf("all reach as many: to %d because %v in round %d", to, why, at)
	}
}

func TestHeir(t *testing.T) {
	for _, c := range []struct {
		name    string
		members []Member
		want    uint32
	}{
		{"the first of equals", []Member{{1, 2, true, 9}, {2, 2, true, 3}, {3, 2, true, 3}}, 2},
		{"who has written more", []Member{{1, 2, true, 9}, {2, 2, true, 3}, {3, 2, true, 4}}, 3},
		{"who reaches more", []Member{{1, 2, true, 9}, {2, 2, true, 3}, {3, 1, true, 4}}, 2},
		{"who is fit", []Member{{1, 2, true, 9}, {2, 2, false, 3}, {3, 1, true, 4}}, 3},
		{"nobody is", []Member{{1, 2, true, 9}, {2, 2, false, 3}, {3, 1, false, 4}}, 0},
		{"alone", []Member{{1, 0, true, 9}}, 0},
	} {
		if got := Heir(Input{Self: 1, Leads: true, Members: c.members}); got != c.want {
			t.Errorf("%s: member %d", c.name, got)
		}
		if got := Heir(Input{Self: 1, Members: c.members}); got != 0 {
			t.Errorf("%s, but a follower stops: member %d", c.name, got)
		}
	}
}

// TestOnlyLeadersDecide is L1; a new leader remembers nothing of its last time.
func TestOnlyLeadersDecide(t *testing.T) {
	c := full(3)
	c.rounds(14, 0, 50, 0)
	c.in.Leads = false
	if to, _, _ := c.rounds(30, 0, 50, 0); to != 0 {
		t.Error("a follower decided")
	}
	c.in.Leads = true
	if to, _, at := c.rounds(50, 0, 50, 0); to != 2 || at != 15 {
		t.Errorf("a new leader handed over to %d in round %d", to, at)
	}
}

// TestComesToRest is L2: with links and writers that stay as they are, leadership moves at most once for
// each number of links, and once for the writer.
func TestComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "members")
		linked := make([][]bool, n)
		for i := range linked {
			linked[i] = make([]bool, n)
		}
		wrote := make([]uint64, n)
		for i := range n {
			for k := range i {
				linked[i][k] = rapid.Bool().Draw(t, "linked")
				linked[k][i] = linked[i][k]
			}
			wrote[i] = rapid.SampledFrom([]uint64{0, 0, 1, 100}).Draw(t, "wrote")
		}
		leader, moves := 0, 0
		for moves <= n+1 {
			c := &cluster{rule: New(Options{}), in: Input{Self: uint32(leader + 1), Leads: true}}
			for i := range n {
				m := Member{ID: uint32(i + 1), Fit: i != leader && linked[leader][i]}
				for k := range n {
					if linked[i][k] {
						m.Links++
					}
				}
				c.in.Members = append(c.in.Members, m)
			}
			to, _, _ := c.rounds(100, wrote...)
			if to == 0 {
				return
			}
			if c.in.Members[to-1].Links < c.in.Members[leader].Links {
				t.Fatalf("from %d to %d, which reaches fewer others", leader+1, to)
			}
			leader = int(to - 1)
			moves++
		}
		t.Fatalf("leadership moved %d times among %d members", moves, n)
	})
}

// TestRests is L5: where nobody takes the lead, tries become rare, and a new leader begins anew.
func TestRests(t *testing.T) {
	c := full(3)
	c.in.Members[0].Links = 1
	last, gaps := 0, []int(nil)
	for round := 1; len(gaps) < 9; round++ {
		if to, _ := c.rule.Next(c.in); to != 0 {
			gaps, last = append(gaps, round-last), round
		}
	}
	for i, want := range []int{6, 34, 67, 133, 265, 529, 1057, 2113, 2113} {
		if gaps[i] != want {
			t.Errorf("tries came after %v rounds", gaps)
			break
		}
	}
	c.in.Leads = false
	c.rule.Next(c.in)
	c.in.Leads = true
	if to, _, at := c.rounds(50); to != 2 || at != 6 {
		t.Errorf("a new leader handed over to %d in round %d", to, at)
	}
}

// TestHaltedLeader: who cannot carry out what is ordered hands the lead over to who can, and to nobody if nobody can.
func TestHaltedLeader(t *testing.T) {
	c := full(3)
	c.in.Halted, c.in.Members[0].Fit, c.in.Members[1].Fit = true, false, false
	if to, why, _ := c.rounds(20); to != 3 || why != Halted {
		t.Errorf("handed over to %d because %v", to, why)
	}
	c = full(3)
	c.in.Halted, c.in.Members[1].Fit, c.in.Members[2].Fit = true, false, false
	if to, why, _ := c.rounds(20); to != 0 || why != None {
		t.Errorf("handed over to %d, who cannot either, because %v", to, why)
	}
}
