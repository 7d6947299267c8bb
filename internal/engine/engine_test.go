package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/writeset"
)

// single is the only member of a cluster; entries are handed to deliver directly.
func single(t *testing.T, o Options) *Engine {
	t.Helper()
	return voter(t, o, nil)
}

// voter is the only one who votes, beside some who only get the log.
func voter(t *testing.T, o Options, learners []uint64) *Engine {
	t.Helper()
	s := raft.NewMemoryStorage()
	if err := s.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		ConfState: &pb.ConfState{Voters: []uint64{1}, Learners: learners},
		Index:     new(uint64), Term: new(uint64)}}); err != nil {
		t.Fatal(err)
	}
	o.Member, o.Order = 1, ordering.Options{Storage: s}
	if o.Incarnation == 0 {
		o.Incarnation = 1
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// entry is a batch of another member's empty certified items.
func entry(member uint32, incarnation, number uint64, seqs ...uint64) []byte {
	b := batch{Member: member, Incarnation: incarnation, Number: number}
	for _, s := range seqs {
		b.Items = append(b.Items, Item{Kind: KindCertified,
			ID:      writeset.TxID{Member: member, Incarnation: incarnation, Seq: s},
			Payload: (&writeset.Writeset{}).Append(nil)})
	}
	return b.append(nil)
}

// passes has a single member's time go on for so long, and carries out what comes of it.
func passes(t *testing.T, e *Engine, ticks int) {
	t.Helper()
	s := e.o.Order.Storage.(*raft.MemoryStorage)
	for range ticks {
		e.Tick()
		for e.HasReady() {
			rd := e.Ready()
			if err := s.Append(rd.Entries); err != nil {
				t.Fatal(err)
			}
			if rd.HardState != nil {
				if err := s.SetHardState(rd.HardState); err != nil {
					t.Fatal(err)
				}
			}
			e.Advance()
		}
	}
}

// TestDatabaseIsFurther (E18): the first fence of a member that is alone takes the ordinals that the database has and
// the log does not, and what comes later has none of them; where others get the log, it ends.
func TestDatabaseIsFurther(t *testing.T) {
	o := Options{Position: Position{Member: 1, Ordinal: 5}}
	e := single(t, o)
	e.Submit(Submission{Kind: KindFence, Seq: 1})
	passes(t, e, 60)
	if e.Ordinal() != 6 || e.Applied() != 5 || e.Undecided(1) {
		t.Fatalf("the fence has ordinal %d, and %d is applied", e.Ordinal(), e.Applied())
	}
	e.GroupDone()
	if e.Applied() != 6 || e.own.owns[1] != nil {
		t.Errorf("%d is applied, and the fence under way: %v", e.Applied(), e.own.owns[1] != nil)
	}
	e.Submit(Submission{Kind: KindStatement, Seq: 2, Base: 6, Payload: (&writeset.Writeset{}).Append(nil)})
	passes(t, e, 10)
	if e.GroupDone(); e.Applied() != 7 {
		t.Errorf("the next one has ordinal %d", e.Applied())
	}
	for about, refused := range map[string]func(){ // order-free: each for itself
		"others get the log": func() {
			e := voter(t, o, []uint64{2})
			e.Submit(Submission{Kind: KindFence, Seq: 1})
			passes(t, e, 60)
		},
		"a definition": func() {
			e := single(t, o)
			e.Submit(Submission{Kind: KindStatement, Seq: 1, Payload: (&writeset.Writeset{}).Append(nil)})
			passes(t, e, 60)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s, and it goes on", about)
				}
			}()
			refused()
		}()
	}
}

// TestReadmitBehind: who leads and has not applied what was decided before does not readmit a member yet.
func TestReadmitBehind(t *testing.T) {
	e := single(t, Options{})
	passes(t, e, 40)
	_, _ = Readmit(e, 2, 7)
	passes(t, e, 40)
	e.log.ordinal++
	for range 2 {
		if _, ok := Readmit(e, 2, 7); ok {
			t.Error("it is readmitted by one that has not applied what is ordered")
		}
	}
	e.log.ordinal++ // what comes later does not count
	e.queue.applied++
	if _, ok := Readmit(e, 2, 7); !ok {
		t.Error("it is not readmitted")
	}
}

