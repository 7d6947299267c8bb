package node

import (
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// TestSignals: a signal has the node stop one step further, or read its configuration again, or does nothing.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name           string
		signals        []os.Signal
		begun, hurried bool
		reads          int
	}{
		{"drains", []os.Signal{syscall.SIGTERM}, true, false, 0},
		{"drains, and then at once", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, true, true, 0},
		{"at once", []os.Signal{syscall.SIGINT}, true, true, 0},
		{"at once, with what runs", []os.Signal{syscall.SIGQUIT}, true, true, 0},
		{"reads again", []os.Signal{syscall.SIGHUP, syscall.SIGHUP}, false, false, 2},
		{"ignored", []os.Signal{syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2}, false, false, 0},
	} {
		n := &Node{log: slog.New(slog.DiscardHandler)}
		n.stops.init()
		var mu sync.Mutex
		read := make(chan struct{}, 2)
		load := func() (*config.Config, error) {
			mu.Lock()
			defer mu.Unlock()
			read <- struct{}{}
			return nil, os.ErrNotExist // the configuration stays as it was
		}
		told := 0
		for _, s := range c.signals {
			told = n.obey(s, told, load, nil)
		}
		for range c.reads {
			<-read
		}
		begun := false
		select {
		case <-n.stops.begun:
			begun = true
		default:
		}
		if begun != c.begun || n.stops.hurried() != c.hurried || len(read) > 0 {
			t.Errorf("%s: it stops %v, at once %v, and has read %d times too often", c.name, begun, n.stops.hurried(),
				len(read))
		}
	}
	if s := string(stacks()); !strings.Contains(s, "TestSignals") {
		t.Errorf("what runs is not in %q", s)
	}
}

// TestLoneliness: a client waits for a leader for a while, counted anew once there is one.
func TestLoneliness(t *testing.T) {
	var alone loneliness
	if alone.lasts(true) {
		t.Error("it lasts too long from the first moment on")
	}
	alone.since = alone.since.Add(-2 * leaderlessMax)
	if !alone.lasts(true) {
		t.Error("it never lasts too long")
	}
	if alone.lasts(false) || alone.lasts(true) || time.Since(alone.since) > leaderlessMax {
		t.Error("it is not counted anew once there was a leader")
	}
}
