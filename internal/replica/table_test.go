package replica

import (
	"reflect"
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/flow"
)

// At these times of the tests: a member is deaf after 10, silent after 30.
func table3() *Table {
	return NewTable(Options{Self: 1, Members: []uint32{1, 2, 3}, Deaf: 10, Silent: 30, NearItems: 5, NearBytes: 500})
}

func TestAlive(t *testing.T) {
	for _, c := range []struct {
		name  string
		does  func(x *Table)
		now   int64
		alive bool
		hears []uint32
	}{
		{"never heard", func(*Table) {}, 5, false, nil},
		{"just heard", func(x *Table) { x.Hear(100, 2, Status{}, 0, 0) }, 109, true, []uint32{2}},
		{"deaf", func(x *Table) { x.Hear(100, 2, Status{}, 0, 0) }, 110, true, nil},
		{"silent", func(x *Table) { x.Hear(100, 2, Status{}, 0, 0) }, 130, false, nil},
		{"has ended", func(x *Table) { x.Hear(100, 2, Status{}, 0, 0); x.Forget(2) }, 101, false, nil},
		{"has ended, and is heard again", func(x *Table) {
			x.Hear(100, 2, Status{}, 0, 0)
			x.Forget(2)
			x.Hear(105, 2, Status{}, 0, 0)
		}, 106, true, []uint32{2}},
		{"a stranger is heard", func(x *Table) { x.Hear(100, 9, Status{}, 0, 0) }, 100, false, nil},
	} {
		x := table3()
		c.does(x)
		if _, alive := x.Of(c.now, 2); alive != c.alive {
			t.Errorf("%s: alive is %v", c.name, alive)
		}
		if got := x.Hears(c.now); !slices.Equal(got, c.hears) {
			t.Errorf("%s: hears %v, not %v", c.name, got, c.hears)
		}
	}
}

// TestStopping: who has told last that it stops does so, whether it is heard any more or not, until it tells something
// else.
func TestStopping(t *testing.T) {
	x := table3()
	x.Hear(100, 3, Status{State: Stopping}, 0, 0)
	x.Hear(100, 2, Status{State: Stopping}, 0, 0)
	x.Forget(2)
	if got := x.Stopping(); !slices.Equal(got, []uint32{2, 3}) {
		t.Errorf("%v stop", got)
	}
	x.Hear(200, 2, Status{State: Joining}, 0, 0)
	if got := x.Stopping(); !slices.Equal(got, []uint32{3}) {
		t.Errorf("%v stop", got)
	}
}

// TestEarlierIncarnations is RE2: what was told before a restart, and comes behind what was told after it.
func TestEarlierIncarnations(t *testing.T) {
	for _, c := range []struct {
		name    string
		told    []Status
		applied uint64
	}{
		{"one life", []Status{{Incarnation: 4, Applied: 7}, {Incarnation: 4, Applied: 9}}, 9},
		{"a restart loses what was applied", []Status{{Incarnation: 4, Applied: 9}, {Incarnation: 5, Applied: 7}}, 7},
		{"the earlier life comes late", []Status{{Incarnation: 5, Applied: 7}, {Incarnation: 4, Applied: 9}}, 7},
		{"a release that does not tell it", []Status{{Incarnation: 5, Applied: 7}, {Applied: 9}}, 9},
	} {
		x := table3()
		for _, s := range c.told {
			x.Hear(1, 2, s, 0, 0)
		}
		if s, _ := x.Of(1, 2); s.Applied != c.applied {
			t.Errorf("%s: takes it to have applied %d, not %d", c.name, s.Applied, c.applied)
		}
	}
	x := table3()
	if !x.Hear(1, 2, Status{Incarnation: 5}, 0, 0) || x.Hear(1, 2, Status{Incarnation: 4}, 0, 0) {
		t.Error("what counts no more is not said to")
	}
}