// TestBatchesInSequence: what is taken of each source's batches (E1, E2).
func TestBatchesInSequence(t *testing.T) {
	e := single(t, Options{})
	for _, c := range []struct {
		what                         string
		member                       uint32
		incarnation, number, ordinal uint64
	}{
		{"a first batch", 2, 1, 1, 1},
		{"its duplicate", 2, 1, 1, 1},
		{"a batch too far", 2, 1, 3, 1},
		{"the next", 2, 1, 2, 2},
		{"the one that was too far", 2, 1, 3, 3},
		{"another member's", 3, 1, 1, 4},
		{"a new incarnation that starts late", 2, 2, 2, 4},
		{"a new incarnation", 2, 2, 1, 5},
		{"an old incarnation", 2, 1, 4, 5},
		{"a member that skipped incarnations", 3, 9, 1, 6},
	} {
		e.deliver(1, entry(c.member, c.incarnation, c.number, 100*c.incarnation+c.number))
		if e.Ordinal() != c.ordinal {
			t.Errorf("after %s the ordinal is %d, want %d", c.what, e.Ordinal(), c.ordinal)
		}
	}
}

// TestUnreadablePayload: bytes that are no writeset abort their transaction, equally at all
// members; an entry that is no batch means a broken log, and the member ends.
func TestUnreadablePayload(t *testing.T) {
	e := single(t, Options{})
	b := batch{Member: 2, Incarnation: 1, Number: 1, Items: []Item{
		{Kind: KindCertified, ID: writeset.TxID{Member: 2, Incarnation: 1, Seq: 1}, Payload: []byte{1}},
		{Kind: KindCertified, ID: writeset.TxID{Member: 2, Incarnation: 1, Seq: 2}, Base: 99,
			Payload: (&writeset.Writeset{}).Append(nil)},
	}}
	e.deliver(1, b.append(nil))
	if e.Ordinal() != 2 || e.Figures().Backlog != 0 {
		t.Errorf("ordinal %d, backlog %d", e.Ordinal(), e.Figures().Backlog)
	}
	if err := Unread(e); err != nil {
		t.Errorf("bytes that are no writeset: %v", err)
	}
	e.deliver(2, []byte{0})
	if err := Unread(e); err == nil || errors.Is(err, writeset.ErrUnknown) ||
		!strings.HasPrefix(err.Error(), "entry 2 of the log cannot be understood") {
		t.Errorf("an entry that is no batch: %v", err)
	}
}

