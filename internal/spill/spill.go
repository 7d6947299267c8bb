package spill

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// Least is how many bytes are worth a file.
	Least = 2 << 20

	prefix = "spill."

	sweepEvery   = 20 * time.Millisecond // pages that were touched are given back to the kernel
	collectEvery = 5 * time.Second       // while something is in files, what is free is looked for
	// garbage is how much of it may gather beside what is in files, if little else is in memory.
	garbage    = 48 << 20
	percentMin = 2
)

// Files gives room. It is safe for concurrent use.
type Files struct {
	dir string
	log *slog.Logger

	mu      sync.Mutex
	regions map[uintptr]uintptr // bytes, by address
	total   uintptr
	swept   bool // somebody sweeps
	percent int  // of garbage, as it was before; negative: there is no limit
	now     int
	warned  bool
}

// New makes one whose files lie in dir, and removes what a process before may have left there.
func New(dir string, log *slog.Logger) *Files {
	left, _ := filepath.Glob(filepath.Join(dir, prefix+"*"))
	for _, name := range left {
		_ = os.Remove(name) // it is only in the way
	}
	percent := debug.SetGCPercent(-1)
	debug.SetGCPercent(percent)
	return &Files{dir: dir, log: log, regions: map[uintptr]uintptr{}, percent: percent, now: percent}
}

// Room is an empty slice with room for n bytes, which are on disk if they are many and it has room. Nil gives memory.
func (f *Files) Room(n int) []byte {
	b := make([]byte, n)
	if f == nil || n < Least {
		return b[:0]
	}
	if err := f.spill(b); err != nil {
		f.mu.Lock()
		if !f.warned {
			f.warned = true
			f.log.Warn("a large transaction is kept in memory: its file cannot be made", "dir", f.dir, "bytes", n,
				"error", err)
		}
		f.mu.Unlock()
	}
	return b[:0]
}

// Bytes is how many bytes are in files now.
func (f *Files) Bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(f.total)
}

// added notes a region.
func (f *Files) added(at, size uintptr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.regions[at] = size
	f.total += size
	f.pace()
	if !f.swept {
		f.swept = true
		go f.sweep()
	}
}

// removed notes that a region is the runtime's again.
func (f *Files) removed(at uintptr) {
	f.total -= f.regions[at]
	delete(f.regions, at)
	f.pace()
}

// pace tells the garbage collector how much garbage may gather: it takes for memory what is in files (SP5).
func (f *Files) pace() {
	if f.percent < 0 {
		return
	}
	percent := max(percentMin, int(uint64(f.percent)*garbage/(garbage+uint64(f.total))))
	if f.total == 0 {
		percent = f.percent
	}
	if percent == f.now || f.total > 0 && percent < f.now && 8*percent > 7*f.now {
		return
	}
	f.now = percent
	debug.SetGCPercent(percent)
}

// sweep gives touched pages back to the kernel, and looks for what is free, until nothing is in files any more.
func (f *Files) sweep() {
	for looked := time.Now(); ; {
		time.Sleep(sweepEvery)
		f.mu.Lock()
		for at, size := range f.regions { // order-free: each for itself
			forget(at, size)
		}
		over := len(f.regions) == 0
		f.swept = !over
		f.mu.Unlock()
		switch {
		case over:
			debug.FreeOSMemory() // a large transaction leaves garbage, which nobody would take away for long
			return
		case time.Since(looked) > collectEvery:
			go runtime.GC() // what has become free is known only by that; it may take longer than a sweep may wait
			looked = time.Now()
		}
	}
}
