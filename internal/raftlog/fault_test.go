package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// faulty fails the function fail names from its n-th use after arm on.
type faulty struct {
	armed bool
	left  int
	err   error
}

func (f *faulty) hit() error {
	if !f.armed {
		return nil
	}
	if f.left--; f.left < 0 {
		return f.err
	}
	return nil
}

func faultyDisk(d disk, kind string, f *faulty) disk {
	onFile := func(*os.File) error { return f.hit() }
	switch kind {
	case "write":
		d.setWrite(func(file *os.File, b []byte, off int64) (int, error) {
			if err := f.hit(); err != nil {
				return tornWrite(file, b, off), err
			}
			return checkedWrite(file, b, off)
		})
	case "short write":
		d.setWrite(func(file *os.File, b []byte, off int64) (int, error) {
			if f.hit() != nil {
				return tornWrite(file, b, off), nil
			}
			return checkedWrite(file, b, off)
		})
	case "sync of a write": // what O_DSYNC adds
		d.writeDirect = func(file *os.File, b []byte, off int64) (int, error) {
			n, err := checkedWrite(file, b, off)
			return n, errors.Join(err, f.hit())
		}
	case "datasync":
		d.datasync = onFile
	case "sync":
		d.sync = onFile
	case "syncDir":
		d.syncDir = func(string) error { return f.hit() }
	case "allocate":
		real := d.allocate
		d.allocate = func(file *os.File, n int64) error { return errors.Join(f.hit(), real(file, n)) }
	case "remove":
		d.remove = func(p string) error {
			if err := f.hit(); err != nil {
				return err
			}
			return os.Remove(p)
		}
	}
	return d
}

// TestEveryFaultPoisons (L4): after the n-th failure of any kind nothing works any more, with
// the same error, and a restart finds everything that was acknowledged.
func TestEveryFaultPoisons(t *testing.T) {
	onBothPaths(t, func(t *testing.T, d disk) {
		for _, kind := range []string{"write", "short write", "sync of a write", "datasync", "sync", "syncDir",
			"allocate", "remove"} {
			t.Run(kind, func(t *testing.T) { everyFaultPoisons(t, d, kind) })
		}
	})
}

func everyFaultPoisons(t *testing.T, d disk, kind string) {
	fired, direct := 0, false
	for n := 0; n < 12; n++ {
		f := &faulty{left: n, err: syscall.EIO}
		o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
		l := mustNew(t, o, faultyDisk(d, kind, f))
		direct = l.Direct()
		f.armed = true
		acked, err := workload(l)
		if err == nil {
			f.armed = false
			must(t, l.Close())
			continue
		}
		fired++
		checkPoisoned(t, l, err)
		l = mustOpen(t, o, d)
		if last, _ := l.LastIndex(); last < acked {
			t.Fatalf("fault %d: entry %d was acknowledged, the log ends at %d", n, acked, last)
		}
		must(t, l.Close())
	}
	if never := direct && kind == "datasync" || !direct && kind == "sync of a write"; never != (fired == 0) {
		t.Fatalf("%d faults fired", fired)
	}
}

// workload appends until the first error and returns the last entry that was acknowledged.
func workload(l *Log) (acked uint64, err error) {
	for i := uint64(1); i <= 60; i++ {
		if err := l.Append(hard(1, 7, i-1), entries(i, i, 1), true); err != nil {
			return acked, err
		}
		acked = i
		if i%20 == 0 {
			if err := l.Compact(i - 1); err != nil {
				return acked, err
			}
		}
	}
	return acked, nil
}

func checkPoisoned(t *testing.T, l *Log, first error) {
	t.Helper()
	calls := map[string]func() error{
		"Append":          func() error { return l.Append(nil, entries(1, 1, 1), true) },
		"Compact":         func() error { return l.Compact(1) },
		"Term":            func() error { _, err := l.Term(1); return err },
		"Entries":         func() error { _, err := l.Entries(1, 2, 1); return err },
		"InitialState":    func() error { _, _, err := l.InitialState(); return err },
		"FirstIndex":      func() error { _, err := l.FirstIndex(); return err },
		"LastIndex":       func() error { _, err := l.LastIndex(); return err },
		"Snapshot":        func() error { _, err := l.Snapshot(); return err },
		"NextIncarnation": func() error { _, err := l.NextIncarnation(); return err },
		"SetConfState":    func() error { return l.SetConfState(1, nil) },
		"ApplySnapshot":   func() error { return l.ApplySnapshot(nil) },
		"Close":           l.Close,
	}
	for name, call := range calls {
		if name == "Close" {
			continue // last, below
		}
		if err := call(); !errors.Is(err, first) {
			t.Fatalf("%s after a failure: %v, want %v", name, err, first)
		}
	}
	if err := calls["Close"](); !errors.Is(err, first) {
		t.Fatalf("Close after a failure: %v, want %v", err, first)
	}
}

