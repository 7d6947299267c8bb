package admission

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
)

// turnsPeriod is how often the limit is decided anew.
const turnsPeriod = 100 * time.Millisecond

// turnMax is how long a transaction waits for its turn, so that one whose client is silent
// holds nobody up for longer.
var turnMax = metrics.Most(flow.WaitTurn)

// Turns lets only some of the transactions that write run at once while too many of them lose
// (flow.Turns). They wait in the order of their coming, before they begin.
type Turns struct {
	counts   *metrics.Flow
	measured *metrics.Waits
	allowed  atomic.Uint64 // how many may run at once; zero: all

	mu      sync.Mutex
	percent int // that may lose; none is limited if not positive
	rule    flow.Turns
	since   time.Time
	now     flow.Outcomes
	open    int
	waiting []chan struct{}
}

// NewTurns lets all run until more than percent of them lose.
func NewTurns(percent int, counts *metrics.Flow, measured *metrics.Waits) *Turns {
	return &Turns{percent: percent, counts: counts, measured: measured}
}

// Allowed is how many may run at once; zero: all.
func (t *Turns) Allowed() uint64 { return t.allowed.Load() }

// Set limits how many may lose.
func (t *Turns) Set(percent int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.percent = percent; percent <= 0 {
		t.allowed.Store(0)
		for _, turn := range t.waiting {
			close(turn)
		}
		t.waiting = nil
	}
}

// Take waits for a turn, for turnMax or until done is closed at most. Give must follow.
func (t *Turns) Take(done <-chan struct{}) {
	t.mu.Lock()
	if limit := int(t.allowed.Load()); limit > 0 && t.open >= limit {
		turn := make(chan struct{})
		t.waiting = append(t.waiting, turn)
		t.now.Waited = true
		t.mu.Unlock()
		t.counts.TurnsWaited.Add(1)
		wait := t.measured.Begin(flow.WaitTurn)
		timer := time.NewTimer(turnMax)
		select {
		case <-turn:
		case <-timer.C:
		case <-done:
		}
		timer.Stop()
		wait.End()
		t.mu.Lock()
		if i := slices.Index(t.waiting, turn); i >= 0 {
			t.waiting = slices.Delete(t.waiting, i, i+1)
		}
	}
	t.open++
	t.now.Most = max(t.now.Most, t.open)
	t.mu.Unlock()
}

// Give ends a turn. It has won, lost, or neither.
func (t *Turns) Give(won, lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	if won {
		t.now.Won++
	}
	if lost {
		t.now.Lost++
	}
	if now := time.Now(); t.percent > 0 && now.Sub(t.since) >= turnsPeriod {
		t.allowed.Store(uint64(t.rule.Next(t.now, t.percent)))
		t.since, t.now = now, flow.Outcomes{Most: t.open, Waited: len(t.waiting) > 0}
	}
	limit := int(t.allowed.Load())
	for i := t.open; len(t.waiting) > 0 && (limit == 0 || i < limit); i++ {
		close(t.waiting[0])
		t.waiting = t.waiting[1:]
	}
}
