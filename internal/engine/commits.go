package engine

import "math"

// commit is an own transaction that is in the database. If its session did not commit it, its
// rows came when nobody knows who had the locks: its order is then the largest there is. A definition
// came like what others have ordered.
type commit struct {
	seq, ordinal, order uint64
	added               uint64 // its order for rows to which it has added, if that is known
	serial              bool   // SERIALIZABLE, committed by its session, without definitions
	group               uint64 // which it was in; it is zero if it was committed ahead of its own
}

const (
	orderOrphan  = math.MaxUint64
	orderApplier = math.MaxUint64 - 1
)

// commits remembers the latest of them: which came before a lock, and which took it away.
type commits struct {
	order     map[uint64]uint64 // by sequence
	added     map[uint64]uint64 // by sequence, of those that have added to rows
	list      []commit          // by ordinal
	forgotten uint64            // the largest order that is not remembered
	orphaned  uint64            // the last ordinal of an orphan or a definition that is not remembered
}

const commitsMax = 1 << 16

// add remembers c, and forgets what is too old or what certification has forgotten, up to floor.
func (c *commits) add(x commit, floor uint64) {
	if c.order == nil {
		c.order, c.added = map[uint64]uint64{}, map[uint64]uint64{}
	}
	c.order[x.seq] = x.order
	if x.added > 0 {
		c.added[x.seq] = x.added
	}
	c.list = append(c.list, x)
	for i := len(c.list) - 1; i > 0 && c.list[i-1].ordinal > x.ordinal; i-- {
		c.list[i-1], c.list[i] = c.list[i], c.list[i-1]
	}
	n := 0
	for ; n < len(c.list) && (c.list[n].ordinal <= floor || len(c.list)-n > commitsMax); n++ {
		delete(c.order, c.list[n].seq)
		delete(c.added, c.list[n].seq)
		if c.list[n].order >= orderApplier {
			c.orphaned = c.list[n].ordinal
		} else {
			c.forgotten = max(c.forgotten, c.list[n].order, c.list[n].added)
		}
	}
	c.list = c.list[n:]
}

// lostSince reports whether a transaction after base may have come here without its session.
func (c *commits) lostSince(base uint64) bool {
	for i := len(c.list) - 1; i >= 0 && c.list[i].ordinal > base; i-- {
		if c.list[i].order == orderOrphan {
			return true
		}
	}
	return c.orphaned > base
}

// orderly reports whether a transaction was SERIALIZABLE, its session has committed it, and no such transaction that
// was ordered later can have been committed before.
func (c *commits) orderly(seq uint64) bool {
	for i := len(c.list) - 1; i >= 0; i-- {
		x := &c.list[i]
		if x.seq != seq {
			continue
		}
		for _, y := range c.list[i+1:] {
			if y.serial && (y.group == 0 || y.group == x.group) {
				return false
			}
		}
		return x.serial
	}
	return false
}

// precedes says whether an own transaction was committed before another one collected, whose order
// is larger than all that are forgotten.
func (c *commits) precedes(seq, ordinal, order uint64) bool {
	if o, ok := c.order[seq]; ok {
		return o < order
	}
	return ordinal > c.orphaned
}

// addedBefore says whether an own transaction had added to its rows before another one collected.
func (c *commits) addedBefore(seq, order uint64) bool {
	o, ok := c.added[seq]
	return ok && o < order
}
