package certify

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestCheckReads: what a transaction has read is not locked, so whoever has taken it behind its base is in its way,
// unless that is forgotten. Other keys do not count.
func TestCheckReads(t *testing.T) {
	read := key(1, writeset.Read)
	read.Table = 0
	for _, c := range []struct {
		what   string
		before writeset.Key
		key    writeset.Key
		base   uint64
		loses  bool
	}{
		{"taken before", key(1, writeset.Shared), read, 10, false},
		{"taken behind it", key(1, writeset.Shared), read, 9, true},
		{"changed behind it", key(1, update), read, 9, true},
		{"another name", key(2, writeset.Shared), read, 9, false},
		{"what it has locked", key(1, update), key(1, update), 9, false},
	} {
		z := New(Options{})
		commit(t, z, 10, at(9, c.before))
		own := at(c.base, c.key)
		own.Writeset.Tables = []writeset.Table{{Key: 1}}
		v := z.CheckReads(own)
		if v.Commit() == c.loses || c.loses && v.WinnerOrdinal != 10 {
			t.Errorf("%s: %+v", c.what, v)
		}
	}
}
