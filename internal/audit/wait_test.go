package audit

import (
	"testing"
	"time"
)

// TestAwaited: a check waits for a member that may still answer, and no longer.
func TestAwaited(t *testing.T) {
	const silent = 3 * time.Second
	began := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	for name, c := range map[string]struct {
		alive   func(time.Duration) bool
		applied func(time.Duration) uint64
		ordinal uint64
		until   time.Duration // that it waits
		why     string
	}{
		"silent from the beginning": {func(time.Duration) bool { return false },
			func(time.Duration) uint64 { return 5 }, 9, silent, verdictUnreachable},
		"falls silent": {func(d time.Duration) bool { return d < 10*time.Second },
			func(time.Duration) uint64 { return 9 }, 9, 10*time.Second + silent, verdictUnreachable},
		"stays behind": {func(time.Duration) bool { return true }, func(time.Duration) uint64 { return 5 },
			9, behindAfter, verdictBehind},
		"comes nearer": {func(time.Duration) bool { return true },
			func(d time.Duration) uint64 { return min(uint64(d/(10*time.Second)), 8) }, 9, 80*time.Second + behindAfter,
			verdictBehind},
		"computes for long": {func(time.Duration) bool { return true }, func(time.Duration) uint64 { return 9 },
			9, checkTimeout, verdictBehind},
		"no place in the order yet": {func(time.Duration) bool { return true }, func(time.Duration) uint64 { return 5 },
			0, checkTimeout, verdictBehind},
	} {
		a := awaited{heard: began, moved: began}
		d, why := time.Duration(0), ""
		for ; why == "" && d < time.Hour; d += 100 * time.Millisecond {
			why = a.verdict(c.applied(d), c.alive(d), c.ordinal, at(d), began, silent)
		}
		if late := d - c.until; why != c.why || late < 0 || late > time.Second {
			t.Errorf("%s: %q after %v, want %q after %v", name, why, d, c.why, c.until)
		}
	}
}
