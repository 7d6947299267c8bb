package quorum

import (
	"slices"
	"testing"
)

// window is how long a member must be far behind to be judged.
const window = slowTimes * gone

// play is a rule whose members are given paces, tick by tick; member 3 is the one it is about.
type play struct {
	r       *Rule
	peers   []Peer
	ordered uint64
	starts  bool // member 3 has not been near the end
	far     uint32
}

// newPlay makes one of so many voters, and learners that are there, which member 1 leads.
func newPlay(voters, learners uint32) *play {
	p := &play{r: New(gone, 0), ordered: 1 << 20}
	for m := range voters + learners {
		p.peers = append(p.peers, Peer{Member: m + 1, Voter: m < voters})
	}
	return p
}

// run has so many ticks pass, in each of which so much is ordered and member 3 applies so many, and returns what was
// wanted last. Of the others all is applied.
func (p *play) run(ticks int, orders, applies uint64) (want []uint32) {
	for range ticks {
		p.ordered += orders
		for i := range p.peers {
			pace := &p.peers[i].Pace
			if pace.Known = !p.starts; p.peers[i].Member != 3 {
				pace.Applied = p.ordered
			} else {
				pace.Applied += applies
			}
			p.sets(pace)
			if p.peers[i].Witness {
				*pace = Pace{}
			} else if p.peers[i].Member == p.far { // another one that is far behind
				pace.Load = farLoad + 1
			}
		}
		want = p.r.Tick(1, p.peers)
	}
	return want
}

// sets reckons a member's load, of a limit of ten.
func (p *play) sets(pace *Pace) {
	pace.Ordered = p.ordered
	pace.Load = int(p.ordered-pace.Applied) * 100
}

// behind has member 3 be as far behind as makes that load.
func (p *play) behind(load int) {
	p.peers[2].Pace.Applied = p.ordered - uint64(load)/100
}

// TestSlow: who is far too slow, and who is only busy (Q10).
func TestSlow(t *testing.T) {
	for _, c := range []struct {
		about           string
		load            int // at the beginning
		orders, applies uint64
		ticks           int
		change          func(p *play)
		want            bool
	}{
		{"it applies a third", 9000, 3, 1, window, nil, true},
		{"not for long yet", 9000, 3, 1, window - 1, nil, false},
		{"it applies half and more", 9000, 3, 2, 2 * window, nil, false},
		{"for long, and it falls behind", 9000, 3, 2, standsMax * window, nil, true},
		{"not for so long", 9000, 3, 2, standsMax*window - 1, nil, false},
		{"it stands still", 9000, 3, 0, standsMax*window - 1, nil, false},
		{"for long", 9000, 3, 0, standsMax * window, nil, true},
		{"it stands still, and its log as well", 9000, 3, 0, window,
			func(p *play) { p.peers[2].Lag = LagMax + 1 }, true},
		{"nothing is ordered, and it stands still", 9000, 0, 0, standsMax*window - 1, nil, false},
		{"it comes no nearer", 9000, 2, 2, standsMax * window, nil, true},
		{"half of the voters are far behind", 9000, 3, 1, window, func(p *play) {
			p.peers, p.far = append(p.peers, Peer{Member: 4, Voter: true}), 4
		}, false},
		{"it and a learner are", 9000, 3, 1, window, func(p *play) {
			p.peers, p.far = append(p.peers, Peer{Member: 4}), 4
		}, true},
		{"one of three has no database", 9000, 3, 1, window, func(p *play) { p.peers[1].Witness = true }, true},
		{"that one is silent", 9000, 3, 1, window, func(p *play) {
			p.peers[1].Witness, p.peers[1].Silent = true, presentTicks+1
		}, false},
		{"nobody is ever gone, and a time is said", 9000, 3, 1, 50, func(p *play) {
			p.r = New(0, 0)
			p.r.SlowAfter(50)
		}, false},
		{"it catches up", 900_000_000, 1, 2, 2 * standsMax * window, nil, false},
		{"it is not far behind", farLoad, 0, 0, standsMax * window, nil, false},
		{"it has not been near since its start", 9000, 3, 1, window,
			func(p *play) { p.starts = true }, false},
		{"nobody is ever gone", 9000, 3, 1, window, func(p *play) { p.r = New(0, 0) }, false},
		{"as long as is said", 9000, 3, 1, 50, func(p *play) { p.r.SlowAfter(50) }, true},
		{"it is no member any more", 9000, 3, 1, window, func(p *play) { p.peers[2].Leaves = true }, false},
		{"it has no database", 9000, 3, 1, window, func(p *play) { p.peers[2].Witness = true }, false},
	} {
		p := newPlay(3, 0)
		p.behind(c.load)
		if c.change != nil {
			c.change(p)
		}
		p.run(c.ticks, c.orders, c.applies)
		if got := len(p.r.Slow()) > 0; got != c.want || c.want && !p.r.IsSlow(3) {
			t.Errorf("%s: slow are %v", c.about, p.r.Slow())
		}
	}
}

