package sim

import (
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// lock is one lockable thing: a row or a unique value.
type lock struct {
	holders []hold
	waiters []*waiter
}

type hold struct {
	t    *tx
	mode writeset.Mode
}

// waiter is a transaction that waits for a lock; then continues with granted.
type waiter struct {
	hold
	l       *lock
	granted func()
}

// grantable says whether nobody in l's way conflicts, looking at the first n waiters.
func (l *lock) grantable(h hold, n int) bool {
	mine := false
	for _, o := range l.holders {
		if o.t == h.t {
			mine = true
		} else if o.mode.Conflicts(h.mode) {
			return false
		}
	}
	if !mine {
		for _, o := range l.waiters[:n] {
			if o.mode.Conflicts(h.mode) {
				return false
			}
		}
	}
	return true
}

// acquire takes the lock for t and returns true, or queues t and calls granted later.
func (l *lock) acquire(t *tx, mode writeset.Mode, granted func()) bool {
	h := hold{t, mode}
	if l.grantable(h, len(l.waiters)) {
		l.grant(h)
		return true
	}
	t.wait = &waiter{hold: h, l: l, granted: granted}
	l.waiters = append(l.waiters, t.wait)
	return false
}

func (l *lock) grant(h hold) {
	for i := range l.holders {
		if l.holders[i].t == h.t {
			if rank(h.mode) > rank(l.holders[i].mode) {
				l.holders[i].mode = h.mode
			}
			return
		}
	}
	l.holders = append(l.holders, h)
	h.t.held = append(h.t.held, l)
}

// rank orders modes by what they conflict with.
func rank(m writeset.Mode) int {
	if m == writeset.Share {
		return 2*int(writeset.Shared) + 1
	}
	return 2 * int(m)
}

// blockers returns who is in the way of w, holders first.
func (w *waiter) blockers() []*tx {
	var ts []*tx
	for _, o := range w.l.holders {
		if o.t != w.t && o.mode.Conflicts(w.mode) {
			ts = append(ts, o.t)
		}
	}
	for _, o := range w.l.waiters {
		if o == w {
			break
		}
		if o.mode.Conflicts(w.mode) {
			ts = append(ts, o.t)
		}
	}
	return ts
}

// chain are those for whom t waits, and those for whom these wait; t is one of them if it waits for itself.
func chain(t *tx) (ts []*tx) {
	seen := map[*tx]bool{}
	var visit func(x *tx)
	visit = func(x *tx) {
		if x.wait == nil {
			return
		}
		for _, b := range x.wait.blockers() {
			if !seen[b] {
				seen[b] = true
				ts = append(ts, b)
				visit(b)
			}
		}
	}
	visit(t)
	return ts
}

// deadlocked says whether t waits for itself.
func deadlocked(t *tx) bool { return slices.Contains(chain(t), t) }

// stopWaiting gives up the lock that t waits for, if there is one.
func (d *database) stopWaiting(t *tx) {
	w := t.wait
	if w == nil {
		return
	}
	t.wait = nil
	for i, o := range w.l.waiters {
		if o == w {
			w.l.waiters = append(w.l.waiters[:i], w.l.waiters[i+1:]...)
			break
		}
	}
	d.promote(w.l)
}

// releaseAll gives up what t holds and waits for, and lets others in.
func (d *database) releaseAll(t *tx) {
	d.stopWaiting(t)
	held := t.held
	t.held = nil
	for _, l := range held {
		for i := range l.holders {
			if l.holders[i].t == t {
				l.holders = append(l.holders[:i], l.holders[i+1:]...)
				break
			}
		}
		d.promote(l)
	}
}

func (d *database) promote(l *lock) {
	for i := 0; i < len(l.waiters); {
		w := l.waiters[i]
		if !l.grantable(w.hold, i) {
			i++
			continue
		}
		l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
		l.grant(w.hold)
		w.t.wait = nil
		d.w.after(d.w.rnd.between(1, 30), d.in(func() {
			if w.t.state == txOpen {
				w.granted()
			}
		}))
	}
}
