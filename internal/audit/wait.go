package audit

import (
	"time"

	"github.com/tuttidb/tutti/internal/wire"
)

// Why a member is missing from a check.
const (
	verdictUnreachable = "unreachable" // nothing is heard of it
	verdictBehind      = "behind"      // it does not come to the check's place in the order
	verdictHalted      = "halted"      // it cannot carry an entry of the order out
)

// behindAfter is how long a member may stay where it is before a check that is ordered after that goes on without it.
const behindAfter = 15 * time.Second

// awaited is a member that has not answered a check yet.
type awaited struct {
	heard   time.Time // when it was known to live
	applied uint64
	moved   time.Time // when applied changed
}

// awaitReports waits for the members' answers to a check. It goes on without those that are silent for long, and those
// that stay behind. It fails if nobody leads, so that the check has no place in the order.
func (a *Audit) awaitReports(answers <-chan report) (got map[uint32]report, missing map[uint32]string,
	failure *wire.SQLError) {
	began := time.Now()
	got, led := map[uint32]report{}, began
	waiting, members := map[uint32]*awaited{}, a.o.Members()
	for _, m := range members {
		waiting[m.Member] = &awaited{heard: a.o.LastHeard(m.Member, began), moved: began}
	}
	tick := time.NewTicker(a.o.Gossip)
	defer tick.Stop()
	for {
		select {
		case r := <-answers:
			got[r.Member] = r
		case <-a.o.Done:
			return nil, nil, errOver()
		case <-tick.C:
		}
		now := time.Now()
		if a.o.Leader() != 0 || len(got) > 0 {
			led = now
		}
		if now.Sub(led) > a.o.Silent {
			return nil, nil, wire.Errorf(wire.CodeCannotConnectNow,
				"nobody leads the order, so copies cannot be compared at one point of it").
				WithHint("Is a majority of the members up? See SHOW tutti.status.")
		}
		missing = map[uint32]string{}
		for _, m := range members {
			if _, answered := got[m.Member]; answered {
				continue
			}
			s, alive := a.o.State(m.Member)
			if alive && s.Halted {
				missing[m.Member] = verdictHalted
			} else if why := waiting[m.Member].verdict(s.Applied, alive, ordinalOf(got), now, began,
				a.o.Silent); why != "" {
				missing[m.Member] = why
			}
		}
		if len(got)+len(missing) >= len(members) {
			return got, missing, nil
		}
	}
}

// ordinalOf is the check's place in the order; zero until somebody has answered.
func ordinalOf(got map[uint32]report) uint64 {
	for _, r := range got {
		return r.Ordinal
	}
	return 0
}

// verdict says why it is not worth waiting for the member any longer; empty: it is. It is told what is known of it now,
// and the check's place in the order, zero if that is not known yet.
func (a *awaited) verdict(applied uint64, alive bool, ordinal uint64, now, began time.Time,
	silent time.Duration) string {
	if alive {
		a.heard = now
	}
	if applied != a.applied {
		a.applied, a.moved = applied, now
	}
	switch {
	case now.Sub(a.heard) > silent:
		return verdictUnreachable
	case ordinal > 0 && applied < ordinal && now.Sub(a.moved) > behindAfter, now.Sub(began) > checkTimeout:
		return verdictBehind
	}
	return ""
}

// errOver is told while the replica ends.
func errOver() *wire.SQLError {
	return wire.Errorf(wire.CodeCannotConnectNow, "this member is restarting").WithHint(
		"Try again, or connect to another member.")
}
