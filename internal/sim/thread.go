package sim

import "time"

// runner is production code in a coroutine: what waits hands over until it is woken.
type runner interface {
	until(is func() bool)
	wake()
}

// thread is a goroutine of a member's life that is neither a session nor the engine.
type thread struct {
	m       *member
	co      *coroutine
	waiting bool // the coroutine has handed over
	woken   bool // it is on the agenda
	over    bool
}

// begins runs f beside everything else, as long as the member's life goes on.
func (x *schemas) begins(f func()) *thread {
	t := &thread{m: x.m, waiting: true}
	t.co = newCoroutine(func() {
		defer func() { t.over = true }()
		f()
	})
	x.threads = append(x.threads, t)
	t.wake()
	return t
}

// until hands over until something is so. Only the thread itself may call it.
func (t *thread) until(is func() bool) {
	for !is() {
		t.waiting = true
		t.co.pause()
		t.waiting = false
	}
}

// wake has the thread look again at what it waits for.
func (t *thread) wake() {
	if t.over || t.woken || !t.waiting {
		return
	}
	t.woken = true
	t.m.w.after(0, t.m.in(func() {
		if t.woken = false; !t.over {
			t.waiting, t.m.w.definers.runs = false, t
			t.co.resume()
		}
	}))
}

// haste is how much faster everything goes here than at a node: gossip is told every 30 ms instead of every 300 ms.
const haste = 10

// hurried is admission.Clock of a member's life: a node's time, simulated.
type hurried struct{ m *member }

func micros(d time.Duration) int64 { return max(d.Microseconds()/haste, 1) }

func (c hurried) Now() time.Duration { return time.Duration(c.m.w.now) * haste * time.Microsecond }

func (c hurried) Rest(d time.Duration, early <-chan struct{}) {
	w, x := c.m.w, c.m.w.definers.runs
	end := w.now + micros(d)
	w.after(end-w.now, c.m.in(x.wake))
	x.until(func() bool { return w.now >= end || len(early) > 0 })
	select {
	case <-early:
	default:
	}
}

func (c hurried) After(d time.Duration, f func()) (stop func()) {
	stopped := false
	c.m.w.after(micros(d), c.m.in(func() {
		if !stopped {
			f()
		}
	}))
	return func() { stopped = true }
}
