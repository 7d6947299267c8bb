package replica

import "testing"

func TestContact(t *testing.T) {
	const long = 10
	all := []uint32{1, 2, 3}
	for _, c := range []struct {
		name   string
		does   func(c *Contact)
		now    int64
		leader uint32
		want   Reach
	}{
		{"nothing came", func(*Contact) {}, 0, 2, Reach{3, 1, false}},
		{"it leads itself", func(*Contact) {}, 0, 1, Reach{3, 1, true}},
		{"at the beginning of time", func(c *Contact) { c.Heard(0, 2) }, 9, 2, Reach{3, 2, true}},
		{"for as long", func(c *Contact) { c.Heard(0, 2) }, 10, 2, Reach{3, 1, false}},
		{"the leader is not heard", func(c *Contact) { c.Heard(5, 3) }, 6, 2, Reach{3, 2, false}},
		{"nobody leads", func(c *Contact) { c.Heard(5, 3); c.Heard(5, 2) }, 6, 0, Reach{3, 3, false}},
		{"lost", func(c *Contact) { c.Heard(5, 2); c.Lost(2) }, 6, 2, Reach{3, 1, false}},
		{"lost, and there again", func(c *Contact) { c.Heard(5, 2); c.Lost(2); c.Heard(7, 2) }, 8, 2,
			Reach{3, 2, true}},
	} {
		x := NewContact(3)
		c.does(&x)
		if got := x.Reach(c.now, long, 1, c.leader, all); got != c.want {
			t.Errorf("%s: %+v, not %+v", c.name, got, c.want)
		}
	}
}

// TestRefuses is RE8: each fact alone keeps clients away that it concerns, and no others.
func TestRefuses(t *testing.T) {
	well := Standing{Serves: true, Reach: Reach{Members: 3, Heard: 3, Led: true}, Lag: 10, Age: 1000}
	with := func(change func(s *Standing)) Standing { s := well; change(&s); return s }
	slow := with(func(s *Standing) { s.Slow = true })
	nine, ten, second, less := uint64(9), uint64(10), int64(1000), int64(999)
	for _, c := range []struct {
		name          string
		s             Standing
		writes, reads Refusal
		lagMax        *uint64
		ageMax        *int64
	}{
		{"well", well, Ready, Ready, nil, nil},
		{"stopping, halted and starting",
			with(func(s *Standing) { s.Stopping, s.Halted, s.Serves = true, true, false }),
			IsStopping, IsStopping, nil, nil},
		{"halted", with(func(s *Standing) { s.Halted = true }), IsHalted, IsHalted, nil, nil},
		{"starting", with(func(s *Standing) { s.Serves = false }), IsStarting, IsStarting, nil, nil},
		{"no leader", with(func(s *Standing) { s.Led = false }), Leaderless, Ready, nil, nil},
		{"a majority", with(func(s *Standing) { s.Heard = 2 }), Ready, Ready, nil, nil},
		{"a minority", with(func(s *Standing) { s.Heard = 1 }), Minority, Ready, nil, nil},
		{"half", with(func(s *Standing) { s.Members, s.Heard = 4, 2 }), Minority, Ready, nil, nil},
		{"far too slow", slow, IsSlow, IsSlow, nil, nil},
		{"far too slow, and lags as much as it may", slow, IsSlow, Ready, &ten, nil},
		{"far too slow, and as old as it may be", slow, IsSlow, Ready, nil, &second},
		{"far too slow, and lags more than it may", slow, IsSlow, Lags, &nine, nil},
		{"lags more than it may", well, Lags, Lags, &nine, nil},
		{"lags as much as it may", well, Ready, Ready, &ten, nil},
		{"older than it may be", well, Old, Old, nil, &less},
		{"as old as it may be", well, Ready, Ready, nil, &second},
	} {
		if got := c.s.Refuses(Want{LagMax: c.lagMax, AgeMax: c.ageMax}); got != c.writes {
			t.Errorf("%s: writes are refused because of %d, not %d", c.name, got, c.writes)
		}
		if got := c.s.Refuses(Want{Reads: true, LagMax: c.lagMax, AgeMax: c.ageMax}); got != c.reads {
			t.Errorf("%s: reads are refused because of %d, not %d", c.name, got, c.reads)
		}
	}
}

// TestSpare: who is not heard does not count, and neither does the member itself.
func TestSpare(t *testing.T) {
	for r, want := range map[Reach]bool{{Members: 3, Heard: 3}: true, {Members: 3, Heard: 2}: false,
		{Members: 2, Heard: 2}: false, {Members: 5, Heard: 4}: true, {Members: 5, Heard: 3}: false} {
		if r.Spare() != want {
			t.Errorf("%+v: %t", r, r.Spare())
		}
	}
}
