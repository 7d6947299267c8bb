package node

import (
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestRunning: the watcher is to look at a group that has something to wait for, and a group is there until the last
// of its sessions has been asked for.
func TestRunning(t *testing.T) {
	own := func(ordinal uint64, adds bool, steps int) *waiter {
		w := &waiter{ordinal: ordinal, sub: session.Submission{Writeset: &writeset.Writeset{
			Steps: make([]writeset.Step, steps)}}}
		if adds {
			w.sub.AddBases = []uint64{1}
		}
		return w
	}
	for name, c := range map[string]struct {
		remote  []engine.Task
		locals  []*waiter
		watched bool
		last    uint64
	}{
		"others'":                 {[]engine.Task{{Ordinal: 4}, {Ordinal: 6}}, nil, true, 6},
		"own":                     {nil, []*waiter{own(5, false, 0)}, false, 0},
		"own that adds":           {nil, []*waiter{own(5, true, 0), own(7, false, 0)}, true, 5},
		"own that defines":        {nil, []*waiter{own(5, false, 1)}, true, 0},
		"own that adds, and last": {[]engine.Task{{Ordinal: 4}}, []*waiter{own(5, true, 0)}, true, 5},
	} {
		var r running
		r.init()
		if _, runs := r.age(); runs || r.last() != 0 {
			t.Errorf("%s: a group runs before it has begun", name)
		}
		r.begin(c.remote, c.locals)
		if age, runs := r.age(); !runs || age > time.Minute || r.last() != c.last || len(r.started) > 0 != c.watched {
			t.Errorf("%s: age %s, runs %v, last %d, the watcher looks %v", name, age, runs, r.last(), len(r.started))
		}
		if got := len(r.remote()) + len(r.locals()); got != len(c.remote)+len(c.locals) {
			t.Errorf("%s: it has %d transactions", name, got)
		}
		for i, want := range c.locals {
			if w, ok := r.local(i); !ok || w != want {
				t.Errorf("%s: the session %d is %v, %v", name, i, w, ok)
			}
		}
		if _, ok := r.local(len(c.locals)); ok || len(r.locals())+len(r.remote()) > 0 {
			t.Errorf("%s: it goes on after its last session", name)
		}
	}
}

// TestOrphans: a session that gives up leaves its submission behind until the log has decided, and only then is it
// forgotten; others are when they say so.
func TestOrphans(t *testing.T) {
	all := newWaiters()
	gone, there := guards.New(guards.Options{}), guards.New(guards.Options{})
	orphan, w := all.add(gone, session.Submission{Seq: 1}), all.add(there, session.Submission{Seq: 2})
	all.orphaned(orphan)
	if !all.given(orphan) || all.given(w) || gone.Orphan() == nil || there.Orphan() != nil {
		t.Error("it is not known who has given up")
	}
	all.remove(1)
	all.remove(2)
	if all.get(1) != orphan || all.get(2) != nil {
		t.Error("one that has given up is forgotten before the log has decided, or another one is not")
	}
	all.settledOwn([]engine.Task{{Own: true, Item: engine.Item{ID: writeset.TxID{Incarnation: 6, Seq: 1}}},
		{Item: engine.Item{ID: writeset.TxID{Incarnation: 5, Seq: 1}}}}, 5)
	select {
	case <-gone.Orphan():
		t.Error("what another life, or another member, has submitted settles it")
	default:
	}
	all.settledOwn([]engine.Task{{Own: true, Item: engine.Item{ID: writeset.TxID{Incarnation: 5, Seq: 1}}}}, 5)
	<-gone.Orphan()
	if all.get(1) != nil {
		t.Error("it is not forgotten")
	}
}
