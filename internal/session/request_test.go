package session

import (
	"testing"

	"github.com/tuttidb/tutti/internal/semantics"
)

// TestDoing: what texts say that a request does.
func TestDoing(t *testing.T) {
	of := func(sql string) (d doing) {
		for _, st := range semantics.Classify(sql) {
			d.add(st)
		}
		return d
	}
	for _, c := range []struct {
		sql                            string
		harmless, write, apart, copies bool
	}{
		{"SELECT 1", true, false, false, false},
		{"SELECT 1; SELECT 2", true, false, false, false},
		{"UPDATE t SET v = 1", false, true, false, false},
		{"SELECT 1; UPDATE t SET v = 1", false, true, false, false},
		{"SELECT v FROM t FOR UPDATE", true, false, true, false},
		{"EXECUTE p", false, true, true, false},
		{"COPY t FROM STDIN", false, true, true, true},
		{"SELECT 1; SAVEPOINT a", false, false, true, false},
		{"SAVEPOINT a; SELECT 1", false, false, true, false},
	} {
		d := of(c.sql)
		if d.harmless() != c.harmless || d.write != c.write || d.apart != c.apart || d.copies != c.copies {
			t.Errorf("%s: %+v, harmless %v", c.sql, d, d.harmless())
		}
	}
	if d := of("LISTEN a; UNLISTEN b; LISTEN c"); !d.listens || len(d.channels) != 2 {
		t.Errorf("LISTEN: %+v", d)
	}
	if d := of("LOCK TABLE t; LOCK TABLE u"); len(d.tables) != 2 {
		t.Errorf("LOCK TABLE: %+v", d)
	}
	if d := of("CALL s.p()"); d.calls != "p" || d.commits {
		t.Errorf("CALL: %+v", d)
	}
}

// TestYields: a request is done in another way behind the losses that it bears.
func TestYields(t *testing.T) {
	never, second := way{}, way{yields: 2}
	if never.yieldsAt(100) || second.yieldsAt(0) || !second.yieldsAt(1) {
		t.Error("a request yields at another try than it should")
	}
}
