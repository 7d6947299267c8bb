package sim

import "github.com/tuttidb/tutti/internal/replica"

// waiting is how a session waits for the log: production's patience, and what the run expects of that (S11).
type waiting struct {
	m        *member
	seq      uint64
	patience replica.Patience
	ends     int64 // when it may give up next: each time after as long, from when it began
	sent     int   // bytes that had left by then
}

func newWaiting(m *member, seq uint64) *waiting {
	return &waiting{m: m, seq: seq, patience: replica.NewPatience(m.w.now, m.w.swarm.patience),
		ends: m.w.now + m.w.swarm.patience}
}

// next puts the next look on the agenda, unless it waits for ever.
func (x *waiting) next(look func()) {
	if at, ends := x.patience.Next(); ends {
		x.m.w.after(max(at-x.m.w.now, 0), x.m.in(look))
	}
}

// look asks patience, and checks what it says: nobody waits for less than that, or for longer if nothing is to come.
func (x *waiting) look() replica.Wait {
	e, w := x.m.engine, x.m.w
	open := e.Undecided(x.seq) && e.Behind() == 0 && e.Sent(x.seq) == x.sent
	over := w.now >= x.ends
	if over { // it may be looked at before, for what was ordered once more
		x.sent = e.Sent(x.seq)
	}
	for ; x.ends <= w.now; x.ends += w.swarm.patience {
	}
	how := x.patience.Look(w.now, e, x.seq)
	if how != replica.GoOn && !over || how == replica.Unknown && !open || how == replica.GoOn && open && over {
		w.violation("%v: a session waits on as %d; its patience is over %v, its outcome open %v", x.m, how, over, open)
	}
	return how
}
