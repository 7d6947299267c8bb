package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/renameio/v2"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

func TestFreshLog(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log")}
	must(t, Create(o, testID))
	if err := Create(o, testID); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Fatalf("second Create: %v", err)
	}
	l, err := Open(o)
	must(t, err)
	if got := dump(t, l); got != "hs 0/0/0 voters [7 8 9] base 0/0\n" {
		t.Fatalf("fresh log is %s", got)
	}
	if hs, _, _ := l.InitialState(); !raft.IsEmptyHardState(hs) {
		t.Fatalf("fresh hard state is %v", hs)
	}
	if id := l.Identity(); id.Cluster != "c1" || id.Member != 7 || len(id.Voters) != 3 {
		t.Fatalf("identity is %+v", id)
	}
	must(t, l.Close())
	if _, err := l.LastIndex(); !errors.Is(err, ErrClosed) {
		t.Fatalf("after Close: %v", err)
	}
	if err := l.Close(); !errors.Is(err, ErrClosed) {
		t.Fatalf("second Close: %v", err)
	}
}

func TestOpenWithoutLog(t *testing.T) {
	if _, err := Open(Options{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "holds no log") {
		t.Fatalf("open of an empty directory: %v", err)
	}
	if err := Create(Options{Dir: filepath.Join(t.TempDir(), "x")}, Identity{}); err == nil {
		t.Fatal("an empty identity was accepted")
	}
	if err := Create(Options{Dir: filepath.Join(t.TempDir(), "x"), SegmentBytes: 1}, testID); err == nil {
		t.Fatal("a segment of one byte was accepted")
	}
}

func TestCreateFinishesAfterCrash(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log")}
	must(t, os.Mkdir(o.Dir+".creating", 0o700))
	must(t, os.WriteFile(filepath.Join(o.Dir+".creating", "identity"), []byte("half"), 0o600))
	l := mustNew(t, o, realDisk())
	must(t, l.Close())
}

func TestSecondOpenIsRefused(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log")}
	l := mustNew(t, o, realDisk())
	_, err := Open(o)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), o.Dir) {
		t.Fatalf("second open: %v", err)
	}
	must(t, l.Close())
	l = mustOpen(t, o, realDisk())
	must(t, l.Close())
}

func TestIncarnationCounts(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log")}
	l := mustNew(t, o, realDisk())
	for want := uint64(1); want <= 5; want++ {
		got, err := l.NextIncarnation()
		must(t, err)
		if got != want {
			t.Fatalf("incarnation %d, want %d", got, want)
		}
		must(t, l.Close())
		l = mustOpen(t, o, realDisk())
	}
	must(t, os.WriteFile(filepath.Join(o.Dir, incarnationFile), []byte("2\nffffffff\n"), 0o600))
	if _, err := l.NextIncarnation(); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("damaged incarnation: %v", err)
	}
	if err := l.Close(); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("close after a failure: %v", err)
	}
}

// TestUnfinishedFilesGo: what a crash leaves of a file that was being replaced goes at the next start; an operator's
// copy stays.
func TestUnfinishedFilesGo(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log")}
	must(t, mustNew(t, o, realDisk()).Close())
	files := []string{identityFile, incarnationFile, notesFile}
	for _, file := range files {
		_, err := renameio.NewPendingFile(filepath.Join(o.Dir, file), renameio.WithTempDir(o.Dir))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(o.Dir, file+".bak"), nil, 0o600))
	}
	must(t, mustOpen(t, o, realDisk()).Close())
	left, err := filepath.Glob(filepath.Join(o.Dir, ".*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	for _, file := range files {
		_, err := os.Stat(filepath.Join(o.Dir, file+".bak"))
		must(t, err)
	}
}

func TestConflictOverwriteLastWins(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
	l := mustNew(t, o, realDisk())
	must(t, l.Append(hard(1, 7, 3), entries(1, 20, 1), true))
	must(t, l.Append(hard(2, 8, 5), entries(6, 9, 2), true))
	must(t, l.Append(nil, entries(8, 30, 3), true))
	want := dump(t, l)
	if last, _ := l.LastIndex(); last != 30 {
		t.Fatalf("last is %d", last)
	}
	if term, _ := l.Term(7); term != 2 {
		t.Fatalf("term of 7 is %d", term)
	}
	must(t, l.Close())
	l = mustOpen(t, o, realDisk())
	if got := dump(t, l); got != want {
		t.Fatalf("after reopen\n%swant\n%s", got, want)
	}
	if len(l.Repairs()) != 0 {
		t.Fatalf("repairs after a clean shutdown: %v", l.Repairs())
	}
	must(t, l.Close())
}

