package session_test

import (
	"slices"
	"testing"
)

// TestLockTableTooLate: a table that another member's session has locked makes the statement fail as PostgreSQL would,
// and nothing else: a savepoint can be rolled back to.
func TestLockTableTooLate(t *testing.T) {
	l := empty(t)
	for _, p := range []struct {
		set, lock, want string
		most            []int64
	}{
		{"SET LOCAL lock_timeout = 70", "LOCK TABLE t", "ERROR 55P03 canceling statement due to lock timeout",
			[]int64{70}},
		{"SET LOCAL statement_timeout = '2s'", "LOCK t IN SHARE UPDATE EXCLUSIVE MODE",
			"ERROR 57014 canceling statement due to statement timeout", []int64{2000}},
		{"SET LOCAL lock_timeout = '1min'", "LOCK TABLE ONLY public.t IN EXCLUSIVE MODE NOWAIT",
			`ERROR 55P03 could not obtain lock on relation "t"`, []int64{60_000}},
		{"SET LOCAL lock_timeout = 70", "LOCK TABLE t IN ROW EXCLUSIVE MODE", "CommandComplete LOCK TABLE", nil},
	} {
		l.host.late([]int64{})
		l.do("Q BEGIN\nQ SAVEPOINT s")
		l.do("Q " + p.set)
		l.want("Q "+p.lock, p.want)
		l.want("Q ROLLBACK TO s", "CommandComplete ROLLBACK")
		l.want("Q SELECT count(*) FROM t WHERE id = -1", "DataRow 0")
		l.want("Q COMMIT", "CommandComplete COMMIT")
		if got := l.host.late(nil); !slices.Equal(got, p.most) {
			t.Errorf("%s, %s: waited for %v", p.set, p.lock, got)
		}
	}
	l.host.late([]int64{})
	l.want("P |LOCK TABLE t NOWAIT\nB |\nE |0\nS", "ERROR 25P01") // outside of a block
	if got := l.host.late(nil); len(got) > 0 {
		t.Error("it was waited for outside of a block")
	}
	l.host.late([]int64{})
	l.do("Q BEGIN")
	l.want("P lock|LOCK TABLE t NOWAIT\nS", "ParseComplete")
	if got := l.host.late([]int64{}); len(got) > 0 {
		t.Error("it was waited for before it was executed")
	}
	l.want("B |lock\nE |0\nS", "ERROR 55P03")
	l.host.late(nil)
	l.want("Q ROLLBACK", "CommandComplete ROLLBACK")
}

// TestLockTableSearches: names without a schema are looked for where PostgreSQL does.
func TestLockTableSearches(t *testing.T) {
	l := empty(t)
	for _, p := range []struct {
		path string
		want []string
	}{
		{`"$user", public`, []string{"app", "public"}},
		{`Other, "a "" , b",public`, []string{"other", `a " , b`, "public"}},
		{`''`, nil},
	} {
		l.do("Q SET search_path = " + p.path)
		l.host.late([]int64{})
		l.do("Q BEGIN\nQ LOCK TABLE public.t\nQ ROLLBACK")
		l.host.late(nil)
		if got := l.host.schemas; !slices.Equal(got, p.want) {
			t.Errorf("%s: %q", p.path, got)
		}
	}
	l.host.late(nil)
}

// TestHoldsAreGivenBack: a LOCK TABLE or a definition that fails keeps nobody out any longer: it may not have had the
// right to.
func TestHoldsAreGivenBack(t *testing.T) {
	l := empty(t)
	for _, sql := range []string{"LOCK TABLE t, nothing", "ALTER TABLE t ADD COLUMN id int"} {
		before := l.host.givenBack
		l.do("Q BEGIN\nQ SELECT count(*) FROM t")
		if l.host.givenBack != before {
			t.Error("given back without a cause")
		}
		l.do("Q " + sql)
		if l.host.givenBack != before+1 {
			t.Errorf("%s: given back %d times", sql, l.host.givenBack-before)
		}
		l.do("Q ROLLBACK")
	}
}

// late sets how long tables have been waited for in vain, or nil if they are not, and returns what it was.
func (h *fakeHost) late(most []int64) (before []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, h.lateMost = h.lateMost, most
	return before
}
