package core

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/raftlog"
)

// kept is a retention over a log with so many entries.
func kept(t *testing.T, entries uint64) (*Retention, *raftlog.Log) {
	t.Helper()
	disk := logOf(t, 1, []uint64{1, 2, 3}, nil)
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	term := uint64(1)
	for i := uint64(1); i <= entries; i++ {
		if err := disk.Append(nil, []*ordering.Entry{{Index: &i, Term: &term}}, false); err != nil {
			t.Fatal(err)
		}
	}
	c := &config.Config{Member: 1, Members: []config.Member{{Member: 1, Name: "a"}, {Member: 2, Name: "b"}}}
	return NewRetention(RetentionOptions{Config: c, Log: slog.New(slog.DiscardHandler), Metrics: &metrics.Database{},
		Disk: disk}), disk
}

// savedOf is a checkpoint as a database has it, of an entry of the log.
func savedOf(t *testing.T, index, term uint64) []byte {
	t.Helper()
	x := start(t, 1, nil)
	if !x.cores[0].Order(context.Background(), fence(1)) {
		t.Fatal("it is not taken")
	}
	until(t, "it is applied", func() bool { return x.cores[0].Applied() >= 1 })
	p := x.cores[0].checkpoint()
	p.Index, p.Term = index, term
	return p.Append(nil)
}

// TestStartAt: a member starts where its database's checkpoint and its log meet. Where they do not, a clone begins its
// log anew, and another member does not start: it would go on from something else than it has.
func TestStartAt(t *testing.T) {
	for _, c := range []struct {
		name             string
		entries, compact uint64 // the log has them, and has forgotten those up to compact
		index, term      uint64 // of the checkpoint; zero: there is none
		garbled, clone   bool
		unfit            bool   // a later copy is needed
		first            uint64 // of the log, afterwards
		err              string
	}{
		{name: "nothing yet", first: 1},
		{name: "a whole log without a checkpoint", entries: 9, first: 1},
		{name: "a compacted log without a checkpoint", entries: 9, compact: 5, err: "has no checkpoint"},
		{name: "the checkpoint is in the log", entries: 9, compact: 5, index: 7, term: 1, first: 6},
		{name: "the log begins right behind it", entries: 9, compact: 5, index: 5, term: 1, first: 6},
		{name: "there is a gap", entries: 9, compact: 5, index: 4, term: 1, err: "entries 5 to 5 are missing"},
		{name: "a clone is further", entries: 9, index: 20, term: 2, clone: true, first: 21},
		{name: "a clone is not as far as where the log begins", entries: 9, compact: 5, index: 4, term: 1, clone: true,
			unfit: true, err: "entries 5 to 5 are missing"},
		{name: "a clone has no checkpoint, and the log is not whole", entries: 9, compact: 5, clone: true, unfit: true,
			err: "has no checkpoint"},
		{name: "another is further, which lost its log", entries: 9, index: 20, term: 2,
			err: "To bring this member back"},
		{name: "it cannot be read, the log is whole", entries: 9, garbled: true, first: 1},
		{name: "it cannot be read, the log is not whole", entries: 9, compact: 5, garbled: true,
			err: "is known only from it. To bring this member back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, disk := kept(t, c.entries)
			if err := r.compact(c.compact); err != nil {
				t.Fatal(err)
			}
			var saved []byte
			switch {
			case c.garbled:
				saved = []byte("no checkpoint")
			case c.index > 0:
				saved = savedOf(t, c.index, c.term)
			}
			position := engine.Position{Member: 1}
			if c.clone {
				position.Member = 2
			}
			from, err := r.StartAt(saved, &position)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("told %v, not of %q", err, c.err)
				}
				final := (*failure.Fatal)(nil)
				if unfit := (*UnfitError)(nil); errors.As(err, &unfit) != c.unfit || errors.As(err, &final) == c.unfit {
					t.Errorf("another copy helps, it says, or not: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if (from != nil) != (c.index > 0) || from != nil && position.Ordinal < from.Ordinal {
				t.Errorf("starts from %+v at %+v", from, position)
			}
			if first, err := disk.FirstIndex(); err != nil || first != c.first {
				t.Errorf("the log begins with entry %d: %v", first, err)
			}
		})
	}
}

// TestStartBehindChange: the log can be compacted of a member that starts from a clone behind a change of the
// configuration which it has in its log, and is not given again.
func TestStartBehindChange(t *testing.T) {
	r, disk := kept(t, 4)
	change := pb.EntryConfChangeV2
	if err := disk.Append(nil, []*ordering.Entry{{Index: new(uint64(5)), Term: new(uint64(1)), Type: &change},
		{Index: new(uint64(6)), Term: new(uint64(1))}}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := r.StartAt(savedOf(t, 6, 1), &engine.Position{Member: 2}); err != nil {
		t.Fatal(err)
	}
	if err := r.compact(6); err != nil {
		t.Error(err)
	}
	if _, conf, err := disk.InitialState(); err != nil || len(conf.GetVoters()) != 3 {
		t.Errorf("the log begins with the configuration %v: %v", conf, err)
	}
}

// TestExplainLost: that a member was away for too long is said in people's words, and is found in them; any other error
// is none of that.
func TestExplainLost(t *testing.T) {
	r, _ := kept(t, 0)
	if err := ExplainLost(errors.New("another"), r.o.Config); err != nil {
		t.Error(err)
	}
	err := ExplainLost(&LostError{ordering.Lost{Leader: 2, Have: 5, First: 9}}, r.o.Config)
	for _, want := range []string{"a was away for longer than log_retention allows", "up to entry 5", "b, which leads",
		"from entry 9 on"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and nothing of %q", err, want)
		}
	}
	if lost := (*LostError)(nil); !errors.As(err, &lost) || lost.Leader != 2 {
		t.Errorf("nobody can find out who leads: %v", err)
	}
}

// TestTooFar: a member that is far too slow copies another one's database when it has too much of the log yet to apply;
// not one that leads, or that nobody leads, or that is only behind.
func TestTooFar(t *testing.T) {
	r, _ := kept(t, 100)
	r.rule.Took(1, 1)
	slow, keep, c := true, int64(1), &Core{}
	r.o.Slow, r.o.Keep = func() bool { return slow }, func() int64 { return keep }
	c.leader.Store(2)
	err := r.tooFar(c)
	if lost := (*LostError)(nil); !errors.As(err, &lost) || lost.Leader != 2 ||
		!strings.Contains(err.Error(), "a is far too slow") {
		t.Errorf("it ends with %v", err)
	}
	is := func(about string) {
		t.Helper()
		if err := r.tooFar(c); err != nil {
			t.Errorf("%s: %v", about, err)
		}
	}
	slow = false
	is("it is only behind")
	slow, keep = true, 1<<30
	is("it keeps little")
	keep = 1
	c.leader.Store(1)
	is("it leads")
	c.leader.Store(0)
	is("nobody leads")
}
