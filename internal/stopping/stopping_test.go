package stopping

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/wire"
)

// rooms are the clients of a node, of whom the test says when they leave.
type rooms struct {
	stops    *Stops
	clients  atomic.Int64
	deciding atomic.Bool
	needed   atomic.Int64 // for so many looks
	gone     chan struct{}

	mu     sync.Mutex
	did    []string // in its order, what happens again and again once
	leaves string   // by what the clients leave; empty: they stay
}

func (h *rooms) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.did, what) {
		h.did = append(h.did, what)
	}
	if what == h.leaves {
		h.clients.Store(0)
	}
}

func (h *rooms) Clients() int64 { return h.clients.Load() }
func (h *rooms) HandOver() {
	if !h.stops.Refuses() || h.stops.Leaving() {
		h.note("hands over too late")
	}
	h.note("hands over")
}
func (h *rooms) Dismiss() {
	if !h.stops.Leaving() {
		h.note("dismisses too early")
	}
	h.note("dismisses")
}
func (h *rooms) End() bool {
	h.note("ends")
	return h.deciding.Load()
}
func (h *rooms) Needed() bool {
	is := h.needed.Add(-1) >= 0
	if is {
		h.note("stays")
	}
	return is
}
func (h *rooms) Settle()               { h.note("settles") }
func (h *rooms) Gone() <-chan struct{} { return h.gone }

// TestRun: clients are refused, told to leave, and ended if they do not, in this order (ST1, ST2); what they have left
// behind is settled whatever they did (ST4).
func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		clients int64
		leaves  string
		drain   time.Duration
		hurry   bool // told so before
		hurried bool // told so meanwhile
		did     string
		least   time.Duration
	}{
		"no client":  {drain: time.Hour, did: "settles"},
		"they leave": {clients: 2, leaves: "dismisses", drain: time.Hour, did: "hands over, dismisses, settles"},
		"they stay too long": {clients: 2, leaves: "ends", drain: 30 * time.Millisecond,
			least: 30 * time.Millisecond, did: "hands over, dismisses, ends, settles"},
		"no time is given":    {clients: 2, leaves: "ends", did: "ends, settles"},
		"it is told to hurry": {clients: 2, leaves: "ends", drain: time.Hour, hurry: true, did: "ends, settles"},
		"it is told to hurry meanwhile": {clients: 2, leaves: "ends", drain: time.Hour, hurried: true,
			did: "hands over, dismisses, ends, settles"},
	} {
		h := &rooms{stops: New(), leaves: c.leaves, gone: make(chan struct{})}
		h.clients.Store(c.clients)
		if c.hurry {
			h.stops.StopNow()
		}
		over, began := make(chan struct{}), time.Now()
		go func() {
			defer close(over)
			h.stops.Run(context.Background(), slog.New(slog.DiscardHandler),
				func() time.Duration { return c.drain }, func() House { return h })
		}()
		h.stops.Drain()
		if c.hurried {
			for !h.stops.Leaving() {
				time.Sleep(time.Millisecond)
			}
			h.stops.StopNow()
		}
		<-over
		if got := strings.Join(h.did, ", "); got != c.did || time.Since(began) < c.least || !h.stops.Refuses() {
			t.Errorf("%s: %s after %s, want %s", name, got, time.Since(began), c.did)
		}
	}
}

// TestNeeded: a node that the others need stays until they do not, or drain_timeout is over, or it is told to hurry
// (ST6).
func TestNeeded(t *testing.T) {
	const drain = 200 * time.Millisecond
	for name, c := range map[string]struct { // order-free: each for itself
		looks   int64
		drain   time.Duration
		clients int64
		hurried bool
		stays   bool
		least   time.Duration
		most    time.Duration
	}{
		"not at all":  {looks: 0, drain: time.Hour, most: drain},
		"for a while": {looks: 3, drain: time.Hour, stays: true, most: drain},
		"for ever":    {looks: 1e9, drain: drain, stays: true, least: drain, most: time.Minute},
		"for ever, and clients stay": {looks: 1e9, drain: drain, clients: 1, stays: true, least: drain,
			most: 2 * drain},
		"for ever, and it hurries": {looks: 1e9, drain: time.Hour, hurried: true, stays: true, most: time.Minute},
		"no time is given":         {looks: 1e9, stays: true, most: drain},
	} {
		h := &rooms{stops: New(), gone: make(chan struct{}), leaves: "ends"}
		h.needed.Store(c.looks)
		h.clients.Store(c.clients)
		if c.hurried {
			time.AfterFunc(50*time.Millisecond, h.stops.StopNow)
		}
		began := time.Now()
		h.stops.Drain()
		h.stops.Run(t.Context(), slog.New(slog.DiscardHandler), func() time.Duration { return c.drain },
			func() House { return h })
		if took, stays := time.Since(began), slices.Contains(h.did, "stays"); stays != c.stays || took < c.least ||
			took > c.most {
			t.Errorf("%s: it stays %v, and ends after %s", name, stays, took)
		}
	}
}

