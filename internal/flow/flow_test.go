package flow

import (
	"testing"

	"pgregory.net/rapid"
)

var standard = Options{Lag: 1000, LagBytes: 1 << 20, DelayMicrosMax: 50_000, MinorityPercent: 20}

func lags(l ...uint64) (ms []Member) {
	for i, v := range l {
		ms = append(ms, Member{ID: uint32(i + 1), Lag: v, Votes: true})
	}
	return ms
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       Options
		voters  int
		members []Member
		latency int64
		want    Decision
	}{
		{"nobody is synced", standard, 3, nil, 4000, Decision{}},
		{"all keep up", standard, 3, lags(0, 10, 999), 4000, Decision{}},
		{"at the limit", standard, 3, lags(1000, 1000, 1000), 4000, Decision{}},
		{"all a little late", standard, 3, lags(3000, 3000, 3000), 4000, Decision{12_500, 2}},
		{"all far behind", standard, 3, lags(90_000, 90_000, 90_000), 4000, Decision{50_000, 2}},
		{"the majority's slower one counts in full", standard, 3, lags(0, 5000, 90_000), 4000, Decision{50_000, 2}},
		{"one of three is slow: its share", standard, 3, lags(0, 10, 90_000), 4000, Decision{1000, 3}},
		{"the share is an upper bound", standard, 3, lags(0, 10, 1080), 4_000_000, Decision{20, 3}},
		{"two of five are slow: their share", standard, 5, lags(0, 5, 10, 90_000, 80_000), 4000, Decision{1000, 4}},
		{"three of five are slow", standard, 5, lags(0, 5, 5000, 90_000, 80_000), 4000, Decision{50_000, 3}},
		{"one of three is away: both are needed", standard, 3, lags(0, 5000), 4000, Decision{50_000, 2}},
		{"one of two is slow", standard, 2, lags(0, 5000), 4000, Decision{50_000, 2}},
		{"alone", standard, 1, lags(5000), 4000, Decision{50_000, 1}},
		{"two are catching up, the third is late itself", standard, 3, lags(5000), 4000, Decision{50_000, 1}},
		{"nothing is given up for a minority", Options{Lag: 1000, DelayMicrosMax: 50_000}, 3, lags(0, 10, 90_000), 4000,
			Decision{}},
		{"no latency is known", standard, 3, lags(0, 10, 90_000), 0, Decision{}},
		{"off", Options{DelayMicrosMax: 50_000, MinorityPercent: 20}, 3, lags(90_000, 90_000, 90_000), 4000,
			Decision{}},
		{"one in the majority is hardly late, another is later", standard, 3, lags(0, 1050, 90_000), 4000,
			Decision{1000, 3}},
		{"bytes", standard, 3, []Member{{1, 0, 0, true, false}, {2, 3, 5 << 20, true, false},
			{3, 2, 9 << 20, true, false}}, 4000, Decision{50_000, 2}},
		{"bytes of one", standard, 3, []Member{{1, 0, 0, true, false}, {2, 3, 0, true, false},
			{3, 2, 9 << 20, true, false}}, 4000, Decision{1000, 3}},
	} {
		if got := Decide(c.o, Input{Voters: c.voters, Synced: c.members, LatencyMicros: c.latency}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestSlow: nobody is delayed for a member that is far too slow, or does not vote, but for its share if it is not slow;
// unless it is needed for a majority of those who vote (F5).
func TestSlow(t *testing.T) {
	of := func(m Member, votes, slow bool) Member { m.Votes, m.Slow = votes, slow; return m }
	l := lags(0, 10, 90_000, 80_000)
	for _, c := range []struct {
		name    string
		voters  int
		members []Member
		want    Decision
	}{
		{"one of three is slow, and votes", 3, []Member{l[0], l[1], of(l[2], true, true)}, Decision{}},
		{"it does not vote", 2, []Member{l[0], l[1], of(l[2], false, true)}, Decision{}},
		{"a learner that is not slow", 2, []Member{l[0], l[1], of(l[2], false, false)}, Decision{1000, 3}},
		{"another one lags as well", 3, []Member{l[0], l[1], of(l[2], false, true), l[3]}, Decision{1000, 4}},
		{"one of three is away: the slow one is needed", 3, []Member{l[0], of(l[2], true, true)},
			Decision{50_000, 3}},
		{"one of three is away, and the slow one does not vote", 3, []Member{l[0], l[1], of(l[2], false, true)},
			Decision{}},
		{"nobody who votes has told", 3, []Member{of(l[2], false, true)}, Decision{}},
	} {
		if got := Decide(standard, Input{c.voters, c.members, 4000}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := standard.Load(Member{Lag: 1500, LagBytes: 1 << 20}); got != 1500 {
		t.Errorf("of a limit and a half the load is %d", got)
	}
	if got := standard.Load(Member{Lag: 1 << 63}); got != 1<<30 {
		t.Errorf("of very much the load is %d", got)
	}
}

// TestBounds: F1 to F4 for any situation.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lag := rapid.Uint64Range(0, 20_000)
		o := Options{Lag: rapid.SampledFrom([]uint64{0, 1, 1000}).Draw(t, "limit"),
			LagBytes:        rapid.SampledFrom([]uint64{0, 500}).Draw(t, "bytes"),
			DelayMicrosMax:  rapid.Int64Range(0, 1_000_000).Draw(t, "max"),
			MinorityPercent: rapid.IntRange(0, 99).Draw(t, "percent")}
		in := Input{Voters: rapid.IntRange(1, 9).Draw(t, "voters"),
			LatencyMicros: rapid.Int64Range(0, 10_000).Draw(t, "latency")}
		keepUp := 0
		for id := range rapid.IntRange(0, in.Voters).Draw(t, "synced") {
			m := Member{uint32(id + 1), lag.Draw(t, "lag"), lag.Draw(t, "lagBytes"), true, false}
			in.Synced = append(in.Synced, m)
			if o.load(m) <= 1 {
				keepUp++
			}
		}
		d := Decide(o, in)
		if d.DelayMicros < 0 || d.DelayMicros > o.DelayMicrosMax {
			t.Fatalf("a delay of %d", d.DelayMicros)
		}
		if d.DelayMicros > 0 && keepUp == len(in.Synced) {
			t.Fatal("a delay although everybody keeps up")
		}
		if without := o.share(in.LatencyMicros); keepUp > in.Voters/2 && d.DelayMicros > without {
			t.Fatalf("a majority keeps up and is delayed by %d µs, more than %d", d.DelayMicros, without)
		}
		if (d.DelayMicros > 0) != (d.Member != 0) {
			t.Fatalf("%+v: a delay has a cause, and a cause a delay", d)
		}
		if d.Member != 0 && o.load(in.Synced[d.Member-1]) <= 1 {
			t.Fatalf("%+v is because of a member that keeps up", d)
		}
		for i := range in.Synced { // more lag never means less delay
			in.Synced[i].Lag += 500
		}
		if more := Decide(o, in); more.DelayMicros < d.DelayMicros {
			t.Fatalf("with more lag the delay sinks from %d to %d µs", d.DelayMicros, more.DelayMicros)
		}
	})
}
