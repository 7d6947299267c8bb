package admission

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
)

const (
	// debtMin is the shortest sleep: timers are not exact, so shorter delays are saved up.
	debtMin = time.Millisecond
	// flowQuiet is how long nobody must have been slowed before that is called over.
	flowQuiet = 3 * time.Second
	// latencyWeight is how many transactions the mean latency is taken over, about.
	latencyWeight = 64
)

// Throttle slows this member's own clients while some member applies too slowly (flow).
type Throttle struct {
	o Options

	delay   atomic.Int64  // microseconds, of each transaction
	because atomic.Uint32 // the member; zero: nobody
	latency atomic.Int64  // microseconds from COMMIT to its answer, delays left out

	mu    sync.Mutex
	slows bool          // somebody is slowed, or was lately
	began time.Duration // of that period
	last  time.Duration // in it
}

// Options are what a throttle needs of its replica.
type Options struct {
	Clock   Clock
	Limits  func() *config.Limits
	Name    func(member uint32) string
	Log     *slog.Logger
	Metrics *metrics.Database
	Done    <-chan struct{} // closed when the replica ends
}

// NewThrottle makes one that slows nobody yet.
func NewThrottle(o Options) *Throttle { return &Throttle{o: o} }

// Delays is how much a transaction is slowed, and because of which member.
func (t *Throttle) Delays() (micros int64, because uint32) { return t.delay.Load(), t.because.Load() }

// FlowOptions are the limits that the rule goes by.
func FlowOptions(l *config.Limits) flow.Options {
	or := func(v int) uint64 { return uint64(max(v, 0)) }
	return flow.Options{Lag: or(l.FlowLag), LagBytes: or(l.FlowLagBytes),
		DelayMicrosMax: int64(or(l.FlowDelayMaxMs)) * 1000, MinorityPercent: int(or(l.FlowMinorityPercent))}
}

// Millis is the delay in milliseconds.
func Millis(micros int64) string { return strconv.FormatFloat(float64(micros)/1000, 'f', -1, 64) }

// Regulate decides anew, and logs when a period of delays begins or ends.
func (t *Throttle) Regulate(in flow.Input) {
	in.LatencyMicros = t.latency.Load()
	limits := t.o.Limits()
	d := flow.Decide(FlowOptions(limits), in)
	if planted != "delay-never-lifted" || d.DelayMicros > 0 {
		t.delay.Store(d.DelayMicros)
	}
	t.because.Store(d.Member)
	now := t.o.Clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case d.DelayMicros > 0 && !t.slows:
		t.slows, t.began, t.last = true, now, now
		slow := in.Synced[slices.IndexFunc(in.Synced, func(m flow.Member) bool { return m.ID == d.Member })]
		t.o.Log.Warn("transactions are slowed: a member applies more slowly than the cluster writes", "member",
			t.o.Name(d.Member), "lag", slow.Lag, "bytes", slow.LagBytes, "delay_ms", Millis(d.DelayMicros),
			"flow_lag", limits.FlowLag, "flow_lag_bytes", limits.FlowLagBytes)
	case d.DelayMicros > 0:
		t.last = now
	case t.slows && now-t.last > flowQuiet:
		t.o.Log.Info("transactions are no longer slowed", "after",
			fmt.Sprint((t.last - t.began).Round(time.Millisecond)))
		t.slows = false
	}
}

// Took notes how long a transaction waited for the log's yes.
func (t *Throttle) Took(d time.Duration) {
	old := t.latency.Load()
	t.latency.Store(old + (d.Microseconds()-old)/latencyWeight)
}

// Slow holds a session back that has committed and has not been answered yet. It holds no
// locks then and cannot lose any more, so nobody waits for it but its own client. debt is
// what the session still owes from earlier calls.
func (t *Throttle) Slow(debt *time.Duration) {
	d := time.Duration(t.delay.Load()) * time.Microsecond
	if d == 0 {
		*debt = 0
		return
	}
	t.o.Metrics.Flow.Delays.Add(1)
	if *debt += d; *debt < debtMin {
		return
	}
	began := t.o.Clock.Now()
	defer t.o.Metrics.Waits.Begin(flow.WaitSlowed).End()
	t.o.Clock.Rest(*debt, t.o.Done)
	slept := t.o.Clock.Now() - began
	t.o.Metrics.Flow.DelayTime.Add(slept)
	if planted != "debt-kept" {
		*debt = max(*debt-slept, -d)
	}
}
