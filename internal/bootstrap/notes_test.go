package bootstrap

import (
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
			Notes{map[uint32]uint64{2: 6}, []uint64{7}}, true},
		{"the same again", func(n Notes) (Notes, bool) { return n.Heard(works(2, 5, nil)) }, began, false},
		{"an earlier one", func(n Notes) (Notes, bool) { return n.Heard(works(2, 4, nil)) }, began, false},
		{"another member", func(n Notes) (Notes, bool) { return n.Heard(works(3, 1, nil)) },
			Notes{map[uint32]uint64{2: 5, 3: 1}, []uint64{7}}, true},
		{"who has no log", func(n Notes) (Notes, bool) { return n.Heard(empty(3)) }, began, false},
		{"a log is made", func(n Notes) (Notes, bool) { return n.Made(9) },
			Notes{map[uint32]uint64{2: 5}, []uint64{7, 9}}, true},
		{"it was made", func(n Notes) (Notes, bool) { return n.Made(7) }, began, false},
		{"it is removed", func(n Notes) (Notes, bool) { return n.Removed(7) },
			Notes{map[uint32]uint64{2: 5}, []uint64{}}, true},
		{"there is none", func(n Notes) (Notes, bool) { return n.Removed(9) }, began, false},
	} {
		got, news := c.change(began)
		if !reflect.DeepEqual(got, c.want) || news != c.news {
			t.Errorf("%s: %+v, %v", c.name, got, news)
		}
		if !reflect.DeepEqual(began, Notes{map[uint32]uint64{2: 5}, []uint64{7}}) {
			t.Fatalf("%s changes the old notes", c.name)
		}
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
