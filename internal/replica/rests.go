package replica

// Rests decides whether a member that was away rests while it carries out what it has missed, for those who share the
// machine: for twice as long as it works, if it comes nearer to the end of the order fast enough all the same (the
// catch-up throttle).
type Rests struct {
	window int64 // for which is measured how fast it comes nearer; zero: nothing was measured yet

	rests            bool
	begun            bool   // a window has
	since            int64  // of the window
	applied, ordered uint64 // bytes of the order at its beginning
}

const (
	restShare = 2 // times as long as the work before it
	// gainMin is how many times as fast as the order grows a member must carry it out while it rests; without rests,
	// more by what they take.
	gainMin = 2
)

// NewRests makes one that measures for so long.
func NewRests(window int64) Rests { return Rests{window: window} }

// Look judges a window if one is over: applied and ordered are bytes of the order, of which the latter are known to any
// member.
func (r *Rests) Look(now int64, applied, ordered uint64) {
	if r.begun {
		if now-r.since < r.window {
			return
		}
		gain := uint64(gainMin)
		if !r.rests {
			gain *= 1 + restShare
		}
		r.rests = applied-r.applied > gain*(ordered-min(ordered, r.ordered))
	}
	r.begun, r.since, r.applied, r.ordered = true, now, applied, ordered
}

// After is how long to rest after work of that length; zero: not at all. Served: others have clients.
func (r *Rests) After(took int64, served bool) int64 {
	if !r.rests || !served {
		return 0
	}
	return restShare * took
}
