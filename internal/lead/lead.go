package lead

import "slices"

// Options say how much evidence is wanted. A round is the interval of the calls of Next.
type Options struct {
	// SettleRounds is how long a new leader decides nothing; zero means 5.
	SettleRounds int
	// ReachRounds is for how many rounds a member must reach more others than the leader; zero means 4.
	ReachRounds int
	// WindowRounds is how many rounds make a window; zero means 7. In Windows of them in
	// succession, zero means 2, one member must have written SharePercent of all transactions,
	// zero means 75, and at least WroteMin, zero means 20.
	WindowRounds, Windows int
	SharePercent          uint64
	WroteMin              uint64
	// Where ways are known, commits must take GainPercent less, zero means 15, and GainMin each, in the unit of Input's
	// Ways, if another member led, in Windows in succession. At less than FewMin transactions in a window, zero
	// means 5, all members count the same, and IdleWindows are wanted, zero means 14.
	GainPercent, GainMin int64
	FewMin               uint64
	IdleWindows          int
	// RestRounds is how long nothing is decided after a decision that came to nothing, and after each further one twice
	// as long, up to 64 times; zero means 33.
	RestRounds int
}

func (o *Options) defaults() {
	for _, d := range []struct {
		v *int
		d int
	}{{&o.SettleRounds, 5}, {&o.ReachRounds, 4}, {&o.WindowRounds, 7}, {&o.Windows, 2}, {&o.RestRounds, 33},
		{&o.IdleWindows, 14}} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	if o.SharePercent == 0 {
		o.SharePercent = 75
	}
	if o.WroteMin == 0 {
		o.WroteMin = 20
	}
	if o.GainPercent == 0 {
		o.GainPercent = 15
	}
	if o.FewMin == 0 {
		o.FewMin = 5
	}
}

// Member is what is known of one member.
type Member struct {
	ID uint32
	// Links is how many others it hears that hear it as well.
	Links int
	// Fit: the deciding member hears it and is heard by it, and it lags behind nobody.
	Fit bool
	// Wrote is how many transactions of its own were ordered. It only grows.
	Wrote uint64
}

// Input is the situation of a round. Members are always the same, in the same order, the
// deciding one among them.
type Input struct {
	Self    uint32
	Leads   bool // Self does
	Halted  bool // Self cannot go on with what is ordered, and so should not decide what is
	Members []Member
	// Votes says which of Members do, Ways how far they are from each other; nil: nobody knows.
	Votes []bool
	Ways  Ways
}

// Reason is why leadership is handed over.
type Reason uint8

// The reasons; None comes with member zero.
const (
	None Reason = iota
	Reach
	Writes
	Halted
	Near
)

func (r Reason) String() string {
	return [...]string{"none", "it reaches more members", "most is written there", "this member is halted",
		"commits take less time if it leads"}[r]
}

// Rule is what one member remembers between rounds.
type Rule struct {
	o      Options
	rounds int // as leader, since this member became it

	reaching    uint32 // the member that has reached most others, for so many rounds
	reachingFor int

	wrote      []uint64 // when the window began
	writing    uint32   // the member that wrote most in the last windows, so many
	writingFor int

	nearer nearer

	decided int // how often, as this leader: what it decided came to nothing
	rest    int // rounds before it decides again
}

// New returns a Rule that knows nothing yet.
func New(o Options) *Rule {
	o.defaults()
	return &Rule{o: o}
}

// Next takes a round's situation, and says to which member leadership should be handed over now,
// if to any. Who still leads when it asks again has not been able to: that costs time in which nothing is ordered, so
// it is tried again only after a while.
func (r *Rule) Next(in Input) (uint32, Reason) {
	at := slices.IndexFunc(in.Members, func(m Member) bool { return m.ID == in.Self })
	if !in.Leads || at < 0 {
		*r = Rule{o: r.o}
		return 0, None
	}
	r.rounds++
	self := in.Members[at]
	reaching, near, writing := r.reach(self, in), uint32(0), uint32(0)
	if wrote := r.window(in); wrote != nil {
		near, writing = r.near(at, &in, wrote), r.writes(in, wrote)
	}
	to, why := uint32(0), None
	switch {
	case r.rounds <= r.o.SettleRounds:
	case r.rest > 0:
		r.rest--
	case in.Halted:
		to, why = Heir(in), Halted
	case reaching != 0:
		to, why = reaching, Reach
	case near != 0:
		to, why = near, Near
	case writing != 0 && mayLead(self, in, writing) && !r.worse(at, &in, writing):
		to, why = writing, Writes
	}
	if to == 0 {
		why = None
	} else {
		r.rest = r.o.RestRounds << min(r.decided, 6)
		r.decided++
	}
	return to, why
}

// Heir names who should lead when the deciding member stops: of the fit ones who reaches most others, of these who has
// written most, of these the first; zero if there is none, or if Self does not lead.
func Heir(in Input) uint32 {
	best := Member{Links: -1}
	for _, m := range in.Members {
		if m.Fit && m.ID != in.Self && (m.Links > best.Links || m.Links == best.Links && m.Wrote > best.Wrote) {
			best = m
		}
	}
	if !in.Leads {
		return 0
	}
	return best.ID
}

// mayLead reports whether a member loses nobody whom the leader reaches (L2).
func mayLead(self Member, in Input, id uint32) bool {
	return slices.ContainsFunc(in.Members, func(m Member) bool {
		return m.ID == id && m.ID != self.ID && m.Fit &&
			m.Links >= self.Links
	})
}

// reach follows who reaches most others, and more than the leader, and names it once that has been so for long enough.
// Of equal ones it is the first.
func (r *Rule) reach(self Member, in Input) uint32 {
	best := self
	for _, m := range in.Members {
		if m.Fit && m.Links > best.Links {
			best = m
		}
	}
	if best.ID != r.reaching {
		r.reaching, r.reachingFor = best.ID, 0
	}
	if r.reachingFor++; best.ID == self.ID || r.reachingFor < r.o.ReachRounds {
		return 0
	}
	return best.ID
}

// window gives what each member has written in the window that ends now; nil if none does.
func (r *Rule) window(in Input) (wrote []uint64) {
	if r.wrote != nil && (r.rounds-1)%r.o.WindowRounds != 0 {
		return nil
	}
	if len(r.wrote) == len(in.Members) {
		for i, m := range in.Members {
			wrote = append(wrote, m.Wrote-r.wrote[i])
		}
	} else { // members have come or gone
		r.writing, r.writingFor, r.nearer = 0, 0, nearer{}
	}
	r.wrote = r.wrote[:0]
	for _, m := range in.Members {
		r.wrote = append(r.wrote, m.Wrote)
	}
	return wrote
}

// writes follows who writes, window by window, and names who wrote nearly everything in the last ones.
func (r *Rule) writes(in Input, wrote []uint64) uint32 {
	most, n, all := uint32(0), uint64(0), uint64(0)
	for i, d := range wrote {
		if all += d; d > n {
			most, n = in.Members[i].ID, d
		}
	}
	if n < r.o.WroteMin || n*100 < all*r.o.SharePercent {
		most = 0
	}
	if most != r.writing {
		r.writing, r.writingFor = most, 0
	}
	if r.writingFor++; most == 0 || r.writingFor < r.o.Windows {
		return 0
	}
	return most
}
