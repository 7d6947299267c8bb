package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestCancels(t *testing.T) {
	c := NewCancels(3)
	var a, b int
	sa, releaseA := c.Register(1, 0, func() { a++ })
	sb, releaseB := c.Register(1, 2, func() { b++ }) // the PID is used again
	if len(sa) != 4 || len(sb) != 32 {
		t.Fatal(len(sa), len(sb))
	}
	for _, r := range []struct {
		req  CancelRequest
		want bool
	}{
		{CancelRequest{1, sa}, true}, {CancelRequest{1, sb}, true}, {CancelRequest{1, sb}, true},
		{CancelRequest{2, sa}, false}, {CancelRequest{1, nil}, false}, {CancelRequest{1, sb[:31]}, false},
		{CancelRequest{1, []byte{sa[0], sa[1], sa[2], sa[3] ^ 1}}, false},
	} {
		if got := c.Cancel(&r.req); got != r.want {
			t.Errorf("%v: %v", r.req, got)
		}
	}
	equal(t, "calls", []int{a, b}, []int{1, 2})
	releaseA()
	releaseA()
	if c.Cancel(&CancelRequest{1, sa}) || !c.Cancel(&CancelRequest{1, sb}) || c.Len() != 1 {
		t.Error("release took the wrong one", c.Len())
	}
	releaseB()
	if c.Len() != 0 || len(c.byPID) != 0 {
		t.Error("entries left", c.Len(), c.byPID)
	}
}

func TestCancelsBounded(t *testing.T) {
	c := NewCancels(2)
	c.Register(1, 0, func() {})
	_, release := c.Register(2, 0, func() {})
	if secret, none := c.Register(3, 0, func() {}); secret != nil || c.Len() != 2 {
		t.Fatal("over the bound")
	} else {
		none()
	}
	release()
	if secret, _ := c.Register(3, 0, func() {}); secret == nil {
		t.Fatal("no room after a release")
	}
	if NewCancels(0).max != CancelsMaxDefault {
		t.Error("default")
	}
}

// Once release has returned the cancel function neither starts nor runs (W7).
func TestCancelNeverAfterRelease(t *testing.T) {
	c := NewCancels(0)
	var late atomic.Int32
	for range 300 {
		var released atomic.Bool
		secret, release := c.Register(9, 2, func() {
			time.Sleep(10 * time.Microsecond)
			if released.Load() {
				late.Add(1)
			}
		})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { c.Cancel(&CancelRequest{9, secret}) })
		}
		release()
		released.Store(true)
		wg.Wait()
	}
	if late.Load() != 0 || c.Len() != 0 {
		t.Fatal(late.Load(), c.Len())
	}
}

func TestSendCancel(t *testing.T) {
	client, server := tcpPair(t)
	done := make(chan error, 1)
	go func() { done <- SendCancel(func() (net.Conn, error) { return client, nil }, 5, []byte("abcd")) }()
	_, req, err := Accept(server, FrontOptions{})
	if err != nil || req.PID != 5 || string(req.Secret) != "abcd" {
		t.Fatal(req, err)
	}
	select {
	case err := <-done:
		t.Fatal("returned before the server closed", err)
	case <-time.After(20 * time.Millisecond):
	}
	server.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	client, server = tcpPair(t)
	server.Write([]byte("E"))
	if err := SendCancel(func() (net.Conn, error) { return client, nil }, 5, nil); err == nil {
		t.Error("an answer is an error")
	}
	if err := SendCancel(func() (net.Conn, error) { return nil, io.ErrClosedPipe }, 5, nil); !errors.Is(err,
		io.ErrClosedPipe) {
		t.Error(err)
	}
}