func TestHardStateSurvivesSegments(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
	l := mustNew(t, o, realDisk())
	must(t, l.Append(hard(4, 9, 0), nil, true))
	for i := uint64(1); i <= 100; i++ {
		must(t, l.Append(nil, entries(i, i, 4), false))
	}
	must(t, l.Append(hard(4, 9, 100), nil, true))
	must(t, l.Compact(99))
	if n := len(segmentFiles(t, o.Dir)); n != 1 {
		t.Fatalf("%d segments are left", n)
	}
	want := dump(t, l)
	must(t, l.Close())
	l = mustOpen(t, o, realDisk())
	if got := dump(t, l); got != want || !strings.HasPrefix(got, "hs 4/9/100 voters [7 8 9] base 99/4\n100/4 ") {
		t.Fatalf("after reopen\n%swant\n%s", got, want)
	}
	must(t, l.Close())
}

func TestCompactEdges(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
	l := mustNew(t, o, realDisk())
	must(t, l.Append(hard(1, 7, 10), entries(1, 10, 1), true))
	if err := l.Compact(11); err == nil || errors.Is(err, raft.ErrCompacted) {
		t.Fatalf("compact after the end: %v", err)
	}
	must(t, l.Compact(10)) // everything
	if err := l.Compact(10); !errors.Is(err, raft.ErrCompacted) {
		t.Fatalf("compact again: %v", err)
	}
	must(t, l.Close())
	l = mustOpen(t, o, realDisk())
	for _, c := range []struct {
		index uint64
		term  uint64
		err   error
	}{{9, 0, raft.ErrCompacted}, {10, 1, nil}, {11, 0, raft.ErrUnavailable}} {
		if term, err := l.Term(c.index); term != c.term || !errors.Is(err, c.err) {
			t.Fatalf("Term(%d) is %d, %v", c.index, term, err)
		}
	}
	if _, err := l.Entries(10, 11, 1); !errors.Is(err, raft.ErrCompacted) {
		t.Fatalf("Entries of a compacted index: %v", err)
	}
	if _, err := l.Entries(11, 12, 1); !errors.Is(err, raft.ErrUnavailable) {
		t.Fatalf("Entries after the end: %v", err)
	}
	must(t, l.Append(nil, entries(9, 12, 1), true)) // 9 and 10 are left out
	if first, _ := l.FirstIndex(); first != 11 {
		t.Fatalf("first is %d", first)
	}
	must(t, l.Close())
}

func TestConfigurationStates(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
	l := mustNew(t, o, realDisk())
	ents := entries(1, 60, 1)
	ents[9].Type = new(pb.EntryConfChange)
	ents[29].Type = new(pb.EntryConfChangeV2)
	must(t, l.Append(hard(1, 7, 60), ents, true))
	if err := l.Compact(20); err == nil || !strings.Contains(err.Error(), "SetConfState(10") {
		t.Fatalf("compact without a configuration state: %v", err)
	}
	must(t, l.SetConfState(10, &pb.ConfState{Voters: []uint64{7, 8}}))
	must(t, l.SetConfState(30, &pb.ConfState{Voters: []uint64{7}, Learners: []uint64{8}}))
	if err := l.SetConfState(61, &pb.ConfState{}); err == nil {
		t.Fatal("a configuration state after the last entry was accepted")
	}
	must(t, l.Compact(20))
	must(t, l.Append(nil, entries(61, 100, 1), true)) // new segments repeat the state at 30
	must(t, l.Close())
	l = mustOpen(t, o, realDisk())
	if _, cs, _ := l.InitialState(); len(cs.GetVoters()) != 2 {
		t.Fatalf("configuration at 20 is %v", cs)
	}
	must(t, l.Compact(90))
	s, err := l.Snapshot()
	must(t, err)
	if cs := s.GetMetadata().GetConfState(); s.GetMetadata().GetIndex() != 90 || len(cs.GetVoters()) != 1 ||
		len(cs.GetLearners()) != 1 {
		t.Fatalf("snapshot is %v", s)
	}
	must(t, l.Close())
}

