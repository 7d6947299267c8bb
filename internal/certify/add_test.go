package certify

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// adds is a transaction that adds to rows of a table with key 50.
func adds(base uint64, identities ...uint64) Transaction {
	w := &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t", Format: writeset.FormatBinary, Key: 50}}}
	for _, id := range identities {
		w.Rows = append(w.Rows, writeset.Row{Op: writeset.OpAdd, Identity: id, Image: []byte("x")})
	}
	w.AddTableKeys()
	return Transaction{ID: id(base + 1000), Base: base, SharedBase: base, Writeset: w}
}

// TestAddedInTime: who adds must be ordered soon after its base (C7).
func TestAddedInTime(t *testing.T) {
	for _, c := range []struct {
		ordinal uint64
		tx      Transaction
		commit  bool
	}{{5 + AddedMax, adds(5, 1), true}, {6 + AddedMax, adds(5, 1), false},
		{6 + AddedMax, at(5, key(1, update)), true}} {
		if v := New(Options{}).Certify(c.ordinal, c.tx); v.Commit() != c.commit || !c.commit && v.Reason != TooOld {
			t.Errorf("ordinal %d: %+v", c.ordinal, v)
		}
	}
}

// TestCheckAdded: each row is compared from where it was known, with everything but additions.
func TestCheckAdded(t *testing.T) {
	z := New(Options{})
	commit(t, z, 10, at(9, key(1, update)))
	commit(t, z, 20, adds(19, 1, 2))
	commit(t, z, 30, at(29, key(2, writeset.Share)))
	commit(t, z, 40, at(39, key(50, exclusive))) // the table
	commit(t, z, 45, at(44, key(3, shared)))
	for _, c := range []struct {
		name  string
		tx    Transaction
		bases []uint64
		want  Verdict
	}{
		{"seen", adds(0, 1, 2, 3), []uint64{40, 40, 40}, Verdict{}},
		{"the table", adds(0, 1), []uint64{39}, Verdict{Reason: KeyConflict, Key: writeset.Key{Hash: 50, Mode: shared},
			WinnerOrdinal: 40, Winner: id(139)}},
		{"a row", adds(0, 1), []uint64{9}, Verdict{Reason: KeyConflict, Key: writeset.Key{Hash: 1, Mode: writeset.Add},
			WinnerOrdinal: 10, Winner: id(109)}},
		{"a lock", adds(0, 3, 2), []uint64{41, 29}, Verdict{Reason: KeyConflict,
			Key: writeset.Key{Hash: 2, Mode: writeset.Add}, WinnerOrdinal: 30, Winner: id(129)}},
		{"one too few", adds(0, 1, 2), []uint64{40}, Verdict{Reason: TooOld}},
	} {
		if got := z.CheckAdded(c.tx, c.bases); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	z.SetBarrier(50, id(1))
	if v := z.CheckAdded(adds(0, 1), []uint64{49}); v.Reason != Barrier || v.WinnerOrdinal != 50 {
		t.Errorf("%+v", v)
	}
	small := New(Options{KeysMax: 1})
	commit(t, small, 1, at(0, key(7, update)))
	commit(t, small, 2, at(1, key(8, update)))
	if v := small.CheckAdded(adds(0, 7), []uint64{0}); v.Reason != TooOld {
		t.Errorf("forgotten: %+v", v)
	}
}
