package donor

import (
	"reflect"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/replica"
)

// TestLoans follows a copy of two databases: from its beginning until its member has begun from it in both, or has been
// waited for long enough; each database for itself (DO5).
func TestLoans(t *testing.T) {
	var l Loans
	now := time.Now()
	synced := map[uint32]uint64{} // incarnations in which members are
	of := func(database uint64, after time.Duration) []replica.Loan {
		return l.Of(database, now.Add(after), func(m uint32, before uint64) bool { return synced[m] > before })
	}
	want := func(database uint64, after time.Duration, want ...replica.Loan) {
		t.Helper()
		if got := of(database, after); !reflect.DeepEqual(got, want) {
			t.Errorf("of database %d is lent %v, want %v", database, got, want)
		}
	}
	want(0, 0)
	l.Begin(3, map[uint64]Lent{0: {Entry: 50, Before: 7}, 8: {Entry: 5, Before: 2}})
	synced[3] = 7 // what was heard last of before
	want(0, 0, replica.Loan{Member: 3, Entry: 50, Open: true})
	l.Moved(3, 0, 60)
	want(0, 0, replica.Loan{Member: 3, Entry: 60, Open: true})
	want(8, time.Hour, replica.Loan{Member: 3, Entry: 5, Open: true})
	want(9, 0)

	l.Begin(3, map[uint64]Lent{0: {Entry: 70, Before: 7}, 8: {Entry: 6, Before: 7}}) // its first attempt has broken off
	l.End(3, now)
	want(0, 0, replica.Loan{Member: 3, Entry: 70, Open: true})
	l.End(3, now)
	want(0, time.Minute, replica.Loan{Member: 3, Entry: 70})
	synced[3] = 8
	want(0, time.Minute)
	synced[3] = 7
	want(0, time.Minute) // once is enough
	want(8, loanRest-1, replica.Loan{Member: 3, Entry: 6})
	want(8, loanRest)
}

// TestPauses: a copy that is needed so soon after the last one comes after a rest, a longer one each time; one that is
// needed later comes at once.
func TestPauses(t *testing.T) {
	var p Pauses
	now := time.Now()
	for i, want := range []time.Duration{0, pauseFirst, 2 * pauseFirst, 4 * pauseFirst, 8 * pauseFirst, 16 * pauseFirst,
		32 * pauseFirst, pauseMost, pauseMost} {
		if got := p.Next(now); got != want {
			t.Errorf("before copy %d it rests %s, want %s", i+1, got, want)
		}
		p.Took(now)
		now = now.Add(pauseFirst)
	}
	if got := p.Next(now.Add(3 * pauseMost)); got != 0 {
		t.Errorf("hours later it rests %s", got)
	}
}

// TestFits: what is synced is lent, and what nobody leads, as who asks may be needed for that; nothing that is halted,
// nor a copy of somebody else's (DO1).
func TestFits(t *testing.T) {
	for _, c := range []struct {
		state  replica.State
		leader uint32
		own    bool
		want   bool
	}{
		{replica.Synced, 2, true, true},
		{replica.NoLeader, 0, true, true},
		{replica.Joining, 0, true, true},
		{replica.Joining, 0, false, false},
		{replica.Joining, 2, true, false},
		{replica.CatchingUp, 2, true, false},
		{replica.Halted, 0, true, false},
		{replica.Stopping, 0, true, false},
	} {
		if got := Fits(&replica.Status{State: c.state, Leader: c.leader}, c.own); got != c.want {
			t.Errorf("%+v: lent: %v", c, got)
		}
	}
}
