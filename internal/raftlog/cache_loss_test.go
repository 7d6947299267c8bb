package raftlog

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// pages models the kernel's page cache: what is written can be read at once, but is on the
// platter only after a sync; a sync that fails leaves it readable and clean.
type pages struct {
	f       *faulty
	platter map[string][]byte // by path
	dirty   map[string][][2]int64
}

func (p *pages) disk() disk {
	d := bufferedDisk()
	d.writeAt = func(file *os.File, b []byte, off int64) (int, error) {
		p.dirty[name(file)] = append(p.dirty[name(file)], [2]int64{off, off + int64(len(b))})
		return checkedWrite(file, b, off)
	}
	d.datasync, d.sync = p.sync, p.sync
	return d
}

// name is a segment's final one: a file keeps the name that it was opened by.
func name(file *os.File) string { return strings.TrimSuffix(filepath.Base(file.Name()), tempSuffix) }

func (p *pages) sync(file *os.File) error {
	dirty := p.dirty[name(file)]
	delete(p.dirty, name(file))
	if err := p.f.hit(); err != nil {
		return err
	}
	st, err := file.Stat()
	if err != nil {
		return err
	}
	content := make([]byte, st.Size())
	if _, err := file.ReadAt(content, 0); err != nil {
		return err
	}
	b := append(p.platter[name(file)], make([]byte, len(content))...)[:len(content)]
	for _, d := range dirty {
		to := min(d[1], int64(len(b))) // it may have been cut since
		copy(b[d[0]:to], content[d[0]:to])
	}
	p.platter[name(file)] = b
	return nil
}

// powerLoss leaves of every segment what is on the platter.
func (p *pages) powerLoss(t *testing.T, dir string) {
	for _, path := range segmentFiles(t, dir) {
		must(t, os.WriteFile(path, p.platter[filepath.Base(path)], 0o600))
	}
	clear(p.dirty)
}

// TestFailedSyncThenPowerLoss (L2, L4): what a restart reads after a failed fsync is durable
// from then on, although the failed fsync dropped it.
func TestFailedSyncThenPowerLoss(t *testing.T) {
	for _, segmentBytes := range []int64{1024, 4 * blockBytes} { // one has many segments, the other many blocks
		fired := 0
		for n := range 180 {
			p := &pages{f: &faulty{left: n / 2, err: syscall.EIO}, platter: map[string][]byte{},
				dirty: map[string][][2]int64{}}
			o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: segmentBytes}
			l := mustNew(t, o, p.disk())
			p.f.armed = true
			acked, err := workload(l)
			if err == nil {
				break
			}
			fired++
			checkPoisoned(t, l, err)
			p.f.armed = false
			l = mustOpen(t, o, p.disk())
			last, _ := l.LastIndex()
			if last < acked {
				t.Fatalf("run %d: entry %d was acknowledged, the log ends at %d", n, acked, last)
			}
			if n%2 == 0 { // more follows, or the power fails at once
				must(t, l.Append(nil, entries(last+1, last+1, 1), true))
			}
			read := dump(t, l)
			must(t, l.release())
			p.powerLoss(t, o.Dir)
			l, err = open(o, p.disk())
			if err != nil {
				t.Fatalf("run %d, after the power failure: %v", n, err)
			}
			if got := dump(t, l); got != read {
				t.Fatalf("run %d: after the power failure\n%swant\n%s", n, got, read)
			}
			must(t, l.Close())
		}
		if fired < 120 {
			t.Fatalf("segments of %d bytes: only %d runs met a failing sync", segmentBytes, fired)
		}
	}
}
