//go:build unix

package check

import (
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// cpu is the processor time this process has used: neighbours do not count.
func cpu(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestListAppendIsFast: 100,000 transactions take seconds and modest memory, whether the
// lists are many and short or few and long, and however many anomalies there are.
func TestListAppendIsFast(t *testing.T) {
	const n = 100_000
	for _, c := range []struct {
		name   string
		keys   int
		strong bool
		broken bool
	}{{"many keys", 10_000, true, false}, {"few keys", 300, false, false}, {"broken, many keys", 10_000, false, true},
		{"broken, few keys", 20, false, true}} {
		t.Run(c.name, func(t *testing.T) {
			h, o := generate(rand.New(rand.NewPCG(3, 4)), n, c.keys)
			if c.broken {
				stale(h)
			}
			o.Strong = c.strong
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := cpu(t)
			as := ListAppend(h, o)
			took := cpu(t) - began
			runtime.ReadMemStats(&after)
			mib := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d transactions: %v, %d MiB allocated in all, %d anomalies", n, took, mib, len(as))
			if len(as) > 0 != c.broken {
				t.Errorf("anomalies: %v", as[:min(len(as), 3)])
			}
			if took > 5*time.Second || mib > 2048 {
				t.Errorf("%d transactions took %v and %d MiB", n, took, mib)
			}
		})
	}
}

// stale lets every reader of several keys see the first of them one transaction late.
func stale(h []ListTransaction) {
	writer := map[value]int{}
	for i := range h {
		for _, op := range h[i].Ops {
			writer[value{op.Key, op.Append}] = i
		}
	}
	for i := range h {
		t, keys := &h[i], map[uint64]bool{}
		for _, op := range t.Ops {
			if op.Append == 0 {
				keys[op.Key] = true
			}
		}
		if read := t.Ops[0].Read; len(keys) == len(t.Ops) && len(keys) > 1 && len(read) > 10 {
			t.Session = 1_000_000 + i
			n := len(read) - 1
			for writer[value{t.Ops[0].Key, read[n]}] == writer[value{t.Ops[0].Key, read[n-1]}] {
				n-- // not in the middle of a transaction
			}
			t.Ops[0].Read = read[:n]
		}
	}
}

func BenchmarkListAppend(b *testing.B) {
	const n = 100_000
	h, o := generate(rand.New(rand.NewPCG(3, 4)), n, 10_000)
	for b.Loop() {
		ListAppend(h, o)
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "tx/s")
}
