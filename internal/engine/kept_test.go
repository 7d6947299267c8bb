package engine

import (
	"testing"

	"go.etcd.io/raft/v3"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestKept: when a group is kept back at a member that only applies.
func TestKept(t *testing.T) {
	const silence, after = 4, 2
	items := func(member uint32, number uint64, kind Kind, n int) []byte {
		b := batch{Member: member, Incarnation: 1, Number: number}
		for i := range n {
			b.Items = append(b.Items, Item{Kind: kind, ID: writeset.TxID{Member: member, Incarnation: 1,
				Seq: 100*number + uint64(i)}, Payload: (&writeset.Writeset{}).Append(nil)})
		}
		return b.append(nil)
	}
	// begin is an engine that has applied a group of n items of member 2.
	begin := func(t *testing.T, n int, o Options) *Engine {
		o.Incarnation, o.KeptSilence, o.KeptAfter = 9, silence, after
		e := single(t, o)
		e.deliver(1, items(2, 1, KindCertified, n))
		if g := e.queue.next(); g == nil || len(g.Tasks) != n {
			t.Fatalf("the first group is %v", g)
		}
		e.GroupDone()
		return e
	}
	for _, c := range []struct {
		what string
		kept bool
		n    int
		o    Options
		f    func(*Engine)
	}{
		{"one of another's", true, 5, Options{}, nil},
		{"a group before of one item", false, 1, Options{}, func(e *Engine) {
			e.queue.spoke, e.log.ordinal = 0, e.log.ordinal+silence
			e.queue.first = e.log.ordinal + 1
		}},
		{"a few items since this member's own", false, 5, Options{},
			func(e *Engine) { e.queue.spoke = e.log.ordinal - 2 }},
		{"an own item of an earlier life", false, 5, Options{},
			func(e *Engine) { e.deliver(2, items(1, 1, KindCertified, 1)) }},
		{"an own submission", false, 5, Options{}, func(e *Engine) { e.Submit(Submission{Kind: KindFence, Seq: 1}) }},
		{"a notification", false, 5, Options{}, func(e *Engine) { e.deliver(2, items(3, 1, KindNotify, 1)) }},
		{"as many as are kept at all", false, 5, Options{},
			func(e *Engine) { e.deliver(2, items(3, 1, KindCertified, keptItemsMax-1)) }},
		{"nearly as many", true, 5, Options{}, func(e *Engine) {
			e.deliver(2, items(3, 1, KindCertified, keptItemsMax-2))
		}},
		{"as many as the options allow", false, 5, Options{KeptItemsMax: 3},
			func(e *Engine) { e.deliver(2, items(3, 1, KindCertified, 2)) }},
		{"fewer", true, 5, Options{KeptItemsMax: 4}, func(e *Engine) { e.deliver(2, items(3, 1, KindCertified, 2)) }},
		{"none", false, 5, Options{KeptItemsMax: 1}, nil},
		{"more bytes than the options allow", false, 5, Options{KeptBytesMax: 1024}, nil},
		{"a queue of a quarter of its limit", false, 5, Options{QueueBytesMax: 4096}, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			e := begin(t, c.n, c.o)
			if e.Kept() {
				t.Error("kept, though nothing is there")
			}
			if c.f != nil {
				c.f(e)
			}
			e.deliver(3, items(2, 2, KindCertified, 1))
			if e.Kept() != c.kept {
				t.Errorf("kept: %v", e.Kept())
			}
			if g := e.queue.next(); (g == nil) != c.kept {
				t.Errorf("issued %v", g)
			}
			if !c.kept {
				return
			}
			if e.queue.due() {
				t.Error("a group that is kept is due")
			}
			e.Issue()
			if !e.queue.due() || e.Kept() {
				t.Error("a group that was let go is kept")
			}
			if e.queue.next() == nil {
				t.Error("a group that was let go is not issued")
			}
			e.GroupDone()
			if e.deliver(4, items(2, 3, KindCertified, 1)); e.queue.issue {
				t.Error("what was let go once is let go always")
			}
		})
	}
}

