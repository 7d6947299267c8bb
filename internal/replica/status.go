package replica

// State is what a member is fit for.
type State string

// The states.
const (
	Joining    State = "joining" // its database lacks what was committed before its start
	NoLeader   State = "no leader"
	CatchingUp State = "catching up" // it serves, but has never been near the end of the order yet
	Synced     State = "synced"
	Stopping   State = "stopping" // it sends its clients away, and does not want to lead
	Halted     State = "halted"   // it cannot carry out an entry of the order
)

// Status is what members tell each other.
type Status struct {
	State State `json:"state"`
	// Incarnation is the one in which the member tells it; zero: it does not say.
	Incarnation uint64 `json:"incarnation"`
	Ordinal     uint64 `json:"ordinal"`
	Applied     uint64 `json:"applied"`
	Leader      uint32 `json:"leader"`
	// Volume and VolumeApplied are bytes, see engine.Volume.
	Volume        uint64 `json:"volume"`
	VolumeApplied uint64 `json:"volume_applied"`
	// DelayMicros is how much its own transactions are slowed, because of member Because.
	DelayMicros int64  `json:"delay_micros"`
	Because     uint32 `json:"because"`
	// Clients are its sessions in this database.
	Clients int `json:"clients"`
	// Hears are the members it has heard of lately, Links how many of them hear it as well.
	Hears []uint32 `json:"hears"`
	Links int      `json:"links"`
	// Lent are the copies of its database that others take, or have taken and not begun from yet.
	Lent []Loan `json:"lent,omitempty"`
	// At is when it tells this, by its own clock; zero: it does not say. Ways are those to the other members.
	At   int64 `json:"at,omitempty"`
	Ways []Way `json:"ways,omitempty"`

	// Slow are the members that are far too slow, if it leads.
	Slow []Slow `json:"slow,omitempty"`

	Lag Lag `json:"-"` // reckoned where it arrives
}

// Lag is what is ordered and not applied at a member.
type Lag struct{ Items, Bytes uint64 }

// Loan is a copy of a database that a member takes of another one's.
type Loan struct {
	Member uint32 `json:"member"` // to which it is lent
	Entry  uint64 `json:"entry"`  // of the log, behind which the copy begins at the earliest
	Open   bool   `json:"open"`   // it is being copied
}

// behind is how far s is behind what others, or s itself, know of the order.
func (s *Status) behind(ordinal, volume uint64) Lag {
	return Lag{Items: max(ordinal, s.Ordinal, s.Applied) - s.Applied,
		Bytes: max(volume, s.Volume, s.VolumeApplied) - s.VolumeApplied}
}

// Own is what a member knows of itself without the others.
type Own struct {
	Serves   bool // what was committed before its start is in its database
	Stopping bool
	Halted   bool

	Incarnation           uint64
	Leader                uint32 // of whom it knows that it leads; zero: nobody
	Ordinal, Applied      uint64
	Volume, VolumeApplied uint64
	DelayMicros           int64
	Because               uint32
	Clients               int
	Lent                  []Loan
}

// state is RE3; near: the member is near the end of the order, or was once.
func (o *Own) state(near bool) State {
	switch {
	case o.Halted:
		return Halted
	case !o.Serves:
		return Joining
	case o.Stopping:
		return Stopping
	case o.Leader == 0:
		return NoLeader
	case near:
		return Synced
	}
	return CatchingUp
}
