package node

import (
	"context"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// TestEasing: who comes nearer fast enough rests, and goes on resting as long as it comes nearer at all fast.
func TestEasing(t *testing.T) {
	const second = 1000 // bytes by which the order grows in one
	for _, x := range []struct {
		name  string
		gains []uint64 // in each second
		want  []bool
	}{
		{"nothing is known before a window is over", nil, nil},
		{"no faster than the order grows", []uint64{1000}, []bool{false}},
		{"faster, but not if it rested", []uint64{5900}, []bool{false}},
		{"fast enough", []uint64{6100}, []bool{true}},
		{"fast enough while it rests", []uint64{7000, 2400, 2100}, []bool{true, true, true}},
		{"too slow while it rests", []uint64{7000, 1900, 5700, 6300}, []bool{true, false, false, true}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var e easing
			now, applied, ordered := time.Unix(0, 0), uint64(5), uint64(500_000)
			e.look(now, applied, ordered)
			if e.rests {
				t.Error("it rests at once")
			}
			for i, gain := range x.gains {
				before := e.rests
				if e.look(now.Add(easeWindow/2), applied+gain, ordered); e.rests != before {
					t.Error("it judges half a window")
				}
				now, applied, ordered = now.Add(easeWindow), applied+gain, ordered+second
				if e.look(now, applied, ordered); e.rests != x.want[i] {
					t.Errorf("in window %d it rests: %v", i, e.rests)
				}
			}
			if e.look(now.Add(easeWindow), applied+1, 0); len(x.gains) > 0 && !e.rests {
				t.Error("when nobody else is known any more, and so the order does not grow, it does not rest")
			}
		})
	}
}

// TestEase: it rests for others' clients only, until it has caught up.
func TestEase(t *testing.T) {
	for _, x := range []struct {
		name                     string
		alone, caughtUp, unasked bool
		want                     bool
	}{
		{name: "another member has a client", want: true},
		{name: "it has the machine to itself", alone: true},
		{name: "it has caught up", caughtUp: true},
		{name: "nobody has a client", unasked: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := &life{config: &config.Config{SharesMachine: !x.alone}}
			l.caughtUp.Store(x.caughtUp)
			l.peers.init()
			s := status{Clients: 1}
			if x.unasked {
				s.Clients = 0
			}
			l.peers.put(1, s)
			l.easing.rests, l.easing.since = true, time.Now()
			l.ease(context.Background(), time.Millisecond)
			if rested := l.metrics.Flow.RestTime.Load(); rested > 0 != x.want ||
				x.want && rested < easeRest*time.Millisecond {
				t.Errorf("it rests for %s", rested)
			}
		})
	}
}
