package engine

import "github.com/tuttidb/tutti/internal/writeset"

// crowd is how many sessions write, at all members, and how much comes of it. Own submissions gather accordingly, and a
// leader has proposals gather (ordering O4), where processors are scarce: many sessions lose little when a write of the log
// waits for some more of them, and all gain, because what a write and its frames cost is shared; one session would wait for nobody.
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

func newCrowd() crowd {
	return crowd{count: map[author]int{}}
}

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

// regulars is how many sessions write three quarters as often as the average at least, at all members and at one. Nobody waits
// for the others: it would cost who writes more often more than is saved.
func (c *crowd) regulars(member uint32) (all, own int) {
	for a, n := range c.count { // order-free: they are counted
		if 4*n*len(c.count) >= 3*crowdItems {
			all++
			if a.member == member {
				own++
			}
		}
	}
	return all, own
}

// enough is how many transactions a write of the log waits for: a share of those who write regularly, and no more than come
// within a part of a tick; and how many a member's own batch waits for: for all of its own who do, and for no more. A member
// that sent less would have the leader wait for what it keeps.
func (c *crowd) enough(member uint32, share, part int) (all, own int) {
	all, own = c.regulars(member)
	all = min((all+share/2)/share, c.rate/crowdSlow/part)
	return all, min(own, all)
}

// Scarce says whether processors are scarce at this member, so that what is done together is worth waiting for.
func (e *Engine) Scarce(yes bool) { e.scarce = yes }

// gather says for how many transactions proposals wait from now on; zero: for none.
func (e *Engine) gather() {
	all := 0
	if e.ownEnough = 0; e.scarce {
		all, e.ownEnough = e.crowd.enough(e.o.Member, e.o.GatherShare, e.o.GatherPart)
	}
	e.order.Gather(all)
}

// weigh is how many items a proposal has.
func weigh(data []byte) int {
	r := writeset.NewReader(data)
	batchHead(r)
	return r.Count(itemBytesMin)
}
