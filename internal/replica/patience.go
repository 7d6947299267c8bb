package replica

// Order is what patience asks of the order about an own submission. The engine is one.
type Order interface {
	// Sent is how many bytes of it have left in parts.
	Sent(seq uint64) int
	// Withdraw takes it back, and reports whether that worked: then it was not proposed, and never will be.
	Withdraw(seq uint64) bool
	// Undecided reports whether it was proposed and the part of the order that is known here does not hold it.
	Undecided(seq uint64) bool
	// Behind is how much is decided and not taken in here yet.
	Behind() uint64
}

// Patience is how long a COMMIT, or a definition, waits for its place in the order. The zero value waits for ever.
//
//	         was it proposed?
//	        no |            | yes
//	NotOrdered <            > is it decided, may it be, does it still leave?
//	                      no |                  | yes
//	                 Unknown <                  > GoOn
type Patience struct {
	most int64 // zero: for ever
	over int64 // when it ends next
	sent int   // bytes that had left when it ended last
}

// Wait says how a wait goes on.
type Wait uint8

// The ways.
const (
	GoOn       Wait = iota
	NotOrdered      // it was taken back: it is certainly not committed
	Unknown         // no majority answers: the log decides, and nobody waits for it any more
)

// NewPatience begins to wait. At most zero it waits for ever.
func NewPatience(now, most int64) Patience {
	if most <= 0 {
		return Patience{}
	}
	return Patience{most: most, over: now + most}
}

// Next is when to look; false if it waits for ever.
func (p *Patience) Next() (at int64, ends bool) {
	if planted == "patience-at-once" {
		return p.over - p.most, p.most > 0
	}
	return p.over, p.most > 0
}

// Look decides how the wait goes on (RE4). What goes on is looked at again after as long, counted from when the wait
// was to end, not from when it was looked at: who looks at each multiple of its time is never too early.
func (p *Patience) Look(now int64, o Order, seq uint64) Wait {
	if p.most == 0 || now < p.over && planted != "patience-at-once" {
		return GoOn
	}
	p.over += ((now-p.over)/p.most + 1) * p.most
	sent := p.sent
	p.sent = o.Sent(seq)
	switch {
	case p.sent > sent: // a large one, which still leaves
	case o.Withdraw(seq):
		return NotOrdered
	case o.Undecided(seq) && (o.Behind() == 0 || planted == "patience-not-behind") && planted != "patience-for-ever":
		return Unknown
	}
	return GoOn
}
