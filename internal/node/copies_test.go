package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/transport"
)

// TestCopies: who is no good to copy from says why, and a database that came as a copy waits for the others of its
// member until they are adopted.
func TestCopies(t *testing.T) {
	tn := ordered(t, "shop")
	if err := tn.fitToCopy(true); err != nil {
		t.Errorf("before anybody has a log: %v", err)
	}
	if err := tn.fitToCopy(false); err == nil || !strings.Contains(err.Error(), `"joining"`) {
		t.Errorf("before it serves: %v", err)
	}
	tn.transport = deaf(t, tn.node)
	if answer, err := tn.called(3, "log again 7"); answer != nil || err == nil {
		t.Errorf("before it serves it answers a member that has lost its log: %v", err)
	}
	tn.life(mainGroup).course.serves()
	if err := tn.fitToCopy(false); err == nil || !strings.Contains(err.Error(), `database "shop"`) {
		t.Errorf("while it catches up: %v", err)
	}
	if tn.hears(2) || tn.life(mainGroup).reaches(2) {
		t.Error("a member is here that is not")
	}
	if terms := tn.readmit(2, 5); len(terms) != 2 || terms[mainGroup] != 0 {
		t.Errorf("one that is not of the cluster is readmitted in %v", terms)
	}
	for _, l := range tn.all() {
		l.order.position.Member = 2
	}
	shop := tn.named("shop")
	go func() { time.Sleep(20 * time.Millisecond); shop.course.adopted.Store(true) }()
	began := time.Now()
	if err := (comes{tn.life(mainGroup)}).Adopted(context.Background()); err != errConverted ||
		!shop.course.adopted.Load() || time.Since(began) > adoptMost {
		t.Errorf("it is adopted before the other one, after %s: %v", time.Since(began), err)
	}
}

// deaf is a transport of a member that is alone.
func deaf(t *testing.T, n *Node) *transport.Transport {
	t.Helper()
	if err := n.credentials.Begin(); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x, err := transport.New(transport.Options{Self: 1, Cluster: "c", Listener: ln, Credentials: n.credentials.Now,
		PeerName: n.nameOf, Logger: slog.New(slog.DiscardHandler),
		Handler: func(uint32, []byte) {}, Gone: func(uint32) {}, Connected: func(uint32) {},
		Facts: func() []byte { return nil }, Judge: func(uint32, []byte) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// TestMends: what this member can do nothing about is left as it is.
func TestMends(t *testing.T) {
	n := ordered(t).node
	if is, err := n.mends(context.Background(), nil, errors.New("no")); is || err != nil {
		t.Errorf("of any failure: %v, %v", is, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if is, _ := n.mends(ctx, nil, &logLostError{"no"}); is {
		t.Error("it begins to mend something when it is to stop")
	}
	if (&logLostError{"gone"}).Error() != "gone" {
		t.Error("it does not say why")
	}
}
