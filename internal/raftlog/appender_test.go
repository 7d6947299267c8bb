package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sys/unix"
)

// TestBlockBoundaries: records that end just before, at and just behind a block's end, or leave
// no room there for the next header, are read back through the file at once and after each
// reopening, by Close and by a death of the process. So are those that follow in a half-filled block.
func TestBlockBoundaries(t *testing.T) {
	t.Run("real", func(t *testing.T) { blockBoundaries(t, realDisk()) })
	onBothPaths(t, blockBoundaries)
}

func blockBoundaries(t *testing.T, d disk) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1 << 20, CacheBytes: 1}
	l := mustNew(t, o, d)
	t.Logf("direct: %v", l.Direct())
	var all []*pb.Entry
	check := func(when string) {
		t.Helper()
		got, err := l.Entries(1, uint64(len(all))+1, 1<<30)
		must(t, err)
		if !equalEntries(got, all) || len(l.Repairs()) != 0 {
			t.Fatalf("%s: %d entries of %d, repairs %v", when, len(got), len(all), l.Repairs())
		}
	}
	for _, end := range []int64{-recordOverhead - 1, -recordOverhead, -headerBytes, -1, 0, 1, headerBytes,
		recordOverhead + 1} {
		for blocks := range int64(3) {
			for _, closed := range []bool{true, false} {
				when := fmt.Sprintf("end at block %+d, %d blocks, closed %v", end, blocks, closed)
				used := l.current().used
				target := roundUp(used+recordBytes(entryFixedBytes), blockBytes) + blocks*blockBytes + end
				size := max(0, target-used-recordBytes(entryFixedBytes))
				all = append(all, entry(uint64(len(all))+1, 1,
					strings.Repeat(string(rune('a'+len(all)%26)), int(size)+1)[1:]))
				must(t, l.Append(nil, all[len(all)-1:], true))
				if size > 0 && l.current().used != target {
					t.Fatalf("%s: the record ends at %d, want %d", when, l.current().used, target)
				}
				check(when)
				if closed {
					must(t, l.Close())
				} else {
					must(t, l.release())
				}
				l = mustOpen(t, o, d)
				check(when + ", reopened")
			}
		}
	}
	if len(l.segs) != 1 {
		t.Fatal("the test wants one segment")
	}
	must(t, l.Close())
}

// TestWritesAhead: a write into space that was never written to takes aheadBytes of it along, the
// following ones only their blocks; none goes beyond the segment unless the record does.
func TestWritesAhead(t *testing.T) {
	d := quickDisk()
	var off, bytes int64
	d.writeDirect = func(f *os.File, b []byte, at int64) (int, error) {
		off, bytes = at, int64(len(b))
		return checkedWrite(f, b, at)
	}
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: aheadBytes + 10*blockBytes + 100}
	l := mustNew(t, o, d)
	append := func(size int64) {
		last, _ := l.LastIndex()
		must(t, l.Append(nil, []*pb.Entry{entry(last+1, 1,
			strings.Repeat("x", int(size-recordBytes(entryFixedBytes))))}, true))
	}
	for _, c := range []struct{ size, off, bytes int64 }{
		{300, 0, blockBytes},
		{5000, 0, 2 * blockBytes},
		{aheadBytes - 5300 - blockBytes, blockBytes, aheadBytes - blockBytes}, // up to what Open wrote
		{2 * blockBytes, aheadBytes - blockBytes, 11 * blockBytes},            // the rest of the segment
		{300, aheadBytes + blockBytes, blockBytes},
	} {
		append(c.size)
		if off != c.off || bytes != c.bytes || len(l.segs) != 1 {
			t.Fatalf("an append of %d bytes wrote %d at %d, want %d at %d", c.size, bytes, off, c.bytes, c.off)
		}
	}
	append(2 * o.SegmentBytes) // in a segment of its own
	if used := l.current().used; len(l.segs) != 2 || off+bytes != roundUp(used, blockBytes) {
		t.Fatalf("%d segments, the last write ends at %d, the records at %d", len(l.segs), off+bytes, used)
	}
	must(t, l.Close())
}

