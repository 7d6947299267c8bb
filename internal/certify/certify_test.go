package certify

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tuttidb/tutti/internal/writeset"
)

const (
	shared    = writeset.Shared
	update    = writeset.Update
	exclusive = writeset.Exclusive
)

// keys makes a writeset that holds the given keys.
func keys(ks ...writeset.Key) *writeset.Writeset { return &writeset.Writeset{Keys: ks} }

func key(hash uint64, mode writeset.Mode) writeset.Key { return writeset.Key{Hash: hash, Mode: mode} }

func id(n uint64) writeset.TxID { return writeset.TxID{Member: 1, Incarnation: 1, Seq: n} }

// at is a transaction whose base and shared base are the same.
func at(base uint64, ks ...writeset.Key) Transaction {
	return Transaction{ID: id(base + 100), Base: base, SharedBase: base, Writeset: keys(ks...)}
}

func commit(t *testing.T, c *Certifier, ordinal uint64, tx Transaction) {
	t.Helper()
	if v := c.Certify(ordinal, tx); !v.Commit() {
		t.Fatalf("ordinal %d: %+v", ordinal, v)
	}
}

// TestModePairs: first holder, then a transaction that has not seen it (C1).
func TestModePairs(t *testing.T) {
	for _, c := range []struct {
		first, second writeset.Mode
		conflict      bool
	}{
		{shared, shared, false}, {shared, update, false}, {shared, exclusive, true},
		{update, shared, false}, {update, update, true}, {update, exclusive, true},
		{writeset.Share, writeset.Share, false}, {writeset.Share, shared, false}, {shared, writeset.Share, false},
		{writeset.Share, update, true},
		{update, writeset.Share, true}, {writeset.Share, exclusive, true}, {exclusive, writeset.Share, true},
		{writeset.Add, writeset.Add, false}, {writeset.Add, shared, false}, {shared, writeset.Add, false},
		{writeset.Add, update, true}, {update, writeset.Add, true},
		{writeset.Add, exclusive, true}, {exclusive, writeset.Add, true}, {writeset.Add, writeset.Share, true},
		{writeset.Share, writeset.Add, true},
		{exclusive, shared, true}, {exclusive, update, true}, {exclusive, exclusive, true},
	} {
		t.Run(fmt.Sprintf("%d then %d", c.first, c.second), func(t *testing.T) {
			z := New(Options{})
			winner := Transaction{ID: id(7), Writeset: keys(key(1, c.first))}
			commit(t, z, 5, winner)
			v := z.Certify(6, at(4, key(1, c.second)))
			if v.Commit() == c.conflict {
				t.Errorf("%+v", v)
			}
			want := Verdict{Reason: KeyConflict, Key: key(1, c.second), Winner: id(7), WinnerOrdinal: 5}
			if c.conflict && v != want {
				t.Errorf("%+v, want %+v", v, want)
			}
			commit(t, z, 7, at(6, key(1, c.second))) // who has seen all may always
			commit(t, z, 8, at(4, key(2, c.second))) // and so may others on other keys
		})
	}
}

func TestAbortedTransactionsLeaveNoTrace(t *testing.T) {
	z := New(Options{})
	commit(t, z, 1, at(0, key(1, update)))
	if v := z.Certify(2, at(0, key(2, update), key(1, update))); v.Reason != KeyConflict {
		t.Fatalf("%+v", v)
	}
	commit(t, z, 3, at(0, key(2, update)))
}

