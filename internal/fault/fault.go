package fault

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// Variable is the environment variable that names the file of faults.
const Variable = "TUTTI_FAULTS"

// interval is how often the file is looked at.
const interval = 10 * time.Millisecond

// Faults are the faults of one process. A nil Faults has none.
type Faults struct {
	path  string
	log   *slog.Logger
	rules atomic.Pointer[Rules]
	text  []byte // what was read last; of Watch only
}

// FromEnvironment returns nil when Variable is not set. The caller runs Watch.
func FromEnvironment(log *slog.Logger) *Faults {
	path := os.Getenv(Variable)
	if path == "" {
		return nil
	}
	f := &Faults{path: path, log: log}
	f.rules.Store(&Rules{})
	log.Warn("faults are made on request: this is for tests only", "variable", Variable, "file", path)
	f.look()
	return f
}

// Watch follows the file until ctx ends.
func (f *Faults) Watch(ctx context.Context) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			f.look()
		}
	}
}

// look takes over what the file says now (F2).
func (f *Faults) look() {
	r, text, err := read(f.path)
	if bytes.Equal(text, f.text) {
		return
	}
	f.text = text
	if err != nil {
		f.log.Warn("the faults cannot be read and stay as they were", "error", err)
		return
	}
	f.rules.Store(&r)
	f.log.Warn("faults", "rules", string(bytes.TrimSpace(text)))
}

// Links is transport's hook; nil when there are no faults (F1).
func (f *Faults) Links() func(to uint32, frame []byte) (delay time.Duration, drop bool) {
	if f == nil {
		return nil
	}
	return func(to uint32, _ []byte) (time.Duration, bool) {
		r := f.rules.Load()
		if slices.Contains(r.Drop, to) {
			return 0, true
		}
		return time.Duration(r.Delay[to]) * time.Millisecond, false
	}
}

// Sync is the log's hook, called before each sync; nil when there are no faults (F1).
func (f *Faults) Sync() func() error {
	if f == nil {
		return nil
	}
	return func() error {
		r := f.rules.Load()
		time.Sleep(time.Duration(r.SyncDelay) * time.Millisecond)
		if r.SyncError != "" {
			return errors.New(r.SyncError)
		}
		return nil
	}
}
