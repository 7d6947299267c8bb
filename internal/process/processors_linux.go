package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// scarceShare of the time is what threads of this process wait for a processor, all together, when processors are scarce.
	scarceShare = 0.2
	scarceEvery = 300 * time.Millisecond
)

// delays is what was measured last.
var delays struct {
	sync.Mutex
	at     time.Time
	waited time.Duration
	scarce bool
}

// Scarce reports whether the machine has less processors than its processes want, as seen by this process: whether its
// threads, ready to run, had to wait for a fifth of the last 300 ms or longer. It measures no more often than that, and says no
// at first. No as well where the kernel does not tell.
func Scarce() bool {
	d := &delays
	d.Lock()
	defer d.Unlock()
	now := time.Now()
	passed := now.Sub(d.at)
	if passed < scarceEvery {
		return d.scarce
	}
	waited := runDelay()
	d.scarce = !d.at.IsZero() && scarce(waited-d.waited, passed)
	d.at, d.waited = now, waited
	return d.scarce
}

// scarce judges how long threads have waited in the time that has passed. After a long time without a measurement it is not
// known when they did.
func scarce(waited, passed time.Duration) bool {
	return passed < 10*scarceEvery && float64(waited) > scarceShare*float64(passed)
}

// runDelay is how long this process's threads that exist now have waited for a processor in their lives.
func runDelay() (sum time.Duration) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if fields := strings.Fields(string(b)); err == nil && len(fields) == 3 {
			ns, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}
