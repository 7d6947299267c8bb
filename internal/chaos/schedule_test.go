package chaos

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func draw(o Options, n int) (out []Fault) {
	s := newSchedule(&o)
	for range n {
		out = append(out, s.next())
	}
	return out
}

// TestSchedule (K1): the same seed draws the same faults, another one others; every kind has
// its turn, and only kill-all hits more than a minority.
func TestSchedule(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		o := Options{Nodes: nodes, Seed: 42, Faults: kindNames()}
		first := draw(o, 3*len(kinds))
		if !reflect.DeepEqual(first, draw(o, 3*len(kinds))) {
			t.Errorf("%d nodes: the same seed draws other faults", nodes)
		}
		o.Seed++
		if reflect.DeepEqual(first, draw(o, 3*len(kinds))) {
			t.Errorf("%d nodes: another seed draws the same faults", nodes)
		}
		times := map[string]int{}
		var members []int
		for k := range o.places() {
			members = append(members, 10+k)
		}
		for _, f := range first {
			times[f.Kind]++
			for _, leader := range append([]int{0}, members...) {
				v := f.victims(leader, members)
				slices.Sort(v)
				if len(slices.Compact(slices.Clone(v))) != len(v) || len(v) != f.Count {
					t.Errorf("%+v hits %v", f, v)
				}
				if leader > 0 && slices.Contains(v, leader) != f.Leader {
					t.Errorf("%+v hits %v while node %d leads", f, v, leader)
				}
			}
			if f.Kind != "kill-all" && 2*f.Count >= nodes {
				t.Errorf("%+v leaves no majority of %d", f, nodes)
			}
		}
		for _, k := range kinds {
			if times[k.name] != 3 {
				t.Errorf("%s is made %d times in three rounds", k.name, times[k.name])
			}
		}
	}
}

// TestScheduleOfMembers: whichever kinds are named, there are as many members as nodes, or one more or less; who joins
// and who is removed is disturbed in every way, and not always.
func TestScheduleOfMembers(t *testing.T) {
	for _, faults := range [][]string{{kindJoin, kindRemove}, {kindRemove}, {kindJoin}, {"freeze", kindRemove}} {
		o := Options{Nodes: 3, Seed: 7, Faults: faults}
		members, joined, beside := 3, 0, map[string]int{}
		for _, f := range draw(o, 300) {
			switch f.Kind {
			case kindJoin:
				members++
				joined++
			case kindRemove:
				members--
			}
			if members < 2 || members > 4 {
				t.Fatalf("%v: %d members after %+v", faults, members, f)
			}
			beside[f.what()]++
		}
		if joined < 70 {
			t.Errorf("%v: %d join", faults, joined)
		}
		for kind, with := range map[string][]string{kindJoin: slices.Concat(besideJoin, besideJoiner),
			kindRemove: besideRemove} { // order-free: each for itself
			for _, x := range append(with, "") {
				if what := (Fault{Kind: kind, Beside: x}).what(); beside[what] == 0 {
					t.Errorf("%v: never %q", faults, what)
				}
			}
		}
	}
	nobody := 0
	for _, f := range draw(Options{Nodes: 3, Seed: 7, Faults: []string{kindJoin}}, 2*sequenceStep+50) {
		if f.Kind == kindJoin {
			nobody++
		}
	}
	if nobody != sequenceStep-3 {
		t.Errorf("%d join, of %d numbers", nobody, sequenceStep)
	}
}

// TestScheduleFillsUp: after a member was removed another one joins before long, and each kind has its turn as ever.
func TestScheduleFillsUp(t *testing.T) {
	o := Options{Nodes: 3, Seed: 3, Faults: kindNames()}
	members, fewer, times := 3, 0, map[string]int{}
	for _, f := range draw(o, 50*len(kinds)) {
		times[f.Kind]++
		switch f.Kind {
		case kindJoin:
			members++
		case kindRemove:
			members--
		}
		if fewer++; members >= 3 {
			fewer = 0
		}
		if fewer > 1+fewerMax {
			t.Fatalf("fault %d is made with %d members", f.Number, members)
		}
	}
	if times[kindJoin] != 50 || times[kindRemove] != 50 || times["freeze"] != 50 {
		t.Errorf("in 50 rounds: %v", times)
	}
}

