package replica

import (
	"math"
	"testing"
)

// entries is a log in which each entry has a size of ten.
type entries uint64

func (n entries) BytesAfter(index uint64) int64 {
	return 10 * (int64(n) - int64(min(index, uint64(n))))
}
func (n entries) Surplus(keep int64) uint64 { return uint64(n) - min(uint64(n), uint64(keep)/10) }

func TestWantsCheckpoints(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name  string
		saved uint64
		log   entries
		keep  int64
		want  bool
	}{
		{"less than an eighth of what is kept", 100, 107, 640, false},
		{"an eighth", 100, 108, 640, true},
		{"from the beginning", 0, 8, 640, true},
		{"nothing is kept", 100, 101, 0, true},
		{"everything is kept, and little was written", 0, 100, -1, false},
		{"everything is kept, and much was written", 0, 13 * mib, -1, true},
		{"much is kept, and much was written", 0, 13 * mib, 8000 * mib, true},
	} {
		r := NewRetention(c.saved)
		if got := r.Wants(c.log, c.keep); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestCheckpoint follows one from its taking to the end of the log before it.
func TestCheckpoint(t *testing.T) {
	const keep = 100 // ten entries
	r, log := NewRetention(20), entries(50)
	if got := r.Compact(log, keep); got != 20 {
		t.Errorf("the log goes up to %d, and the checkpoint is of 20", got)
	}
	r.Took(48, 480)
	if !r.Under() || r.Wants(log, keep) {
		t.Error("another one is wanted while one is under way")
	}
	if r.Storable(479) || !r.Storable(480) {
		t.Error("it is stored when something is not applied, or not when all is (RE5)")
	}
	if got := r.Compact(log, keep); got != 20 {
		t.Errorf("the log goes up to %d before the checkpoint is stored (RE6)", got)
	}
	r.Stored()
	if got := r.Compact(log, keep); got != 40 || r.Under() {
		t.Errorf("the log goes up to %d of 50, of which ten are kept", got)
	}
	if got := r.Compact(log, 10); got != 48 {
		t.Errorf("the log goes up to %d, and the checkpoint is of 48", got)
	}
	if got := r.Compact(log, -1); got != 0 {
		t.Errorf("the log goes up to %d, and all of it is kept", got)
	}
	if !r.Wants(log, keep) || r.Wants(entries(49), keep) {
		t.Error("the next one is not counted from this one")
	}
}

// TestDropped: a checkpoint that is too large does not let the log go, and is not tried again at once.
func TestDropped(t *testing.T) {
	r := NewRetention(20)
	r.Took(48, 480)
	r.Dropped()
	if got := r.Compact(entries(60), 0); got != 20 || r.Under() {
		t.Errorf("the log goes up to %d", got)
	}
	if r.Wants(entries(48), 640) || !r.Wants(entries(56), 640) {
		t.Error("the next one is not counted from the one that was dropped")
	}
}

// TestCompactBeside: what is needed behind a copy stays, up to so many times as much as otherwise; nothing goes that
// would stay otherwise (RE11).
func TestCompactBeside(t *testing.T) {
	const keep = 100 // ten entries
	for _, c := range []struct {
		name  string
		log   entries
		saved uint64
		keep  int64
		lent  uint64
		want  uint64
	}{
		{"the copy is later than what is kept", 50, 48, keep, 45, 40},
		{"the copy needs more", 50, 48, keep, 30, 30},
		{"up to the checkpoint", 50, 20, keep, 30, 20},
		{"it comes to too much", 150, 148, keep, 30, 70},
		{"it needs all there ever was", 50, 48, keep, 0, 0},
		{"and that is too much", 100, 98, keep, 0, 20},
		{"all is kept", 150, 148, -1, 30, 0},
		{"as good as all is kept", 150, 148, math.MaxInt64, 30, 0},
	} {
		r := NewRetention(c.saved)
		if got := r.CompactBeside(c.log, c.keep, c.lent); got != c.want {
			t.Errorf("%s: the log goes up to %d, want %d", c.name, got, c.want)
		}
	}
}

// TestTooFar: what is not applied is kept up to so many times as much as otherwise (RE13).
func TestTooFar(t *testing.T) {
	const keep = 10 // one entry
	r := NewRetention(20)
	if r.TooFar(entries(1000), keep) {
		t.Error("no checkpoint waits, and it is too far")
	}
	r.Took(30, 300) // not stored yet
	for n, want := range map[entries]bool{31: false, 38: false, 39: true} {
		if got := r.TooFar(n, keep); got != want {
			t.Errorf("with %d entries it is too far: %v", n, got)
		}
	}
	if r.TooFar(entries(1000), -1) || r.TooFar(entries(1000), math.MaxInt64) {
		t.Error("all is kept, and it is too far")
	}
	if r.Stored(); r.TooFar(entries(1000), keep) {
		t.Error("all is applied, and it is too far")
	}
}
