package replica

// Contact is when something came last of each member, whatever it was: for all databases, which share a connection.
// Not safe for concurrent use.
type Contact struct {
	heard []int64 // by the member's number: when, plus one; zero: nothing came, or the connection is lost
}

// NewContact makes one for members of these numbers at most, of which nothing has come yet.
func NewContact(number uint32) Contact { return Contact{heard: make([]int64, number+1)} }

// Heard notes that something came of a member.
func (c *Contact) Heard(now int64, member uint32) { c.heard[member] = now + 1 }

// Lost notes that the connection to a member is lost.
func (c *Contact) Lost(member uint32) { c.heard[member] = 0 }

// Fresh reports whether something came of a member less than long ago.
func (c *Contact) Fresh(now, long int64, member uint32) bool {
	at := c.heard[member]
	return at > 0 && now-(at-1) < long
}

// Reach is how much a member hears of those that decide.
type Reach struct {
	Members int  // that vote
	Heard   int  // of which something came lately, the member itself included if it votes
	Led     bool // a leader is known, and is one of these
}

// Spare reports whether the others that are heard are a majority of those that vote.
func (r Reach) Spare() bool { return 2*(r.Heard-1) > r.Members }

// Reach counts the members of which something came less than long ago.
func (c *Contact) Reach(now, long int64, self, leader uint32, members []uint32) Reach {
	r := Reach{Members: len(members)}
	for _, m := range members {
		if m == self || c.Fresh(now, long, m) {
			r.Heard++
			r.Led = r.Led || m == leader
		}
	}
	return r
}

// Standing is what decides whether clients should be sent to a member.
type Standing struct {
	Serves   bool // clients, by now
	Stopping bool
	Halted   bool
	Slow     bool // far too slow, as the leader has found
	Reach
	Lag uint64 // transactions that are ordered and not applied there
	Age int64  // of what is read there, at most
}

// Want is what a client is to do: write, or read. A bound that is nil is none.
type Want struct {
	Reads  bool
	LagMax *uint64
	AgeMax *int64
}

// bounded reports whether it is to read, and says how old that may be.
func (w *Want) bounded() bool { return w.Reads && (w.LagMax != nil || w.AgeMax != nil) }

// Refusal is why clients should not be sent to a member.
type Refusal uint8

// The refusals, the first one that holds.
const (
	Ready Refusal = iota
	IsStopping
	IsHalted
	IsStarting
	Leaderless
	Minority
	IsSlow
	Lags
	Old
)

// Refuses says why clients should not be sent to a member (RE8). One that is far too slow is good for reads with a
// bound that it keeps.
func (s *Standing) Refuses(w Want) Refusal {
	switch {
	case s.Stopping:
		return IsStopping
	case s.Halted:
		return IsHalted
	case !s.Serves:
		return IsStarting
	case !w.Reads && !s.Led:
		return Leaderless
	case !w.Reads && 2*s.Heard <= s.Members && planted != "ready-without-majority":
		return Minority
	case s.Slow && !w.bounded():
		return IsSlow
	case w.LagMax != nil && s.Lag > *w.LagMax && planted != "lag-unbounded":
		return Lags
	case w.AgeMax != nil && s.Age > *w.AgeMax:
		return Old
	}
	return Ready
}
