package fault

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOff(t *testing.T) {
	t.Setenv(Variable, "")
	f := FromEnvironment(slog.New(slog.DiscardHandler))
	if f != nil || f.Links() != nil || f.Sync() != nil {
		t.Error("F1: there are hooks although the variable is not set")
	}
}

// TestFollow changes the file while a process would run.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	t.Setenv(Variable, path)
	var log bytes.Buffer
	f := FromEnvironment(slog.New(slog.NewTextHandler(&log, nil)))
	if f == nil {
		t.Fatal("the variable is set, but there are no faults")
	}
	links, sync := f.Links(), f.Sync()
	expect := func(what string, to uint32, wantDelay time.Duration, wantDrop bool, wantSync string) {
		t.Helper()
		f.look()
		if delay, drop := links(to, nil); delay != wantDelay || drop != wantDrop {
			t.Errorf("%s: frames to %d: delay %s, drop %v", what, to, delay, drop)
		}
		if err := sync(); (err == nil) != (wantSync == "") || err != nil && err.Error() != wantSync {
			t.Errorf("%s: sync: %v", what, err)
		}
	}
	write := func(r Rules) {
		t.Helper()
		if err := r.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	expect("no file", 2, 0, false, "")
	write(Rules{Drop: []uint32{2}, Delay: map[uint32]int{3: 40}})
	expect("cut", 2, 0, true, "")
	expect("slow", 3, 40*time.Millisecond, false, "")
	if err := os.WriteFile(path, []byte(`{"drop":[3],"unheard":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("a file that cannot be read", 2, 0, true, "")
	write(Rules{SyncDelay: 30, SyncError: "no space left on device"})
	began := time.Now()
	expect("disk", 2, 0, false, "no space left on device")
	if d := time.Since(began); d < 30*time.Millisecond {
		t.Errorf("a sync that is to take 30 ms longer took %s", d)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("the file is gone", 2, 0, false, "")
	for _, want := range []string{"for tests only", "drop", "unheard", "sync_error"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("F2: the log does not tell %q:\n%s", want, log.String())
		}
	}
}

// TestWatch sees a change by itself.
func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	t.Setenv(Variable, path)
	f := FromEnvironment(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Watch(ctx) }()
	if err := (Rules{Drop: []uint32{7}}).Write(path); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, drop := f.Links()(7, nil); drop {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the file has changed, but not the faults")
		}
	}
	cancel()
	<-done
}
