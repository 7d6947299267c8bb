package process

import "time"

// Binding keeps a group of processes that wake each other for every message, this one and a PostgreSQL server, on one processor
// while what they do fits on it. Who is woken on his waker's processor runs as soon as that one waits; to wake a processor that is
// idle takes a virtual machine 30 µs, longer than a short statement. It is for several groups on one machine: a group alone
// would leave the other processors idle until it is seen to need them, half a second later.
type Binding struct {
	processors []int // that this process may use
	home       int   // index of the one the group is on; free: it may use all
	waits      int   // measurements until it is bound again
}

const (
	free = -1

	bindEvery   = 300 * time.Millisecond // between two measurements
	bindLater   = 10                     // measurements after it needed more than one
	bindUse     = 0.75                   // of a processor a group may use to be bound
	bindSurplus = 0.45                   // the same, where there are more groups than processors
	bindFull    = 0.05                   // of a processor that is idle at most when it is full
	bindElse    = 0.2                    // of a processor that others have idle, all together, for the group to be let go
	bindBetter  = 0.3                    // of a processor that has to be gained by a move
	bindBest    = 0.1                    // the same, for a group that has none of its own
)

// next says which processor the group should be on, an index, or free. idle: the part of each processor that was idle; use: what
// the group used, in processors; number: of the group among those of the machine. The first groups have one processor each, and leave
// it only for one with much more room. Those that are left go where there is most room, its own use counted, while they do little,
// as members do at which nobody writes; they use all when they do more.
func (b *Binding) next(idle []float64, use float64, number int) int {
	own, most, better := number%len(idle), bindUse, bindBetter
	if number >= len(idle) {
		most, better = bindSurplus, bindBest
	}
	if b.home == free {
		if waits := b.waits; waits > 0 || use > most {
			b.waits = max(waits-1, 0)
			return free
		}
		return roomiest(idle, own, 0, better)
	}
	if number >= len(idle) && use > most {
		return free
	}
	if to := roomiest(idle, b.home, use, better); to != b.home {
		return to
	}
	rest := -idle[b.home]
	for _, i := range idle {
		rest += i
	}
	if idle[b.home] < bindFull && rest > bindElse {
		b.waits = bindLater
		return free
	}
	return b.home
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