// TestFaultText: what is drawn of a join or a remove is told.
func TestFaultText(t *testing.T) {
	for want, f := range map[string]Fault{ // order-free: each for itself
		"join": {Kind: kindJoin, Other: true},
		"join under the name of who was removed last, and freeze who joins 7 ms after it has started": {Kind: kindJoin,
			Same: true, Beside: "freeze", Millis: 7},
		"join just after freeze follower": {Kind: kindJoin, Other: true, Beside: "freeze",
			Millis: 7},
		"join, and kill-both leader 7 ms after it begins to copy": {Kind: kindJoin, Leader: true, Other: true,
			Beside: "kill-both", Millis: 7, Stage: 1},
		"remove leader by itself":         {Kind: kindRemove, Leader: true},
		"remove follower":                 {Kind: kindRemove, Other: true},
		"remove follower after partition": {Kind: kindRemove, Beside: "partition"},
		"oneway leader hears nothing":     {Kind: "oneway", Leader: true, Inward: true},
		"freeze follower and 1 more":      {Kind: "freeze", Count: 2},
		"delay follower 20 ms":            {Kind: "delay", Millis: 20},
		"kill-all":                        {Kind: "kill-all", Leader: true, Count: 3},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"nodes":     {Nodes: 4, Seconds: 1},
		"seconds":   {Nodes: 3},
		"clients":   {Nodes: 3, Seconds: 1, Clients: 2},
		"not known": {Nodes: 3, Seconds: 1, Faults: []string{"earthquake"}},
		"netns":     {Nodes: 3, Seconds: 1, Faults: []string{"unplug"}},
	} {
		o.Dir = t.TempDir()
		if err := o.validate(); err == nil {
			t.Errorf("%s: %+v is taken", want, o)
		}
	}
	o := Options{Nodes: 3, Seconds: 1, Dir: t.TempDir()}
	if err := o.validate(); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(o.Faults, "unplug") || !slices.Contains(o.Faults, "kill-all") || o.GapOther != gapOther {
		t.Errorf("the defaults are %+v", o)
	}
}

func TestPlace(t *testing.T) {
	c := &cluster{o: &Options{Nodes: 3, Faults: []string{kindJoin}}}
	for k := 1; k <= 3; k++ {
		c.nodes = append(c.nodes, &node{k: k, place: k, stage: stageMember})
	}
	all := []int{1, 2, 3}
	led := func(by int, voters ...int) view { return view{members: all, leader: by, voters: voters, settled: true} }
	order := []int{2, 1, 3, 4}
	fault := func(kind string, leader bool) Fault { return Fault{Kind: kind, Leader: leader, Count: 1, Order: order} }
	remove, join := fault(kindRemove, true), fault(kindJoin, true)
	remove.Beside, join.Beside, join.Other = "partition", "kill-both", true
	alone := join
	alone.Other = false
	for _, x := range []struct {
		what    string
		f       Fault
		v       view
		kind    string
		beside  string
		hit     []int
		victims []int
		led     bool
	}{
		{"a link of the leader", fault("link", true), led(1, 1, 2, 3), "link", "", []int{1, 2}, []int{2}, false},
		{"a link to the leader", fault("link", false), led(1, 1, 2, 3), "link", "", []int{2, 1}, []int{2}, false},
		{"a link of followers", fault("link", false), led(3, 1, 2, 3), "link", "", []int{2, 1}, nil, false},
		{"a link of both voters", fault("link", false), led(1, 1, 2), "link", "", []int{2, 1}, all, false},
		{"the leader is frozen", fault("freeze", true), led(3, 1, 2, 3), "freeze", "", []int{3}, []int{3}, true},
		{"one of both voters is frozen", fault("freeze", false), led(3, 2, 3), "freeze", "", []int{2},
			[]int{2, 1, 2, 3}, false},
		{"a disk is lost", fault("lose-disk", false), led(1, 1, 2, 3), "lose-disk", "", []int{2}, []int{2}, false},
		{"one of both voters would lose its disk", fault("lose-disk", false), led(1, 1, 2), "kill-both", "", []int{2},
			[]int{2, 1, 2, 3}, false},
		{"a disk would be lost while voters change", fault("lose-disk", false),
			view{members: all, leader: 1, voters: all}, "kill-both", "", []int{2}, []int{2}, false},
		{"nobody has the small disk", Fault{Kind: "disk-full", Order: order}, led(1, 1, 2, 3), none, "", nil, nil,
			false},
		{"the leader is removed", remove, led(3, 1, 2, 3), kindRemove, "partition", []int{3}, []int{3}, true},
		{"one of both voters is removed", remove, led(3, 2, 3), kindRemove, "", []int{3}, []int{3}, true},
		{"one joins, the leader is killed", join, led(3, 1, 2, 3), kindJoin, "kill-both", []int{3, 4}, []int{3, 4},
			true},
		{"one joins and is killed", alone, led(3, 2, 3), kindJoin, "kill-both", []int{4}, []int{4}, false},
	} {
		w := c.place(x.f, x.v)
		if w.fault.Kind != x.kind || w.fault.Beside != x.beside || !slices.Equal(w.hit, x.hit) ||
			!slices.Equal(w.victims, x.victims) || w.led != x.led || !slices.Equal(w.members, all) {
			t.Errorf("%s: %+v", x.what, w)
		}
	}
	join.Same = true
	if w := c.place(join, led(1, 1, 2, 3)); w.fault.Same {
		t.Errorf("nobody was removed, and who joins has his name: %+v", w)
	}
	c.nodes = append(c.nodes, &node{k: 4, member: "node4", stage: stageRemoved})
	if w := c.place(join, led(1, 1, 2, 3)); !w.fault.Same {
		t.Errorf("who joins has not the name of who was removed: %+v", w)
	}
	c.node(1).member = "node4"
	if w := c.place(join, led(1, 1, 2, 3)); w.fault.Same {
		t.Errorf("who joins has the name of a member: %+v", w)
	}
	c.disk = &smallDisk{k: 2}
	if w := c.place(Fault{Kind: "disk-full", Count: 1, Order: order}, led(2, 1, 2, 3)); !w.led || w.hit[0] != 2 {
		t.Errorf("the leader has the small disk: %+v", w)
	}
}