// TestUnread (E19): what a newer release has put into the log has no verdict, and nothing of it or behind it is handed
// out, though a group before it may be under way.
func TestUnread(t *testing.T) {
	item := func(kind Kind, payload []byte) []byte {
		b := batch{Member: 2, Incarnation: 1, Number: 1, Items: []Item{
			{Kind: kind, ID: writeset.TxID{Member: 2, Incarnation: 1, Seq: 1}, Payload: payload}}}
		return b.append(nil)
	}
	newer := item(KindFence, nil)
	newer[0] = batchVersionPass + 1
	steps := (&writeset.Writeset{Steps: []writeset.Step{{Definition: []byte("d")}}}).Append(nil)
	flag := slices.Clone(steps)
	flag[4] |= 1 << 7
	for what, data := range map[string][]byte{ // order-free: each for itself
		"a batch of a newer version":    newer,
		"a kind of item":                item(kindLast+1, nil),
		"a writeset of a newer version": item(KindCertified, []byte{9, 1, 2}),
		"a definition":                  item(KindStatement, []byte{9, 1, 2}),
		"a flag of steps":               item(KindCertified, flag),
		"a request for a lock":          item(KindLock, []byte{9, 1}),
		"what is asked of locks":        item(KindLock, []byte{1, 99}),
	} {
		e := single(t, Options{})
		passes(t, e, 60)
		e.deliver(1, data)
		if err := Unread(e); !errors.Is(err, writeset.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
		was := e.Applied()
		e.Submit(Submission{Kind: KindFence, Seq: 1})
		passes(t, e, 60)
		if e.queue.running != nil {
			t.Errorf("%s: a group is issued behind it", what)
		}
		if e.Applied() != was {
			t.Errorf("%s: it counts as applied", what)
		}
	}
}

func TestMisuse(t *testing.T) {
	for name, f := range map[string]func(*Engine){
		"GroupDone without a group": func(e *Engine) { e.GroupDone() },
		"a sequence twice": func(e *Engine) {
			e.Submit(Submission{Kind: KindFence, Seq: 1})
			e.Submit(Submission{Kind: KindFence, Seq: 1})
		},
		"a base beyond applied": func(e *Engine) {
			e.own.view.Leader = 1
			e.Submit(Submission{Kind: KindCertified, Seq: 1, Base: 5, Writeset: &writeset.Writeset{}})
		},
		"own item unknown": func(e *Engine) { e.deliver(1, entry(1, 1, 1, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(single(t, Options{}))
		})
	}
}

func TestPositionHolds(t *testing.T) {
	item := func(member uint32, kind Kind, slot uint32, incarnation, seq uint64) *Item {
		return &Item{Kind: kind, Slot: slot, ID: writeset.TxID{Member: member, Incarnation: incarnation, Seq: seq}}
	}
	p := Position{Member: 1, Ordinal: 10, Floor: 5, Marks: map[uint32]Mark{3: {Incarnation: 2, Seq: 20}}}
	for _, c := range []struct {
		what    string
		ordinal uint64
		it      *Item
		want    bool
	}{
		{"another's, up to the ordinal", 10, item(2, KindCertified, 3, 9, 9), true},
		{"another's, beyond", 11, item(2, KindCertified, 3, 1, 1), false},
		{"own statement, up to the ordinal", 10, item(1, KindStatement, 0, 1, 1), true},
		{"own statement, beyond", 11, item(1, KindStatement, 3, 1, 1), false},
		{"own, up to the floor", 5, item(1, KindCertified, 9, 9, 9), true},
		{"own, slot unknown", 6, item(1, KindCertified, 4, 2, 1), false},
		{"own, the mark itself", 11, item(1, KindCertified, 3, 2, 20), true},
		{"own, before the mark", 6, item(1, KindCertified, 3, 2, 19), true},
		{"own, after the mark", 6, item(1, KindCertified, 3, 2, 21), false},
		{"own, earlier incarnation", 6, item(1, KindCertified, 3, 1, 99), true},
		{"own, later incarnation", 6, item(1, KindCertified, 3, 3, 1), false},
	} {
		if got := p.holds(c.ordinal, c.it, false); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
		if got := p.holds(c.ordinal, c.it, true); got != (c.ordinal <= p.Ordinal) { // its own executor has applied it
			t.Errorf("%s, blind: %v", c.what, got)
		}
	}
}

// TestResubmit: at which ticks without a delivery is repeated what is under way.
func TestResubmit(t *testing.T) {
	for _, c := range []struct {
		what string
		took []int // ticks, by deliveries before
		part bool  // of a large payload
		want []int
	}{
		{"after the start", nil, false, []int{20, 40, 60}},
		{"where deliveries are fast", make([]int, 30), false, []int{4, 8, 16, 26, 36, 46, 56}},
		{"where deliveries are fast, and there is much to send", make([]int, 30), true, []int{20, 40, 60}},
		{"where one has taken longer", append(make([]int, 30), 3), false, []int{12, 24, 36, 48, 60}},
		{"a while after that", append(append(make([]int, 30), 3), 0, 0, 0), false, []int{4, 8, 16, 26, 36, 46, 56}},
		{"where they are slow", append(make([]int, 30), 100), false, []int{20, 40, 60}},
	} {
		e := single(t, Options{})
		lost := &proposal{number: 1, sent: true, part: c.part}
		e.own.window.inflight = []*proposal{lost}
		for _, n := range c.took {
			for range n {
				e.Tick()
			}
			e.own.window.progress()
		}
		var got []int
		for n := 1; n <= 60; n++ {
			lost.sent = true
			if e.Tick(); !lost.sent {
				got = append(got, n)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: at %d, want %d", c.what, got, c.want)
		}
	}
}

// TestReached: a new connection to the leader, and no other, has what is under way proposed again.
func TestReached(t *testing.T) {
	for _, member := range []uint32{2, 3} {
		e := single(t, Options{})
		e.own.view.Leader = 3 // raft knows of none, so it takes no proposal
		under := &proposal{number: 1, sent: true}
		e.own.window.inflight = []*proposal{under}
		if e.Reached(member); under.sent == (member == 3) {
			t.Errorf("after a connection to member %d: under way is %v", member, under.sent)
		}
	}
}