// TestCrowd: for how many transactions a write of the log waits.
func TestCrowd(t *testing.T) {
	for _, c := range []struct {
		what                   string
		authors, items, enough int // items per tick
	}{
		{"nobody", 1, 0, 0},
		{"one session", 1, 50, 0},
		{"three", 3, 100, 1},
		{"nine, fast", 9, 100, 3},
		{"nine, slow", 9, 10, 1},
		{"eleven, fast", 11, 100, 4},
		{"24, fast", 24, 150, 8},
		{"24, less so", 24, 60, 6},
		{"24, slow", 24, 5, 0},
	} {
		g, n := newGroupCommit(), 0
		for range 50 {
			for range c.items {
				n++
				g.add(&Item{ID: writeset.TxID{Member: uint32(1 + n%c.authors%3)}, Slot: uint32(n % c.authors / 3)},
					false)
			}
			g.tick()
		}
		if got, _ := g.enough(1, 3, 10); got != c.enough {
			t.Errorf("%s: enough are %d, want %d (%d authors, rate %d)", c.what, got, c.enough, len(g.count),
				g.rate)
		}
		for range regularItems {
			g.add(&Item{}, false)
		}
		if got := len(g.count); got != 1 {
			t.Errorf("%s: %d authors remembered when one has written %d times since", c.what, got, regularItems)
		}
	}
	b := batch{Member: 3, Incarnation: 1 << 40, Number: 300}
	for range 200 {
		b.Items = append(b.Items, Item{Kind: KindCertified, Payload: []byte("x")})
	}
	if got := weigh(b.append(nil)); got != 200 {
		t.Errorf("a proposal of 200 items weighs %d", got)
	}
	if got := weigh([]byte{1}); got != 0 {
		t.Errorf("what is no proposal weighs %d", got)
	}
}

// TestRegulars: nobody waits for who writes seldom, a member waits for its part, and for less where transactions lose,
// or wait for each other.
func TestRegulars(t *testing.T) {
	for _, c := range []struct {
		what                    string
		seldom                  int      // one in so many items is of eight of twelve sessions
		lost                    int      // one in so many loses; zero: none
		stuck                   []uint32 // of the four sessions of member 1, in three of four ticks
		share, part             int
		all, first, second, own int // own: of a member that has no session
	}{
		{"all alike", 3, 0, nil, 1, 1, 12, 4, 8, 0},
		{"a third", 3, 0, nil, 3, 1, 4, 2, 3, 0},
		{"a part of the time", 3, 0, nil, 1, 12, 8, 3, 6, 0},
		{"some seldom", 10, 0, nil, 1, 1, 4, 4, 0, 0},
		{"a part of the time, few lose", 3, 100, nil, 1, 12, 8, 3, 6, 0},
		{"a part of the time, some lose", 3, 30, nil, 1, 12, 2, 1, 2, 0},
		{"a part of the time, one is stuck", 3, 0, []uint32{2}, 1, 12, 2, 1, 2, 0},
		{"a part of the time, one is stuck that does not write", 3, 0, []uint32{9}, 1, 12, 8, 3, 6, 0},
	} {
		g := newGroupCommit()
		for n := range 50 * 100 {
			it := Item{ID: writeset.TxID{Member: 1}, Slot: uint32((n - n*2/3) % 4)}
			if c.seldom == 3 && n%3 > 0 || c.seldom != 3 && n%c.seldom == 0 {
				it = Item{ID: writeset.TxID{Member: 2}, Slot: uint32(n * 2 / 3 % 8)}
			}
			g.add(&it, c.lost > 0 && n%c.lost == 0)
			if n%100 == 99 {
				g.tick()
				g.watch(1, c.stuck[:min(len(c.stuck), n/100%4)])
			}
		}
		all, first := g.enough(1, c.share, c.part)
		_, second := g.enough(2, c.share, c.part)
		_, own := g.enough(3, c.share, c.part)
		if all != c.all || first != c.first || second != c.second || own != c.own {
			t.Errorf("%s: enough are %d, and %d, %d and %d for members, want %d, and %d, %d and %d", c.what, all, first,
				second, own, c.all, c.first, c.second, c.own)
		}
		for range regularItems {
			g.add(&Item{}, false)
		}
		for range 20 * stuckTicks {
			g.watch(1, nil)
		}
		if g.contended() {
			t.Errorf("%s: when nobody has lost, and the member has no session that writes, sessions meet on the "+
				"same rows", c.what)
		}
		if g.losses != 0 {
			t.Errorf("%s: %d losses remembered when none has lost since", c.what, g.losses)
		}
	}
}

// TestLosses: what loses in the order is counted.
func TestLosses(t *testing.T) {
	e := leading(t, Options{}, true, 4, 4)
	for i, base := range []uint64{0, 1 << 40, 0} { // the second one cannot have seen that
		e.deliverItem(&Item{Kind: KindCertified, ID: writeset.TxID{Member: 2, Incarnation: 1, Seq: uint64(i + 1)},
			Base: base, Payload: (&writeset.Writeset{}).Append(nil)}, nil)
	}
	if e.groupCommit.losses != 1 {
		t.Errorf("%d losses are known after one", e.groupCommit.losses)
	}
}

