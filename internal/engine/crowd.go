package engine

import "github.com/tuttidb/tutti/internal/writeset"

// crowd is how many sessions write, at all members, and how much comes of it. Own submissions gather accordingly, and a
// leader has proposals gather (ordering O4), where processors are scarce: many sessions lose little when a write of the log
// waits for some more of them, and all gain, because what a write and its frames cost is shared; one session would wait for nobody.
type crowd struct {
	recent [crowdItems]author // the last ones, a ring
	next   int
	count  map[author]int // how often each is in it
	of     map[uint32]int // how many sessions of each member are
	items  int            // since the last tick
	rate   int            // items per tick, times crowdSlow, of about the last crowdSlow ticks
}

// author is a session of some member.
type author struct {
	member, slot uint32
}

const (
	crowdItems = 128
	crowdSlow  = 4
)

func newCrowd() crowd { return crowd{count: map[author]int{}, of: map[uint32]int{}} }

// add notes an item of a session.
func (c *crowd) add(it *Item) {
	if old := c.recent[c.next]; c.count[old] > 1 {
		c.count[old]--
	} else if c.count[old] == 1 {
		delete(c.count, old)
		c.of[old.member]--
	}
	a := author{it.ID.Member, it.Slot}
	c.recent[c.next], c.next = a, (c.next+1)%crowdItems
	if c.count[a]++; c.count[a] == 1 {
		c.of[a.member]++
	}
	c.items++
}

// tick ends a unit of time.
func (c *crowd) tick() {
	c.rate += c.items - c.rate/crowdSlow
	c.items = 0
}

// enough is how many transactions a write of the log waits for: a share of those who write, so that the others' statements
// go on meanwhile, and no more than come within a part of a tick.
func (c *crowd) enough(share, part int) int {
	return min((len(c.count)+share/2)/share, c.rate/crowdSlow/part)
}

// Scarce says whether processors are scarce at this member, so that what is done together is worth waiting for.
func (e *Engine) Scarce(yes bool) { e.scarce = yes }

// gather tells the order what is enough.
func (e *Engine) gather() { e.order.Gather(e.enough()) }

// enough is for how many transactions a write of the log waits; zero if it waits for none.
func (e *Engine) enough() int {
	if !e.scarce {
		return 0
	}
	return e.crowd.enough(e.o.GatherShare, e.o.GatherPart)
}

// ownEnough is for how many own submissions a batch waits: for those of all sessions here that write, but for no more than is
// enough for a write of the log. A member that sent less would have the leader wait for what it keeps.
func (e *Engine) ownEnough() int {
	return min(e.enough(), e.crowd.of[e.o.Member])
}

// weigh is how many items a proposal has.
func weigh(data []byte) int {
	r := writeset.NewReader(data)
	batchHead(r)
	return r.Count(itemBytesMin)
}
