package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestGrows: a new log has a small part of a segment, and twice as much each time that it is used up; the next segment
// has all at once. A machine that stops while a segment grows leaves the log as it was, with the old size or the new.
func TestGrows(t *testing.T) { onBothPaths(t, grows) }

func grows(t *testing.T, d disk) {
	dir := t.TempDir()
	o := Options{Dir: filepath.Join(dir, "log"), SegmentBytes: 1 << 20}
	type stop struct {
		dir, log string
	}
	var stops []stop
	var sizes []int64
	var l *Log
	unsynced := false
	keep := func() {
		stops = append(stops, stop{fmt.Sprint(filepath.Join(dir, "stop"), len(stops)), dump(t, l)})
		copyDir(t, o.Dir, stops[len(stops)-1].dir)
	}
	allocate, write := d.allocate, d.writeAt
	d.allocate = func(f *os.File, n int64) error {
		sizes = append(sizes, n)
		if l != nil && strings.HasSuffix(f.Name(), segmentSuffix) {
			keep()
		}
		err := allocate(f, n)
		if l != nil && strings.HasSuffix(f.Name(), segmentSuffix) {
			keep()
			unsynced = true
		}
		return err
	}
	d.sync = func(*os.File) error { unsynced = false; return nil }
	d.setWrite(func(f *os.File, b []byte, off int64) (int, error) {
		if unsynced {
			t.Error("there is a write before the new size is durable")
		}
		return write(f, b, off)
	})
	l = mustNew(t, o, d)
	data := strings.Repeat("x", 5000)
	for i := uint64(1); len(l.segs) < 2; i++ {
		e := entries(i, i, 1)
		e[0].Data = []byte(data)
		must(t, l.Append(nil, e, true))
	}
	if want := []int64{16 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20,
		1 << 20}; !slices.Equal(sizes, want) {
		t.Errorf("there were allocated %v, not %v", sizes, want)
	}
	want := dump(t, l)
	must(t, l.release())
	for _, s := range append(stops, stop{o.Dir, want}) {
		again := mustOpen(t, Options{Dir: s.dir, SegmentBytes: o.SegmentBytes}, quickDisk())
		if got := dump(t, again); got != s.log {
			t.Errorf("%s: it has other entries", s.dir)
		}
		last, _ := again.LastIndex()
		must(t, again.Append(nil, entries(last+1, last+1, 1), true))
		must(t, again.Close())
	}
}

// TestGrownAsBefore: a log of a program that allocates a segment as a whole stays so. A log that grows no more names
// what is full.
func TestGrownAsBefore(t *testing.T) {
	for _, whole := range []bool{true, false} {
		f := &faulty{err: syscall.ENOSPC}
		o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1 << 20}
		must(t, mustNew(t, o, quickDisk()).Close())
		if whole {
			must(t, os.Truncate(segmentFiles(t, o.Dir)[0], o.SegmentBytes))
		}
		l := mustOpen(t, o, faultyDisk(quickDisk(), "allocate", f))
		f.armed = true
		e := entries(1, 1, 1)
		e[0].Data = make([]byte, o.SegmentBytes/2)
		err := l.Append(nil, e, true)
		if whole {
			must(t, err)
			must(t, l.Close())
			continue
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "growing") {
			t.Fatalf("append: %v", err)
		}
		checkPoisoned(t, l, err)
		l = mustOpen(t, o, quickDisk())
		if last, _ := l.LastIndex(); last != 0 || len(l.Repairs()) > 0 {
			t.Errorf("the log ends at %d, repairs %v", last, l.Repairs())
		}
		must(t, l.Append(nil, e, true))
		must(t, l.Close())
	}
}

// TestReleaseCache: entries whose memory was given back are read from the disk, and later ones are cached again.
func TestReleaseCache(t *testing.T) {
	onBothPaths(t, func(t *testing.T, d disk) {
		l := mustNew(t, Options{Dir: filepath.Join(t.TempDir(), "log")}, d)
		must(t, l.Append(nil, entries(1, 3, 1), true))
		want := dump(t, l)
		l.ReleaseCache()
		if l.cache.bytes != 0 || l.cache.get(3) != nil {
			t.Error("it is still in memory")
		}
		if got := dump(t, l); got != want {
			t.Errorf("it reads\n%swant\n%s", got, want)
		}
		must(t, l.Append(nil, entries(3, 4, 2), true)) // replaces one
		if l.cache.get(4) == nil || l.cache.get(3).GetTerm() != 2 {
			t.Error("what is added is not cached")
		}
		must(t, l.Close())
	})
}
