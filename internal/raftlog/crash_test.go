package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// history writes single synced records and returns the visible state after each of them with
// the length of the only segment at that time.
func history(t *testing.T, l *Log) (states []string, ends []int64) {
	note := func() {
		states = append(states, dump(t, l))
		ends = append(ends, l.current().used)
	}
	note()
	for i := uint64(1); i <= 6; i++ {
		must(t, l.Append(nil, entries(i, i, 1), true))
		note()
		must(t, l.Append(hard(1, i, i-1), nil, true))
		note()
	}
	must(t, l.Append(nil, entries(6, 6, 2), true))
	note()
	return states, ends
}

// TestTailCutAtEveryByte: whatever length of the tail is lost, every record before it is there
// and nothing else.
func TestTailCutAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	d := quickDisk()
	o := Options{Dir: filepath.Join(dir, "log"), SegmentBytes: 4096}
	l := mustNew(t, o, d)
	states, ends := history(t, l)
	content, err := os.ReadFile(l.current().path)
	must(t, err)
	name := filepath.Base(l.current().path)
	cut := Options{Dir: filepath.Join(dir, "cut"), SegmentBytes: 4096}
	copyDir(t, o.Dir, cut.Dir)
	must(t, l.Close())

	for _, zeroed := range []bool{false, true} {
		k := 0
		for at := ends[0]; at <= ends[len(ends)-1]; at++ {
			for k+1 < len(ends) && ends[k+1] <= at {
				k++
			}
			b := append([]byte(nil), content[:at]...)
			if zeroed {
				b = append(b, make([]byte, 4096-at)...)
			}
			must(t, os.WriteFile(filepath.Join(cut.Dir, name), b, 0o600))
			l := mustOpen(t, cut, d)
			if got := dump(t, l); got != states[k] {
				t.Fatalf("cut at %d (zeroed: %v)\n%swant\n%s", at, zeroed, got, states[k])
			}
			if torn := at > ends[k]; torn != (len(l.Repairs()) == 1) {
				t.Fatalf("cut at %d (zeroed: %v): repairs %v", at, zeroed, l.Repairs())
			}
			must(t, l.release())
		}
	}
}

// TestEveryBitFlipIsAnError: synced data that changed is never taken for a torn write.
func TestEveryBitFlipIsAnError(t *testing.T) {
	dir := t.TempDir()
	d := quickDisk()
	o := Options{Dir: filepath.Join(dir, "log"), SegmentBytes: 4096}
	l := mustNew(t, o, d)
	_, ends := history(t, l)
	path := l.current().path
	must(t, l.Close())
	content, err := os.ReadFile(path)
	must(t, err)
	for at := range ends[len(ends)-1] {
		b := append([]byte(nil), content...)
		b[at] ^= 1 << (at % 8)
		must(t, os.WriteFile(path, b, 0o600))
		l, err := open(o, d)
		if err == nil {
			t.Fatalf("flip at %d went unnoticed: %s", at, dump(t, l))
		}
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "offset") {
			t.Fatalf("flip at %d: %v", at, err)
		}
	}
	// A whole sector that turned to zeros looks torn, but the mark of Close proves otherwise.
	b := append([]byte(nil), content...)
	clear(b[ends[0]:ends[len(ends)-1]])
	must(t, os.WriteFile(path, b, 0o600))
	if _, err := open(o, d); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "was durable") {
		t.Fatalf("zeroed sectors: %v", err)
	}
	must(t, os.WriteFile(path, content, 0o600))
	must(t, mustOpen(t, o, d).Close())
}

// threeSegments leaves a closed log of at least three segments and returns their paths.
func threeSegments(t *testing.T, o Options) []string {
	l := mustNew(t, o, quickDisk())
	for i := uint64(1); i <= 40; i++ {
		must(t, l.Append(nil, entries(i, i, 1), true))
	}
	must(t, l.Close())
	segs := segmentFiles(t, o.Dir)
	if len(segs) < 3 {
		t.Fatalf("only %d segments", len(segs))
	}
	return segs
}

