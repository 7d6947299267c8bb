package bootstrap

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestNotes: each change gives what is known then, and whether that is news, and leaves the old notes alone.
func TestNotes(t *testing.T) {
	began := Notes{Members: map[uint32]uint64{2: 5}, Databases: []uint64{7}}
	for _, c := range []struct {
		name   string
		change func(Notes) (Notes, bool)
		want   Notes
		news   bool
	}{
		{"a later incarnation", func(n Notes) (Notes, bool) { return n.Heard(works(2, 6, nil)) },
			Notes{Members: map[uint32]uint64{2: 6}, Databases: []uint64{7}}, true},
		{"the same again", func(n Notes) (Notes, bool) { return n.Heard(works(2, 5, nil)) }, began, false},
		{"an earlier one", func(n Notes) (Notes, bool) { return n.Heard(works(2, 4, nil)) }, began, false},
		{"the number of its life", func(n Notes) (Notes, bool) { return n.Heard(life(works(2, 5, nil), 9)) },
			Notes{Members: map[uint32]uint64{2: 5}, Lives: map[uint32]uint64{2: 9}, Databases: []uint64{7}}, true},
		{"a later one's", func(n Notes) (Notes, bool) { return n.Heard(life(works(2, 6, nil), 9)) },
			Notes{Members: map[uint32]uint64{2: 6}, Lives: map[uint32]uint64{2: 9}, Databases: []uint64{7}}, true},
		{"an earlier one's", func(n Notes) (Notes, bool) { return n.Heard(life(works(2, 4, nil), 9)) }, began, false},
		{"the own log is an older copy", func(n Notes) (Notes, bool) { return n.Refused(errors.New("old")) },
			Notes{Members: map[uint32]uint64{2: 5}, Outdated: "old", Databases: []uint64{7}}, true},
		{"another member", func(n Notes) (Notes, bool) { return n.Heard(works(3, 1, nil)) },
			Notes{Members: map[uint32]uint64{2: 5, 3: 1}, Databases: []uint64{7}}, true},
		{"a copy that another one has taken", func(n Notes) (Notes, bool) {
			f := works(2, 5, nil)
			f.Copied = 2
			return n.Heard(f)
		}, Notes{Members: map[uint32]uint64{2: 5}, Copies: map[uint32]uint64{2: 2}, Databases: []uint64{7}}, true},
		{"an own copy", func(n Notes) (Notes, bool) { return n.Copy(1), true },
			Notes{Copied: 1, Members: map[uint32]uint64{2: 5}, Databases: []uint64{7}}, true},
		{"an own copy behind a lost log", func(n Notes) (Notes, bool) { return n.Copy(4), true },
			Notes{Copied: 4, Members: map[uint32]uint64{2: 5}, Databases: []uint64{7}}, true},
		{"who has no log", func(n Notes) (Notes, bool) { return n.Heard(empty(3)) }, began, false},
		{"a log is made", func(n Notes) (Notes, bool) { return n.Made(9) },
			Notes{Members: map[uint32]uint64{2: 5}, Databases: []uint64{7, 9}}, true},
		{"it was made", func(n Notes) (Notes, bool) { return n.Made(7) }, began, false},
		{"it is removed", func(n Notes) (Notes, bool) { return n.Removed(7) },
			Notes{Members: map[uint32]uint64{2: 5}, Databases: []uint64{}}, true},
		{"there is none", func(n Notes) (Notes, bool) { return n.Removed(9) }, began, false},
	} {
		got, news := c.change(began)
		if !reflect.DeepEqual(got, c.want) || news != c.news {
			t.Errorf("%s: %+v, %v", c.name, got, news)
		}
		if !reflect.DeepEqual(began, Notes{Members: map[uint32]uint64{2: 5}, Databases: []uint64{7}}) {
			t.Fatalf("%s changes the old notes", c.name)
		}
	}
	// Superseded once for each log that was heard of, however often it asks.
	n, news := began.Supersede(2)
	again, more := n.Supersede(2)
	if !news || more || n.Members[2] != 5+supersededBy || again.Members[2] != n.Members[2] {
		t.Errorf("superseded: %+v, %v; again: %+v, %v", n, news, again, more)
	}
	n, _ = n.Heard(works(2, 1<<20, nil))
	if n, news = n.Supersede(2); !news || n.Members[2] != 1<<20+supersededBy {
		t.Errorf("its next log is superseded: %+v, %v", n, news)
	}
	if n, news = n.Supersede(3); !news || n.Members[3] != supersededBy {
		t.Errorf("one that nobody has heard of: %+v, %v", n, news)
	}
	if got, news := (Notes{}).Heard(works(2, 1, nil)); !news || got.Members[2] != 1 {
		t.Errorf("the first note is %+v", got)
	}
}