// TestSharedBase: an exclusive holder looks at references from its shared base on, at
// everything else from its base on.
func TestSharedBase(t *testing.T) {
	z := New(Options{})
	commit(t, z, 5, at(4, key(1, shared)))
	commit(t, z, 6, at(5, key(2, update)))
	tx := func(base, sharedBase uint64, k writeset.Key) Transaction {
		return Transaction{ID: id(1), Base: base, SharedBase: sharedBase, Writeset: keys(k)}
	}
	for _, c := range []struct {
		tx     Transaction
		commit bool
	}{
		{tx(6, 4, key(1, exclusive)), false},
		{tx(6, 5, key(1, exclusive)), true},
		{tx(6, 0, key(2, exclusive)), true},
		{tx(5, 0, key(2, exclusive)), false},
		{tx(6, 0, key(1, update)), true},                                     // an update does not mind references
		{tx(6, 0, writeset.Key{Hash: 1, Mode: exclusive, Held: true}), true}, // appliers take that lock
		{tx(4, 0, writeset.Key{Hash: 1, Mode: exclusive, Held: true}), false},
	} {
		probe := *z
		if v := probe.Check(c.tx); v.Commit() != c.commit {
			t.Errorf("base %d, shared base %d, %+v: %+v", c.tx.Base, c.tx.SharedBase, c.tx.Writeset.Keys, v)
		}
	}
}

// TestCheckLocks: a lock is lost to whoever took the key since it was held, except to those
// the transaction has seen.
func TestCheckLocks(t *testing.T) {
	z := New(Options{KeysMax: 4})
	commit(t, z, 3, at(2, key(9, update), key(8, update)))
	commit(t, z, 5, at(4, key(1, update)))
	commit(t, z, 6, at(5, key(2, shared)))
	commit(t, z, 7, at(6, key(3, exclusive))) // forgets ordinal 3
	for _, c := range []struct {
		what   string
		held   uint64
		k      writeset.Key
		seen   uint64
		reason Reason
	}{
		{"taken since", 4, key(1, update), 0, KeyConflict},
		{"taken before", 5, key(1, update), 0, None},
		{"by one that was seen", 4, key(1, update), 5, None},
		{"only referenced", 4, key(2, exclusive), 0, None},
		{"a reference lost to a deletion", 4, key(3, shared), 0, KeyConflict},
		{"forgotten", 2, key(1, update), 5, TooOld},
	} {
		v := z.CheckLocks(at(0, c.k), c.held, func(_ writeset.TxID, ordinal uint64,
			_ bool) bool {
			return ordinal <= c.held || ordinal == c.seen
		})
		if v.Reason != c.reason {
			t.Errorf("%s: %+v", c.what, v)
		}
	}
	z.SetBarrier(8, id(9))
	for _, held := range []uint64{7, 8} {
		if v := z.CheckLocks(at(7, key(7, update)), held, nil); v.Reason != Barrier {
			t.Errorf("a definition since, while it held what it had at %d: %+v", held, v)
		}
	}
}

// TestReads: who has read a table loses to whoever wrote to it unseen, of its own member or another, and
// is in nobody's way.
func TestReads(t *testing.T) {
	table := writeset.Table{Schema: "public", Name: "t", Key: 77}
	reads := &writeset.Writeset{}
	reads.AddRead(table)
	writes := &writeset.Writeset{Tables: []writeset.Table{table},
		Rows: []writeset.Row{{Op: writeset.OpUpdate, Identity: 5, Image: []byte{1}}}}
	writes.AddTableKeys()
	c := New(Options{})
	for i, o := range []struct {
		ordinal, base uint64
		w             *writeset.Writeset
		ok            bool
	}{{1, 0, writes, true}, {2, 0, reads, false}, {3, 1, reads, true}, {4, 1, writes, true}, {5, 3, reads, false},
		{6, 4, reads, true}} {
		v := c.Certify(o.ordinal, Transaction{ID: writeset.TxID{Member: 1, Seq: o.ordinal}, Base: o.base,
			SharedBase: o.base, Writeset: o.w})
		if v.Commit() != o.ok {
			t.Errorf("step %d: %+v, want commit %v", i, v, o.ok)
		}
	}
	if got := c.Keys(); got != 4 {
		t.Errorf("%d keys are remembered, want those of the two writers", got)
	}
}

