package chaos

import (
	"reflect"
	"slices"
	"testing"
)

// TestAgreed: whom most take for the leader leads, who votes is what it says, and all is settled once everybody says
// the same and as many vote as are to.
func TestAgreed(t *testing.T) {
	all := []int{1, 2, 4}
	says := func(leader int, voters ...int) view { return view{members: all, leader: leader, voters: voters} }
	full := says(2, 1, 2, 4)
	for _, x := range []struct {
		what    string
		answers []view
		want    view
	}{
		{"all say the same", []view{full, full, full}, view{all, 2, all, true}},
		{"one does not answer", []view{full, {}, full}, view{all, 2, all, false}},
		{"the leader knows better", []view{says(2, 1, 2), full, says(2, 1, 2)}, view{all, 2, all, false}},
		{"one does not vote yet", []view{says(2, 1, 2), says(2, 1, 2), says(2, 1, 2)},
			view{all, 2, []int{1, 2}, false}},
		{"one follows another", []view{full, full, says(1, 1, 2, 4)}, view{all, 2, all, false}},
		{"nobody answers", []view{{}, {}, {}}, view{members: all}},
	} {
		if got := agreed(all, x.answers); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %+v, want %+v", x.what, got, x.want)
		}
	}
	for members, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 5: 5, 6: 5} { // order-free: each for itself
		if got := votersOf(members); got != want {
			t.Errorf("of %d members %d vote, want %d", members, got, want)
		}
	}
}

// TestSeen: members are known by their names, also one that has another's; who is being removed is none.
func TestSeen(t *testing.T) {
	members := []*node{{k: 1, member: "node1"}, {k: 5, member: "node2"}}
	row := func(name, role string) []string { return []string{name, "address", role} }
	got := seen(members, [][]string{row("node1", "follower"), row("node3", "follower"), row("node2", "leader")})
	if want := (view{members: []int{1, 0, 5}, leader: 5, voters: []int{1, 5}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := seen(members, [][]string{row("node1", "leader"), row("node2", "learner")}); !slices.Equal(got.voters,
		[]int{1}) {
		t.Errorf("a learner votes: %+v", got)
	}
}

// TestCrews: the clients of a removed node have no home until another one comes, which gets them and no new ones.
func TestCrews(t *testing.T) {
	l := &load{c: &cluster{o: &Options{}}} // no clients
	for k := 1; k <= 3; k++ {
		l.comes(k)
	}
	l.goes(2)
	if len(l.crews) != 3 || l.home(l.crews[1]) != 0 || l.home(l.crews[2]) != 3 {
		t.Errorf("the second one is gone: %+v", l.crews)
	}
	l.comes(4)
	l.comes(5)
	if len(l.crews) != 4 || l.home(l.crews[1]) != 4 || l.home(l.crews[3]) != 5 {
		t.Errorf("two have come: %+v", l.crews)
	}
}

// TestPlaces: who joins comes to the first place where nobody is, and may have the name of who was removed last, once
// nobody has it.
func TestPlaces(t *testing.T) {
	c := &cluster{o: &Options{Nodes: 3}, roster: roster{nodes: []*node{
		{k: 1, place: 1, member: "node1", stage: stageMember}, {k: 2, place: 2, member: "node2", stage: stageMember},
		{k: 3, place: 3, member: "node3", stage: stageJoins}}}}
	if got := c.freePlace(); got != 4 {
		t.Errorf("the free place is %d", got)
	}
	if c.lastRemoved() != nil || !c.named("node3") {
		t.Error("nobody was removed, and node3 joins")
	}
	c.enter(c.node(2), stageRemoved)
	if got := c.freePlace(); got != 2 || c.lastRemoved() != c.node(2) || c.named("node2") {
		t.Errorf("node2 was removed: place %d", got)
	}
	if got := numbersOf(c.members()); !slices.Equal(got, []int{1}) {
		t.Errorf("members are %v", got)
	}
	if got := (window{members: numbersOf(c.present())}).others([]int{1}); !slices.Equal(got, []int{3}) {
		t.Errorf("beside the first one there are %v", got)
	}
}

// TestBaseline: a node that joined later may hold as much as any that was there before.
func TestBaseline(t *testing.T) {
	before := map[int]sample{1: {files: 10, goroutines: 200, backends: 5}, 2: {files: 20, goroutines: 100, backends: 6}}
	if got := baseline(before, 2); got != before[2] {
		t.Errorf("of a node that was there: %+v", got)
	}
	if got := baseline(before, 4); got != (sample{files: 20, goroutines: 200, backends: 6}) {
		t.Errorf("of one that was not: %+v", got)
	}
}
