package flow

import (
	"cmp"
	"slices"
)

// Options are the limits. A limit of zero is no limit; with both zero nobody is ever delayed.
type Options struct {
	// Lag is how many ordered transactions a member may have yet to apply, LagBytes how many
	// bytes of them.
	Lag, LagBytes uint64
	// DelayMicrosMax bounds the delay of one transaction.
	DelayMicrosMax int64
	// MinorityPercent is how much of the throughput may be given up, at most, for a member
	// that a majority can do without; zero: nothing. Less than 100.
	MinorityPercent int
}

// Member is what is known of one synced member.
type Member struct {
	ID            uint32
	Lag, LagBytes uint64
	Votes         bool
	Slow          bool // it is far too slow (package quorum): nobody waits for it who can do without
}

// Input is the situation.
type Input struct {
	// Voters is how many members vote, away or not.
	Voters int
	// Synced are the members that count (F1), the deciding one included if it is synced.
	Synced []Member
	// LatencyMicros is how long an own transaction takes from COMMIT to its answer without the
	// delay; zero: unknown.
	LatencyMicros int64
}

// Decision is the delay of each transaction, and because of whom; Member is zero when there
// is none.
type Decision struct {
	DelayMicros int64
	Member      uint32
}

// fullAt is at how many times the limit beyond it the delay reaches its maximum. The way there
// is a square: gentle near the limit, where the lag answers to changes of microseconds, so
// that it settles instead of swinging between two gossips.
const fullAt = 4

// Decide applies the rule: the member that limits the fastest majority of those who vote delays up to DelayMicrosMax;
// the slowest of all that are not far too slow up to its share. The longer delay counts.
func Decide(o Options, in Input) Decision {
	byLag := slices.Clone(in.Synced)
	slices.SortStableFunc(byLag, func(a, b Member) int { return cmp.Compare(o.load(a), o.load(b)) })
	var vote, fast []Member // who counts for a majority, who is waited for beyond one
	for _, m := range byLag {
		if m.Votes {
			vote = append(vote, m)
		}
		if !m.Slow {
			fast = append(fast, m)
		}
	}
	var needed, slowest Member
	if len(vote) > 0 {
		needed = vote[min(in.Voters/2, len(vote)-1)]
		if planted == "lag-of-majority-ignored" {
			needed = vote[0]
		}
	}
	if len(fast) > 0 {
		slowest = fast[len(fast)-1]
	}
	d, share := o.delay(needed), min(o.delay(slowest), o.share(in.LatencyMicros))
	switch {
	case share > d:
		return Decision{share, slowest.ID}
	case d > 0:
		return Decision{d, needed.ID}
	}
	return Decision{}
}

// load is a member's lag in parts of the limit.
func (o *Options) load(m Member) float64 {
	part := func(v, limit uint64) float64 {
		if limit == 0 {
			return 0
		}
		return float64(v) / float64(limit)
	}
	return max(part(m.Lag, o.Lag), part(m.LagBytes, o.LagBytes))
}

// Load is a member's lag, per mille of the limit.
func (o *Options) Load(m Member) int { return int(min(1000*o.load(m), 1<<30)) }

// delay is F2.
func (o *Options) delay(m Member) int64 {
	x := min((o.load(m)-1)/fullAt, 1)
	if x <= 0 {
		return 0
	}
	return int64(x * x * float64(o.DelayMicrosMax))
}

// share is F3: a client that waits for each answer before its next transaction needs at least
// the latency for one, so waiting s/(1-s) of it longer costs at most the part s.
func (o *Options) share(latencyMicros int64) int64 {
	return latencyMicros * int64(o.MinorityPercent) / int64(100-o.MinorityPercent)
}

// Kept is how much may be kept back at a member that only applies, so that others never take it for a lag: of a limit a
// quarter, and something; zero for no limit.
func Kept(limit int) int {
	if limit <= 0 {
		return 0
	}
	return max(1, limit/4)
}