func TestDiskFullIsNamed(t *testing.T) {
	onBothPaths(t, func(t *testing.T, d disk) {
		for _, kind := range []string{"write", "allocate"} {
			f := &faulty{err: syscall.ENOSPC}
			o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
			l := mustNew(t, o, faultyDisk(d, kind, f))
			f.armed = true
			_, err := workload(l)
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%s: %v", kind, err)
			}
			for _, part := range []string{o.Dir, "no space left", "free space and restart",
				"nothing acknowledged is lost"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %q does not say %q", kind, err, part)
				}
			}
			checkPoisoned(t, l, err)
		}
	})
}

// TestSyncIsCalled: without direct writes sync means fdatasync before the return, no sync means none.
func TestSyncIsCalled(t *testing.T) {
	n := 0
	d := bufferedDisk()
	d.datasync = func(*os.File) error { n++; return nil }
	l := mustNew(t, Options{Dir: filepath.Join(t.TempDir(), "log")}, d)
	must(t, l.Append(hard(1, 7, 0), nil, false))
	if n != 0 {
		t.Fatalf("%d syncs without sync", n)
	}
	must(t, l.Append(hard(1, 8, 0), nil, true))
	if n != 1 {
		t.Fatalf("%d syncs after one append", n)
	}
	must(t, l.Append(nil, nil, true)) // nothing new to sync
	if n != 1 {
		t.Fatalf("%d syncs after an empty append", n)
	}
	must(t, l.Append(nil, entries(1, 1, 1), false))
	must(t, l.Append(nil, nil, true)) // what was written before becomes durable
	if n != 2 {
		t.Fatalf("%d syncs", n)
	}
	must(t, l.Close())
}

// TestOpenOnFullDisk: a restart before space was freed says the same and changes nothing.
func TestOpenOnFullDisk(t *testing.T) {
	f := &faulty{err: syscall.ENOSPC}
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
	l := mustNew(t, o, quickDisk())
	acked, err := workload(l)
	must(t, err)
	must(t, l.Close())
	f.armed = true
	if _, err := open(o, faultyDisk(quickDisk(), "allocate", f)); !errors.Is(err, syscall.ENOSPC) ||
		!strings.Contains(err.Error(), "free space and restart") {
		t.Fatalf("open: %v", err)
	}
	l = mustOpen(t, o, quickDisk())
	if last, _ := l.LastIndex(); last != acked {
		t.Fatalf("the log ends at %d, want %d", last, acked)
	}
	must(t, l.Close())
}

// TestBeforeSync: the hook sees every sync, or write that contains one, before it is done, and its
// error is the sync's.
func TestBeforeSync(t *testing.T) { onBothPaths(t, beforeSync) }

func beforeSync(t *testing.T, d disk) {
	var order []string
	d.datasync = func(*os.File) error { order = append(order, "durable"); return nil }
	d.writeDirect = func(f *os.File, b []byte, off int64) (int, error) {
		order = append(order, "durable")
		return checkedWrite(f, b, off)
	}
	var fail error
	o := Options{Dir: filepath.Join(t.TempDir(), "log"),
		BeforeSync: func() error { order = append(order, "hook"); return fail }}
	l := mustNew(t, o, d)
	order = nil
	must(t, l.Append(nil, entries(1, 2, 1), true))
	if got := strings.Join(order, " "); got != "hook durable" {
		t.Errorf("one synced Append: %s", got)
	}
	fail = errors.New("told to fail")
	if err := l.Append(nil, entries(3, 3, 1), true); !errors.Is(err, fail) {
		t.Errorf("the hook failed, and Append returned %v", err)
	}
	fail = nil
	if err := l.Append(nil, entries(3, 3, 1), true); err == nil {
		t.Error("L4: the log works again after a failed sync")
	}
	if got := strings.Join(order, " "); got != "hook durable hook" {
		t.Errorf("the disk was asked: %s", got)
	}
	_ = l.Close() // it is poisoned
}