// TestDeciding: the end waits for a COMMIT that the log decides on, and not for who does not take his last words longer
// than these may take (ST3).
func TestDeciding(t *testing.T) {
	h := &rooms{stops: New(), gone: make(chan struct{})}
	h.clients.Store(1)
	h.deciding.Store(true)
	began := time.Now()
	go func() {
		time.Sleep(guards.LastWordsMax + 200*time.Millisecond)
		h.clients.Store(0)
	}()
	if seeOff(h); time.Since(began) < guards.LastWordsMax || h.Clients() > 0 {
		t.Errorf("it waits for %s, and %d are left", time.Since(began), h.Clients())
	}
	h.clients.Store(1)
	began = time.Now()
	if seeOff(h); time.Since(began) < DecideMax {
		t.Errorf("it waits for %s", time.Since(began))
	}
	h.deciding.Store(false)
	began = time.Now()
	if seeOff(h); time.Since(began) < guards.LastWordsMax || time.Since(began) > DecideMax-100*time.Millisecond {
		t.Errorf("for who does not take his last words it waits for %s", time.Since(began))
	}
	close(h.gone)
	began = time.Now()
	if seeOff(h); time.Since(began) > guards.LastWordsMax/2 {
		t.Error("it waits though there is nobody left to wait for")
	}
}

// TestNobody: without clients, and where the node ends by itself, there is nothing to do.
func TestNobody(t *testing.T) {
	s, log := New(), slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Run(ctx, log, func() time.Duration { return time.Hour }, nil)
	if s.Refuses() {
		t.Error("a node that ends by itself refuses clients")
	}
	s.Drain()
	s.Run(context.Background(), log, func() time.Duration { return time.Hour }, func() House { return nil })
	if !s.Refuses() || s.Leaving() {
		t.Error("a node that stops takes clients")
	}
	for e, code := range map[*wire.SQLError]string{Shutdown(): wire.CodeAdminShutdown,
		TooLate(): wire.CodeCannotConnectNow} {
		if e.Code != code || e.Severity != "FATAL" {
			t.Errorf("told is %+v, want code %s", e, code)
		}
	}
}

// TestSignals: a signal has the node stop one step further (ST5), or read its configuration again, or does nothing.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name           string
		signals        []os.Signal
		begun, hurried bool
		reads          int
	}{
		{"drains", []os.Signal{syscall.SIGTERM}, true, false, 0},
		{"drains, and then at once", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, true, true, 0},
		{"at once", []os.Signal{syscall.SIGINT}, true, true, 0},
		{"at once, with what runs", []os.Signal{syscall.SIGQUIT}, true, true, 0},
		{"reads again", []os.Signal{syscall.SIGHUP, syscall.SIGHUP}, false, false, 2},
		{"ignored", []os.Signal{syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2}, false, false, 0},
	} {
		s, read, told := New(), make(chan struct{}, 2), 0
		for _, signal := range c.signals {
			told = s.obey(signal, told, slog.New(slog.DiscardHandler), func() { read <- struct{}{} })
		}
		for range c.reads {
			<-read
		}
		begun := false
		select {
		case <-s.begun:
			begun = true
		default:
		}
		if begun != c.begun || s.hurried() != c.hurried || len(read) > 0 {
			t.Errorf("%s: it stops %v, at once %v, and has read %d times too often", c.name, begun, s.hurried(),
				len(read))
		}
	}
	if s := string(stacks()); !strings.Contains(s, "TestSignals") {
		t.Errorf("what runs is not in %q", s)
	}
}