// TestRowReads: who has looked for a row by its key loses to who has changed or made it, or taken its whole table, and
// to nobody else.
func TestRowReads(t *testing.T) {
	table := writeset.Table{Schema: "public", Name: "t", Key: 77}
	reads := &writeset.Writeset{}
	reads.AddRead(table)
	reads.Pin([]uint64{77}, []writeset.Pinned{{Table: table, Identity: 5}})
	for _, o := range []struct {
		name string
		key  writeset.Key
		ok   bool
	}{
		{"made", writeset.Key{Hash: 5, Mode: exclusive}, false},
		{"changed", writeset.Key{Hash: 5, Mode: update}, false},
		{"referred to", writeset.Key{Hash: 5, Mode: shared}, true},
		{"locked", writeset.Key{Hash: 5, Mode: writeset.Share}, true},
		{"another one made", writeset.Key{Hash: 6, Mode: exclusive}, true},
		{"table written to", writeset.Key{Hash: 77, Mode: shared}, true},
		{"table emptied", writeset.Key{Hash: 77, Mode: exclusive}, false},
		{"another one emptied", writeset.Key{Hash: 78, Mode: exclusive}, true},
	} {
		z := New(Options{})
		commit(t, z, 5, at(4, o.key))
		w := Transaction{ID: id(2), Base: 4, SharedBase: 4, Writeset: reads}
		if v := z.Check(w); v.Commit() != o.ok {
			t.Errorf("%s unseen: %+v, want commit %v", o.name, v, o.ok)
		}
		if w.Base, w.SharedBase = 5, 5; !z.Check(w).Commit() {
			t.Errorf("%s before the snapshot: a conflict", o.name)
		}
	}
}

func TestBarrier(t *testing.T) {
	z := New(Options{})
	z.SetBarrier(5, id(9))
	want := Verdict{Reason: Barrier, Winner: id(9), WinnerOrdinal: 5}
	if v := z.Certify(6, at(4, key(1, shared))); v != want {
		t.Errorf("%+v", v)
	}
	commit(t, z, 7, at(5, key(1, shared)))
}

