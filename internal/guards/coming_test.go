package guards

import (
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/session"
)

// TestComing: a transaction may come soon of a session that serves a request, if its last one was submitted, until it
// has submitted this one, or has not, or is gone; and at any time of one whose client asks again at once, until he does
// not. Who submits asks for the others.
func TestComing(t *testing.T) {
	sessions := NewSessions(2)
	x := guard(t, 1)
	x.coming.count = &sessions.Coming
	slot := sessions.Admit(x.client)
	sessions.Register(x.Guard, x.client)
	now := x.coming.rests
	asks := func(pause time.Duration) func() {
		return func() { now = now.Add(pause); x.coming.serve(true, now) }
	}
	submits := func() { x.enter(t, session.PhaseSubmitted) }
	answered := func() { x.enter(t, session.PhaseIdle); x.coming.serve(false, now) }
	promptly := func() {
		for range 8 * pauseShare {
			asks(soon / 2)()
			submits()
			answered()
		}
	}
	for i, s := range []struct {
		what string
		does func()
		want int32
	}{
		{"his first request", asks(time.Second), 0},
		{"his first transaction", submits, 0},
		{"its end", answered, 0},
		{"the next request", asks(time.Second), 1},
		{"the next transaction", submits, 0},
		{"its end", answered, 0},
		{"a request that changes nothing", asks(time.Second), 1},
		{"its end", answered, 0},
		{"one more", asks(time.Second), 0},
		{"which changes something", func() { submits(); answered() }, 0},
		{"requests without pauses", promptly, 1},
		{"a short rest", func() { sessions.Stuck(now.Add(soon)) }, 1},
		{"the next request", asks(soon), 1},
		{"its transaction", submits, 1},
		{"its end", answered, 1},
		{"a request that changes nothing", func() { asks(0)(); answered() }, 0},
		{"requests without pauses", promptly, 1},
		{"a long rest", func() { sessions.Stuck(now.Add(2 * soon)) }, 0},
		{"the last request", asks(0), 1},
		{"his end", func() { sessions.Leave(nil, slot, x.Guard) }, 0},
	} {
		if s.does(); sessions.Coming.Load() != s.want || x.Others() != 0 {
			t.Errorf("%d, %s: %d may come, want %d, and %d others",
				i, s.what, sessions.Coming.Load(), s.want, x.Others())
		}
	}
	if sessions.Coming.Add(3); x.Others() != 3 {
		t.Errorf("%d others, want 3", x.Others())
	}
}