// leading is an engine that leads itself alone, with sessions of member 1 and of member 2 that write much.
func leading(t *testing.T, o Options, scarce bool, own, others int) *Engine {
	t.Helper()
	e := single(t, o)
	for e.View().Leader == 0 {
		e.Tick()
		for e.HasReady() {
			if err := e.o.Order.Storage.(*raft.MemoryStorage).Append(e.Ready().Entries); err != nil {
				t.Fatal(err)
			}
			e.Advance()
		}
	}
	e.Strain(scarce, nil)
	for range 20 {
		for i := range 20 * (own + others) {
			it := Item{ID: writeset.TxID{Member: 1}, Slot: uint32(i % (own + others))}
			if int(it.Slot) >= own {
				it.ID.Member = 2
			}
			e.groupCommit.add(&it, false)
		}
		e.Tick()
	}
	return e
}

// TestOwnGather: where processors are scarce, a batch waits for all own sessions that write, or for as many as are
// enough, also behind others; and for none if there is more than rows in it.
func TestOwnGather(t *testing.T) {
	for _, c := range []struct {
		what        string
		scarce      bool
		own, others int
		coming      int   // own sessions, with each submission
		batches     []int // how many there are after each submission
		behind      bool  // another batch is under way
	}{
		{"enough processors", false, 4, 8, 3, []int{1, 1, 1, 1, 1}, false},
		{"one session", true, 1, 20, 3, []int{1, 1}, false},
		{"two alone", true, 2, 0, 3, []int{0, 1, 1, 2}, false},
		{"all own", true, 4, 8, 9, []int{0, 0, 0, 1, 1, 1, 1, 2}, false},
		{"all that are on their way", true, 4, 8, 1, []int{0, 1, 1, 2, 2, 3}, false},
		{"nobody is on his way", true, 4, 8, 0, []int{1, 2, 3}, false},
		{"a share of all", true, 8, 0, 9, []int{0, 1, 1, 2}, false},
		{"its part of what comes in a part of a tick", true, 8, 8, 9, []int{0, 1, 1, 2, 2}, false},
		{"all own, behind others", true, 4, 8, 9, []int{0, 0, 0, 1}, true},
		{"enough processors, behind others", false, 4, 8, 9, []int{0, 0, 0, 0}, true},
	} {
		o := Options{}
		switch c.what {
		case "a share of all":
			o.GatherShare = 4
		case "its part of what comes in a part of a tick":
			o.GatherPart = 79
		}
		e, first := leading(t, o, c.scarce, c.own, c.others), 0
		if c.behind {
			first = 1
			e.Submit(Submission{Kind: KindFence, Seq: 1000})
		}
		for i, want := range c.batches {
			e.Submit(Submission{Kind: KindCertified, Seq: uint64(i + 1), Others: c.coming,
				Writeset: &writeset.Writeset{}})
			if got := int(e.Figures().Batches) - first; got != want {
				t.Errorf("%s: %d batches after %d submissions, want %d", c.what, got, i+1, want)
			}
		}
	}
	e := leading(t, Options{}, true, 4, 8)
	e.Submit(Submission{Kind: KindCertified, Seq: 1, Others: 1, Writeset: &writeset.Writeset{}})
	if !e.Held() {
		t.Error("nobody is told that a batch waits")
	}
	e.Submit(Submission{Kind: KindStatement, Seq: 2, Writeset: &writeset.Writeset{}})
	if e.Figures().Batches != 1 {
		t.Error("a definition waits for other transactions")
	}
	e.Submit(Submission{Kind: KindCertified, Seq: 3, Others: 1, Writeset: &writeset.Writeset{}})
	if e.Release(); e.Figures().Batches != 2 {
		t.Error("what has waited long enough does not leave")
	}
}

// TestTogether: a leader waits for as many as the members' batches bring beside their first.
func TestTogether(t *testing.T) {
	for _, c := range []struct {
		what   string
		batch  int // items in each
		common int
	}{{"one at a time", 1, 1}, {"two at a time", 2, 4}, {"eight at a time", 8, 22}} {
		g := newGroupCommit()
		for n := range 50 * c.batch {
			if n%c.batch == 0 {
				g.begins = true
			}
			g.add(&Item{ID: writeset.TxID{Member: uint32(1 + n/c.batch%3)}}, false)
		}
		if got := g.together(); got != c.common {
			t.Errorf("%s: %d come together, want %d", c.what, got, c.common)
		}
	}
}

// TestScarce: proposals gather only where processors are scarce.
func TestScarce(t *testing.T) {
	for _, scarce := range []bool{true, false} {
		e := leading(t, Options{}, scarce, 0, 24)
		e.order.Propose(entry(2, 1, 1, 1))
		if e.order.Held() != scarce {
			t.Errorf("with 24 writers, and processors scarce: %v, a proposal is held: %v", scarce, e.order.Held())
		}
	}
}