// TestDefine: a definition takes its keys from who has not seen it and lets others be; it does not run if what it
// was said to change may have changed, and is a barrier if that is not known (C4).
func TestDefine(t *testing.T) {
	define := func(base uint64, ks ...writeset.Key) Transaction {
		return Transaction{ID: id(9), Base: base, Writeset: keys(ks...)}
	}
	for _, c := range []struct {
		name     string
		before   func(z *Certifier)
		d        Transaction
		outdated bool
	}{
		{"alone", func(*Certifier) {}, define(3, key(1, exclusive)), false},
		{"rows are written meanwhile", func(z *Certifier) { commit(t, z, 4, at(3, key(1, shared), key(7, update))) },
			define(3, key(1, exclusive)), false},
		{"another table is defined meanwhile", func(z *Certifier) {
			z.Define(4, define(3, key(2, exclusive), key(5, update)))
		}, define(3, key(1, exclusive), key(5, update)), false},
		{"its table is defined meanwhile", func(z *Certifier) { z.Define(4, define(3, key(1, exclusive))) },
			define(3, key(1, exclusive)), true},
		{"its table was defined before", func(z *Certifier) { z.Define(3, define(2, key(1, exclusive))) },
			define(3, key(1, exclusive)), false},
		{"its table is defined in a transaction", func(z *Certifier) { commit(t, z, 4, at(3, key(1, exclusive))) },
			define(3, key(1, exclusive)), true},
		{"what it looks at is held meanwhile", func(z *Certifier) {
			z.Define(4, define(3, key(2, exclusive), key(4, update)))
		}, define(3, key(1, exclusive), key(4, writeset.Read)), true},
		{"both look at something", func(z *Certifier) {
			z.Define(4, define(3, key(2, exclusive), key(4, writeset.Read)))
		}, define(3, key(1, exclusive), key(4, writeset.Read)), false},
		{"a barrier comes first", func(z *Certifier) { z.SetBarrier(4, id(8)) }, define(3, key(1, exclusive)), true},
	} {
		z := New(Options{})
		c.before(z)
		before := z.Check(at(4, key(1, shared)))
		if v := z.Define(5, c.d); (v.Reason == Outdated) != c.outdated || !c.outdated && !v.Commit() {
			t.Errorf("%s: %+v, want it outdated: %v", c.name, v, c.outdated)
		}
		if c.outdated {
			if v := z.Check(at(4, key(1, shared))); v != before {
				t.Errorf("%s: it does not run and has left something: %+v, before it %+v", c.name, v, before)
			}
			continue
		}
		if v := z.Check(at(4, key(1, shared))); v.Commit() {
			t.Errorf("%s: who writes to the table, and has not seen it, may go on", c.name)
		}
		if v := z.Check(at(5, key(1, shared), key(6, shared))); !v.Commit() {
			t.Errorf("%s: who has seen it: %+v", c.name, v)
		}
		if v := z.Check(at(4, key(6, shared))); !v.Commit() {
			t.Errorf("%s: who writes elsewhere: %+v", c.name, v)
		}
	}
	z := New(Options{KeysMax: 1})
	commit(t, z, 3, at(2, key(2, update)))
	commit(t, z, 4, at(3, key(3, update)))
	if v := z.Define(5, define(2, key(1, exclusive))); v.Reason != Outdated {
		t.Errorf("what was ordered after its base is forgotten: %+v", v)
	}
	if v := z.Define(5, Transaction{ID: id(9), Base: 2, Writeset: &writeset.Writeset{Barrier: true}}); !v.Commit() {
		t.Errorf("nobody knows what it changes: %+v", v)
	}
	if v := z.Check(at(4, key(6, shared))); v.Reason != Barrier {
		t.Errorf("nobody knows what it changes: who has not seen it: %+v", v)
	}
}

// TestEviction: forgotten transactions count as conflicts (C3), and the bound holds.
func TestEviction(t *testing.T) {
	const keysMax = 10
	z := New(Options{KeysMax: keysMax})
	for o := uint64(1); o <= 5000; o++ {
		commit(t, z, o, at(o-1, key(o, update), key(o+100_000, shared)))
		if z.Keys() > keysMax || len(z.keys) > keysMax {
			t.Fatalf("ordinal %d: %d keys held, %d in the index", o, z.Keys(), len(z.keys))
		}
	}
	if len(z.records) > 2048+keysMax {
		t.Errorf("%d records kept", len(z.records))
	}
	if v := z.Certify(5001, at(4000, key(1, shared))); v.Reason != TooOld {
		t.Errorf("an old base: %+v", v)
	}
	old := Transaction{ID: id(1), Base: 5000, SharedBase: 1, Writeset: keys(key(1, exclusive))}
	if v := z.Certify(5002, old); v.Reason != TooOld {
		t.Errorf("an old shared base: %+v", v)
	}
	old.Writeset = keys(key(1, update)) // does not need the shared base
	commit(t, z, 5003, old)
	// Nor does an inserted row: long loads commit however much else did.
	old.Writeset = &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t"}},
		Rows: []writeset.Row{{Op: writeset.OpInsert, Identity: 77, Image: []byte("x")}}}
	old.Base = 5003
	commit(t, z, 5004, old)
}

// TestHugeTransaction: one transaction larger than the index is still remembered.
func TestHugeTransaction(t *testing.T) {
	z := New(Options{KeysMax: 2})
	commit(t, z, 1, at(0, key(1, update), key(2, update), key(3, update), key(4, update)))
	if v := z.Certify(2, at(0, key(4, update))); v.Reason != KeyConflict {
		t.Errorf("%+v", v)
	}
	if v := z.Certify(3, at(0, key(4, update))); v.Reason != KeyConflict {
		t.Errorf("%+v", v)
	}
}

