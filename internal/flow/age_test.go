package flow

import (
	"testing"

	"pgregory.net/rapid"
)

// TestAge: three situations as they follow one another.
func TestAge(t *testing.T) {
	var a Age
	is := func(now int64, applied uint64, want int64) {
		t.Helper()
		if got := a.Millis(now, applied); got != want {
			t.Fatalf("at %d, with %d applied: %d ms, want %d", now, applied, got, want)
		}
	}
	a.Begin(100)
	is(150, 0, 50) // nothing is known of the order yet
	a.Note(200, 7)
	is(250, 5, 150)
	is(250, 7, 50) // all is applied that was ordered at 200
	a.Note(500, 7)
	is(550, 7, 50) // nothing was ordered meanwhile
	a.Note(800, 20)
	a.Note(1100, 30)
	is(1200, 7, 700)
	is(1200, 19, 700)
	is(1200, 20, 400)
	is(1300, 25, 500)
	is(1300, 30, 200)
	is(5000, 30, 3900) // no leader is heard any more
}

// TestAgeIsBounded: however long a member lags, little is kept, and the age is never less than it is.
func TestAgeIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Age
		n := rapid.IntRange(1, 60*endsMax).Draw(t, "notes")
		step := rapid.Int64Range(1, 300).Draw(t, "step")
		for i := range n {
			a.Note(int64(i)*step, uint64(i))
		}
		if len(a.ends) > endsMax {
			t.Fatalf("%d are kept", len(a.ends))
		}
		applied := rapid.IntRange(0, n-1).Draw(t, "applied")
		now := int64(n) * step
		true := now - int64(applied)*step
		got := a.Millis(now, uint64(applied))
		if got < true || got > true+8*(now/endsMax+step) {
			t.Fatalf("%d of %d are applied: %d ms, it is %d", applied, n, got, true)
		}
	})
}
