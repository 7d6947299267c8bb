package transport

import (
	"fmt"
	"net"
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

// progress is what is known of the bytes that were written to a connection.
type progress struct {
	bytes uint64        // acknowledged so far
	owed  bool          // some have been sent, and are not
	rtt   time.Duration // smoothed round trip time
}

// watchLooks is how often watch looks during a stall.
const watchLooks = 2

// watch returns an error when nothing of what was sent on conn has been acknowledged for as long as stall, and for
// three round trips, and nil when over is closed. It looks while something is not acknowledged, and when wrote says
// that more was sent. It counts how often it has looked: a machine that stood still has not waited.
func watch(conn net.Conn, stall time.Duration, wrote <-chan struct{}, over chan struct{}) error {
	tick := time.NewTimer(stall)
	defer tick.Stop()
	last, looks := uint64(0), 0
	for {
		if looks == 0 {
			select {
			case <-over:
				return nil
			case <-wrote:
			}
		}
		tick.Reset(process.ToBeat(stall / watchLooks))
		select {
		case <-over:
			return nil
		case <-tick.C:
		}
		p, ok := progressOf(conn)
		switch {
		case !ok || !p.owed:
			looks = 0
		case looks == 0 || p.bytes != last:
			last, looks = p.bytes, 1
		default:
			looks++
		}
		if waited := time.Duration(looks-1) * stall / watchLooks; looks > 0 && waited >= max(stall, 3*p.rtt) {
			return fmt.Errorf("nothing of what was sent has arrived for %v", waited)
		}
	}
}
