package process

import "time"

// Binding keeps a group of processes that wake each other for every message, this one and a PostgreSQL server, on one processor
// while what they do fits on it. Who is woken on his waker's processor runs as soon as that one waits; to wake a processor that is
// idle takes a virtual machine 30 µs, longer than a short statement. It is for several groups on one machine: a group alone
// would leave the other processors idle until it is seen to need them, half a second later.
type Binding struct {
	Number int // of this group among those of the machine, from 0

	processors []int // that this process may use
	home       int   // index of the one the group is on; free: it may use all
	waits      int   // measurements until it is bound again
	failed     int   // times in a row that it had to be let go soon
	bound      int   // measurements since it was bound
}

const (
	free = -1

	bindEvery   = 300 * time.Millisecond // between two measurements
	bindLater   = 10                     // measurements after it had to be let go; twice as many after each further time
	bindDoubled = 4                      // times that is doubled at most
	bindProven  = 20                     // measurements after which to have bound it was right
	bindUse     = 0.75                   // of a processor a group may use to be bound
	bindSurplus = 0.45                   // the same, where there are more groups than processors
	bindFull    = 0.05                   // of a processor that is idle at most when it is full
	bindElse    = 0.1                    // of a processor that others have idle, all together, for the group to be let go
	bindBetter  = 0.3                    // of a processor that has to be gained by a move
	bindBest    = 0.1                    // the same, for a group that has none of its own
)

// next says which processor the group should be on, an index, or free. idle: the part of each processor that was idle; use: what
// the group used, in processors. The first groups have one processor each, and leave it only for one with much more room. Those that
// are left go where there is most room, its own use counted, while they do little, as members do at which nobody writes; they use
// all when they do more. A group is let go when its processor is full and others are idle. Where all
// are full it goes back to the one it has by its number: groups that somebody else drove from theirs would all stay on another.
func (b *Binding) next(idle []float64, use float64) int {
	own, most, better := b.Number%len(idle), bindUse, bindBetter
	surplus := b.Number >= len(idle)
	if surplus {
		most, better = bindSurplus, bindBest
	}
	if b.home == free {
		if waits := b.waits; waits > 0 || use > most {
			b.waits = max(waits-1, 0)
			return free
		}
		b.bound = 0
		return roomiest(idle, own, 0, better)
	}
	if b.bound++; b.bound == bindProven {
		b.failed = 0
	}
	if surplus && use > most {
		return free
	}
	if to := roomiest(idle, b.home, use, better); to != b.home {
		return to
	}
	rest := -idle[b.home]
	for _, i := range idle {
		rest += i
	}
	switch {
	case idle[b.home] >= bindFull:
		return b.home
	case rest > bindElse:
		b.waits = bindLater << b.failed
		b.failed = min(b.failed+1, bindDoubled)
		return free
	}
	return own
}

// roomiest is the processor with the most room for a group that uses that much, or home if none has better more than that.
func roomiest(idle []float64, home int, use, better float64) int {
	best, room := home, idle[home]+better
	for i := range idle {
		if i != home && idle[i]-use > room {
			best, room = i, idle[i]-use
		}
	}
	return best
}
