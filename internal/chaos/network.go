package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"

	"github.com/tuttidb/tutti/internal/fault"
)

// network is where the nodes are, and how their links are cut. It has places, from 1; there is one node at a place at a
// time.
type network interface {
	clientAddress(place int) string
	memberAddress(place int) string
	// enter is what the thread that starts the node there runs first; nil if nothing.
	enter(place int) func() error
	// dial connects a client.
	dial(ctx context.Context, network, address string) (net.Conn, error)
	// inside runs f on a thread from which children reach the nodes.
	inside(f func() error) error
	// cut makes the links between node a and each of the others carry nothing, or again carry what
	// is sent.
	cut(c *cluster, a int, others []int, on bool) error
	// unplug takes the node at a place off the network, or puts it back.
	unplug(place int, on bool) error
	close() error
}

// loopback has all nodes at 127.0.0.1. Links are cut inside the nodes.
type loopback struct{ ports []int }

func newLoopback(o *Options) (*loopback, error) {
	for range 100 {
		first := o.BasePort
		if first == 0 {
			first = 10000 + rand.IntN(20000) // below the range for outgoing connections
		}
		l := &loopback{}
		var last error
		for p := first; p < first+2*o.places(); p++ {
			last = errors.Join(last, portFree(p))
			l.ports = append(l.ports, p)
		}
		if last == nil {
			return l, nil
		}
		if o.BasePort != 0 {
			return nil, fmt.Errorf("--base-port %d: %w", o.BasePort, last)
		}
	}
	return nil, errors.New("no free ports were found: choose --base-port")
}

func portFree(port int) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	return l.Close()
}

func (l *loopback) clientAddress(k int) string { return fmt.Sprintf("127.0.0.1:%d", l.ports[k-1]) }

func (l *loopback) memberAddress(k int) string {
	return fmt.Sprintf("127.0.0.1:%d", l.ports[len(l.ports)/2+k-1])
}

func (l *loopback) enter(int) func() error { return nil }

func (l *loopback) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (l *loopback) inside(f func() error) error { return f() }

func (l *loopback) cut(c *cluster, a int, others []int, on bool) error {
	var errs []error
	for _, b := range others {
		errs = append(errs, c.mute(a, b, on), c.mute(b, a, on))
	}
	return errors.Join(errs...)
}

func (l *loopback) unplug(int, bool) error { return errors.New("needs network namespaces") }

func (l *loopback) close() error { return nil }

// mute lets node a's frames to b be lost, inside a.
func (c *cluster) mute(a, b int, on bool) error {
	return c.node(a).disturb(func(r *fault.Rules) {
		r.Drop = slices.DeleteFunc(r.Drop, func(m uint32) bool { return m == uint32(b) })
		if on {
			r.Drop = append(r.Drop, uint32(b))
		}
	})
}
