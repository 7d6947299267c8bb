package cluster

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/tuttidb/tutti/internal/config"
)

// link is a proxy in front of a node's member port: the others reach the node through it only. It keeps what passes.
type link struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	seen     []byte
	made     int // connections
	conns    map[net.Conn]struct{}
}

// links makes proxies for n nodes, and an option that leads the nodes' connections through them.
func links(tb testing.TB, n int) ([]*link, Option) {
	tb.Helper()
	var all []*link
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, &link{listener: ln, conns: map[net.Conn]struct{}{}})
		tb.Cleanup(func() { ln.Close() })
	}
	return all, func(k int, c *config.Config) {
		c.Members = slices.Clone(c.Members)
		for i, l := range all {
			c.Members[i].Address = l.listener.Addr().String()
		}
		all[k-1].target = c.MemberListen
		go all[k-1].serve()
	}
}

func (l *link) serve() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", l.target)
		if err != nil {
			from.Close() // the node does not run
			continue
		}
		l.mu.Lock()
		l.conns[from], l.conns[there] = struct{}{}, struct{}{}
		l.made++
		l.mu.Unlock()
		for _, way := range [][2]net.Conn{{from, there}, {there, from}} {
			go func() {
				_, _ = io.Copy(way[0], io.TeeReader(way[1], l)) // the end of either way is the end of both
				way[0].Close()
				way[1].Close()
			}()
		}
	}
}

func (l *link) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, b...)
	return len(b), nil
}

// cut closes all connections.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

// connections is how many were made.
func (l *link) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

// passed is everything that passed, both ways.
func (l *link) passed() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}
