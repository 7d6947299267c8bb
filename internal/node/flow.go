package node

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/flow"
)

const (
	// debtMin is the shortest sleep: timers are not exact, so shorter delays are saved up.
	debtMin = time.Millisecond
	// flowQuiet is how long nobody must have been slowed before that is called over.
	flowQuiet = 3 * time.Second
	// latencyWeight is how many transactions the mean latency is taken over, about.
	latencyWeight = 64
)

// throttle slows this member's own clients while some member applies too slowly (flow).
type throttle struct {
	delay   atomic.Int64  // microseconds, of each transaction
	because atomic.Uint32 // the member; zero: nobody
	latency atomic.Int64  // microseconds from COMMIT to its answer, delays left out

	mu    sync.Mutex
	began time.Time // of the period in which somebody was slowed; zero: none
	last  time.Time // in it
}

// flowOptions are the limits that the rule goes by.
func flowOptions(l *config.Limits) flow.Options {
	or := func(v int) uint64 { return uint64(max(v, 0)) }
	return flow.Options{Lag: or(l.FlowLag), LagBytes: or(l.FlowLagBytes),
		DelayMicrosMax: int64(or(l.FlowDelayMaxMs)) * 1000, MinorityPercent: int(or(l.FlowMinorityPercent))}
}

// quarter is how much may be kept back at a member that only applies, so that others never take it for a lag: of a
// limit a quarter, and something; zero for no limit.
func quarter(limit int) int {
	if limit <= 0 {
		return 0
	}
	return max(1, limit/4)
}

// text is the delay in milliseconds.
func millis(micros int64) string { return strconv.FormatFloat(float64(micros)/1000, 'f', -1, 64) }

// regulate decides anew, and logs when a period of delays begins or ends.
func (l *life) regulate() {
	in := flow.Input{Voters: len(l.config.Members), LatencyMicros: l.throttle.latency.Load()}
	lag := map[uint32]lag{}
	for _, m := range l.config.Members {
		s, alive := l.statusOf(m.Member)
		if alive && s.State == stateSynced {
			in.Synced = append(in.Synced, flow.Member{ID: m.Member, Lag: s.lag.items, LagBytes: s.lag.bytes})
			lag[m.Member] = s.lag
		}
	}
	d := flow.Decide(flowOptions(&l.settled().Limits), in)
	l.throttle.delay.Store(d.DelayMicros)
	l.throttle.because.Store(d.Member)
	t, now := &l.throttle, time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case d.DelayMicros > 0 && t.began.IsZero():
		t.began, t.last = now, now
		l.log.Warn("transactions are slowed: a member applies more slowly than the cluster writes", "member",
			l.name(d.Member),
			"lag", lag[d.Member].items, "bytes", lag[d.Member].bytes, "delay_ms", millis(d.DelayMicros),
			"flow_lag", l.config.Limits.FlowLag, "flow_lag_bytes", l.config.Limits.FlowLagBytes)
	case d.DelayMicros > 0:
		t.last = now
	case !t.began.IsZero() && now.Sub(t.last) > flowQuiet:
		l.log.Info("transactions are no longer slowed", "after",
			fmt.Sprint(t.last.Sub(t.began).Round(time.Millisecond)))
		t.began = time.Time{}
	}
}

// took notes how long a transaction waited for the log's yes.
func (t *throttle) took(d time.Duration) {
	old := t.latency.Load()
	t.latency.Store(old + (d.Microseconds()-old)/latencyWeight)
}

// slowed ends a transaction that has committed: its client is answered when it returns.
func slowed(h *host) {
	at := time.Now()
	h.n.slow(&h.debt)
	h.clock.committed(&h.n.metrics.Transactions, at)
}

// slow holds a session back that has committed and has not been answered yet. It holds no
// locks then and cannot lose any more, so nobody waits for it but its own client. debt is
// what the session still owes from earlier calls.
func (l *life) slow(debt *time.Duration) {
	d := time.Duration(l.throttle.delay.Load()) * time.Microsecond
	if d == 0 {
		*debt = 0
		return
	}
	l.metrics.Flow.Delays.Add(1)
	if *debt += d; *debt < debtMin {
		return
	}
	began := time.Now()
	defer l.metrics.Waits.Begin(flow.WaitSlowed).End()
	timer := time.NewTimer(*debt)
	select {
	case <-timer.C:
	case <-l.done:
		timer.Stop()
	}
	slept := time.Since(began)
	l.metrics.Flow.DelayTime.Add(slept)
	*debt = max(*debt-slept, -d)
}
