package raftlog

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	pb "go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sys/unix"
)

// testingT is what testing.T and rapid.T share.
type testingT interface {
	Helper()
	Fatalf(format string, args ...any)
}

var testID = Identity{Cluster: "c1", Member: 7, Voters: []uint64{7, 8, 9}}

// quickDisk does everything but wait for the disk, and checks every write. It has direct writes, for the
// log; they go through the page cache.
func quickDisk() disk {
	d := realDisk()
	nop := func(*os.File) error { return nil }
	d.datasync, d.sync, d.syncDir = nop, nop, func(string) error { return nil }
	d.openDirect = func(path string) (*os.File, int64, error) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		return f, blockBytes, err
	}
	d.setWrite(checkedWrite)
	return d
}

// bufferedDisk is quickDisk without direct writes.
func bufferedDisk() disk {
	d := quickDisk()
	d.openDirect = func(string) (*os.File, int64, error) { return nil, 0, unix.EINVAL }
	return d
}

func onBothPaths(t *testing.T, f func(t *testing.T, d disk)) {
	t.Run("direct", func(t *testing.T) { f(t, quickDisk()) })
	t.Run("buffered", func(t *testing.T) { f(t, bufferedDisk()) })
}

// checkedWrite panics when a write is not what a direct one must be, or changes more than zeros (L7).
func checkedWrite(f *os.File, b []byte, off int64) (int, error) {
	if at := uintptr(unsafe.Pointer(unsafe.SliceData(b))); off%blockBytes != 0 || len(b)%blockBytes != 0 ||
		at%blockBytes != 0 {
		panic(fmt.Sprintf("write of %d bytes from address %x at offset %d", len(b), at, off))
	}
	for i, old := range replaced(f, b, off) {
		if old != 0 && old != b[i] {
			panic(fmt.Sprintf("L7: a write to %s at offset %d changes byte %d from %d to %d", f.Name(), off,
				off+int64(i), old, b[i]))
		}
	}
	return f.WriteAt(b, off)
}

// replaced returns what a write of b will replace.
func replaced(f *os.File, b []byte, off int64) []byte {
	old := make([]byte, len(b))
	if _, err := f.ReadAt(old, off); err != nil && err != io.EOF {
		panic(err)
	}
	return old
}

// tornWrite writes the first half of what b changes.
func tornWrite(f *os.File, b []byte, off int64) int {
	from, to := -1, 0
	for i, old := range replaced(f, b, off) {
		if old != b[i] {
			if from < 0 {
				from = i
			}
			to = i + 1
		}
	}
	if from < 0 {
		return 0
	}
	half := (from + to) / 2
	if _, err := f.WriteAt(b[:half], off); err != nil {
		panic(err)
	}
	return half
}

// setWrite replaces what writes on either path.
func (d *disk) setWrite(write func(*os.File, []byte, int64) (int, error)) {
	d.writeAt, d.writeDirect = write, write
}

func mustNew(t testing.TB, o Options, d disk) *Log {
	t.Helper()
	if err := create(o, testID, d); err != nil {
		t.Fatalf("create: %v", err)
	}
	return mustOpen(t, o, d)
}

func mustOpen(t testingT, o Options, d disk) *Log {
	t.Helper()
	l, err := open(o, d)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

func must(t testingT, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

func entry(index, term uint64, data string) *pb.Entry {
	return &pb.Entry{Index: new(index), Term: new(term), Type: new(pb.EntryNormal), Data: []byte(data)}
}

func entries(from, to, term uint64) []*pb.Entry {
	var out []*pb.Entry
	for i := from; i <= to; i++ {
		out = append(out, entry(i, term, fmt.Sprintf("entry %d of term %d", i, term)))
	}
	return out
}

func hard(term, vote, commit uint64) *pb.HardState {
	return &pb.HardState{Term: new(term), Vote: new(vote), Commit: new(commit)}
}

// dump is everything a reader can see, as text.
func dump(t testingT, l *Log) string {
	t.Helper()
	hs, cs, err := l.InitialState()
	must(t, err)
	first, err := l.FirstIndex()
	must(t, err)
	last, err := l.LastIndex()
	must(t, err)
	base, err := l.Term(first - 1)
	must(t, err)
	out := fmt.Sprintf("hs %d/%d/%d voters %v base %d/%d\n", hs.GetTerm(), hs.GetVote(), hs.GetCommit(), cs.GetVoters(),
		first-1, base)
	if last >= first {
		ents, err := l.Entries(first, last+1, 1<<40)
		must(t, err)
		if uint64(len(ents)) != last-first+1 {
			t.Fatalf("%d entries from %d to %d", len(ents), first, last)
		}
		for _, e := range ents {
			out += fmt.Sprintf("%d/%d %s %q\n", e.GetIndex(), e.GetTerm(), e.GetType(), e.GetData())
		}
	}
	return out
}

func segmentFiles(t testingT, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	must(t, err)
	return files
}

func copyDir(t testingT, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	must(t, os.Mkdir(to, 0o700))
	names, err := os.ReadDir(from)
	must(t, err)
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(from, n.Name()))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, n.Name()), b, 0o600))
	}
}

func equalEntries(a, b []*pb.Entry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].GetIndex() != b[i].GetIndex() || a[i].GetTerm() != b[i].GetTerm() || a[i].GetType() != b[i].GetType() ||
			!bytes.Equal(a[i].GetData(), b[i].GetData()) {
			return false
		}
	}
	return true
}
