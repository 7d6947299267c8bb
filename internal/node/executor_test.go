package node

import (
	"testing"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/deferred"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestRelease: of a group, the sessions of this member are told to commit, and what others have done is to be applied;
// what was notified is neither. A session's transaction that nobody waits for ends the replica.
func TestRelease(t *testing.T) {
	all := newWaiters()
	w := all.add(guards.New(guards.Options{}), session.Submission{Seq: 3, Writeset: &writeset.Writeset{}})
	rows := deferred.New(deferred.Options{})
	own := engine.Task{Ordinal: 8, Local: true, Item: engine.Item{Kind: engine.KindCertified,
		ID: writeset.TxID{Seq: 3}}}
	other := engine.Task{Ordinal: 7, Item: engine.Item{Kind: engine.KindCertified}}
	note := engine.Task{Ordinal: 9, Item: engine.Item{Kind: engine.KindNotify}}
	locals, remote, notes, err := release(&engine.Group{Tasks: []engine.Task{other, own, note}}, all, rows)
	if err != nil || len(locals) != 1 || locals[0] != w || len(remote) != 1 || remote[0].Ordinal != 7 ||
		len(notes) != 1 || notes[0].Ordinal != 9 {
		t.Fatalf("own %v, others' %v, notifications %v, %v", locals, remote, notes, err)
	}
	if d := <-w.decision; !d.Commit || w.ordinal != 8 {
		t.Errorf("at %d it is told %+v", w.ordinal, d)
	}
	own.Item.ID.Seq = 4
	if _, _, _, err := release(&engine.Group{Tasks: []engine.Task{own}}, all, rows); err == nil {
		t.Error("nobody has committed a session's transaction, and that is nothing")
	}
}

// TestWhoIsTold: an answer to a definition, and the outcome of a blind transaction, reach the session of this
// incarnation that waits for them; nobody is told of another one's.
func TestWhoIsTold(t *testing.T) {
	l := &life{incarnation: 5, config: &config.Config{Member: 1}, waiters: newWaiters()}
	blind := &writeset.Writeset{Tables: []writeset.Table{{Name: "t"}},
		Rows: []writeset.Row{{Op: writeset.OpSet, Identity: 7}}}
	id := func(member uint32, incarnation, seq uint64) engine.Item {
		return engine.Item{ID: writeset.TxID{Member: member, Incarnation: incarnation, Seq: seq}}
	}
	result := make(chan session.Result, 1)
	l.definitions.Store(uint64(3), result)
	for _, other := range []engine.Item{id(2, 5, 3), id(1, 4, 3), id(1, 5, 4)} {
		if l.answer(&engine.Task{Item: other}, session.Result{}); len(result) > 0 {
			t.Errorf("%s is answered to somebody else", other.ID)
		}
	}
	if l.answer(&engine.Task{Item: id(1, 5, 3)}, session.Result{Tag: "CREATE"}); (<-result).Tag != "CREATE" {
		t.Error("an answer is not passed on")
	}
	if !blind.Blind() {
		t.Fatal("the transaction has seen something")
	}
	for _, missed := range []bool{false, true} {
		w := l.waiters.add(guards.New(guards.Options{}), session.Submission{Seq: 6, Writeset: blind})
		tasks := []engine.Task{{Own: true, Ordinal: 9, Item: id(1, 4, 6), Writeset: blind}}
		if l.tell(tasks, nil, nil); len(w.decision) > 0 {
			t.Error("a session is told of another incarnation's transaction")
		}
		tasks[0].Item = id(1, 5, 6)
		l.tell(tasks, map[*writeset.Row]bool{&blind.Rows[0]: missed}, nil)
		if d := <-w.decision; !d.Commit || w.missed != missed || w.ordinal != 9 || l.waiters.get(6) != nil {
			t.Errorf("it is told %+v, and that its row was missed %v at %d", d, w.missed, w.ordinal)
		}
	}
}
