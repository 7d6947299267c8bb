package sim

import "github.com/tuttidb/tutti/internal/flow"

// flow is small, like everything here: runs are short. A member must not fall behind by more than
// certification remembers, or all its transactions are too old.
func (s *swarm) flow() flow.Options {
	o := flow.Options{Lag: 30, DelayMicrosMax: 50_000, MinorityPercent: 50}
	if s.keysMax > 0 {
		o.Lag = 5
	}
	return o
}

// keptItems bounds what a member keeps back, for the same reason. Zero: as usual.
func (s *swarm) keptItems() int {
	if s.keysMax > 0 {
		return int(s.flow().Lag)
	}
	return 0
}

// latencyMicros stands for the time a transaction takes, which the model does not measure.
const latencyMicros = 20_000

// delay is how long a client of the member is kept waiting after a transaction because members lag.
func (p *peers) delay() int64 {
	m := p.m
	if !m.up {
		return 0
	}
	in := p.table.Flow(m.w.now, p.table.Tell(m.w.now, p.own()))
	in.LatencyMicros = latencyMicros
	d := flow.Decide(m.w.swarm.flow(), in)
	if d.DelayMicros > 0 {
		m.w.stats.Delays++
	}
	return d.DelayMicros
}
