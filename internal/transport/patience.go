package transport

import (
	"errors"
	"net"
	"time"
)

// patience is how long a dialer waits for answers of one peer. A lost first packet would come again after a second, and
// then ever more rarely, so where links come and go many short attempts are better than a long one; where the way is
// long, or the peer slow, short ones never succeed. So it starts short and doubles with every fourth attempt that got
// no answer in time. The kernel of a peer whose distance is known has no reason to take long, so most attempts stay
// short then; but the way may be another one since, so not all.
type patience struct {
	least, most time.Duration
	rtt         time.Duration // the round trip time of the last connection, zero if there was none or nobody knows
	unanswered  int           // attempts since then
}

// handshake is the time for it, two round trips and what the peer's process takes.
func (p *patience) handshake() time.Duration {
	return min(p.most, max(p.least, 8*p.rtt)<<min(p.unanswered/4, 8))
}

// dial is the time for dialing, one round trip.
func (p *patience) dial() time.Duration {
	if p.rtt > 0 && p.unanswered%4 < 3 {
		return min(p.most, max(p.least, 4*p.rtt))
	}
	return p.handshake()
}

// failed notes why an attempt failed.
func (p *patience) failed(err error) {
	var n net.Error
	if errors.As(err, &n) && n.Timeout() {
		p.unanswered++
	}
}

// arrived notes a handshake that went well.
func (p *patience) arrived(rtt time.Duration) { p.rtt, p.unanswered = rtt, 0 }
