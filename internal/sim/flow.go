package sim

import (
	"cmp"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/replica"
)

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

// throttleBugs are those that are about the throttle.
var throttleBugs = []string{"gone-slow-writers", "lag-of-majority-ignored", "delay-never-lifted", "debt-kept"}

// newThrottle makes the throttle of a member's life: production's. Runs that look for other bugs ask its rule alone, so
// that the seeds which find these stay what they were; then it is nil.
func newThrottle(m *member) *admission.Throttle {
	w := m.w
	if w.o.Planted != "" && !slices.Contains(throttleBugs, w.o.Planted) && !slices.Contains(slowBugs, w.o.Planted) {
		return nil
	}
	o := w.swarm.flow()
	limits := &config.Limits{FlowLag: int(o.Lag), FlowDelayMaxMs: int(haste * o.DelayMicrosMax / 1000),
		FlowMinorityPercent: o.MinorityPercent}
	return admission.NewThrottle(admission.Options{
		Clock: hurried{m}, Limits: func() *config.Limits { return limits }, Log: slog.New(slog.DiscardHandler),
		Name: func(member uint32) string { return strconv.Itoa(int(member)) }, Metrics: &metrics.Database{},
	})
}

// regulate has the throttle decide anew, and checks what it says (S17).
func (p *peers) regulate() {
	if p.throttle == nil {
		return
	}
	m, w := p.m, p.m.w
	own := p.table.Tell(w.now, p.own())
	p.throttle.Regulate(p.table.Flow(w.now, own, engine.VotingOf(m.engine).Voters()))
	delay, because := p.throttle.Delays()
	o := w.swarm.flow()
	switch {
	case delay > haste*o.DelayMicrosMax:
		w.violation("%v: slows by %d µs", m, delay)
	case p.waitsForSlow(because, &own, o.Lag):
		w.violation("%v: slows because of member %d, which is far too slow, and a majority keeps up", m, because)
	case because != 0 && because != m.id && w.now-p.arrived[because-1].at >= silentMicros:
		w.violation("%v: slows because of member %d, of which nothing has come for %d µs", m, because,
			w.now-p.arrived[because-1].at)
	case p.majorityLags(&own) >= 5*o.Lag && delay < haste*o.DelayMicrosMax:
		w.violation("%v: slows by %d µs alone, and a majority lags by %d", m, delay, p.majorityLags(&own))
	}
}

// majorityLags is by how much the fastest majority of those who vote lags, as far as the member has heard.
func (p *peers) majorityLags(own *replica.Status) uint64 {
	var lags []uint64
	data := 0
	for _, id := range engine.VotingOf(p.m.engine).Voters() {
		s, alive := p.table.Of(p.m.w.now, id)
		if id == p.m.id {
			s, alive = *own, true
		}
		if alive && s.State == replica.Synced {
			lags = append(lags, s.Lag.Items)
		}
		if slices.Contains(p.all, id) {
			data++
		}
	}
	if len(lags) == 0 {
		return 0
	}
	slices.SortFunc(lags, cmp.Compare[uint64])
	return lags[min(data/2, len(lags)-1)]
}

// took tells the throttle how long a transaction has waited for the log's yes.
func (p *peers) took(micros int64) {
	if p.throttle != nil {
		p.throttle.Took(time.Duration(haste*micros) * time.Microsecond)
	}
}

// slows reports whether anybody is slowed at the member.
func (p *peers) slows() bool {
	if p.throttle == nil {
		return false
	}
	delay, _ := p.throttle.Delays()
	return delay > 0
}

// latencyMicros stands for the time a transaction takes, which the model does not measure.
const latencyMicros = 20_000

// delay is how long a client of the member is kept waiting after a transaction because members lag.
func (p *peers) delay() int64 {
	m := p.m
	if !m.up {
		return 0
	}
	if p.throttle != nil {
		d, _ := p.throttle.Delays()
		if d > 0 {
			m.w.stats.Delays++
		}
		return d / haste
	}
	in := p.table.Flow(m.w.now, p.table.Tell(m.w.now, p.own()), engine.VotingOf(m.engine).Voters())
	in.LatencyMicros = latencyMicros
	d := flow.Decide(m.w.swarm.flow(), in)
	if d.DelayMicros > 0 {
		m.w.stats.Delays++
	}
	return d.DelayMicros
}

// slowed holds the session back while members lag.
func (s *served) slowed() {
	m, t := s.m, s.m.peers.throttle
	if t == nil {
		if d := m.peers.delay(); d > 0 {
			s.rests(d)
		}
		return
	}
	began := m.w.now
	t.Slow(&s.debt)
	most := m.w.swarm.flow().DelayMicrosMax + 1000
	if took := m.w.now - began; took > most && m.w.faulty && m.w.swarm.pauseEvery == 0 {
		m.w.violation("%v: slot %d is slowed for %d µs", m, s.slot, took)
	}
}
