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
		for _, f := range first {
			times[f.Kind]++
			for leader := range nodes + 1 {
				v := f.victims(leader)
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
	c := &cluster{}
	for k := 1; k <= 3; k++ {
		c.nodes = append(c.nodes, &node{k: k})
	}
	link := Fault{Kind: "link", Leader: true, Count: 1, Order: []int{2, 1, 3}}
	if w := c.place(link, 1); !slices.Equal(w.hit, []int{1, 2}) || !slices.Equal(w.victims, []int{2}) || w.led {
		t.Errorf("a link of the leader: %+v", w)
	}
	link.Leader = false
	if w := c.place(link, 1); !slices.Equal(w.hit, []int{2, 1}) || !slices.Equal(w.victims, []int{2}) {
		t.Errorf("a link between a follower and the leader: %+v", w)
	}
	if w := c.place(link, 3); !slices.Equal(w.hit, []int{2, 1}) || len(w.victims) != 0 {
		t.Errorf("a link between followers: %+v", w)
	}
	if w := c.place(Fault{Kind: "freeze", Leader: true, Count: 1, Order: []int{2, 1, 3}}, 3); !w.led ||
		!slices.Equal(w.victims, []int{3}) {
		t.Errorf("the leader is frozen: %+v", w)
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
	w := []window{{fault: Fault{Kind: "freeze"}, led: true, victims: []int{2}, start: moment(100), healed: moment(170),
		over: moment(190)}}
	rows, each := m.measure(w, at, moment(250), []int{1, 2, 3})
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