func TestDamageInOldSegments(t *testing.T) {
	damage := map[string]func(t *testing.T, segs []string){
		"bit flip": func(t *testing.T, segs []string) {
			b, err := os.ReadFile(segs[1])
			must(t, err)
			b[len(b)/2] ^= 4
			must(t, os.WriteFile(segs[1], b, 0o600))
		},
		"zeroed end": func(t *testing.T, segs []string) {
			b, err := os.ReadFile(segs[0])
			must(t, err)
			clear(b[len(b)-200:])
			must(t, os.WriteFile(segs[0], b, 0o600))
		},
		"zeroed end before the newest": func(t *testing.T, segs []string) {
			b, err := os.ReadFile(segs[len(segs)-2])
			must(t, err)
			clear(b[len(b)-200:])
			must(t, os.WriteFile(segs[len(segs)-2], b, 0o600))
		},
		"cut":            func(t *testing.T, segs []string) { must(t, os.Truncate(segs[1], 300)) },
		"first missing":  func(t *testing.T, segs []string) { must(t, os.Remove(segs[0])) },
		"middle missing": func(t *testing.T, segs []string) { must(t, os.Remove(segs[1])) },
		"newest missing": func(t *testing.T, segs []string) { must(t, os.Remove(segs[len(segs)-1])) },
		"newest emptied": func(t *testing.T, segs []string) { must(t, os.Truncate(segs[len(segs)-1], 0)) },
		"all missing":    func(t *testing.T, segs []string) { removeAll(t, segs) },
		"swapped":        func(t *testing.T, segs []string) { swap(t, segs[0], segs[1]) },
		"garbage behind": func(t *testing.T, segs []string) { extend(t, segs[0], "garbage") },
		"identity broken": func(t *testing.T, segs []string) {
			extend(t, filepath.Join(filepath.Dir(segs[0]), identityFile), "x")
		},
	}
	for name, f := range damage {
		t.Run(name, func(t *testing.T) {
			o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
			segs := threeSegments(t, o)
			f(t, segs)
			if _, err := open(o, quickDisk()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), o.Dir) {
				t.Fatalf("open: %v", err)
			}
		})
	}
}

func removeAll(t *testing.T, paths []string) {
	for _, p := range paths {
		must(t, os.Remove(p))
	}
}

func swap(t *testing.T, a, b string) {
	must(t, os.Rename(a, a+"x"))
	must(t, os.Rename(b, a))
	must(t, os.Rename(a+"x", b))
}

func extend(t *testing.T, path, text string) {
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, append(b, text...), 0o600))
}

// TestForeignSegment: the files of another member are not replayed.
func TestForeignSegment(t *testing.T) {
	dir := t.TempDir()
	d := quickDisk()
	a, b := Options{Dir: filepath.Join(dir, "a")}, Options{Dir: filepath.Join(dir, "b")}
	must(t, create(a, testID, d))
	must(t, create(b, Identity{Cluster: "c1", Member: 8}, d))
	content, err := os.ReadFile(segmentFiles(t, b.Dir)[0])
	must(t, err)
	must(t, os.WriteFile(segmentFiles(t, a.Dir)[0], content, 0o600))
	if _, err := open(a, d); err == nil || !strings.Contains(err.Error(), "belongs to member 8") {
		t.Fatalf("open: %v", err)
	}
}

// TestReadDetectsDamage: entries read back from disk are checked again.
func TestReadDetectsDamage(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), CacheBytes: 1}
	l := mustNew(t, o, quickDisk())
	must(t, l.Append(nil, entries(1, 3, 1), true))
	x := l.at(2)
	_, err := l.current().f.WriteAt([]byte{0xFF}, x.off+headerBytes+entryFixedBytes)
	must(t, err)
	if _, err := l.Entries(1, 4, 1<<20); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("read of a damaged entry: %v", err)
	}
	if _, err := l.Entries(3, 4, 1<<20); err != nil {
		t.Fatalf("read of a good entry: %v", err)
	}
	must(t, l.release())
}