func TestCertifyPanics(t *testing.T) {
	for name, tx := range map[string]Transaction{
		"base not before the ordinal": {Base: 5, Writeset: keys()},
		"shared base beyond the base": {Base: 1, SharedBase: 2, Writeset: keys()},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			New(Options{}).Certify(5, tx)
		})
	}
}

// TestLockBase: a row that is made, and what it refers to, are compared from the lock base on; a row that is changed
// and a table are not.
func TestLockBase(t *testing.T) {
	c := New(Options{})
	commit(t, c, 1, at(0, key(1, exclusive), key(2, exclusive)))
	for name, x := range map[string]struct {
		lockBase uint64
		op       writeset.Op
		key      writeset.Key
		commits  bool
	}{
		"made":                  {1, writeset.OpInsert, key(9, shared), true},
		"made unseen":           {0, writeset.OpInsert, key(9, shared), false},
		"changed":               {1, writeset.OpReplace, key(9, shared), false},
		"gone":                  {1, writeset.OpDelete, key(9, shared), false},
		"referred to":           {1, 0, key(1, shared), true},
		"referred to unseen":    {0, 0, key(1, shared), false},
		"another unique value":  {1, 0, key(1, exclusive), false},
		"a table, written to":   {1, 0, key(2, shared), false},
		"looked for by its key": {1, 0, key(1, writeset.Read), false},
	} {
		w := &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t", Key: 2}}, Keys: []writeset.Key{x.key}}
		if x.op != 0 {
			w.Rows = []writeset.Row{{Op: x.op, Identity: 1, Image: []byte("x")}}
		}
		if v := c.Check(Transaction{ID: id(7), LockBase: x.lockBase, Writeset: w}); v.Commit() != x.commits {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// naive is the definition: every earlier committed transaction is looked at.
type naive struct {
	committed []struct {
		ordinal uint64
		Transaction
	}
}

func (n *naive) certify(ordinal uint64, t Transaction) (winner uint64) {
	for _, o := range n.committed {
		o.Writeset.EachKey(func(theirs writeset.Key) bool {
			t.Writeset.EachKey(func(mine writeset.Key) bool {
				base := t.Base
				if mine.Fresh || mine.Mode == shared {
					base = max(base, t.LockBase)
				}
				if mine.Mode == exclusive && theirs.Mode == shared {
					base = t.SharedBase
				}
				referenced := mine.Fresh && theirs.Mode == shared // by nobody: the row is new
				if mine.Hash == theirs.Hash && mine.Mode.Conflicts(theirs.Mode) && o.ordinal > base && !referenced {
					winner = max(winner, o.ordinal)
				}
				return true
			})
			return true
		})
	}
	if winner == 0 {
		n.committed = append(n.committed, struct {
			ordinal uint64
			Transaction
		}{ordinal, t})
	}
	return winner
}

func drawTransaction(t *rapid.T, ordinal uint64) Transaction {
	tx := Transaction{ID: id(ordinal)}
	tx.Base = rapid.Uint64Range(max(ordinal, 12)-12, ordinal-1).Draw(t, "base")
	tx.SharedBase = rapid.Uint64Range(0, tx.Base).Draw(t, "shared base")
	if rapid.Bool().Draw(t, "snapshot") {
		tx.LockBase = rapid.Uint64Range(tx.Base, ordinal-1).Draw(t, "lock base")
	}
	tx.Writeset = &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t"}}}
	for range rapid.IntRange(0, 3).Draw(t, "keys") {
		tx.Writeset.Keys = append(tx.Writeset.Keys, key(rapid.Uint64Range(1, 6).Draw(t, "hash"),
			writeset.Mode(rapid.IntRange(1, 4).Draw(t, "mode"))))
	}
	for range rapid.IntRange(0, 2).Draw(t, "rows") {
		op := writeset.Op(rapid.IntRange(1, 4).Draw(t, "op"))
		tx.Writeset.Rows = append(tx.Writeset.Rows,
			writeset.Row{Op: op, Identity: rapid.Uint64Range(1, 6).Draw(t, "identity"), Image: []byte("x")})
	}
	return tx
}

// TestModel: with room for everything the index decides exactly as the definition; when
// bounded it differs only by TooOld, and two certifiers never differ from each other.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unbounded, n := New(Options{}), &naive{}
		keysMax := rapid.IntRange(1, 12).Draw(t, "keys max")
		bounded, twin, definition := New(Options{KeysMax: keysMax}), New(Options{KeysMax: keysMax}), &naive{}
		ordinal := uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "transactions") {
			ordinal += rapid.Uint64Range(1, 2).Draw(t, "gap")
			tx := drawTransaction(t, ordinal)
			v, w := unbounded.Certify(ordinal, tx), n.certify(ordinal, tx)
			if v.Commit() != (w == 0) {
				t.Fatalf("ordinal %d: %+v, by definition %d wins", ordinal, v, w)
			}
			if !v.Commit() && (v.WinnerOrdinal > w || v.Winner != id(v.WinnerOrdinal)) {
				t.Fatalf("ordinal %d: %+v names a wrong winner, %d is the last", ordinal, v, w)
			}
			b := bounded.Certify(ordinal, tx)
			if b != twin.Certify(ordinal, tx) {
				t.Fatalf("ordinal %d: two certifiers differ", ordinal)
			}
			if b.Reason == TooOld {
				continue // the definition must not remember it either
			}
			if w := definition.certify(ordinal, tx); b.Commit() != (w == 0) {
				t.Fatalf("ordinal %d: bounded says %+v, by definition %d wins", ordinal, b, w)
			}
		}
	})
}

