package certify

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestCheckNames: nobody has locked the names that he has searched for, so whoever has taken one behind the base is in
// the way. What LOCK TABLE holds, and other keys, do not count.
func TestCheckNames(t *testing.T) {
	read := key(1, writeset.Read)
	for _, c := range []struct {
		what   string
		before writeset.Key
		key    writeset.Key
		base   uint64
		loses  bool
		schema string
	}{
		{"taken before", key(1, writeset.Shared), read, 10, false, writeset.OwnSchema},
		{"taken behind it", key(1, writeset.Shared), read, 9, true, writeset.OwnSchema},
		{"changed behind it", key(1, update), read, 9, true, writeset.OwnSchema},
		{"another name", key(2, writeset.Shared), read, 9, false, writeset.OwnSchema},
		{"a table that it has locked", key(1, writeset.Shared), read, 9, false, "public"},
		{"what it has locked", key(1, update), key(1, update), 9, false, writeset.OwnSchema},
	} {
		z := New(Options{})
		commit(t, z, 10, at(9, c.before))
		own := at(c.base, c.key)
		own.Writeset.Tables = []writeset.Table{{Schema: c.schema, Key: 1}}
		v := z.CheckNames(own)
		if v.Commit() == c.loses || c.loses && v.WinnerOrdinal != 10 {
			t.Errorf("%s: %+v", c.what, v)
		}
	}
}
