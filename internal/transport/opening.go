package transport

import (
	"net"
	"net/netip"
	"sync"
)

const (
	halfOpenMax  = 64 // connections that are not authenticated yet
	halfOpenEach = 16 // of one address: its host must not take the places of members
)

// opening counts the connections that are not authenticated yet, by the address from which they come.
type opening struct {
	mu  sync.Mutex
	all int
	of  map[netip.Addr]int
}

// addressOf is from where a connection comes.
func addressOf(conn net.Conn) netip.Addr {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// take takes a place for a connection; if there is none, it says how many there may be.
func (o *opening) take(from netip.Addr) (most int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.all == halfOpenMax:
		return halfOpenMax, false
	case o.of[from] == halfOpenEach:
		return halfOpenEach, false
	case o.of == nil:
		o.of = map[netip.Addr]int{}
	}
	o.all++
	o.of[from]++
	return 0, true
}

// give gives the place back.
func (o *opening) give(from netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all--
	if o.of[from]--; o.of[from] == 0 {
		delete(o.of, from)
	}
}

// count is how many there are.
func (o *opening) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all
}
