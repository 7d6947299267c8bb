package engine

import "github.com/tuttidb/tutti/internal/writeset"

// crowd is how many sessions write, at all members, and how much comes of it. A leader has proposals gather accordingly
// (ordering O4), where processors are scarce: many sessions lose little when a write of the log waits for some more of them,
// and all gain, because what a write and its frames cost is shared; one session would wait for nobody.
type crowd struct {
	recent [crowdItems]author // the last ones, a ring
	next   int
	count  map[author]int // how often each is in it
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

func newCrowd() crowd { return crowd{count: map[author]int{}} }

// add notes an item of a session.
func (c *crowd) add(it *Item) {
	old := c.recent[c.next]
	if c.count[old]--; c.count[old] <= 0 {
		delete(c.count, old)
	}
	a := author{it.ID.Member, it.Slot}
	c.recent[c.next], c.next = a, (c.next+1)%crowdItems
	c.count[a]++
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
func (e *Engine) gather() {
	n := 0
	if e.scarce {
		n = e.crowd.enough(e.o.GatherShare, e.o.GatherPart)
	}
	e.order.Gather(n)
}

// weigh is how many items a proposal has.
func weigh(data []byte) int {
	r := writeset.NewReader(data)
	batchHead(r)
	return r.Count(itemBytesMin)
}
