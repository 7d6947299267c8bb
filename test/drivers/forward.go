package drivers

import (
	"io"
	"net"
	"sync"
	"testing"
)

// forward lets a server that listens on a unix socket be reached at a port of 127.0.0.1, which
// is what Tutti's clients do too: then both arms are asked for the same logins.
func forward(t *testing.T, socket string) *net.TCPAddr {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			all.Go(func() { relay(c, socket) })
		}
	})
	return l.Addr().(*net.TCPAddr)
}

// relay joins one connection to the socket until one side ends. Errors are the end of it: the
// peers see them as theirs.
func relay(c net.Conn, socket string) {
	defer c.Close()
	s, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer s.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(s, c)
		_ = s.(*net.UnixConn).CloseWrite()
	})
	_, _ = io.Copy(c, s)
	_ = c.Close()
	both.Wait()
}