func BenchmarkCertify(b *testing.B) {
	z := New(Options{})
	o := uint64(0)
	for b.Loop() {
		o++
		z.Certify(o, at(o-1, key(o, update), key(o*7, exclusive), key(o%100, shared)))
	}
}

// TestLockBaseOfNames: the names by which a transaction's definitions were told are compared from the lock base on, its
// tables are not.
func TestLockBaseOfNames(t *testing.T) {
	c := New(Options{})
	commit(t, c, 1, at(0, key(1, writeset.Update), key(2, exclusive), key(3, shared)))
	names := []writeset.Table{
		{Schema: writeset.OwnSchema, Name: "definitions", Key: 1}, {Schema: writeset.OwnSchema, Name: "types", Key: 2},
		{Schema: "s", Name: "t", Key: 3},
	}
	step := []writeset.Step{{Definition: []byte("{}")}}
	for name, x := range map[string]struct {
		lockBase uint64
		keys     []writeset.Key
		steps    []writeset.Step
		newest   bool
		commits  bool
	}{
		"a name seen":            {1, []writeset.Key{{Hash: 1, Mode: writeset.Update}}, step, true, true},
		"one that is held":       {1, []writeset.Key{{Hash: 2, Mode: exclusive, Table: 1}}, step, true, true},
		"not seen":               {0, []writeset.Key{{Hash: 1, Mode: writeset.Update}}, step, true, false},
		"a table":                {1, []writeset.Key{{Hash: 3, Mode: exclusive, Table: 2}}, step, true, false},
		"without definitions":    {1, []writeset.Key{{Hash: 1, Mode: writeset.Update}}, nil, true, false},
		"of an older build":      {1, []writeset.Key{{Hash: 1, Mode: writeset.Update}}, step, false, false},
		"held, an older build's": {1, []writeset.Key{{Hash: 2, Mode: exclusive, Table: 1}}, step, false, false},
	} {
		w := &writeset.Writeset{Tables: names, Keys: x.keys, Steps: x.steps, Held: []uint32{1, 2},
			NewestNames: x.newest}
		if v := c.Check(Transaction{ID: id(7), LockBase: x.lockBase, Writeset: w}); v.Commit() != x.commits {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
