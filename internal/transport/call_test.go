package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// echo answers calls with what they send, in lines, the caller's number and what it asks for.
func echo(from uint32, asked string) (func(context.Context, net.Conn), error) {
	return func(ctx context.Context, conn net.Conn) {
		for s := bufio.NewScanner(conn); s.Scan(); {
			fmt.Fprintf(conn, "%d:%s:%s\n", from, asked, s.Text())
		}
	}, nil
}

// say sends a line on a call, and returns what comes back.
func say(t *testing.T, conn net.Conn, line string) string {
	t.Helper()
	fmt.Fprintln(conn, line)
	got, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(got)
}

func answering(answer func(uint32, string) (func(context.Context, net.Conn), error)) func(*Options, *timing) {
	return func(o *Options, _ *timing) { o.Called = answer }
}

// caller is member 2, which need not run.
func caller(c func() Credentials) Caller {
	return Caller{Self: 2, Cluster: "c1", Credentials: c, PeerName: memberName}
}

// TestCall: a call carries bytes in both directions, beside frames of the same member, with TLS and without.
func TestCall(t *testing.T) {
	ca := newAuthority(t)
	for name, clear := range map[string]bool{"clear": true, "TLS": false} { // order-free: each for itself
		t.Run(name, func(t *testing.T) {
			own := known(secret)
			one, two := pair(t, func(o *Options, _ *timing) {
				o.Called = echo
				if !clear {
					o.Credentials, o.PeerName = secured(ca.member(t, o.Self)), memberName
				}
			})
			if !clear {
				own = secured(ca.member(t, 2))
			}
			conn, err := caller(own).Call(t.Context(), 1, one.addr, "x")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got := say(t, conn, "hello"); got != "2:x:hello" {
				t.Errorf("the call answers %q", got)
			}
			two.exchange(t, one)
			if got := say(t, conn, "again"); got != "2:x:again" {
				t.Errorf("the call answers %q", got)
			}
		})
	}
}

// TestCallRefused: who calls is told why nobody answers, and only a member of the cluster is answered.
func TestCallRefused(t *testing.T) {
	busy := func(from uint32, _ string) (func(context.Context, net.Conn), error) {
		return nil, fmt.Errorf("not for member %d", from)
	}
	never := func(uint32, string) (func(context.Context, net.Conn), error) {
		t.Error("a call came through that should not")
		return nil, errors.New("no")
	}
	for _, c := range []struct {
		what   string
		answer func(uint32, string) (func(context.Context, net.Conn), error)
		caller Caller
		want   string
	}{
		{"not now", busy, caller(known(secret)), "it does not take the call: not for member 2"},
		{"nobody answers calls", nil, caller(known(secret)), "it does not take the call: it answers no calls"},
		{"wrong secret", never, caller(known([]byte("another"), []byte("a third"))), "wrong secret"},
		{"unknown member", never, Caller{Self: 9, Cluster: "c1", Credentials: known(secret)}, "unknown member"},
		{"another cluster", never, Caller{Self: 2, Cluster: "c2", Credentials: known(secret)}, "wrong cluster"},
	} {
		m := lone(t, answering(c.answer))
		conn, err := c.caller.Call(t.Context(), 1, m.addr, "x")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
		if conn != nil {
			t.Errorf("%s: there is a connection", c.what)
		}
	}
	if _, err := caller(known(secret)).Call(t.Context(), 1, "127.0.0.1:1", "x"); err == nil {
		t.Error("nobody listens, and the call is there")
	}
}

// TestCallSecondSecret: while secrets are exchanged, the second one will do.
func TestCallSecondSecret(t *testing.T) {
	m := lone(t, answering(echo))
	conn, err := caller(known([]byte("tomorrow's"), secret)).Call(t.Context(), 1, m.addr, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := say(t, conn, "hello"); got != "2:x:hello" {
		t.Errorf("the call answers %q", got)
	}
}

// TestCallsAreBounded: eight are answered at once, and one that ends makes room.
func TestCallsAreBounded(t *testing.T) {
	m := lone(t, answering(echo))
	var open []net.Conn
	for range callsMax {
		conn, err := caller(known(secret)).Call(t.Context(), 1, m.addr, "x")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		open = append(open, conn)
	}
	if _, err := caller(known(secret)).Call(t.Context(), 1, m.addr, "x"); err == nil ||
		!strings.Contains(err.Error(), "8 calls already") {
		t.Fatalf("the ninth call: %v", err)
	}
	open[0].Close()
	eventually(t, "a place is free", func() bool {
		conn, err := caller(known(secret)).Call(t.Context(), 1, m.addr, "x")
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// TestCallEnds: when the transport is closed, its calls end, and with ctx what the caller waits for.
func TestCallEnds(t *testing.T) {
	m := lone(t, answering(echo))
	conn, err := caller(known(secret)).Call(t.Context(), 1, m.addr, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	say(t, conn, "hello")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(conn); len(b) > 0 {
		t.Errorf("after the end the call brings %q, %v", b, err)
	}
	silent := listen(t, "127.0.0.1:0") // accepts, and says nothing
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := caller(known(secret)).Call(ctx, 1, silent.Addr().String(), "x")
		failed <- err
	}()
	cancel()
	if err := <-failed; err == nil {
		t.Error("the call is there, and nobody has answered")
	}
}
