package grants

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/wire"
)

// taking has a session take its turn at rows.
func taking(t *testing.T, s *Session, rows ...uint64) <-chan struct{} {
	return begin(func() {
		if e := s.TakeTurns(rows); e != nil {
			t.Error(e)
		}
	})
}

// TestRowTurns (RT1 to RT3): who names a row by which transactions have lost waits for other members' sessions that had
// their turn at it, and for what they have done; sessions of one member do not wait for each other.
func TestRowTurns(t *testing.T) {
	all := cluster(t, 3)
	a, _ := all[1].session(10)
	b, _ := all[2].session(20)
	beside, _ := all[1].session(11)
	ends(t, taking(t, a, 7), "a session where nobody has lost")
	if a.LostAt([]uint64{7, 8}); a.rows.asked || !a.Contended() || b.Contended() {
		t.Errorf("it has asked: %t; contended here: %t, elsewhere: %t", a.rows.asked, a.Contended(), b.Contended())
	}
	ends(t, taking(t, a, 7), "a session after one loss")
	if a.LostAt([]uint64{7}); a.rows.asked {
		t.Error("one loss is enough")
	}
	ends(t, taking(t, a, 7, 8), "the first session")
	if !a.rows.asked || !b.Contended() {
		t.Fatal("nobody was asked")
	}
	ends(t, taking(t, beside, 7), "another session of that member")
	waiting := taking(t, b, 7)
	waits(t, waiting, "a session of another member")
	c, _ := all[3].session(30)
	ends(t, taking(t, c, 8), "a session at a row by which one has lost")
	all[1].ordered.Store(9)
	a.End(9)
	waits(t, waiting, "while a session of the first member has its turn")
	beside.End(0)
	waits(t, waiting, "while what the first one has done is not applied here")
	all[2].applied.Store(9)
	ends(t, waiting, "what comes behind the first ones")
	last := taking(t, a, 7)
	waits(t, last, "the first member's next session")
	b.GiveBack() // schema locks
	waits(t, last, "the first member's next session")
	b.End(0)
	ends(t, last, "the last one")
}

// TestRowTurnEnds (RT3): a session stops waiting when its transaction has lost; what takes too long is gone on without,
// and what the session had before it keeps.
func TestRowTurnEnds(t *testing.T) {
	all := cluster(t, 2)
	a, _ := all[1].session(10)
	b, client := all[2].session(20)
	for range lossesMin {
		a.LostAt([]uint64{7, 8})
		b.LostAt([]uint64{7, 8})
	}
	ends(t, taking(t, a, 7), "the first session")
	doom := wire.Errorf(wire.CodeSerializationFailure, "it has lost")
	lost := begin(func() {
		if e := b.TakeTurns([]uint64{7}); e != doom {
			t.Errorf("it has lost, and is told %v", e)
		}
	})
	waits(t, lost, "a session that will lose")
	client.why.Store(doom)
	ends(t, lost, "a session that has lost")
	client.why.Store(nil)
	b.End(0)
	ends(t, taking(t, b, 8), "a session at another row")
	began := time.Now()
	if e := b.TakeTurns([]uint64{7}); e != nil || time.Since(began) < rowTurnMax {
		t.Errorf("after %s it is told %v", time.Since(began), e)
	}
	still := taking(t, a, 8)
	waits(t, still, "who wants what the late one has")
	b.End(0)
	ends(t, still, "who wants what the late one had")
}

// TestRowTurnsAreApart: schema locks and turns at rows do not meet, though their numbers for what they are about do.
func TestRowTurnsAreApart(t *testing.T) {
	all := cluster(t, 2)
	a, _ := all[1].session(10)
	b, _ := all[2].session(20)
	for range lossesMin {
		a.LostAt([]uint64{7})
	}
	ends(t, taking(t, a, 7), "a turn")
	ends(t, begin(func() {
		if e := b.Hold(wrote(7), nil); e != nil {
			t.Error(e)
		}
	}), "a schema lock")
	if e := a.Pass(wrote(9), nil); e != nil {
		t.Error(e)
	}
	blocked := begin(func() { _ = a.Pass(wrote(7), nil) })
	waits(t, blocked, "who has a turn, and has written to a locked table,")
	b.End(0)
	ends(t, blocked, "who was blocked")
}

// byHand is a clock that goes by hand.
type byHand struct{ now time.Duration }

func (s *byHand) Now() time.Duration                        { return s.now }
func (s *byHand) Rest(time.Duration, <-chan struct{})       {}
func (s *byHand) After(time.Duration, func()) (stop func()) { return func() {} }

// TestContended: a row is contended when transactions have lost by it often, until they have not for a while, or others
// want it; few enough are known.
func TestContended(t *testing.T) {
	clock := &byHand{now: time.Hour}
	c := &contended{clock: clock, rows: map[uint64]losses{}}
	var told []string
	look := func(what string) {
		if c.some() {
			what += ": some"
		}
		for _, r := range c.of([]uint64{1, 2, 3}) {
			what += " " + string(rune('0'+r))
		}
		told = append(told, what)
	}
	look("nothing")
	c.lost([]uint64{1, 2})
	look("lost")
	c.lost([]uint64{2})
	look("again")
	clock.now += contendedFor
	c.lost([]uint64{1})
	look("later")
	clock.now++
	look("late")
	c.asked([]uint64{2, 3})
	clock.now += contendedFor - 1
	look("asked")
	clock.now += 2
	look("over")
	c.lost([]uint64{3})
	look("lost anew")
	want := []string{"nothing", "lost: some", "again: some 2", "later: some 1 2", "late: some 1", "asked: some 1 2 3",
		"over", "lost anew: some"}
	if !slices.Equal(told, want) {
		t.Errorf("told is\n%s\nand should be\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	for r := range uint64(3 * contendedMax) {
		c.lost([]uint64{r + 10})
		c.asked([]uint64{r + 1e6})
	}
	if n := len(c.rows); n > contendedMax {
		t.Errorf("%d rows are known", n)
	}
}