// TestBuffersAreReused: an append allocates nothing, and a large one does not keep its buffer.
func TestBuffersAreReused(t *testing.T) {
	d := quickDisk()
	d.setWrite((*os.File).WriteAt)
	l := mustNew(t, Options{Dir: filepath.Join(t.TempDir(), "log")}, d)
	ents, hs := entries(1, 3, 1), hard(1, 7, 0)
	must(t, l.Append(hs, ents, true))
	if n := testing.AllocsPerRun(100, func() { must(t, l.Append(hs, ents, true)) }); n > 0 {
		t.Errorf("an append of three entries and a hard state makes %v allocations", n)
	}
	must(t, l.Append(nil, []*pb.Entry{entry(1, 1, strings.Repeat("x", keepBytes))}, true))
	if n := cap(l.current().tail.buf); n > keepBytes {
		t.Errorf("%d bytes are kept", n)
	}
	must(t, l.Append(hs, ents, true))
	must(t, l.Close())
}

// TestFallback: without direct writes, which shows at open or at a segment's first write, the
// log works all the same and says so.
func TestFallback(t *testing.T) {
	refused := map[string]func(d *disk){
		"at open": func(d *disk) {
			d.openDirect = func(string) (*os.File, int64, error) { return nil, 0, unix.EINVAL }
		},
		"at the first write": func(d *disk) {
			d.writeDirect = func(f *os.File, b []byte, off int64) (int, error) {
				if len(b) > 0 {
					return 0, unix.EINVAL
				}
				return 0, nil
			}
		},
	}
	for name, refuse := range refused {
		t.Run(name, func(t *testing.T) {
			d := quickDisk()
			refuse(&d)
			syncs := 0
			d.datasync = func(*os.File) error { syncs++; return nil }
			o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: blockBytes + recordOverhead}
			l := mustNew(t, o, d)
			must(t, l.Append(nil, entries(1, 1, 1), true))
			if l.Direct() || syncs != 1 {
				t.Fatalf("direct %v, %d syncs", l.Direct(), syncs)
			}
			_, err := workload(l)
			must(t, err)
			want := dump(t, l)
			must(t, l.Close())
			l = mustOpen(t, o, quickDisk())
			if got := dump(t, l); got != want || !l.Direct() {
				t.Fatalf("reopened with direct writes (%v): %s", l.Direct(), got)
			}
			// A segment that is full to the last byte of a block shows it too.
			last, _ := l.LastIndex()
			used := l.current().used
			must(t, l.Append(nil, []*pb.Entry{entry(last+1, 1,
				strings.Repeat("x", int(blockBytes-used-recordBytes(entryFixedBytes))))}, true))
			must(t, l.release())
			l = mustOpen(t, o, d)
			if end := l.current().used; end != blockBytes || l.Direct() {
				t.Fatalf("reopened at %d without direct writes (%v)", end, !l.Direct())
			}
			must(t, l.Close())
		})
	}
}

// TestNoFallbackLater: only a segment's first write decides, and only EINVAL.
func TestNoFallbackLater(t *testing.T) {
	f := &faulty{err: unix.EINVAL}
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 4096}
	l := mustNew(t, o, faultyDisk(quickDisk(), "write", f))
	f.armed = true
	err := l.Append(nil, entries(1, 1, 1), true)
	if !errors.Is(err, unix.EINVAL) {
		t.Fatalf("append: %v", err)
	}
	checkPoisoned(t, l, err)
	d := quickDisk()
	d.openDirect = func(string) (*os.File, int64, error) { return nil, 0, syscall.EMFILE }
	if _, err := open(o, d); !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("open: %v", err)
	}
	must(t, mustOpen(t, o, quickDisk()).Close())
}

// TestRealDirectWrites: the file a segment is written through has the flags that make a returned
// write durable.
func TestRealDirectWrites(t *testing.T) {
	l := mustNew(t, Options{Dir: filepath.Join(t.TempDir(), "log")}, realDisk())
	if !l.Direct() {
		t.Skip("no direct writes here")
	}
	tail := l.current().tail
	flags, err := unix.FcntlInt(tail.f.Fd(), unix.F_GETFL, 0)
	must(t, err)
	if flags&unix.O_DIRECT == 0 || flags&unix.O_DSYNC == 0 || tail.block%blockBytes != 0 {
		t.Fatalf("flags %x, blocks of %d bytes", flags, tail.block)
	}
	must(t, l.Close())
}

// TestMemoryFileSystem: tmpfs, where direct writes depend on the kernel.
func TestMemoryFileSystem(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "raftlog")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	o := Options{Dir: filepath.Join(dir, "log"), SegmentBytes: 8192}
	l := mustNew(t, o, realDisk())
	t.Logf("direct: %v", l.Direct())
	_, err = workload(l)
	must(t, err)
	want := dump(t, l)
	must(t, l.Close())
	l = mustOpen(t, o, realDisk())
	if got := dump(t, l); got != want {
		t.Fatalf("after reopen\n%swant\n%s", got, want)
	}
	must(t, l.Close())
}
