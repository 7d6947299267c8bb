package admission

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// never is a stop function of who waits as long as it takes.
func never() bool { return false }

// script has goroutines note what they have come through, in order.
type script struct {
	mu    sync.Mutex
	lines []string
	all   sync.WaitGroup
}

// goes runs f, which says something at its end.
func (s *script) goes(line string, f func()) {
	s.all.Go(func() {
		f()
		s.say(line)
	})
}

func (s *script) say(line string) {
	s.mu.Lock()
	s.lines = append(s.lines, line)
	s.mu.Unlock()
}

// rests gives goroutines the time to go on that should not, and reports what was said.
func (s *script) rests() []string {
	time.Sleep(5 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

// TestGate (AD1): a group waits for snapshots that are being taken and keeps later ones out; what it leaves behind may
// be no prefix yet.
func TestGate(t *testing.T) {
	g, s := NewGate(), &script{}
	if !g.Enter(never) {
		t.Fatal("an open gate was not entered")
	}
	s.goes("group", g.Close)
	for !closing(g) {
		time.Sleep(time.Millisecond)
	}
	s.goes("snapshot", func() { g.Enter(never) })
	if got := s.rests(); len(got) > 0 {
		t.Fatalf("beside a snapshot that is being taken: %v", got)
	}
	g.Leave()
	for len(s.rests()) == 0 { // until the group has come through
	}
	if got := s.rests(); !slices.Equal(got, []string{"group"}) {
		t.Fatalf("without a snapshot: %v", got)
	}
	g.Open(true)
	g.Moved(true)
	if got := s.rests(); len(got) > 1 {
		t.Fatal("a snapshot was taken while a later transaction was visible")
	}
	g.Moved(false)
	s.all.Wait()
	g.Leave()
	g.Close() // does not wait
}

func closing(g *Gate) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.group
}

// TestGateStops: who waits in vain is told when somebody wakes it.
func TestGateStops(t *testing.T) {
	g := NewGate()
	g.Close()
	stop := false
	entered := make(chan bool)
	go func() { entered <- g.Enter(func() bool { return stop }) }()
	g.mu.Lock()
	stop = true
	g.mu.Unlock()
	g.Wake()
	if <-entered {
		t.Error("a closed gate was entered")
	}
	if g.EnterPatient(g, func() bool { return true }, nil) {
		t.Error("a closed gate was entered by who has time")
	}
	applied := 0
	done := make(chan struct{})
	go func() {
		g.Await(func() bool { return applied == 1 })
		close(done)
	}()
	g.mu.Lock()
	applied = 1
	g.mu.Unlock()
	g.Open(false)
	<-done
}

// TestGateBreaksOff (AD2): a group breaks off who may hold the gate for long, once, and waits for its leave.
func TestGateBreaksOff(t *testing.T) {
	g, broken := NewGate(), make(chan string, 4)
	for _, name := range []string{"a", "b"} {
		if !g.EnterPatient(name, never, func() { broken <- name }) {
			t.Fatal("an open gate was not entered")
		}
	}
	g.LeavePatient("b")
	closed := make(chan struct{})
	go func() {
		g.Close()
		close(closed)
	}()
	if who := <-broken; who != "a" {
		t.Errorf("%s was broken off", who)
	}
	select {
	case <-closed:
		t.Error("the group did not wait for who was broken off")
	case <-time.After(5 * time.Millisecond):
	}
	g.LeavePatient("a")
	<-closed
	if len(broken) > 0 {
		t.Errorf("%s was broken off, too", <-broken)
	}
}
