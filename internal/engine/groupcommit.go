package engine

import "github.com/tuttidb/tutti/internal/writeset"

// groupCommit is how many sessions write, at all members, and how much comes of it. Own submissions gather accordingly,
// and a leader has proposals gather (ordering O4), where processors are scarce: many sessions lose little when a write
// of the log waits for some more of them, and all gain, because what a write and its frames cost is shared; one session
// would wait for nobody.
type groupCommit struct {
	recent [regularItems]author // the last ones, a ring
	lost   [regularItems]bool   // which of them lost
	heads  [regularItems]bool   // which of them began a batch
	begins bool                 // the next one does
	shares map[uint32]share     // of the members in it
	next   int
	count  map[author]int // how often each is in it
	losses int            // how many of them lost
	stuck  int            // of own sessions, see Stuck: about the average of the last stuckTicks, times its square
	own    int            // of how many that write regularly
	items  int            // since the last tick
	scarce bool           // see Engine.Strain
	rate   int            // items per tick, times regularSlow, of about the last regularSlow ticks
}

// author is a session of some member.
type author struct {
	member, slot uint32
}

// share is what of the last ones is of a member.
type share struct {
	items, batches int
}

const (
	regularItems = 128
	regularSlow  = 4
	// Where more than contended of the last ones lost, sessions meet on the same rows. Some of them then wait for locks
	// of those that gather, and cannot come: nobody waits for more than come in one contendedShare of the time.
	contended      = regularItems / 50
	contendedShare = 3
	// The same where more than one in stuckShare of the own sessions that write regularly is stuck, as an average of
	// some ticks.
	stuckShare = 8
	stuckTicks = 16
)

func newGroupCommit() groupCommit {
	return groupCommit{count: map[author]int{}, shares: map[uint32]share{}}
}

// add notes an item of a session, and whether it lost.
func (c *groupCommit) add(it *Item, lost bool) {
	old := c.recent[c.next]
	if c.count[old]--; c.count[old] <= 0 {
		delete(c.count, old)
	}
	c.share(old.member, -1, c.heads[c.next])
	if c.lost[c.next] {
		c.lost[c.next] = false
		c.losses--
	}
	if lost {
		c.lost[c.next] = true
		c.losses++
	}
	a := author{it.ID.Member, it.Slot}
	c.share(a.member, 1, c.begins)
	c.recent[c.next], c.heads[c.next], c.begins = a, c.begins, false
	c.next = (c.next + 1) % regularItems
	c.count[a]++
	c.items++
}

// share adds an item to a member's share, or takes one off; head: it began a batch.
func (c *groupCommit) share(member uint32, n int, head bool) {
	s := c.shares[member]
	if s.items += n; head {
		s.batches += n
	}
	if c.shares[member] = s; s.items <= 0 {
		delete(c.shares, member)
	}
}

// together is how many come together at a leader if each member waits for its own that are under way: one, and what
// the members' batches have beside their first. Where all write now and then that is one.
func (c *groupCommit) together() int {
	const one = 1 << 10
	n := one
	for _, s := range c.shares { // order-free: a sum
		n += one * (s.items - s.batches) / max(1, s.batches)
	}
	return n / one
}

// tick ends a unit of time.
func (c *groupCommit) tick() {
	c.rate += c.items - c.rate/regularSlow
	c.items = 0
}

// regular reports whether a session that is so often among the last ones writes three quarters as often as the
// average at least.
func (c *groupCommit) regular(n int) bool { return 4*n*len(c.count) >= 3*regularItems }

// regulars is how many sessions write three quarters as often as the average at least, at all members and at one.
// Nobody waits for the others: it would cost who writes more often more than is saved.
func (c *groupCommit) regulars(member uint32) (all, own int) {
	for a, n := range c.count { // order-free: they are counted
		if c.regular(n) {
			all++
			if a.member == member {
				own++
			}
		}
	}
	return all, own
}

// watch notes which sessions of a member are stuck.
func (c *groupCommit) watch(member uint32, slots []uint32) {
	_, own := c.regulars(member)
	n := 0
	for _, slot := range slots {
		if c.regular(c.count[author{member, slot}]) {
			n++
		}
	}
	c.stuck += stuckTicks*n - c.stuck/stuckTicks
	c.own += stuckTicks*own - c.own/stuckTicks
}

// contended reports whether sessions meet on the same rows: of different members, so that some lose, or of this one,
// so that some wait for others.
func (c *groupCommit) contended() bool {
	return c.losses > contended || stuckShare*(c.stuck/stuckTicks) > c.own/stuckTicks
}

// enough is how many transactions a write of the log waits for: a share of those who write regularly, and no more
// than come within a part of a tick; and how many a member's own batch waits for: for its part of these. A member
// that sent less would have the leader wait for what it keeps, and one that waited for more would keep what the
// leader waits for.
func (c *groupCommit) enough(member uint32, share, part int) (all, own int) {
	n, own := c.regulars(member)
	if n == 0 {
		return 0, 0
	}
	if c.contended() {
		part *= contendedShare
	}
	all = min((n+share/2)/share, c.rate/regularSlow/part)
	return all, (all*own + n - 1) / n
}

// Strain says what this member's processors and sessions suffer from; the owner calls it before each Tick. Scarce:
// processors are scarce, so that what is done together is worth waiting for. Stuck are the sessions of this member,
// by their slots, that wait for their database for long: for locks of others, mostly.
func (e *Engine) Strain(scarce bool, stuck []uint32) {
	e.groupCommit.scarce = scarce
	e.groupCommit.watch(e.o.Member, stuck)
}

// gather says for how many transactions proposals wait from now on; zero: for none.
func (e *Engine) gather() {
	all, own := 0, 0
	if e.groupCommit.scarce {
		all, own = e.groupCommit.enough(e.o.Member, e.o.GatherShare, e.o.GatherPart)
		all = min(all, e.groupCommit.together())
	}
	e.own.enough = own
	e.order.Gather(all)
}

// Proposer is the member that has made a proposal.
func Proposer(data []byte) uint32 {
	b, _ := batchHead(writeset.NewReader(data))
	return b.Member
}

// weigh is how many items a proposal has.
func weigh(data []byte) int {
	r := writeset.NewReader(data)
	batchHead(r)
	return r.Count(itemBytesMin)
}
