package admission

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
)

// TestThrottle (AD4): while a member lags, what has committed is answered later; short delays are saved up, and a debt
// is forgotten when nobody lags any more. Begin and end are logged, once.
func TestThrottle(t *testing.T) {
	limits := &config.Limits{FlowLag: 100, FlowLagBytes: 1 << 20, FlowDelayMaxMs: 4, FlowMinorityPercent: 10}
	var log bytes.Buffer
	x := NewThrottle(Options{
		Clock: Time, Limits: func() *config.Limits { return limits },
		Name: func(m uint32) string { return fmt.Sprintf("node%d", m) },
		Log:  slog.New(slog.NewTextHandler(&log, nil)), Metrics: &metrics.Database{}, Done: make(chan struct{}),
	})
	x.Took(64 * time.Millisecond)
	lags := func(lag uint64) {
		x.Regulate(flow.Input{Voters: 2, Synced: []flow.Member{{ID: 1, Votes: true},
			{ID: 2, Lag: lag, Votes: true}}})
	}
	lags(10_000)
	lags(10_000)
	micros, because := x.Delays()
	if micros != 4000 || because != 2 {
		t.Fatalf("a delay of %d µs because of %d", micros, because)
	}
	debt := time.Duration(0)
	began := time.Now()
	x.Slow(&debt)
	if took := time.Since(began); took < 3*time.Millisecond || debt > 0 {
		t.Errorf("slowed by %v, and owes %v", took, debt)
	}
	x.delay.Store(300)
	debt = 0
	began = time.Now()
	for range 3 {
		x.Slow(&debt)
	}
	if debt != 900*time.Microsecond || x.o.Metrics.Flow.DelayTime.Load() == 0 {
		t.Errorf("owes %v after %v", debt, time.Since(began))
	}
	lags(0)
	if x.Slow(&debt); debt != 0 {
		t.Errorf("owes %v though nobody lags", debt)
	}
	x.mu.Lock()
	x.last += -2 * flowQuiet
	x.mu.Unlock()
	lags(0)
	lags(0)
	for _, line := range []string{"transactions are slowed", "member=node2", "no longer slowed"} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("%q is not logged once:\n%s", line, log.String())
		}
	}
}

// TestThrottleEnds: nobody is held back by a replica that ends.
func TestThrottleEnds(t *testing.T) {
	done := make(chan struct{})
	close(done)
	x := NewThrottle(Options{Clock: Time, Metrics: &metrics.Database{}, Done: done})
	x.delay.Store(int64(time.Hour / time.Microsecond))
	debt := time.Duration(0)
	began := time.Now()
	if x.Slow(&debt); time.Since(began) > time.Minute {
		t.Error("a session was slowed beyond the end")
	}
	if got := Millis(1500); got != "1.5" {
		t.Errorf("1500 µs are %s ms", got)
	}
}
