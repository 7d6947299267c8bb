package transport

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"
)

// TestPatience (T7): short attempts at first, long ones for a peer far away, and the kernel of one that is near never
// gets long.
func TestPatience(t *testing.T) {
	p := patience{least: 250 * time.Millisecond, most: 5 * time.Second}
	expect := func(when string, dial, handshake time.Duration) {
		t.Helper()
		if p.dial() != dial || p.handshake() != handshake {
			t.Errorf("%s: %v to dial and %v for the handshake, want %v and %v", when, p.dial(), p.handshake(), dial,
				handshake)
		}
	}
	expect("at first", 250*time.Millisecond, 250*time.Millisecond)
	p.failed(fmt.Errorf("refused"))
	expect("after an answer", 250*time.Millisecond, 250*time.Millisecond)
	for range 3 {
		p.failed(os.ErrDeadlineExceeded)
	}
	expect("after three attempts", 250*time.Millisecond, 250*time.Millisecond)
	p.failed(&net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true}})
	expect("after four", 500*time.Millisecond, 500*time.Millisecond)
	for range 100 {
		p.failed(os.ErrDeadlineExceeded)
	}
	expect("after a hundred", 5*time.Second, 5*time.Second)
	p.arrived(0)
	expect("on a system that knows no round trip time", 250*time.Millisecond, 250*time.Millisecond)
	p.arrived(200 * time.Millisecond)
	expect("far away", 800*time.Millisecond, 1600*time.Millisecond)
	p.arrived(time.Millisecond)
	for range 100 {
		p.failed(os.ErrDeadlineExceeded)
	}
	expect("near, and its process does not answer", 250*time.Millisecond, 5*time.Second)
	for range 3 {
		p.failed(os.ErrDeadlineExceeded)
	}
	expect("near before, and perhaps far by now", 5*time.Second, 5*time.Second)
}