func TestLag(t *testing.T) {
	for _, c := range []struct {
		name            string
		s               Status
		ordinal, volume uint64
		want            Lag
	}{
		{"behind what it knows", Status{Ordinal: 9, Applied: 4, Volume: 90, VolumeApplied: 40}, 0, 0, Lag{5, 50}},
		{"behind what this member knows", Status{Ordinal: 9, Applied: 4, Volume: 90, VolumeApplied: 40}, 11, 100,
			Lag{7, 60}},
		{"further than this member", Status{Ordinal: 9, Applied: 9, Volume: 90, VolumeApplied: 90}, 4, 40, Lag{}},
	} {
		x := table3()
		x.Hear(1, 2, c.s, c.ordinal, c.volume)
		if s, _ := x.Of(1, 2); s.Lag != c.want {
			t.Errorf("%s: %v, not %v", c.name, s.Lag, c.want)
		}
	}
}

// TestStates is RE3.
func TestStates(t *testing.T) {
	near := Own{Serves: true, Leader: 2, Ordinal: 9, Applied: 4}
	far := Own{Serves: true, Leader: 2, Ordinal: 9, Applied: 3}
	with := func(o Own, change func(*Own)) Own { change(&o); return o }
	for _, c := range []struct {
		name string
		owns []Own
		want State
	}{
		{"at first", []Own{{}}, Joining},
		{"it serves, far behind", []Own{far}, CatchingUp},
		{"it serves, near the end", []Own{near}, Synced},
		{"it was near once", []Own{near, far}, Synced},
		{"far in bytes", []Own{with(near, func(o *Own) { o.Volume = 501 })}, CatchingUp},
		{"nobody leads", []Own{near, with(near, func(o *Own) { o.Leader = 0 })}, NoLeader},
		{"near while nobody leads does not count", []Own{with(near, func(o *Own) { o.Leader = 0 }), far}, CatchingUp},
		{"it stops", []Own{near, with(near, func(o *Own) { o.Stopping = true })}, Stopping},
		{"it stops while it joins", []Own{{Stopping: true}}, Joining},
		{"it is halted", []Own{near, with(near, func(o *Own) { o.Halted, o.Stopping = true, true })}, Halted},
	} {
		x, got := table3(), State("")
		for _, o := range c.owns {
			got = x.Tell(1, o).State
		}
		if got != c.want {
			t.Errorf("%s: %s, not %s", c.name, got, c.want)
		}
		if slices.ContainsFunc(c.owns, func(o Own) bool { return reflect.DeepEqual(o, near) }) != x.CaughtUp() {
			t.Errorf("%s: has caught up: %v", c.name, x.CaughtUp())
		}
	}
	x := table3()
	x.Hear(1, 2, Status{Ordinal: 100}, 0, 0)
	if s := x.Tell(2, near); s.State != CatchingUp || s.Lag.Items != 96 {
		t.Errorf("another knows more of the order, and this member is %s by %v", s.State, s.Lag)
	}
	if s := x.Tell(40, near); s.State != CatchingUp || s.Lag.Items != 96 {
		t.Errorf("who knew more is silent, and this member is %s by %v", s.State, s.Lag)
	}
	x.Forget(2)
	if s := x.Tell(41, near); s.Lag.Items != 96 {
		t.Errorf("who knew more has ended, and this member is behind by %v", s.Lag)
	}
}