func TestSettingsAreFixed(t *testing.T) {
	was := Fixed(settings("100"))
	for value, why := range map[string]string{ // order-free: each for itself
		"100": "", "200": "certify_keys is 200 in the configuration, and was 100",
	} {
		err := Changed(was, settings(value))
		if (err != nil) != (why != "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", value, err)
		}
	}
	if err := Changed(was, nil); err != nil {
		t.Error(err)
	}
	if got := Fixed([]Setting{{"lock_lease_ms", "1"}}); got != nil {
		t.Errorf("%v can be changed", got)
	}
}

// TestLevels: something new may be put into the log when every member has said that it understands that, whoever is
// away now; not if one of them runs an older build again.
func TestLevels(t *testing.T) {
	var n Notes
	both := []uint32{2, 3}
	hear := func(member, level uint32, news bool) {
		t.Helper()
		next, got := n.Heard(&Facts{Member: member, Incarnation: 1, Level: level})
		if n = next; got != news {
			t.Errorf("member %d understands level %d: news %v", member, level, got)
		}
	}
	hear(2, Configurations, true)
	hear(2, Configurations, false)
	if n.Understand(Configurations, both, nil, false) || !n.Understand(Configurations, both[:1], nil, false) {
		t.Errorf("of two members one has spoken: %+v", n)
	}
	hear(3, 0, true) // a member of the first releases
	if n.Understand(Configurations, both, nil, false) {
		t.Errorf("one of three does not understand it: %+v", n)
	}
	hear(3, Configurations+1, true)
	if !n.Understand(Configurations, both, nil, false) || n.Understand(Configurations+1, both, nil, false) {
		t.Errorf("all three understand it: %+v", n)
	}
	hear(3, 0, true)
	if n.Understand(Configurations, both, nil, false) {
		t.Errorf("one of three does not understand it any more: %+v", n)
	}
	hear(4, 0, true) // who is no member does not count
	hear(3, Membership, true)
	if !n.Understand(Configurations, both, nil, false) {
		t.Errorf("one that is no member counts: %+v", n)
	}
	later := []uint32{5} // whom the order has added understands that, and need not have been heard
	if n.Understand(Membership, []uint32{3, 5}, nil, false) ||
		!n.Understand(Membership, []uint32{3, 5}, later, false) ||
		n.Understand(Membership+1, []uint32{5}, later, false) {
		t.Errorf("who was added: %+v", n)
	}
	// All understood it before the order changed who the members are; who has said otherwise since does not.
	if n.Understand(Membership, []uint32{3, 6}, nil, false) || !n.Understand(Membership, []uint32{3, 6}, nil, true) ||
		n.Understand(Membership+1, []uint32{6}, nil, true) || n.Understand(Membership, []uint32{2}, nil, true) {
		t.Errorf("behind a change: %+v", n)
	}
	was := n
	n = n.Told(map[uint32]uint32{3: 1, 6: FirstVoters})
	if !n.Understand(Membership, []uint32{3}, nil, false) || !n.Understand(FirstVoters, []uint32{6}, nil, false) ||
		n.Understand(NewestNames, []uint32{6}, nil, false) || was.Levels[6] != 0 {
		t.Errorf("what others have said: %+v", n)
	}
}
