package membership

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
)

const (
	// leftOutAfter is for how long a member that was removed is left out (Seen.LeftOut) before it ends; leavePoll is
	// between two looks.
	leftOutAfter = 3 * time.Second
	leavePoll    = 100 * time.Millisecond
)

// Seen is what a member that was removed sees of the orders of its databases.
type Seen struct {
	Runs bool // it takes part in all of them
	Gets bool // it gets the log of one of them, as far as it knows

	// Members that refuse it as one that they do not know, and those that it is connected with.
	Refuse, Connected int
}

// LeftOut reports whether the others take the member for none any more. Who is connected with it may have been removed
// as well, and not have heard of it.
func (s Seen) LeftOut() bool { return s.Refuse > s.Connected }

// AwaitLeave waits until the others go on without a member that was removed: until then it may be needed to decide
// that, and they talk to it (Addresses). It returns false if ctx ends first.
func AwaitLeave(ctx context.Context, look func() Seen) bool {
	for since := time.Now(); time.Since(since) < leftOutAfter; {
		if !process.Sleep(ctx, leavePoll) {
			return false
		}
		s := look()
		if s.Runs && !s.Gets {
			return true
		}
		if !s.LeftOut() {
			since = time.Now()
		}
	}
	return true
}

// Addresses are those of the others with whom a member talks: of all members, and of those that get the log of some
// order yet, as readers of each say; but for those that are lost.
func Addresses(c *config.Config, readers ...[]uint32) map[uint32]string {
	addresses := map[uint32]string{}
	for _, m := range c.Everybody() {
		addresses[m.Member] = m.Address
	}
	for _, list := range readers {
		for _, m := range list {
			if address := c.Address(m); addresses[m] == "" && address != "" && !c.IsLost(m) {
				addresses[m] = address
			}
		}
	}
	delete(addresses, c.Member)
	return addresses
}
