package raftlog

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"
)

// powerCut sits between a log and its disk and notes, for every sector, what it may hold after the
// power fails: each content since it was durable. At the event left counts down to it leaves in dir
// what a failure there might have left: copies of the files with any of these contents in each such
// sector. Names and sizes are as they were.
type powerCut struct {
	t    *rapid.T
	dir  string
	left int
	done func()                        // called at the failure
	may  map[string]map[int64][]string // by file and offset
}

func (p *powerCut) disk(d disk) disk {
	d.writeAt = func(f *os.File, b []byte, off int64) (int, error) {
		p.note(fileKey(f), replaced(f, b, off), string(b), off)
		n, err := checkedWrite(f, b, off)
		p.event(filepath.Dir(f.Name()))
		return n, err
	}
	d.writeDirect = func(f *os.File, b []byte, off int64) (int, error) {
		n, err := d.writeAt(f, b, off)
		delete(p.may, fileKey(f))
		return n, err
	}
	sync := func(f *os.File) error {
		p.event(filepath.Dir(f.Name()))
		delete(p.may, fileKey(f))
		return nil
	}
	d.datasync, d.sync = sync, sync
	return d
}

// fileKey is the segment's name, also while it has the name it is made under.
func fileKey(f *os.File) string { return strings.TrimSuffix(filepath.Base(f.Name()), tempSuffix) }

func (p *powerCut) note(key string, old []byte, now string, off int64) {
	if p.may[key] == nil {
		p.may[key] = map[int64][]string{}
	}
	for i := 0; i < len(old); i += sectorBytes {
		was, is, at := string(old[i:i+sectorBytes]), now[i:i+sectorBytes], off+int64(i)
		if was == is {
			continue
		}
		if p.may[key][at] == nil {
			p.may[key][at] = []string{was}
		}
		p.may[key][at] = append(p.may[key][at], is)
	}
}

func (p *powerCut) event(from string) {
	if p.left--; p.left != 0 {
		return
	}
	p.done()
	copyDir(p.t, from, p.dir)
	for _, key := range slices.Sorted(maps.Keys(p.may)) {
		f, err := os.OpenFile(filepath.Join(p.dir, key), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // not yet under its name, or removed
		}
		must(p.t, err)
		for _, at := range slices.Sorted(maps.Keys(p.may[key])) {
			contents := p.may[key][at]
			_, err := f.WriteAt([]byte(contents[rapid.IntRange(0, len(contents)-1).Draw(p.t, "sector")]), at)
			must(p.t, err)
		}
		must(p.t, f.Close())
	}
}

// TestModelPowerCut: when the power fails in the middle of any call and keeps an arbitrary set of the
// sectors that were not durable, a segment's begin and end included, the log is in a state it
// was in since the last sync, or in the one the call was to reach (L1, L2).
func TestModelPowerCut(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "run")
		must(t, err)
		o := Options{Dir: filepath.Join(dir, "log"), SegmentBytes: rapid.SampledFrom([]int64{2048, 8192, 32768}).Draw(t,
			"segmentBytes")}
		crashed := Options{Dir: filepath.Join(dir, "crashed"), SegmentBytes: o.SegmentBytes}
		must(t, create(o, testID, quickDisk()))

		var states []string // after each call
		durable := 0        // the newest of them that no failure may lose
		from := -1          // durable when the power failed
		p := &powerCut{t: t, dir: crashed.Dir, may: map[string]map[int64][]string{},
			left: rapid.IntRange(1, 50).Draw(t, "failsAt")}
		p.done = func() { from = durable }
		l := mustOpen(t, o, p.disk(drawDisk(t)))
		states = append(states, dump(t, l))
		for from < 0 {
			segs := l.current().seq
			synced := drawCall(t, l, len(states))
			states = append(states, dump(t, l))
			if synced || l.Direct() {
				durable = len(states) - 1
			} else if l.current().seq > segs { // before a new segment begins the old one is synced
				durable = len(states) - 2
			}
		}
		must(t, l.release())
		checkRecovery(t, crashed, states[from:])
		must(t, os.RemoveAll(dir))
	})
}

// drawCall makes a call that writes one record, and reports whether that is synced. n is another
// number each time.
func drawCall(t *rapid.T, l *Log, n int) (synced bool) {
	first, err := l.FirstIndex()
	must(t, err)
	last, err := l.LastIndex()
	must(t, err)
	sync := rapid.IntRange(0, 3).Draw(t, "sync") == 0
	switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
	case kind == 0 && last >= first:
		must(t, l.Compact(rapid.Uint64Range(first, last).Draw(t, "compact")))
		return true
	case kind < 3:
		must(t, l.Append(hard(uint64(n), rapid.Uint64Range(1, 3).Draw(t, "vote"), first-1), nil, sync))
	default:
		at := last + 1 - rapid.Uint64Range(0, min(last+1-first, 3)).Draw(t, "back")
		size := rapid.OneOf(rapid.IntRange(0, 700), rapid.IntRange(3500, 9000)).Draw(t, "bytes")
		must(t, l.Append(nil, []*pb.Entry{entry(at, uint64(n), strings.Repeat(string(rune('a'+n%26)), size))}, sync))
	}
	return sync
}

// checkRecovery opens what a failure left behind and goes on with it.
func checkRecovery(t *rapid.T, o Options, allowed []string) {
	l := mustOpen(t, o, drawDisk(t))
	got := dump(t, l)
	if !slices.Contains(allowed, got) {
		t.Fatalf("recovered\n%.300q\nwhich is none of\n%.300q", got, allowed)
	}
	first, _ := l.FirstIndex()
	must(t, l.Append(hard(99, 1, first-1), nil, true))
	got = dump(t, l)
	must(t, l.Close())
	l = mustOpen(t, o, drawDisk(t))
	if again := dump(t, l); again != got || len(l.Repairs()) != 0 {
		t.Fatalf("second recovery\n%.300q\nafter\n%.300q\nrepairs %v", again, got, l.Repairs())
	}
	must(t, l.Close())
}
