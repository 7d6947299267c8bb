package process

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestScarce: three times as many threads as there are processors wait for them most of the time.
func TestScarce(t *testing.T) {
	if os.Getenv("TUTTI_TEST_SPIN") != "" {
		spin(10 * time.Second)
		return
	}
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this kernel does not tell how long a thread has waited")
	}
	var p Processors
	ctx, stop := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() { p.Watch(ctx) })
	defer watch.Wait()
	defer stop()
	for range 3 * runtime.NumCPU() {
		other := exec.Command(os.Args[0], "-test.run=^TestScarce$")
		other.Env = append(os.Environ(), "TUTTI_TEST_SPIN=1")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = other.Process.Kill()
			_ = other.Wait()
		}()
	}
	for end := time.Now().Add(20 * time.Second); !p.Scarce(); spin(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("with %d processes more than there are processors these are not scarce", 2*runtime.NumCPU())
		}
	}
	for _, c := range []struct {
		waited, passed time.Duration
		scarce         bool
	}{{59, 300, false}, {61, 300, true}, {900, 300, true}, {-50, 300, false}, {61, 3001, false}} {
		if got := scarce(c.waited*time.Millisecond, c.passed*time.Millisecond); got != c.scarce {
			t.Errorf("%d of %d ms waited: scarce %v", c.waited, c.passed, got)
		}
	}
}

// spin keeps a processor busy.
func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}