// TestSlowStands: who has applied nothing for half of a window is taken for one that stands, whatever it did in the
// rest of it; who applies a little now and then is not.
func TestSlowStands(t *testing.T) {
	for _, c := range []struct {
		about string
		moves func(tick int) uint64
		want  bool
	}{
		{"five in the beginning", func(tick int) uint64 { return uint64(max(0, 5-tick)) }, false},
		{"much at the end", func(tick int) uint64 { return uint64(max(0, tick-window*9/10)) / 2 }, false},
		{"one every ten ticks", func(tick int) uint64 { return uint64(1 - min(1, tick%10)) }, true},
	} {
		p := newPlay(3, 0)
		p.behind(9000)
		for tick := range window {
			p.run(1, 3, c.moves(tick))
		}
		if got := p.r.IsSlow(3); got != c.want {
			t.Errorf("%s: it is slow: %t", c.about, got)
		}
	}
}

// TestSlowAgain: a window begins anew where the member is near for a moment, begins again, or most are far behind.
func TestSlowAgain(t *testing.T) {
	for about, breaks := range map[string]func(p *play){ // order-free: each for itself
		"it is near": func(p *play) {
			p.behind(farLoad)
			p.run(1, 0, 0)
			p.behind(9000)
		},
		"it has not told": func(p *play) {
			p.peers[2].Pace.Known = false
			p.r.Tick(1, p.peers)
		},
		"another one is far behind": func(p *play) {
			p.peers[1].Pace.Load = farLoad + 1
			p.r.Tick(1, p.peers)
		},
		"it came back with less": func(p *play) { p.behind(9_000_000) },
	} {
		p := newPlay(3, 0)
		p.behind(100_000)
		p.run(window-1, 3, 1)
		breaks(p)
		if p.run(window-1, 3, 1); len(p.r.Slow()) > 0 {
			t.Errorf("%s, and it is slow before another window", about)
		}
		if p.run(2, 3, 1); len(p.r.Slow()) == 0 {
			t.Errorf("%s, and it is not slow after another window", about)
		}
	}
	p := newPlay(3, 0)
	p.behind(900_000_000)
	for range standsMax { // it is judged, and catches up, again and again
		p.run((standsMax-1)*window, 3, 2)
		p.run(window, 1, 2)
	}
	if len(p.r.Slow()) > 0 {
		t.Error("it catches up now and then, and is slow")
	}
}

// TestSlowVotes: who is far too slow stops voting where three others can, and as many as make the copies wanted a
// majority (Q11); and votes again when it has kept up.
func TestSlowVotes(t *testing.T) {
	for _, c := range []struct {
		about            string
		voters, learners uint32
		change           func(p *play)
		want             []uint32
	}{
		{"of three: two could not lose one", 3, 0, nil, nil},
		{"of four", 4, 0, nil, []uint32{1, 2, 4}},
		{"of five", 5, 0, nil, []uint32{1, 2, 4}},
		{"a learner takes its place", 3, 1, nil, []uint32{1, 2, 4}},
		{"a witness takes its place", 3, 1, func(p *play) { p.peers[3].Witness = true }, []uint32{1, 2, 4}},
		{"a learner that is away", 3, 1, func(p *play) { p.peers[3].Silent = gone }, nil},
		{"one that never votes", 3, 1, func(p *play) { p.peers[3].Learner = true }, nil},
		{"three copies are wanted", 5, 0, func(p *play) { p.r = New(gone, 3) }, nil},
		{"three copies, and enough that vote", 6, 0, func(p *play) { p.r = New(gone, 3) },
			[]uint32{1, 2, 4, 5, 6}},
		{"one copy: two are not left", 3, 0, func(p *play) { p.r = New(gone, 1) }, nil},
		{"it ranks higher", 3, 1, func(p *play) { p.peers[2].Rank = 1 }, []uint32{1, 2, 4}},
		{"another one is on its way out", 5, 0, func(p *play) { p.peers[4].Silent = presentTicks + 1 }, nil},
	} {
		p := newPlay(c.voters, c.learners)
		if c.change != nil {
			c.change(p)
		}
		p.behind(9000)
		if got := p.run(window+1, 3, 1); !slices.Equal(got, c.want) || !p.r.IsSlow(3) {
			t.Errorf("%s: wants %v, not %v; slow are %v", c.about, got, c.want, p.r.Slow())
		}
	}
}

