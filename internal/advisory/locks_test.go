package advisory

import (
	"context"
	"io"
	"log/slog"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/locks"
)

// TestParse: what a function of ours says is read, what a client makes up is not.
func TestParse(t *testing.T) {
	for text, want := range map[string]locks.Lock{
		"take 7 2 1 3 4":    {Mode: 2, Key: locks.Key{Form: 1, Class: 3, Object: 4}},
		"xtry 7 1 2 0 9":    {Mode: 1, Key: locks.Key{Form: 2, Object: 9}},
		"gaveall 7 0 0 0 0": {},
	} {
		if c, ok := Parse(text); !ok || c.lock != want {
			t.Errorf("%q: %+v, %t", text, c.lock, ok)
		}
	}
	for _, text := range []string{"", "take", "take 7 2 1 3", "take 7 2 1 3 4 5",
		"take 7 3 1 3 4", "take 7 2 3 3 4",
		"give 7 2 1 3 4", "take x 2 1 3 4", "take 7 2 1 3 4294967296", "take 18446744073709551616 1 1 1 1",
		"try 7 0 1 3 4"} {
		if c, ok := Parse(text); ok {
			t.Errorf("%q is read as %+v", text, c)
		}
	}
}

// TestLockEdges: who waits for whom is found over backends that are no sessions of ours, once for each pair.
func TestLockEdges(t *testing.T) {
	numbers := map[uint32]uint64{1: 10, 2: 20, 3: 30}
	for _, c := range []struct {
		name     string
		blockers map[uint32][]uint32
		want     []locks.Edge
	}{
		{"nobody", nil, nil},
		{"one", map[uint32][]uint32{1: {2}}, []locks.Edge{{Waiter: 10, Blocker: 20}}},
		{"over a stranger", map[uint32][]uint32{1: {9}, 9: {3}}, []locks.Edge{{Waiter: 10, Blocker: 30}}},
		{"a circle", map[uint32][]uint32{1: {2}, 2: {1}},
			[]locks.Edge{{Waiter: 10, Blocker: 20}, {Waiter: 20, Blocker: 10}}},
		{"a chain", map[uint32][]uint32{1: {2}, 2: {3}},
			[]locks.Edge{{Waiter: 10, Blocker: 20}, {Waiter: 10, Blocker: 30}, {Waiter: 20, Blocker: 30}}},
		{"twice the same", map[uint32][]uint32{1: {2, 9}, 9: {2}}, []locks.Edge{{Waiter: 10, Blocker: 20}}},
	} {
		if got := lockEdges(c.blockers, numbers); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestReadWaitEdge(t *testing.T) {
	row := func(s ...string) (out [][]byte) {
		for _, x := range s {
			out = append(out, []byte(x))
		}
		return out
	}
	got, err := readWaitEdge(row("1", "2", "now", "3"))
	if want := (waitEdge{waiter: 1, process: 2, since: "now", blocker: 3}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := readWaitEdge(row("1", "2", "now", "-3")); err == nil {
		t.Error("a process of a negative number is read")
	}
}

// replica makes Locks of a replica whose order only counts what is asked of it.
func newReplica(lease time.Duration) (x *Locks, asked *atomic.Int64) {
	asked = &atomic.Int64{}
	var seq atomic.Uint64
	return New(Replica{
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Context: context.Background(), Self: 1, Lease: lease,
		Seq:   func() uint64 { return seq.Add(1) },
		Order: func(context.Context, engine.Submission) bool { asked.Add(1); return true },
		Done:  make(chan struct{}), Ending: func() bool { return false }, Wake: func() {},
	}), asked
}

// TestLease: the locks are the sessions' for half a lease from what was proposed last and ordered (AL2).
func TestLease(t *testing.T) {
	x, _ := newReplica(time.Hour)
	if !x.over(0) {
		t.Error("nothing was ordered, and the locks are the sessions'")
	}
	x.extend(time.Now())
	if x.over(0) {
		t.Error("the lease is over at once")
	}
	x.extend(time.Now().Add(-time.Hour))
	if x.over(0) {
		t.Error("what was proposed earlier makes the lease shorter")
	}
	if y, _ := newReplica(time.Hour); true {
		y.extend(time.Now().Add(-31 * time.Minute))
		if !y.over(0) || y.over(time.Hour) {
			t.Error("a lease counts from where its item was proposed, for half of its time")
		}
	}
}

// TestPlace: what was submitted is told its place once, and settled says when nothing waits for one.
func TestPlace(t *testing.T) {
	x, asked := newReplica(time.Hour)
	if !x.Settled() {
		t.Error("nothing was asked, and something waits")
	}
	seq, ordered := x.submit(&locks.Request{Action: locks.Renew})
	if asked.Load() != 1 || x.Settled() {
		t.Errorf("%d requests, settled: %t", asked.Load(), x.Settled())
	}
	x.Tell([]engine.Lock{{Seq: seq + 1}})
	select {
	case <-ordered:
		t.Fatal("the place of another request was taken for its own")
	default:
	}
	x.Tell([]engine.Lock{{Seq: seq}})
	<-ordered
	if !x.Settled() {
		t.Error("its place is known, and something waits")
	}
}

// TestHeldSince: the oldest grant counts; who has asked for no lock holds none.
func TestHeldSince(t *testing.T) {
	var none *Session
	if none.Since() != 0 || none.Why() != nil {
		t.Error("who has asked for no lock holds one")
	}
	none.Leave()
	l, _ := newReplica(time.Hour)
	x := &Session{l: l, held: map[locks.Lock]uint64{{Mode: 1}: 9, {Mode: 2}: 7}}
	if got := x.Since(); got != 7 {
		t.Errorf("since %d, want 7", got)
	}
	if !x.asksNothing() {
		t.Error("nothing is asked")
	}
}

func (x *Session) asksNothing() bool { return !x.asks() }
