package cluster

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

func TestMain(m *testing.M) {
	atOnce()
	code := m.Run()
	if shared.c != nil {
		shared.c.tb = &lateTB{TB: shared.c.tb, failed: code != 0}
		shared.c.end()
		if shared.c.tb.Failed() {
			code = max(code, 1)
		}
	}
	if err := Clean(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// seconds is how long a load test runs under load.
func seconds(short time.Duration) time.Duration {
	if n, err := strconv.Atoi(os.Getenv("TUTTI_TEST_SECONDS")); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	return short
}

// atOnce has all tests that may run beside others begin, and wait for what they need: the shared cluster, which they
// use one after the other, or one of as many clusters of their own as -parallel says. So neither kind waits for the
// other.
func atOnce() {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if n, err := strconv.Atoi(parallel.Value.String()); err == nil {
		slots.free = make(chan struct{}, n)
	}
	_ = flag.Set(parallel.Name, "1000")
}

// shared is one cluster of three for all tests that disturb nothing, each with tables of
// its own.
var shared struct {
	c    *Cluster
	free chan struct{} // closed when the last test that asked for it has ended
}

// use gives the shared cluster to a test until it ends, once, with what the test before has done at one node applied
// at all: a block with definitions loses to those of other nodes that it has not seen. Tests get it in the order of
// their files, beside those with clusters of their own.
func use(t *testing.T) *Cluster {
	t.Helper()
	free, over := shared.free, make(chan struct{})
	shared.free = over
	t.Parallel()
	if free != nil {
		<-free
	}
	t.Cleanup(func() { close(over) })
	if shared.c == nil {
		c, err := create(3, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		c.tb = t
		shared.c = c
		c.StartNodes()
	}
	mine := *shared.c
	mine.tb = t
	t.Cleanup(func() {
		if t.Failed() {
			for _, n := range mine.nodes {
				t.Logf("log of %s ends with:\n%s", n.Config.Self().Name, process.Tail(n.LogFile, 25))
			}
		}
	})
	mine.Settled()
	return &mine
}

// lateTB takes complaints after the tests have ended.
type lateTB struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (l *lateTB) Errorf(format string, args ...any) {
	l.mu.Lock()
	l.failed = true
	l.mu.Unlock()
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (l *lateTB) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (l *lateTB) Failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}