func TestTells(t *testing.T) {
	x := table3()
	x.Hear(1, 2, Status{Hears: []uint32{1, 3}}, 0, 0)
	x.Hear(1, 3, Status{Hears: []uint32{2}, Clients: 1, Ordinal: 8, Volume: 80}, 0, 0)
	s := x.Tell(2, Own{Incarnation: 6, Leader: 3, Ordinal: 5, Applied: 4, Clients: 2, DelayMicros: 9, Because: 3})
	if !slices.Equal(s.Hears, []uint32{2, 3}) || s.Links != 1 {
		t.Errorf("it hears %v, and %d of them hear it", s.Hears, s.Links)
	}
	if s.Incarnation != 6 || s.Leader != 3 || s.Clients != 2 || s.DelayMicros != 9 || s.Because != 3 {
		t.Errorf("%+v", s)
	}
	for now, want := range map[int64]int{2: 3, 31: 2} { // order-free: each for itself
		if got := x.Clients(now, 2); got != want {
			t.Errorf("at %d there are %d clients, not %d", now, got, want)
		}
	}
	if got, want := x.End(2), (End{8, 80, true}); got != want {
		t.Errorf("the end of the order is %v, not %v", got, want)
	}
	if got, want := x.End(31), (End{8, 80, false}); got != want {
		t.Errorf("the end of the order is %v when nobody is alive, not %v", got, want)
	}
}

