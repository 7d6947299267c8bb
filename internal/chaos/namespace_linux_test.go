package chaos

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestNamespaces cuts links between two hosts that exist only here, and joins them again. The
// machine's own namespace is as before.
func TestNamespaces(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and the command ip")
	}
	before := interfaces(t)
	n, err := newNetwork(&Options{Nodes: 3, Netns: true})
	if err != nil {
		t.Skipf("this machine has no network namespaces: %v", err)
	}
	s := n.(*namespaces)
	c := &cluster{roster: roster{nodes: []*node{{k: 1, place: 1}, {k: 2, place: 2}, {k: 3, place: 3}}}}
	var ln net.Listener
	if err := in(s.nodes[1], func() (err error) {
		ln, err = net.Listen("tcp", n.memberAddress(2))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	dial := func(from *os.File, ok bool) {
		t.Helper()
		err := errors.New("not tried")
		for deadline := time.Now().Add(30 * time.Second); ; { // a cable that is put in again takes a moment
			err = in(from, func() error { return connect(t, n.memberAddress(2)) })
			if (err == nil) == ok || time.Now().After(deadline) {
				break
			}
		}
		if (err == nil) != ok {
			t.Errorf("connecting: %v, want it to work: %v", err, ok)
		}
	}
	dial(s.nodes[0], true)
	for _, f := range []func(on bool) error{
		func(on bool) error { return n.cut(c, 1, []int{2, 3}, on) },
		func(on bool) error { return n.cut(c, 2, []int{1}, on) },
		func(on bool) error { return n.unplug(1, on) },
	} {
		for _, on := range []bool{true, false} {
			if err := f(on); err != nil {
				t.Fatal(err)
			}
			dial(s.nodes[0], !on)
			dial(s.nodes[2], true) // not touched
		}
	}
	conn, err := n.dial(t.Context(), "tcp", n.memberAddress(2)) // from the bridge, where clients are
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := n.close(); err != nil {
		t.Error(err)
	}
	if after := interfaces(t); after != before {
		t.Errorf("the machine had %d network interfaces, now %d", before, after)
	}
}

func connect(t *testing.T, address string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func interfaces(t *testing.T) int {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
