package replica

import "testing"

// TestRests: who comes nearer fast enough rests, and goes on resting as long as it comes nearer at all fast.
func TestRests(t *testing.T) {
	const window, grows = 100, 1000 // bytes by which the order grows in a window
	for _, x := range []struct {
		name  string
		gains []uint64 // in each window
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
			r := NewRests(window)
			rests := func() bool { return r.After(1, true) > 0 }
			now, applied, ordered := int64(0), uint64(5), uint64(500_000)
			if r.Look(now, applied, ordered); rests() {
				t.Error("it rests at once")
			}
			for i, gain := range x.gains {
				before := rests()
				if r.Look(now+window/2, applied+gain, ordered); rests() != before {
					t.Error("it judges half a window")
				}
				now, applied, ordered = now+window, applied+gain, ordered+grows
				if r.Look(now, applied, ordered); rests() != x.want[i] {
					t.Errorf("in window %d it rests: %v", i, rests())
				}
			}
			if r.Look(now+window, applied+1, 0); len(x.gains) > 0 && !rests() {
				t.Error("when nobody else is known any more, and so the order does not grow, it does not rest")
			}
			if got := r.After(7, true); len(x.gains) > 0 && got != 14 {
				t.Errorf("it rests for %d after 7", got)
			}
			if r.After(7, false) != 0 {
				t.Error("it rests, and nobody has clients")
			}
		})
	}
}
