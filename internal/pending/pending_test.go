package pending

import (
	"context"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestGroup: the watcher is to look at a group that has something to wait for, and a group is there until the last
// of its sessions has been asked for (PN5).
func TestGroup(t *testing.T) {
	own := func(ordinal uint64, adds bool, steps int) *Waiter {
		w := &Waiter{Ordinal: ordinal, Sub: session.Submission{Writeset: &writeset.Writeset{
			Steps: make([]writeset.Step, steps)}}}
		if adds {
			w.Sub.AddBases = []uint64{1}
		}
		return w
	}
	for name, c := range map[string]struct {
		remote  []engine.Task
		locals  []*Waiter
		watched bool
		last    uint64
	}{
		"others'":                 {[]engine.Task{{Ordinal: 4}, {Ordinal: 6}}, nil, true, 6},
		"own":                     {nil, []*Waiter{own(5, false, 0)}, false, 0},
		"own that adds":           {nil, []*Waiter{own(5, true, 0), own(7, false, 0)}, true, 5},
		"own that defines":        {nil, []*Waiter{own(5, false, 1)}, true, 0},
		"own that adds, and last": {[]engine.Task{{Ordinal: 4}}, []*Waiter{own(5, true, 0)}, true, 5},
	} {
		r := NewGroup()
		if _, runs := r.Age(); runs || r.Last() != 0 {
			t.Errorf("%s: a group runs before it has begun", name)
		}
		r.Begin(c.remote, c.locals)
		if age, runs := r.Age(); !runs || age > time.Minute || r.Last() != c.last || len(r.started) > 0 != c.watched {
			t.Errorf("%s: age %s, runs %v, last %d, the watcher looks %v", name, age, runs, r.Last(), len(r.started))
		}
		if got := len(r.Remote()) + len(r.Locals()); got != len(c.remote)+len(c.locals) {
			t.Errorf("%s: it has %d transactions", name, got)
		}
		for i, want := range c.locals {
			if w, ok := r.Local(i); !ok || w != want {
				t.Errorf("%s: the session %d is %v, %v", name, i, w, ok)
			}
		}
		if _, ok := r.Local(len(c.locals)); ok || len(r.Locals())+len(r.Remote()) > 0 {
			t.Errorf("%s: it goes on after its last session", name)
		}
	}
}

// TestOrphans: a session that gives up leaves its submission behind until the log has decided, and only then is it
// forgotten (PN2); others are when they say so.
func TestOrphans(t *testing.T) {
	all := NewWaiters()
	gone, there := guards.New(guards.Options{}), guards.New(guards.Options{})
	orphan, w := all.Add(gone, session.Submission{Seq: 1}), all.Add(there, session.Submission{Seq: 2})
	all.Orphaned(orphan)
	if !all.Given(orphan) || all.Given(w) || gone.Orphan() == nil || there.Orphan() != nil {
		t.Error("it is not known who has given up")
	}
	all.Remove(1)
	all.Remove(2)
	if all.Get(1) != orphan || all.Get(2) != nil {
		t.Error("one that has given up is forgotten before the log has decided, or another one is not")
	}
	all.SettledOwn([]engine.Task{{Own: true, Item: engine.Item{ID: writeset.TxID{Incarnation: 6, Seq: 1}}},
		{Item: engine.Item{ID: writeset.TxID{Incarnation: 5, Seq: 1}}}}, 5)
	select {
	case <-gone.Orphan():
		t.Error("what another life, or another member, has submitted settles it")
	default:
	}
	all.SettledOwn([]engine.Task{{Own: true, Item: engine.Item{ID: writeset.TxID{Incarnation: 5, Seq: 1}}}}, 5)
	<-gone.Orphan()
	if all.Get(1) != nil {
		t.Error("it is not forgotten")
	}
}

// TestRelease: of a group, the sessions of this member are told to commit, and what others have done is to be applied;
// what was notified is neither. A session's transaction that nobody waits for ends the replica.
func TestRelease(t *testing.T) {
	all := NewWaiters()
	w := all.Add(guards.New(guards.Options{}), session.Submission{Seq: 3, Writeset: &writeset.Writeset{}})
	heard := 0
	commits := func(ws *writeset.Writeset) { heard++ }
	own := engine.Task{Ordinal: 8, Local: true, Item: engine.Item{Kind: engine.KindCertified,
		ID: writeset.TxID{Seq: 3}}}
	other := engine.Task{Ordinal: 7, Item: engine.Item{Kind: engine.KindCertified}}
	note := engine.Task{Ordinal: 9, Item: engine.Item{Kind: engine.KindNotify}}
	locals, remote, notes, err := all.Release(&engine.Group{Tasks: []engine.Task{other, own, note}}, commits)
	if err != nil || len(locals) != 1 || locals[0] != w || len(remote) != 1 || remote[0].Ordinal != 7 ||
		len(notes) != 1 || notes[0].Ordinal != 9 {
		t.Fatalf("own %v, others' %v, notifications %v, %v", locals, remote, notes, err)
	}
	if d := <-w.Decision; !d.Commit || w.Ordinal != 8 || heard != 1 {
		t.Errorf("at %d it is told %+v", w.Ordinal, d)
	}
	own.Item.ID.Seq = 4
	if _, _, _, err := all.Release(&engine.Group{Tasks: []engine.Task{own}}, commits); err == nil {
		t.Error("nobody has committed a session's transaction, and that is nothing")
	}
}

// order is an engine that says what a test wants.
type order struct {
	sent      int
	back      bool // what is withdrawn is taken back
	undecided bool
	behind    uint64
	orphaned  uint64
}

func (o *order) Sent(uint64) int       { return o.sent }
func (o *order) Withdraw(uint64) bool  { return o.back }
func (o *order) Undecided(uint64) bool { return o.undecided }
func (o *order) Behind() uint64        { return o.behind }
func (o *order) Orphan(seq uint64)     { o.orphaned = seq }

// patient waits for an order for a second; the time is told by the test.
func patient(o *order, now *int64) *Patience {
	do := func(f func(Order)) { f(o) }
	return &Patience{
		Most: func() time.Duration { return time.Second }, Now: func() int64 { return *now }, Do: do, Call: do,
		Waiters: NewWaiters(), Metrics: &metrics.Database{}, Done: make(chan struct{}),
		TxID: func(seq uint64) writeset.TxID { return writeset.TxID{Member: 1, Incarnation: 5, Seq: seq} },
	}
}

// TestPatience: a wait for the order ends with what was taken back, or with what is not known; not before its time, not
// while a large one leaves, and not while what is decided is being taken in (PN3).
func TestPatience(t *testing.T) {
	for name, c := range map[string]struct {
		order order
		after time.Duration
		code  string
	}{
		"too early":         {order{back: true}, time.Second - 1, ""},
		"not proposed":      {order{back: true}, time.Second, wire.CodeCannotConnectNow},
		"no majority":       {order{undecided: true}, time.Second, wire.CodeStatementUnknown},
		"decided":           {order{}, time.Second, ""},
		"is being taken in": {order{undecided: true, behind: 1}, time.Second, ""},
		"still leaves":      {order{undecided: true, sent: 9}, time.Second, ""},
	} {
		now := int64(0)
		p := patient(&c.order, &now)
		g := guards.New(guards.Options{})
		w := p.Waiters.Add(g, session.Submission{Seq: 7})
		w.Patience, _, _ = p.Begin()
		now = int64(c.after)
		if p.Look(w); (len(w.Decision) > 0) != (c.code != "") {
			t.Errorf("%s: %d decisions", name, len(w.Decision))
			continue
		}
		unknown := c.code == wire.CodeStatementUnknown
		if (c.order.orphaned == 7) != unknown || p.Waiters.Given(w) != unknown || (g.Orphan() != nil) != unknown {
			t.Errorf("%s: given up %v, orphaned %d", name, p.Waiters.Given(w), c.order.orphaned)
		}
		if c.code == "" {
			continue
		}
		if d := <-w.Decision; d.Err == nil || d.Err.Code != c.code || d.Commit || d.Retry {
			t.Errorf("%s: it is told %+v", name, d)
		}
		if p.Metrics.Limits.Timeout.Load() != 1 {
			t.Errorf("%s: it is counted %d times", name, p.Metrics.Limits.Timeout.Load())
		}
	}
}

// TestForEver: without commit_timeout_ms nothing ends a wait, and what is bounded in any case waits for very long.
func TestForEver(t *testing.T) {
	now := int64(0)
	p := patient(&order{back: true}, &now)
	if p.Max() != time.Second {
		t.Errorf("it waits for %s", p.Max())
	}
	p.Most = func() time.Duration { return 0 }
	wait, over, stop := p.Begin()
	defer stop()
	w := p.Waiters.Add(guards.New(guards.Options{}), session.Submission{Seq: 7})
	w.Patience, now = wait, 1<<60
	if p.Look(w); over != nil || len(w.Decision) > 0 || p.Max() < 100*365*24*time.Hour {
		t.Errorf("it waits for %s, and is told %d decisions", p.Max(), len(w.Decision))
	}
}

// TestWithdraw: what a client cancels is taken back unless it was proposed.
func TestWithdraw(t *testing.T) {
	for _, back := range []bool{false, true} {
		now := int64(0)
		p := patient(&order{back: back}, &now)
		w := p.Waiters.Add(guards.New(guards.Options{}), session.Submission{Seq: 7})
		p.Withdraw(8) // nobody's
		if p.Withdraw(7); len(w.Decision) > 0 != back {
			t.Fatalf("taken back %v, and it is told %d decisions", back, len(w.Decision))
		}
		if back {
			if d := <-w.Decision; d.Err == nil || d.Err.Code != wire.CodeQueryCanceled {
				t.Errorf("it is told %+v", d)
			}
		}
	}
}

// TestAwaitDefinition: a definition's session hears its result, or that the replica ends, or that there is no majority.
func TestAwaitDefinition(t *testing.T) {
	now, id := int64(0), writeset.TxID{Seq: 3}
	p := patient(&order{undecided: true}, &now)
	var d Definitions
	result, end := d.Begin(3)
	d.Answer(4, session.Result{})
	d.Answer(3, session.Result{Tag: "CREATE"})
	if r := p.AwaitDefinition(id, result); r.Tag != "CREATE" {
		t.Errorf("its result is %+v", r)
	}
	end()
	d.Answer(3, session.Result{Tag: "nobody waits"})
	if len(result) > 0 {
		t.Error("an answer comes after the end")
	}
	p.Most = func() time.Duration { return time.Millisecond }
	p.Now = func() int64 { now += int64(time.Millisecond); return now }
	if r := p.AwaitDefinition(id, nil); r.Err == nil || r.Err.Code != wire.CodeStatementUnknown {
		t.Errorf("without a majority it is %+v", r)
	}
	done := make(chan struct{})
	close(done)
	p.Done, p.Most = done, func() time.Duration { return time.Hour }
	if r := p.AwaitDefinition(id, nil); r.Err == nil || r.Err.Code != wire.CodeStatementUnknown {
		t.Errorf("at the end of the replica it is %+v", r)
	}
}

// TestSlotOfAnOrphan: the slot of who has given up stays taken until the log has decided, or the replica ends (PN2).
func TestSlotOfAnOrphan(t *testing.T) {
	now := int64(0)
	p := patient(&order{}, &now)
	g := guards.New(guards.Options{})
	p.AwaitOrphan(nil)
	p.AwaitOrphan(g) // has not given up
	w := p.Waiters.Add(g, session.Submission{Seq: 7})
	p.Waiters.Orphaned(w)
	over := make(chan struct{})
	go func() { p.AwaitOrphan(g); close(over) }()
	select {
	case <-over:
		t.Error("the slot is free before the log has decided")
	case <-time.After(20 * time.Millisecond):
	}
	p.Waiters.Settled(7)
	<-over
}

// TestTell: a session of a blind transaction hears whether its rows were found; nobody hears of another incarnation's,
// or another member's, and who has given up hears nothing (PN4).
func TestTell(t *testing.T) {
	blind := &writeset.Writeset{Tables: []writeset.Table{{Name: "t"}},
		Rows: []writeset.Row{{Op: writeset.OpSet, Identity: 7}}}
	if !blind.Blind() {
		t.Fatal("the transaction has seen something")
	}
	task := func(own bool, incarnation uint64) []engine.Task {
		return []engine.Task{{Own: own, Ordinal: 9, Writeset: blind,
			Item: engine.Item{ID: writeset.TxID{Member: 1, Incarnation: incarnation, Seq: 6}}}}
	}
	for _, c := range []struct{ missed, void bool }{{}, {missed: true}, {void: true}} {
		all := NewWaiters()
		w := all.Add(guards.New(guards.Options{}), session.Submission{Seq: 6, Writeset: blind})
		all.Tell(task(true, 4), 5, nil, nil)
		all.Tell(task(false, 5), 5, nil, nil)
		if len(w.Decision) > 0 {
			t.Error("a session is told of somebody else's transaction")
		}
		all.Tell(task(true, 5), 5, map[*writeset.Row]bool{&blind.Rows[0]: c.missed},
			map[*writeset.Writeset]bool{blind: c.void})
		if d := <-w.Decision; !d.Commit || w.Missed != (c.missed || c.void) || w.Ordinal != 9 || all.Get(6) != nil {
			t.Errorf("it is told %+v, and that its row was missed %v at %d", d, w.Missed, w.Ordinal)
		}
		w = all.Add(guards.New(guards.Options{}), session.Submission{Seq: 6, Writeset: blind})
		all.Orphaned(w)
		if all.Tell(task(true, 5), 5, nil, nil); len(w.Decision) > 0 {
			t.Error("who has given up is told something")
		}
	}
}

// TestJoins: who joins a group is in it from then on, with its ordinal, and nobody joins one that is over (PN5).
func TestJoins(t *testing.T) {
	r := NewGroup()
	joinable := false
	unblock := func(seq uint64, joins bool) (engine.Way, engine.Task) {
		if joinable = joins; joins {
			return engine.Joins, engine.Task{Ordinal: 12}
		}
		return engine.Stays, engine.Task{}
	}
	w := &Waiter{Sub: session.Submission{Seq: 3, Writeset: &writeset.Writeset{}}}
	r.Begin([]engine.Task{{Ordinal: 4}}, nil)
	if way := r.Unblock(unblock, w); way != engine.Joins || w.Ordinal != 12 || len(r.Locals()) != 1 {
		t.Errorf("it goes the way %v, at %d, beside %d", way, w.Ordinal, len(r.Locals()))
	}
	r.Local(0)
	r.Local(1)
	if r.Unblock(unblock, w); joinable {
		t.Error("a group that is over is joined")
	}
}

// TestAdding: of sessions that wait for rows to which they add, others are asked for each time, few at once.
func TestAdding(t *testing.T) {
	r, asked := NewGroup(), map[uint32]bool{}
	var locals []*Waiter
	for pid := range uint32(10) {
		w := NewWaiters().Add(guards.New(guards.Options{PID: pid}), session.Submission{Writeset: &writeset.Writeset{}})
		if pid < 8 {
			w.Sub.AddBases = []uint64{1}
		}
		locals = append(locals, w)
	}
	locals[7].Commits(true)
	r.Begin(nil, locals)
	for range 7 {
		pids := r.Adding()
		if len(pids) != addingMax {
			t.Errorf("%d are asked for at once", len(pids))
		}
		for _, pid := range pids {
			asked[pid] = true
		}
	}
	if len(asked) != 7 || asked[7] || asked[8] {
		t.Errorf("asked for are %v", asked)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if AwaitAdding(ctx, locals) == nil {
		t.Error("who has its rows still is not waited for")
	}
	for _, w := range locals[:7] {
		w.Commits(true)
	}
	if err := AwaitAdding(context.Background(), locals); err != nil || len(r.Adding()) > 0 {
		t.Errorf("once all have committed: %v, %v", err, r.Adding())
	}
}
