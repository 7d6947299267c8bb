package certify

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestCompany: who adds to a row, or shares it, has not seen others who do so, too, so that to have seen the last of
// them is not to have seen all.
func TestCompany(t *testing.T) {
	for _, c := range []struct {
		name   string
		before []Transaction // at ordinals 10, 20, 30
		key    writeset.Key
		unseen uint64 // ordinal that the transaction has not seen
		loses  bool
	}{
		{"an addition before the last", []Transaction{adds(5, 1), adds(5, 1), adds(5, 1)}, key(1, update), 20, true},
		{"the last addition", []Transaction{adds(5, 1), adds(5, 1), adds(5, 1)}, key(1, update), 30, true},
		{"an addition before an update that has seen it",
			[]Transaction{adds(5, 1), at(15, key(1, update)), adds(25, 1)}, key(1, update), 10, false},
		{"a share before the last", []Transaction{at(5, key(1, writeset.Share)), at(5, key(1, writeset.Share)),
			at(5, key(1, writeset.Share))}, key(1, update), 10, true},
		{"a share, for who shares, too", []Transaction{at(5, key(1, writeset.Share)), at(5, key(1, writeset.Share)),
			at(5, key(1, writeset.Share))}, key(1, writeset.Share), 10, false},
		{"an update before the last", []Transaction{at(5, key(1, update)), at(15, key(1, update)),
			at(25, key(1, update))}, key(1, update), 10, false},
		{"an addition to another row", []Transaction{adds(5, 2), adds(5, 1), adds(5, 1)}, key(1, update), 10, false},
	} {
		z := New(Options{})
		for i, b := range c.before {
			commit(t, z, uint64(10*(i+1)), b)
		}
		v := z.CheckLocks(at(5, c.key), 100, func(_ writeset.TxID, ordinal uint64,
			_ bool) bool {
			return ordinal != c.unseen
		})
		if v.Commit() == c.loses || c.loses && v.WinnerOrdinal != c.unseen {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}