func TestWaitsForWhom(t *testing.T) {
	x := table3()
	x.Hear(100, 2, Status{State: Synced, Applied: 9}, 0, 0)
	x.Hear(100, 3, Status{State: CatchingUp, Applied: 4}, 0, 0)
	for _, c := range []struct {
		name    string
		now     int64
		ordinal uint64
		young   bool
		want    []uint32
	}{
		{"all have it", 101, 4, false, nil},
		{"one lacks it", 101, 5, false, []uint32{3}},
		{"both lack it", 101, 10, false, []uint32{2, 3}},
		{"the others are silent", 130, 10, false, nil},
		{"who has ended is not waited for by who has begun", 130, 10, true, nil},
	} {
		if got := x.Lacking(c.now, c.ordinal, c.young); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
	if got := table3().Lacking(1, 10, true); !slices.Equal(got, []uint32{2, 3}) {
		t.Errorf("who has just begun waits for %v", got)
	}
	if x.Unheard(2) || !table3().Unheard(2) || x.Unheard(1) {
		t.Error("it is not known of whom nothing was heard")
	}
	if got := x.AllApplied(7); got != 4 {
		t.Errorf("all have applied %d", got)
	}
	if got := x.AllApplied(3); got != 3 {
		t.Errorf("all have applied %d, and this member 3", got)
	}
	x.Forget(3)
	if got := x.AllApplied(7); got != 4 {
		t.Errorf("all have applied %d, and the one that is away 4", got)
	}
	x.Hear(100, 3, Status{State: CatchingUp, Applied: 4}, 0, 0)
	x.Readmitted(3)
	if got := x.AllApplied(7); got != 0 {
		t.Errorf("all have applied %d, and one comes back without its disk", got)
	}
	x.Hear(100, 3, Status{State: CatchingUp, Applied: 4}, 0, 0)
	if got := x.AllApplied(7); got != 4 {
		t.Errorf("all have applied %d, and the one that came back 4", got)
	}
	if got := table3().AllApplied(7); got != 0 {
		t.Errorf("all have applied %d, and nobody has told", got)
	}
	if got := x.Synced(101); !slices.Equal(got, []uint32{2}) {
		t.Errorf("synced are %v", got)
	}
	x.Hear(101, 3, Status{State: Halted, Applied: 4}, 0, 0)
	if got := x.Lacking(102, 5, false); len(got) != 0 {
		t.Errorf("waits for %v, which is halted", got)
	}
	if at, ok := x.LastHeard(3); at != 101 || !ok {
		t.Errorf("heard last at %d, %v", at, ok)
	}
	x.Forget(3)
	if _, ok := x.LastHeard(3); ok {
		t.Error("who has ended was heard last")
	}
}

func TestLeadAndFlow(t *testing.T) {
	x := table3()
	all := func(uint32) bool { return true }
	x.Hear(1, 2, Status{State: Synced, Hears: []uint32{1}, Links: 2, Ordinal: 9, Applied: 4}, 0, 0)
	x.Hear(1, 3, Status{State: Synced, Hears: []uint32{1, 2}, Links: 1, Ordinal: 9, Applied: 3}, 0, 0)
	own := x.Tell(2, Own{Serves: true, Leader: 1, Ordinal: 9, Applied: 8})
	in := x.Lead(2, own, true, all, func(m uint32) uint64 { return uint64(m) * 10 })
	if !in.Leads || in.Halted || in.Self != 1 || len(in.Members) != 3 {
		t.Fatalf("%+v", in)
	}
	for i, fit := range []bool{false, true, false} { // this member; near; too far behind
		if m := in.Members[i]; m.ID != uint32(i+1) || m.Fit != fit || m.Wrote != uint64(i+1)*10 {
			t.Errorf("%+v", m)
		}
	}
	if in.Members[0].Links != 2 || in.Members[1].Links != 2 {
		t.Errorf("%+v", in.Members)
	}
	f := x.Flow(2, own, nil)
	if want := []flow.Member{{ID: 1, Lag: 1, Votes: true}, {ID: 2, Lag: 5, Votes: true},
		{ID: 3, Lag: 6, Votes: true}}; !slices.Equal(f.Synced, want) ||
		f.Voters != 3 {
		t.Errorf("%+v", f)
	}
	if f = x.Flow(2, own, []uint32{2, 3, 9}); f.Voters != 2 || f.Synced[0].Votes || !f.Synced[1].Votes {
		t.Errorf("%+v where this member does not vote", f)
	}
	if f = x.Flow(31, own, nil); len(f.Synced) != 1 {
		t.Errorf("%+v when the others are silent", f.Synced)
	}
	x.Hear(3, 2, Status{State: Synced, Links: 2}, 0, 0)
	if in = x.Lead(3, own, true, all, func(uint32) uint64 { return 0 }); in.Members[1].Fit {
		t.Error("a member that does not hear this one is fit to lead")
	}
	x.Hear(4, 2, Status{State: Synced, Hears: []uint32{1}, Links: 2, Ordinal: 9, Applied: 9}, 0, 0)
	for _, votes := range []bool{true, false} {
		in = x.Lead(4, own, true, func(m uint32) bool { return votes || m != 2 }, func(uint32) uint64 { return 0 })
		if in.Members[1].Fit != votes {
			t.Errorf("a member that votes, %v: fit to lead, %v", votes, in.Members[1].Fit)
		}
	}
}

// TestLent: the earliest that any member has lent who is heard counts, this one's own included; and everybody knows who
// copies whose database (RE11).
func TestLent(t *testing.T) {
	x := table3()
	is := func(now int64, own []Loan, want uint64, lent bool) {
		t.Helper()
		if got, is := x.Lent(now, own); got != want || is != lent {
			t.Errorf("at %d all is kept behind %d, %v; want %d, %v", now, got, is, want, lent)
		}
	}
	is(100, nil, 0, false)
	mine := []Loan{{Member: 3, Entry: 70}}
	is(100, mine, 70, true)
	x.Hear(100, 2, Status{Lent: []Loan{{Member: 3, Entry: 90, Open: true}, {Member: 4, Entry: 0}}}, 0, 0)
	is(101, mine, 0, true)
	x.Hear(102, 2, Status{Lent: []Loan{{Member: 3, Entry: 90, Open: true}}}, 0, 0)
	is(103, mine, 70, true)
	is(103, nil, 90, true)
	is(132, nil, 0, false) // its lender is silent
	for _, c := range []struct {
		now    int64
		member uint32
		own    []Loan
		want   uint32
	}{{103, 3, mine, 2}, {103, 3, []Loan{{Member: 3, Open: true}}, 1}, {103, 2, mine, 0}, {132, 3, mine, 0}} {
		if got := x.Copies(c.now, c.member, c.own); got != c.want {
			t.Errorf("at %d member %d copies the database of %d, want %d", c.now, c.member, got, c.want)
		}
	}
	if s := x.Tell(104, Own{Lent: mine}); len(s.Lent) != 1 {
		t.Errorf("it tells nobody of what it lends: %v", s)
	}
}
