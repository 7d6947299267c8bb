package admission

import (
	"time"

	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/wire"
)

// largeLook is how often one that waits looks whether it still wants to.
const largeLook = 20 * time.Millisecond

// Larges lets a node keep only some large transactions at once for the sessions of all databases: each takes several
// times its size in memory. The others wait in the order of their coming; their backends are not read from meanwhile.
type Larges struct {
	slots chan struct{}
	waits *metrics.Counter // how often one waited
}

// NewLarges lets the sessions of a node keep so many at once.
func NewLarges(most int, waits *metrics.Counter) *Larges {
	return &Larges{slots: make(chan struct{}, most), waits: waits}
}

// Enter waits for its turn, for as long as most, and until over gives a reason not to. Without an error, Leave must
// follow.
func (l *Larges) Enter(most time.Duration, over func() *wire.SQLError) *wire.SQLError {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	l.waits.Add(1)
	look := time.NewTicker(largeLook)
	defer look.Stop()
	for began := time.Now(); ; {
		select {
		case l.slots <- struct{}{}:
			return nil
		case <-look.C:
		}
		if why := over(); why != nil {
			return why
		}
		if time.Since(began) > most {
			return wire.Errorf(wire.CodeConfigurationLimit,
				"%d other large transactions are under way at this member (large_transactions)", cap(l.slots)).
				WithHint("Try again, or commit less than 16 MiB at a time.")
		}
	}
}

// Leave ends Enter.
func (l *Larges) Leave() { <-l.slots }

// Open is how many are kept now.
func (l *Larges) Open() int { return len(l.slots) }

// Waited is how often one has waited.
func (l *Larges) Waited() uint64 { return l.waits.Load() }
