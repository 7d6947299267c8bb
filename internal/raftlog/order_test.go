package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNothingUnsyncedBehindABarrier (L1, L6): when a segment is begun or removed, everything
// written to other files before is on disk, and so is every name.
func TestNothingUnsyncedBehindABarrier(t *testing.T) {
	for name, d := range map[string]disk{"real": realDisk(), "buffered": bufferedDisk()} {
		t.Run(name, func(t *testing.T) { nothingUnsynced(t, d) })
	}
}

func nothingUnsynced(t *testing.T, d disk) {
	dirty := map[string]bool{} // files written since their last sync
	names := false             // names changed since the last sync of the directory
	barriers := 0
	barrier := func(what string) {
		barriers++
		if len(dirty) > 0 || names {
			t.Errorf("%s with unsynced files %v, names %v", what, dirty, names)
		}
	}
	d.writeAt = func(f *os.File, b []byte, off int64) (int, error) {
		dirty[f.Name()] = true
		return f.WriteAt(b, off)
	}
	clean := func(f *os.File) error { delete(dirty, f.Name()); return nil }
	d.datasync, d.sync = clean, clean
	d.syncDir = func(string) error { names = false; return nil }
	d.allocate = func(f *os.File, n int64) error {
		barrier("begin of " + filepath.Base(f.Name()))
		names = true
		return allocate(f, n)
	}
	d.remove = func(path string) error {
		barrier("removal of " + filepath.Base(path))
		names = true
		return os.Remove(path)
	}
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
	l := mustNew(t, o, d)
	for i := uint64(1); i <= 200; i++ {
		must(t, l.Append(hard(1, 7, i-1), entries(i, i, 1), i%7 == 0))
		if i%50 == 0 {
			must(t, l.Compact(i-1))
		}
	}
	must(t, l.Close())
	if len(dirty) > 0 || names || barriers < 20 {
		t.Errorf("after Close: unsynced %v, names %v, %d barriers", dirty, names, barriers)
	}
}

// TestFlipInLastSyncedRecord: without any later record, a complete record with a wrong
// checksum is damage, not a torn write.
func TestFlipInLastSyncedRecord(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: filepath.Join(dir, "log"), SegmentBytes: 4096}
	l := mustNew(t, o, quickDisk())
	must(t, l.Append(nil, entries(1, 5, 1), true))
	crashed := Options{Dir: filepath.Join(dir, "crashed"), SegmentBytes: 4096}
	copyDir(t, o.Dir, crashed.Dir)
	x, path := l.at(5), filepath.Join(crashed.Dir, filepath.Base(l.current().path))
	must(t, l.Close())
	b, err := os.ReadFile(path)
	must(t, err)
	b[x.off+headerBytes+entryFixedBytes] ^= 1
	must(t, os.WriteFile(path, b, 0o600))
	if _, err := open(crashed, quickDisk()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Fatalf("open: %v", err)
	}
}

// TestLossBeforeUnstartedSegment: after a crash between a segment's begin and its predecessor's
// end the new one is dropped, unless its head shows that the predecessor lost records.
func TestLossBeforeUnstartedSegment(t *testing.T) {
	onBothPaths(t, func(t *testing.T, d disk) {
		lossBeforeUnstarted(t, d, false)
		lossBeforeUnstarted(t, d, true)
	})
}

func lossBeforeUnstarted(t *testing.T, d disk, lose bool) {
	f := &faulty{err: syscall.EIO}
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
	l := mustNew(t, o, faultyDisk(d, "write", f))
	faulty := l.disk.writeAt
	l.disk.setWrite(func(file *os.File, b []byte, off int64) (int, error) {
		f.armed = len(l.segs) == 2 // what is written then is the old one's end record
		return faulty(file, b, off)
	})
	acked, err := workload(l)
	if err == nil || len(l.segs) != 2 {
		t.Fatalf("workload: %v, %d segments", err, len(l.segs))
	}
	old, last := l.segs[0], l.at(acked)
	checkPoisoned(t, l, err)
	if lose {
		b, err := os.ReadFile(old.path)
		must(t, err)
		clear(b[last.off:])
		must(t, os.WriteFile(old.path, b, 0o600))
		if _, err := open(o, quickDisk()); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("open after a loss: %v", err)
		}
		return
	}
	l = mustOpen(t, o, quickDisk())
	if got, _ := l.LastIndex(); got != acked || len(segmentFiles(t, o.Dir)) != 1 {
		t.Fatalf("the log ends at %d, want %d; files %v", got, acked, segmentFiles(t, o.Dir))
	}
	must(t, l.Append(nil, entries(acked+1, acked+20, 1), true))
	must(t, l.Close())
	must(t, mustOpen(t, o, quickDisk()).Close())
}
