package grants

import (
	"slices"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/schemalock"
)

// answersMax is how many wait to be read; there is one of each member, and again if it was asked again.
const answersMax = 16

// answers are those of the other members to who asks for a lock.
type answers struct {
	mu   sync.Mutex
	list []schemalock.Answer
	came chan struct{} // capacity 1
}

func newAnswers() *answers { return &answers{came: make(chan struct{}, 1)} }

// put adds one.
func (x *answers) put(a schemalock.Answer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.list) == answersMax { // it is a duplicate
		return
	}
	x.list = append(x.list, a)
	select {
	case x.came <- struct{}{}:
	default:
	}
}

// take gives those that have come.
func (x *answers) take() (list []schemalock.Answer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	list, x.list = x.list, nil
	return list
}

// ending is how asking for a lock ends.
type ending uint8

const (
	granted ending = iota
	taken          // a session of another member comes first, and it was asked not to wait
	late           // a member has not granted it
	stopped        // it is wanted no longer
)

// gather asks the members that can be heard, again and again, and waits for their answers (H4). It gives the last
// ordinal that one of them told.
func gather(
	clock admission.Clock, answers *answers, round uint64, members []uint32,
	ask func(member uint32) (told, unheard bool), deadline time.Duration, stop func() bool,
) (ordinal uint64, end ending) {
	var asked []uint32
	for _, m := range members {
		if told, unheard := ask(m); told || unheard {
			asked = append(asked, m)
		}
	}
	for again := clock.Now() + Renewal; len(asked) > 0; {
		clock.Rest(interval, answers.came)
		for _, a := range answers.take() {
			if a.Round != round && planted != "grant-of-another-round" {
				continue
			}
			if a.Taken {
				return 0, taken
			}
			ordinal = max(ordinal, a.Ordinal)
			asked = slices.DeleteFunc(asked, func(m uint32) bool { return m == a.From })
		}
		switch now := clock.Now(); {
		case len(asked) == 0:
		case stop():
			return 0, stopped
		case now > deadline:
			return 0, late
		case now > again: // it, or the answer, may have been lost
			asked = slices.DeleteFunc(asked, func(m uint32) bool {
				told, _ := ask(m)
				return !told
			})
			again = now + Renewal
		}
	}
	return ordinal, granted
}
