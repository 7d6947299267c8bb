package grants

import (
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/schemalock"
)

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
	answers <-chan schemalock.Answer, round uint64, members []uint32, ask func(member uint32) (told, young bool),
	deadline time.Time, stop func() bool,
) (ordinal uint64, end ending) {
	var asked []uint32
	for _, m := range members {
		if told, young := ask(m); told || young {
			asked = append(asked, m)
		}
	}
	look := time.NewTicker(interval)
	defer look.Stop()
	for again := time.Now().Add(renewal); len(asked) > 0; {
		select {
		case a := <-answers:
			if a.Round != round {
				continue
			}
			if a.Taken {
				return 0, taken
			}
			ordinal = max(ordinal, a.Ordinal)
			asked = slices.DeleteFunc(asked, func(m uint32) bool { return m == a.From })
		case now := <-look.C:
			switch {
			case stop():
				return 0, stopped
			case now.After(deadline):
				return 0, late
			case now.After(again): // it, or the answer, may have been lost
				asked = slices.DeleteFunc(asked, func(m uint32) bool {
					told, _ := ask(m)
					return !told
				})
				again = now.Add(renewal)
			}
		}
	}
	return ordinal, granted
}