// TestSlowLeads: a leader that is far too slow is not to vote either.
func TestSlowLeads(t *testing.T) {
	p := newPlay(4, 0)
	p.behind(9000)
	p.run(window, 3, 1)
	if got := p.r.Tick(3, p.peers); !slices.Equal(got, []uint32{1, 2, 4}) {
		t.Errorf("wants %v", got)
	}
}

// TestSlowFills: who is far too slow votes rather than that too few do, and nobody takes its place again and again.
func TestSlowFills(t *testing.T) {
	p := newPlay(3, 1)
	for i := range p.peers { // member 4 has taken its place, and is gone now
		p.peers[i].Voter = p.peers[i].Member != 3
	}
	p.r.Inherit([]Slow{{3, 1}})
	p.behind(9000)
	p.run(gone, 3, 3)
	p.peers[3].Silent = gone
	if got := p.run(1, 3, 3); !slices.Equal(got, []uint32{1, 2, 3}) {
		t.Errorf("wants %v, and one of three is gone", got)
	}
	p.peers[3].Silent = 0
	if got := p.run(gone, 3, 3); got != nil {
		t.Errorf("wants %v, and the other one is back that votes", got)
	}
	for about, change := range map[string]func(x *Peer){ // order-free: each for itself
		"lacks much":  func(x *Peer) { x.Lag = LagMax + 1 },
		"never votes": func(x *Peer) { x.Learner = true },
	} {
		p.peers[3].Silent = gone
		p.peers = append(p.peers[:4], Peer{Member: 5})
		change(&p.peers[4])
		if got := p.run(gone+1, 3, 3); !slices.Equal(got, []uint32{1, 2, 3}) {
			t.Errorf("wants %v, and one that %s is no other", got, about)
		}
	}
	p = newPlay(3, 1) // of four two are slow: the others vote, and one of these
	p.r.Inherit([]Slow{{2, 1}, {3, 1}})
	p.behind(9000)
	if got := p.run(gone, 3, 3); !slices.Equal(got, []uint32{1, 2, 4}) {
		t.Errorf("wants %v, and two of three are slow", got)
	}
	p = newPlay(5, 1) // three copies are wanted
	p.r = New(gone, 3)
	p.r.Inherit([]Slow{{3, 1}})
	p.behind(9000)
	p.run(gone, 3, 3)
	p.peers[4].Silent = gone
	if got := p.run(1, 3, 3); !slices.Equal(got, []uint32{1, 2, 3, 4, 6}) {
		t.Errorf("wants %v, and one of five is gone", got)
	}
}

// recovered is after how many ticks near the end a member is not slow any more.
func (p *play) recovered(t *testing.T) int {
	t.Helper()
	p.behind(0)
	for n := 1; n < 100*window; n++ {
		if p.run(1, 1, 1); !p.r.IsSlow(3) {
			return n
		}
	}
	t.Fatal("it is slow for ever")
	return 0
}

// TestSlowRecovers: who is near for a window is not slow any more, later for each time that it was (Q10), and votes.
func TestSlowRecovers(t *testing.T) {
	p := newPlay(3, 2)
	for times, want := range []int{window, 2 * window, 4 * window, 8 * window, 16 * window, 16 * window} {
		p.behind(9000)
		p.run(window, 3, 1)
		if got := p.r.Slow(); !slices.Equal(got, []Slow{{3, times + 1}}) {
			t.Fatalf("slow are %v the %d. time", got, times+1)
		}
		if got := p.recovered(t); got != want {
			t.Errorf("after the %d. time it is slow for %d ticks, not %d", times+1, got, want)
		}
	}
	p = newPlay(3, 0)
	p.r.Inherit([]Slow{{3, 2}})
	p.behind(0)
	p.run(2*window-1, 1, 1)
	p.behind(nearLoad + 100)
	p.run(1, 0, 0)
	if got := p.recovered(t); got != 2*window {
		t.Errorf("it was behind for a moment, and is slow for %d ticks more, not %d", got, 2*window)
	}
	p.r.Inherit([]Slow{{3, 1}})
	p.peers[2].Pace.Known = false
	for range 2 * window {
		p.r.Tick(1, p.peers)
	}
	if !p.r.IsSlow(3) {
		t.Error("nothing is heard of it, and it is not slow any more")
	}
	if p.r.Reset(); p.r.IsSlow(3) {
		t.Error("who leads no longer says that it is slow")
	}
	// Of five that vote it is one again.
	p = newPlay(5, 0)
	p.peers[2].Voter, p.peers[4].Voter = false, false
	p.r.Inherit([]Slow{{3, 1}})
	p.behind(0)
	if got := p.run(window, 1, 1); !slices.Equal(got, []uint32{1, 2, 3, 4, 5}) {
		t.Errorf("wants %v", got)
	}
}
