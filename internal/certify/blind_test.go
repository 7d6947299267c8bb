package certify

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// unseen is a transaction that changes rows of a table with key 50 blindly.
func unseen(base uint64, identities ...uint64) Transaction {
	w := &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t", Format: writeset.FormatBinary, Key: 50}}}
	for _, id := range identities {
		w.Rows = append(w.Rows, writeset.Row{Op: writeset.OpSet, Identity: id, Image: []byte{1, 0, 0}})
	}
	w.AddTableKeys()
	return Transaction{ID: id(base + 2000), Base: base, SharedBase: base, Writeset: w}
}

// TestBlind: who has seen nothing loses only to who has taken its table, or is forgotten; and whoever comes later and
// has not seen it loses (C8).
func TestBlind(t *testing.T) {
	for _, mode := range []writeset.Mode{update, exclusive, shared, writeset.Share, writeset.Add} {
		z := New(Options{})
		before := at(9, key(1, mode))
		if mode == writeset.Add {
			before = adds(9, 1)
		}
		commit(t, z, 10, before)
		commit(t, z, 20, unseen(5, 1))
		commit(t, z, 21, unseen(5, 1, 2))
		if !z.Blind(20) || z.Blind(10) || z.Blind(15) {
			t.Errorf("mode %d: it is not known who was blind", mode)
		}
		after := at(20, key(1, mode))
		if mode == writeset.Add {
			after = adds(20, 1)
		}
		v := z.Certify(30, after)
		if mode == shared && !v.Commit() || mode != shared && (v.Reason != KeyConflict || v.WinnerOrdinal != 21) {
			t.Errorf("mode %d after it: %+v", mode, v)
		}
		commit(t, z, 40, at(39, key(2, update)))
	}
	z := New(Options{})
	commit(t, z, 10, at(9, key(50, exclusive)))
	if v := z.Certify(20, unseen(9, 1)); v.Reason != KeyConflict || v.Key.Hash != 50 {
		t.Errorf("the table was taken: %+v", v)
	}
	z.SetBarrier(30, id(1))
	if v := z.Certify(40, unseen(29, 1)); v.Reason != Barrier {
		t.Errorf("behind a barrier: %+v", v)
	}
	small := New(Options{KeysMax: 1})
	commit(t, small, 10, at(9, key(1, update)))
	commit(t, small, 20, at(19, key(2, update)))
	if v := small.Certify(30, unseen(9, 1)); v.Reason != TooOld {
		t.Errorf("something was forgotten: %+v", v)
	}
}