// TestContinue: who goes on behind changes that he is not given says what holds there, and the log can be compacted up
// to there and further, but not to where that is not known; what was said of changes is kept.
func TestContinue(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
	l := mustNew(t, o, realDisk())
	ents := entries(1, 60, 1)
	ents[9].Type, ents[29].Type, ents[49].Type = new(pb.EntryConfChange), new(pb.EntryConfChangeV2),
		new(pb.EntryConfChangeV2)
	must(t, l.Append(hard(1, 7, 60), ents, true))
	must(t, Continue(l, 9, &pb.ConfState{Voters: []uint64{1}})) // there is no change before it
	must(t, Continue(l, 40, &pb.ConfState{Voters: []uint64{7, 8}}))
	must(t, Continue(l, 45, &pb.ConfState{Voters: []uint64{1}}))
	must(t, l.Close())
	l = mustOpen(t, o, realDisk())
	if err := l.Compact(35); err == nil || !strings.Contains(err.Error(), "SetConfState(10") {
		t.Errorf("compact to where the configuration is not known: %v", err)
	}
	if err := l.Compact(55); err == nil || !strings.Contains(err.Error(), "SetConfState(50") {
		t.Errorf("compact behind a change that is not known: %v", err)
	}
	must(t, l.Compact(48))
	if _, cs, _ := l.InitialState(); len(cs.GetVoters()) != 2 {
		t.Errorf("configuration at 48 is %v", cs)
	}
	must(t, Continue(l, 52, nil))
	must(t, l.Compact(55))
	if _, cs, _ := l.InitialState(); len(cs.GetVoters()) != 2 {
		t.Errorf("configuration at 55 is %v", cs)
	}
	must(t, l.Close())
}

func TestApplySnapshotRestartsTheLog(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 1024}
	l := mustNew(t, o, realDisk())
	must(t, l.Append(hard(1, 7, 10), entries(1, 50, 1), true))
	snap := &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(200)), Term: new(uint64(6)),
		ConfState: &pb.ConfState{Voters: []uint64{1}}}}
	must(t, l.ApplySnapshot(snap))
	if err := l.ApplySnapshot(snap); !errors.Is(err, raft.ErrSnapOutOfDate) {
		t.Fatalf("the same snapshot again: %v", err)
	}
	must(t, l.Close())
	l = mustOpen(t, o, realDisk())
	if got := dump(t, l); got != "hs 6/0/200 voters [1] base 200/6\n" {
		t.Fatalf("after reopen %s", got)
	}
	must(t, l.Append(nil, entries(201, 202, 6), true))
	must(t, l.Close())
	if n := len(segmentFiles(t, o.Dir)); n != 1 {
		t.Fatalf("%d segments are left", n)
	}
}

func TestGapPanics(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log")}
	l := mustNew(t, o, realDisk())
	for _, ents := range [][]*pb.Entry{entries(2, 3, 1), {entry(1, 1, "a"), entry(3, 1, "b")}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("append of %v did not panic", ents)
				}
			}()
			_ = l.Append(nil, ents, true)
		}()
	}
	must(t, l.Close())
}

// TestRemove: a log goes whole, and with it what an interrupted Remove has left; what is not there is no error.
func TestRemove(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log")}
	for _, left := range []string{"", "segment", "identity"} {
		must(t, Create(o, testID))
		if left != "" {
			must(t, os.Mkdir(o.Dir+".removing", 0o700))
			must(t, os.WriteFile(filepath.Join(o.Dir+".removing", left), []byte("x"), 0o600))
		}
		for range 2 {
			must(t, Remove(o.Dir))
			if names, err := filepath.Glob(o.Dir + "*"); err != nil || len(names) > 0 {
				t.Errorf("%v is left, %v", names, err)
			}
		}
	}
}

func TestNotes(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log")}
	id := testID
	id.Beginning = `{"what": "it began with"}`
	must(t, create(o, id, realDisk()))
	l := mustOpen(t, o, realDisk())
	if got, err := l.Notes(); got != "" || err != nil {
		t.Fatalf("a new log notes %q, %v", got, err)
	}
	for _, line := range []string{"one", `{"two": 2}`, ""} {
		must(t, l.SetNotes(line))
		must(t, l.Close())
		l = mustOpen(t, o, realDisk())
		if got, err := l.Notes(); got != line || err != nil {
			t.Fatalf("notes %q, %v, want %q", got, err, line)
		}
	}
	if got := l.Identity().Beginning; got != id.Beginning {
		t.Errorf("it began with %q, want %q", got, id.Beginning)
	}
	if err := l.SetNotes("two\nlines"); err == nil {
		t.Error("two lines are taken")
	}
	must(t, l.SetNotes("kept"))
	l.disk.syncDir = func(string) error { return errors.New("disk") }
	if err := l.SetNotes("new"); err == nil {
		t.Error("notes that are not on disk are taken")
	}
	must(t, os.WriteFile(filepath.Join(o.Dir, notesFile), []byte("kept\nffffffff\n"), 0o600))
	if _, err := l.Notes(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged notes: %v", err)
	}
	must(t, l.Close())
}
