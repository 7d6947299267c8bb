package meetings

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/halt"
	"github.com/tuttidb/tutti/internal/peers"
)

// database is a replica of one.
type database struct {
	*Meetings
	applied  atomic.Uint64
	halted   atomic.Pointer[peers.Halt]
	ending   atomic.Bool
	underWay atomic.Bool
	asked    atomic.Int32
	fails    error
}

func newDatabase(name string) *database {
	d := &database{}
	d.Meetings = New(Options{Database: name, Applied: d.applied.Load, Halted: d.halted.Load, Ending: d.ending.Load,
		Ask:      func(uint64) (uint64, error) { return uint64(d.asked.Add(1)), d.fails },
		UnderWay: func(uint64) bool { return d.underWay.Load() }})
	return d
}

// begun runs f beside the test.
func begun(f func() error) (result chan error) {
	result = make(chan error, 1)
	go func() { result <- f() }()
	return result
}

// waits fails if something is over soon.
func waits(t *testing.T, what string, result chan error) {
	t.Helper()
	select {
	case err := <-result:
		t.Fatalf("%s: it is over, with %v", what, err)
	case <-time.After(20 * time.Millisecond):
	}
}

// TestMeet: the main database waits for both others to come (M1), who wait until its definition has run (M2). To a
// later meeting nobody has come by that.
func TestMeet(t *testing.T) {
	ctx := context.Background()
	main, a, b := newDatabase("main"), newDatabase("a"), newDatabase("b")
	others := []*Meetings{a.Meetings, b.Meetings}
	find := func() *Meetings { return main.Meetings }
	held := begun(func() error { return main.Hold(ctx, 8, others) })
	waits(t, "nobody has come", held)
	first := begun(func() error { return a.Attend(ctx, 8, find) })
	waits(t, "one has come", held)
	second := begun(func() error { return b.Attend(ctx, 9, find) })
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	waits(t, "its definition has not run", first)
	main.applied.Store(8)
	if err := <-first; err != nil {
		t.Error(err)
	}
	waits(t, "a later definition has not run", second)
	next := begun(func() error { return main.Hold(ctx, 9, others) })
	waits(t, "one has not come to the later meeting", next)
	third := begun(func() error { return a.Attend(ctx, 9, find) })
	if err := <-next; err != nil {
		t.Error(err)
	}
	main.Through(9) // as after a start
	for _, result := range []chan error{second, third} {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	if err := a.Attend(ctx, 7, find); err != nil || a.met.Load() != 9 {
		t.Errorf("an item of an old meeting: %v, and it has come to %d", err, a.met.Load())
	}
}

// TestAsks: a meeting is asked for at once, and again after a while unless what has asked is under way.
func TestAsks(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	main, other := newDatabase("main"), newDatabase("other")
	held := begun(func() error { return main.Hold(ctx, 3, []*Meetings{other.Meetings}) })
	for end := time.Now().Add(10 * time.Second); other.asked.Load() < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not asked for again")
		}
	}
	other.underWay.Store(true)
	asked := other.asked.Load()
	time.Sleep(again + 50*time.Millisecond)
	if now := other.asked.Load(); now > asked+1 {
		t.Errorf("what is under way is asked for %d times more", now-asked)
	}
	cancel()
	if err := <-held; !errors.Is(err, context.Canceled) {
		t.Errorf("at the end: %v", err)
	}
	other = newDatabase("other")
	other.fails = errors.New("unreadable")
	if err := main.Hold(context.Background(), 3, []*Meetings{other.Meetings}); err != other.fails {
		t.Errorf("what cannot be asked: %v", err)
	}
	other.ending.Store(true)
	if err := main.Hold(context.Background(), 3, []*Meetings{other.Meetings}); err != nil {
		t.Errorf("a database that ends is waited for: %v", err)
	}
}

// TestHalted: who waits for a database that is halted cannot go on (M4), on either side.
func TestHalted(t *testing.T) {
	ctx := context.Background()
	main, other := newDatabase("main"), newDatabase("other")
	other.halted.Store(&peers.Halt{Ordinal: 5})
	told := func(err error, database string) {
		t.Helper()
		var fatal *failure.Fatal
		var w *halt.Waits
		if !errors.As(err, &fatal) || !errors.As(err, &w) || w.Database != database {
			t.Errorf("it is told %v", err)
		}
	}
	told(main.Hold(ctx, 3, []*Meetings{other.Meetings}), "other")
	main.halted.Store(&peers.Halt{Ordinal: 6})
	told(other.Attend(ctx, 3, func() *Meetings { return main.Meetings }), "main")
	ctx, cancel := context.WithCancel(ctx)
	alone := begun(func() error { return other.Attend(ctx, 3, func() *Meetings { return nil }) })
	waits(t, "the main database is not there", alone)
	cancel()
	if err := <-alone; !errors.Is(err, context.Canceled) {
		t.Errorf("at the end: %v", err)
	}
}
