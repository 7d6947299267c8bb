package replay

import (
	"testing"
	"time"
)

// TestPace: a large transaction leaves as fast as the slowest member that counts executes it.
func TestPace(t *testing.T) {
	const size, ahead = 100, 10
	start := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	for name, run := range map[string]func(next func(x *pace, d time.Duration, members ...uint32)) (x *pace, front int){
		"the slowest decides": func(next func(*pace, time.Duration, ...uint32)) (*pace, int) {
			x := newPace(size, ahead, start)
			x.members[2], x.members[3] = progress{bytes: 50, since: at(0)}, progress{bytes: 30, since: at(0)}
			next(x, time.Second/10, 2, 3)
			return x, 40
		},
		"who has said nothing yet": func(next func(*pace, time.Duration, ...uint32)) (*pace, int) {
			x := newPace(size, ahead, start)
			x.members[2] = progress{bytes: 50, since: at(0)}
			next(x, time.Second/10, 2, 3)
			return x, ahead
		},
		"who is away, or not synced, does not count": func(next func(*pace, time.Duration, ...uint32)) (*pace, int) {
			x := newPace(size, ahead, start)
			x.members[2], x.members[3] = progress{bytes: 50, since: at(0)}, progress{bytes: 30, since: at(0)}
			next(x, time.Second/10, 2)
			return x, 60
		},
		"nor who leaves it to its turn": func(next func(*pace, time.Duration, ...uint32)) (*pace, int) {
			x := newPace(size, ahead, start)
			x.members[2], x.members[3] = progress{bytes: 50, since: at(0)}, progress{since: at(0), over: true}
			next(x, time.Second/10, 2, 3)
			return x, 60
		},
		"nor who has come to a stand": func(next func(*pace, time.Duration, ...uint32)) (*pace, int) {
			x := newPace(size, ahead, start)
			x.members[2], x.members[3] = progress{bytes: 50, since: at(paceStuck)}, progress{bytes: 5, since: at(0)}
			next(x, paceStuck+time.Millisecond, 2, 3)
			return x, 60
		},
		"until it goes on": func(next func(*pace, time.Duration, ...uint32)) (*pace, int) {
			x := newPace(size, ahead, start)
			x.members[2], x.members[3] = progress{bytes: 50, since: at(paceStuck)}, progress{bytes: 5, since: at(0)}
			next(x, paceStuck+time.Millisecond, 2, 3)
			x.members[3] = progress{bytes: 7, since: at(paceStuck + 2*time.Millisecond)}
			next(x, paceStuck+3*time.Millisecond, 2, 3)
			return x, 17
		},
		"who has executed all that has left stands still for that " +
			"reason": func(next func(*pace, time.Duration, ...uint32)) (*pace, int) {
			x := newPace(size, ahead, start)
			x.members[2], x.members[3] = progress{bytes: ahead, since: at(0)}, progress{bytes: ahead, since: at(0)}
			next(x, 2*paceStuck, 2, 3)
			return x, 2 * ahead
		},
		"nobody counts": func(next func(*pace, time.Duration, ...uint32)) (*pace, int) {
			x := newPace(size, ahead, start)
			next(x, paceStuck+time.Millisecond, 2, 3)
			return x, size
		},
	} {
		x, front := run(func(x *pace, d time.Duration, members ...uint32) { x.next(members, 3, 20, at(d)) })
		if x.front != front {
			t.Errorf("%s: %d bytes may leave, not %d", name, x.front, front)
		}
	}
}

// TestPaceOfAMinority: a member that a majority can do without makes a large transaction slower by its share only.
func TestPaceOfAMinority(t *testing.T) {
	for percent, want := range map[int][2]time.Duration{-1: {time.Second, 1100 * time.Millisecond},
		20: {1200 * time.Millisecond, 2 * time.Second}, 50: {1300 * time.Millisecond, 3 * time.Second}} {
		const size, ahead = 1000, 10
		now := time.Unix(1000, 0)
		x := newPace(size, ahead, now)
		began := now
		fast, slow := 0.0, 0.0
		for fast < size && now.Sub(began) < time.Minute {
			now = now.Add(10 * time.Millisecond)
			fast, slow = min(float64(x.front), fast+10), min(float64(x.front), slow+1)
			for m, done := range map[uint32]float64{2: fast, 3: slow} {
				if p := x.members[m]; p.bytes != int(done) {
					x.members[m] = progress{bytes: int(done), since: now}
				}
			}
			x.next([]uint32{2, 3}, 3, percent, now)
		}
		if took := now.Sub(began); took < want[0] || took > want[1] {
			t.Errorf("with a share of %d %% a second's work took %v", percent, took)
		}
	}
}
