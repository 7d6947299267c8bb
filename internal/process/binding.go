package process

import "time"

// Binding keeps a group of processes that wake each other for every message, this one and a PostgreSQL server, on one
// processor while what they do fits on it. Who is woken on his waker's processor runs as soon as that one waits; to
// wake a processor that is idle takes a virtual machine 30 µs, longer than a short statement. It is for several groups
// on one machine: a group alone would leave the other processors idle until it is seen to need them, half a second
// later.
type Binding struct {
	Number int // of this group among those of the machine, from 0

	processors []int   // that this process may use
	home       int     // index of the one the group is on; free: it may use all
	waits      int     // measurements until it is bound again
	failed     int     // times in a row that it had to be let go soon
	bound      int     // measurements since it was bound
	used       float64 // what it used when it was let go
}

const (
	free = -1

	bindEvery  = 300 * time.Millisecond // between two measurements
	bindSeldom = 4 * bindEvery          // the same while the group uses less than bindIdle of a processor
	bindIdle   = 0.05
	// measurements after it had to be let go; twice as many after each further time
	bindLater   = 10
	bindDoubled = 4    // times that is doubled at most
	bindChanged = 0.8  // of what it used then, less than which is another load that need not wait
	bindProven  = 20   // measurements after which to have bound it was right
	bindUse     = 0.75 // of a processor a group may use to be bound
	bindSurplus = 0.45 // the same, where there are more groups than processors
	bindLittle  = 0.1  // of a processor, less than which it is no matter where a group is
	bindFull    = 0.05 // of a processor that is idle at most when it is full
	// of a processor that others have idle, all together, for the group to be let go
	bindElse = 0.1
	bindBest = 0.1 // of a processor that has to be gained by a move
)

// next says which processor the group should be on, an index, or free. idle: the part of each processor that was idle;
// use: what the group used, in processors. The first groups have one processor each; a group is let go when its
// processor is full and others are idle. Those that are left have none of their own: nextSurplus.
func (b *Binding) next(idle []float64, use float64) int {
	own := b.Number % len(idle)
	if b.Number >= len(idle) {
		return b.nextSurplus(idle, own, use)
	}
	elsewhere := -idle[own]
	for _, i := range idle {
		elsewhere += i
	}
	crowded := idle[own] < bindFull && elsewhere > bindElse
	if b.home == free {
		waits := b.waits
		b.waits = max(waits-1, 0)
		if crowded || use > bindUse || waits > 0 && use >= bindChanged*b.used {
			return free
		}
		b.bound = 0
		return own
	}
	if b.bound++; b.bound == bindProven {
		b.failed = 0
	}
	if !crowded {
		return own
	}
	if use > bindLittle {
		b.waits, b.used = bindLater<<b.failed, use
		b.failed = min(b.failed+1, bindDoubled)
	}
	return free
}

// nextSurplus is next for a group that has no processor of its own. It goes where there is most room, its own use
// counted, while it does little, as a member does at which nobody writes; it uses all when it does more. Where all
// processors are full it goes back to the one it has by its number: groups that somebody else drove away would all stay
// on another.
func (b *Binding) nextSurplus(idle []float64, own int, use float64) int {
	switch {
	case use > bindSurplus:
		return free
	case b.home == free:
		return roomiest(idle, own, 0)
	}
	to := roomiest(idle, b.home, use)
	if idle[to] < bindFull {
		return own
	}
	return to
}

// roomiest is the processor with the most room for a group that uses that much, or home if none has much more.
func roomiest(idle []float64, home int, use float64) int {
	best, room := home, idle[home]+bindBest
	for i := range idle {
		if i != home && idle[i]-use > room {
			best, room = i, idle[i]-use
		}
	}
	return best
}