func TestGaps(t *testing.T) {
	for _, c := range []struct {
		times    []int64
		from, to int64
		want     time.Duration
	}{
		{nil, 10, 20, 10},
		{[]int64{5, 25}, 10, 20, 10},
		{[]int64{11, 12, 18, 19}, 10, 20, 6},
		{[]int64{1, 14}, 10, 20, 6},
		{[]int64{10, 20}, 10, 20, 10},
	} {
		if got := longest(c.times, c.from, c.to); got != c.want {
			t.Errorf("longest(%v, %d, %d) is %d, want %d", c.times, c.from, c.to, got, c.want)
		}
	}
	at := func(x time.Time) int64 { return x.UnixNano() }
	moment := func(n int64) time.Time { return time.Unix(0, n) }
	m := measured{
		commits: map[int][]int64{1: {90, 101, 150, 160, 199, 230}, 2: {95, 190, 195, 250}, 3: {100, 120, 180, 240}},
		pulse:   []int64{90, 130, 170, 210, 250},
		txs:     []Tx{{Node: 1, Start: 102, End: 150}, {Node: 2, Start: 95, End: 190}, {Node: 3, Start: 50, End: 120}},
	}
	w := []window{{fault: Fault{Kind: "freeze"}, led: true, victims: []int{2}, members: []int{1, 2, 3},
		start: moment(100), healed: moment(170), over: moment(190)}}
	rows, each := m.measure(w, at, moment(250))
	want := gaps{kind: "freeze", led: true, survivors: 60, victims: 90, recovery: 20, answer: 48, machine: 40}
	if each[0].count = 0; each[0] != want {
		t.Errorf("got %+v, want %+v", each[0], want)
	}
	quiet := gaps{kind: calm, count: 1, survivors: 50, machine: 40}
	if len(rows) != 2 || rows[1] != quiet {
		t.Errorf("between faults: %+v, want %+v", rows, quiet)
	}
}

func TestTrend(t *testing.T) {
	var s []sample
	for i := range 20 {
		pid := 1 + i/8 // the longest life is the last one
		s = append(s, sample{pid: pid, at: time.Unix(int64(i*60), 0), rss: int64(i*pid) << 20})
	}
	s = append(s, sample{pid: 3, at: time.Unix(20*60, 0), rss: 60 << 20},
		sample{pid: 3, at: time.Unix(30*60, 0), rss: 90 << 20})
	if perMinute, life := trend(s); perMinute < 2.9 || perMinute > 3.1 || life != 14*time.Minute {
		t.Errorf("3 MiB a minute in 14 minutes are told as %.2f in %s", perMinute, life)
	}
}
