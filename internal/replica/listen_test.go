package replica

import (
	"slices"
	"testing"
)

// TestListening (RE10): the order is told what changes, and what a life finds of an earlier one is corrected; a channel
// is passed on as long as any other member listens.
func TestListening(t *testing.T) {
	x := NewListening(1)
	if add, _ := x.Change(1, []string{"old", "kept"}, nil); len(add) != 0 {
		t.Errorf("listens to %v for itself", add)
	}
	x.Replace(nil, []string{"kept", "new"})
	x.Begin(7)
	if x.Since([]string{"kept"}) != 7 || x.Since([]string{"kept", "new"}) != 0 {
		t.Error("what the order knows is not what it was told")
	}
	add, remove := x.Difference()
	if !slices.Equal(add, []string{"new"}) || !slices.Equal(remove, []string{"old"}) {
		t.Errorf("tells %v and %v", add, remove)
	}
	if add, remove = x.Difference(); len(add)+len(remove) > 0 {
		t.Errorf("tells %v and %v again", add, remove)
	}
	x.Carried(9, []string{"new"})
	if x.Since([]string{"kept", "new"}) != 9 || !x.Heard("new") || x.Heard("old") || x.Count() != 2 {
		t.Error("it does not know that it was told")
	}
	for i, want := range []int{1, 0} { // it may be told twice
		if listen, _ := x.Change(2, []string{"c"}, nil); len(listen) != want {
			t.Errorf("time %d: listens to %v", i, listen)
		}
	}
	x.Change(3, []string{"c"}, nil)
	if _, unlisten := x.Change(2, nil, []string{"c"}); len(unlisten) > 0 || !x.Passed("c") {
		t.Error("who listens still is forgotten")
	}
	if _, unlisten := x.Change(3, nil, []string{"c"}); len(unlisten) != 1 || x.Passed("c") || x.Away() {
		t.Error("nobody listens, and it is passed on")
	}
}
