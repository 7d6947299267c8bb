package bootstrap

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func name(m uint32) string { return fmt.Sprint("node", m) }

func settings(keys string) []Setting {
	return []Setting{{"the list of members", "[1=node1, 2=node2, 3=node3]"}, {"certify_keys", keys}}
}

// made is of a server that initdb has just made.
var made = Item{"role postgres", "a checksum"}

// empty is a member without a log; with a log it works in an incarnation and knows others'.
func empty(m uint32, items ...Item) *Facts {
	return &Facts{Member: m, Settings: settings("100"), Contents: &Contents{Items: items}}
}

func works(m uint32, incarnation uint64, known map[uint32]uint64, items ...Item) *Facts {
	f := empty(m, items...)
	f.Incarnation, f.Known = incarnation, known
	return f
}

func copyOf(m, donor uint32) *Facts {
	f := empty(m)
	f.Contents.CopyOf = donor
	return f
}

// adopts is a member without a log whose database was adopted.
func adopts(m uint32, items ...Item) *Facts {
	f := empty(m, items...)
	f.Contents.Adopted = true
	return f
}

// watches makes a witness's facts.
func watches(f *Facts) *Facts {
	f.Witness, f.Settings = true, nil
	return f
}

// TestDecideWitness: a witness makes its log when all have said that they know of none, and one that it was added.
func TestDecideWitness(t *testing.T) {
	added := works(2, 4, nil)
	added.Later = []uint32{1}
	knows := works(2, 4, map[uint32]uint64{1: 3})
	knows.Later = []uint32{1}
	own := watches(empty(1))
	own.Later, own.Listed = []uint32{1}, []uint32{1}
	wrong := watches(empty(1))
	wrong.Later = []uint32{1}
	for _, c := range []struct {
		what   string
		own    *Facts
		others []*Facts // of members 2 and 3
		do     Do
		why    string
	}{
		{"it was added", own, []*Facts{added, works(3, 1, nil)}, Create, ""},
		{"it was not, as far as they know", own, []*Facts{works(2, 4, nil), works(3, 1, nil)}, Wait,
			"no member has said"},
		{"one does not answer", own, []*Facts{added, nil}, Wait, "node3 did not answer yet"},
		{"it has lost its log", own, []*Facts{knows, nil}, Ask, "node2 knows its incarnation 3"},
		{"it is to have a database", wrong, []*Facts{added, works(3, 1, nil)}, Refuse, "take witness out"},
	} {
		var others []Heard
		for i, f := range c.others {
			others = append(others, Heard{uint32(i + 2), f})
		}
		if d := Decide(c.own, others, name); d.Do != c.do || !strings.Contains(d.Why, c.why) {
			t.Errorf("%s: %v, %s; want %v, %q", c.what, d.Do, d.Why, c.do, c.why)
		}
	}
}

// TestDecide is the rule, case by case (B1, B4).
func TestDecide(t *testing.T) {
	table := Item{"the content of public.t", "3 rows"}
	more := Item{table.Name, "4 rows"}
	begun := works(3, 4, nil, table)
	begun.Contents.Adopted = true
	other := empty(2)
	other.Settings = settings("200")
	added, addedAgain := works(2, 4, nil, table), works(2, 4, map[uint32]uint64{1: 3})
	added.Later, addedAgain.Later = []uint32{1}, []uint32{1}
	settled := works(2, 1, map[uint32]uint64{1: 1, 3: 1})
	settled.Contents = nil
	for _, c := range []struct {
		what   string
		own    *Facts
		others []*Facts // of members 2 and 3
		do     Do
		why    string
	}{
		{"a cluster of one", empty(1), nil, Create, ""},
		{"the very first start", empty(1), []*Facts{empty(2), empty(3)}, Create, ""},
		{"with equal tables", empty(1, table), []*Facts{empty(2, table), empty(3, table)}, Create, ""},
		{"nobody is there yet", empty(1), []*Facts{nil, nil}, Wait, "node2 and node3 did not answer yet"},
		{"one is missing", empty(1), []*Facts{empty(2), nil}, Wait, "node3 did not answer yet"},
		{"one is missing, another has begun", empty(1), []*Facts{works(2, 1, nil), nil}, Wait,
			"node3 did not answer yet"},
		{"two that lost everything, the third is down", empty(1), []*Facts{empty(2), nil}, Wait, "node3"},
		{"two that lost everything, the third is up", empty(1),
			[]*Facts{empty(2), works(3, 4, map[uint32]uint64{1: 2, 2: 5})}, Ask, "node3 knows its incarnation 2"},
		{"it died before it made its log, one other has", empty(1), []*Facts{works(2, 1, nil), empty(3)}, Create, ""},
		{"it died before it made its log, all others have", empty(1),
			[]*Facts{works(2, 3, map[uint32]uint64{3: 1}), works(3, 1, map[uint32]uint64{2: 3})}, Create, ""},
		{"it was known", empty(1), []*Facts{works(2, 1, map[uint32]uint64{1: 1}), empty(3)}, Ask,
			"node1 has no log, but it had one: node2 knows its incarnation 1"},
		{"it was known to one, the other is missing", empty(1), []*Facts{nil, works(3, 1, map[uint32]uint64{1: 7})},
			Ask, "node3 knows its incarnation 7"},
		{"it was known, and has a clone", copyOf(1, 2),
			[]*Facts{works(2, 1, map[uint32]uint64{1: 1}), works(3, 1, nil)}, Ask,
			"node1 has no log, but it had one"},
		{"a late member with a clone", copyOf(1, 2), []*Facts{works(2, 1, nil, table), works(3, 1, nil, table)}, Create,
			""},
		{"a late member with a clone, one does not answer", copyOf(1, 2), []*Facts{works(2, 1, nil, table), nil}, Wait,
			"node3"},
		{"a clone of an order that nobody has", copyOf(1, 2), []*Facts{empty(2), empty(3)}, Refuse,
			"belongs to an order that is lost"},
		{"another late member has a clone", empty(1, table), []*Facts{copyOf(2, 3), works(3, 1, nil, table)}, Create,
			""},
		{"other tables", empty(1, table), []*Facts{empty(2), empty(3)}, Refuse,
			"the content of public.t is 3 rows at node1 and not there at node2. All members must begin with equal " +
				"databases"},
		{"other rows, one is missing", empty(1, table), []*Facts{nil, empty(3, Item{table.Name, "4 rows"})}, Refuse,
			"is 3 rows at node1 and 4 rows at node3"},
		{"a late member with other tables", empty(1), []*Facts{works(2, 1, nil, table), works(3, 1, nil, table)},
			Refuse, "node2 began with this"},
		{"other settings", empty(1), []*Facts{other, empty(3)}, Wait, "certify_keys is 100 at node1 and 200 at node2"},
		{"it has nothing, another one was adopted", empty(1, made), []*Facts{adopts(2, table), nil}, Copy, "of node2"},
		{"it has nothing, another one was adopted and has begun", empty(1), []*Facts{empty(2), begun}, Copy,
			"of node3"},
		{"it had a log, another one was adopted", empty(1),
			[]*Facts{works(2, 1, map[uint32]uint64{1: 2}), adopts(3, table)}, Ask, "node2 knows its incarnation 2"},
		{"it has something else, another one was adopted", empty(1, more), []*Facts{adopts(2, table), nil}, Refuse,
			"is 4 rows at node1 and 3 rows at node2"},
		{"two were adopted", empty(1), []*Facts{adopts(2, table), adopts(3, more)}, Refuse,
			"two databases were adopted, and they are not equal: the content of public.t is 3 rows at node2"},
		{"two were adopted, and are equal", empty(1), []*Facts{adopts(2, table), adopts(3, table)}, Copy, "of node2"},
		{"it was adopted, and another one, too", adopts(1, table), []*Facts{empty(2), adopts(3, more)}, Refuse,
			"is 3 rows at node1 and 4 rows at node3"},
		{"it was adopted, others have nothing", adopts(1, table), []*Facts{empty(2, made), adopts(3, table)}, Wait,
			"node2 has yet to copy"},
		{"it was adopted, another one has begun with nothing", adopts(1, table), []*Facts{works(2, 1, nil), empty(3)},
			Refuse, "node2 began with this"},
		{"it was adopted, others have copied", adopts(1, table), []*Facts{adopts(2, table), adopts(3, table)}, Create,
			""},
		{"it was added, and has nothing", empty(1, made), []*Facts{added, nil}, Copy, "it was added"},
		{"it was added, and has something", empty(1, table), []*Facts{added, nil}, Refuse,
			"there is something in its own database"},
		{"it was added, and has a copy; one does not answer", copyOf(1, 2), []*Facts{added, nil}, Wait,
			"node3 did not answer yet"},
		{"it was added, and has a copy", copyOf(1, 2), []*Facts{added, works(3, 2, nil)}, Create, ""},
		{"it was added with a number that was used", empty(1), []*Facts{addedAgain, nil}, Ask, "node2 knows its"},
		{"a member that does not know what it began with", empty(1), []*Facts{settled, empty(3)}, Ask,
			"node2 knows"},
	} {
		var others []Heard
		for i, f := range c.others {
			others = append(others, Heard{Member: uint32(i + 2), Facts: f})
		}
		if d := Decide(c.own, others, name); d.Do != c.do || !strings.Contains(d.Why, c.why) ||
			(d.Why == "") != (d.Do == Create) || (d.From == 0) != (d.Do != Copy || c.why == "it was added") {
			t.Errorf("%s: %s, %q; want %s, %q", c.what, d.Do, d.Why, c.do, c.why)
		}
	}
	settled.Known = nil
	if d := Decide(empty(1), []Heard{{2, settled}}, name); d.Do != Wait {
		t.Errorf("without what it began with: %v", d)
	}
}

// TestJudge: who talks to whom (B2, B5).
func TestJudge(t *testing.T) {
	knows := map[uint32]uint64{2: 3}
	later1 := works(1, 1, knows)
	later1.Later = []uint32{2}
	listed := works(1, 1, nil)
	listed.Later, listed.Listed = []uint32{2}, []uint32{2}
	level := func(f *Facts) *Facts {
		f.Level = Level
		return f
	}
	other := works(2, 5, nil)
	other.Settings = settings("200")
	later := works(2, 5, nil)
	later.Settings = append(later.Settings, Setting{"of a later release", "1"})
	for _, c := range []struct {
		what        string
		own, theirs *Facts
		why         string
	}{
		{"at first", empty(1), empty(2), ""},
		{"a restart", works(1, 1, knows), works(2, 4, nil), ""},
		{"the same again", works(1, 1, knows), works(2, 3, nil), ""},
		{"it begins", works(1, 1, nil), empty(2), ""},
		{"this one begins", empty(1), works(2, 9, nil), ""},
		{"a setting that only one has", works(1, 1, nil), later, ""},
		{"its log is lost", works(1, 1, knows), empty(2),
			"node2 has no log, but it had one: node1 knows its incarnation 3"},
		{"its log is older", works(1, 1, knows), works(2, 2, nil), "the log of node2 is an older copy"},
		{"a copy of its log began as often", lives(works(1, 1, knows), 2, 7), life(works(2, 3, nil), 8),
			"the log of node2 is an older copy"},
		{"the same life", lives(works(1, 1, knows), 2, 7), life(works(2, 3, nil), 7), ""},
		{"its next life", lives(works(1, 1, knows), 2, 7), life(works(2, 4, nil), 8), ""},
		{"a life before there were numbers", works(1, 1, knows), life(works(2, 3, nil), 8), ""},
		{"an older release, added by the order", later1, works(2, 5, nil),
			"runs a release that does not know of that"},
		{"a witness", listed, level(watches(works(2, 5, nil))), ""},
		{"a first member that is to have a database", works(1, 1, nil), watches(works(2, 5, nil)),
			"node2 is a member with a database, and its node is a witness"},
		{"a member with a database that is to be a witness", listed, level(works(2, 5, nil)),
			"node2 is a witness, and its node is to have a database"},
		{"a witness that is to have a database", later1, level(watches(works(2, 5, nil))),
			"node2 is a member with a database, and its node is a witness"},
		{"other settings", works(1, 1, knows), other,
			"certify_keys is 100 at node1 and 200 at node2: it must be the same at all members"},
	} {
		err := Judge(c.own, c.theirs, name)
		if got := fmt.Sprint(err); (err != nil) != (c.why != "") || !strings.Contains(got, c.why) {
			t.Errorf("%s: %s, want %q", c.what, got, c.why)
		}
	}
}

// life gives a member's incarnation its number, lives what somebody has heard of another member's.
func life(f *Facts, number uint64) *Facts {
	f.Life = number
	return f
}

func lives(f *Facts, member uint32, number uint64) *Facts {
	f.Lives = map[uint32]uint64{member: number}
	return f
}

func TestOutdated(t *testing.T) {
	for number, want := range map[uint64]bool{0: false, 7: false, 8: true} {
		if got := Outdated(life(works(1, 3, nil), number), lives(works(2, 1, map[uint32]uint64{1: 3}), 1, 7),
			name) != nil; got != want {
			t.Errorf("life %d, where 7 is known: %t", number, got)
		}
	}
	for own, want := range map[uint64]bool{0: false, 2: true, 3: false, 4: false} { // without a log it is for Decide
		if got := Outdated(works(1, own, nil), works(2, 1, map[uint32]uint64{1: 3}), name) != nil; got != want {
			t.Errorf("in incarnation %d: %t", own, got)
		}
	}
}

func TestDifference(t *testing.T) {
	list := func(items ...string) (out []Item) {
		for _, i := range items {
			name, value, _ := strings.Cut(i, "=")
			out = append(out, Item{name, value})
		}
		return out
	}
	for _, c := range []struct {
		a, b []Item
		want string
	}{
		{nil, nil, ""},
		{list("a=1", "b=2"), list("a=1", "b=2"), ""},
		{list("a=1", "b=2"), list("b=2"), "a is 1 at x and not there at y"},
		{list("a=1"), list("a=1", "b=2", "c=3"), "b is not there at x and 2 at y (and 1 more differences)"},
		{list("b=1"), list("a=1", "c=3"), "a is not there at x and 1 at y (and 2 more differences)"},
		{list("a=1"), list("a=2"), "a is 1 at x and 2 at y"},
	} {
		if got := difference(c.a, c.b, "x", "y"); got != c.want {
			t.Errorf("%v and %v: %q, want %q", c.a, c.b, got, c.want)
		}
	}
}

// TestEmpty: what initdb makes is nothing; whatever else is there is something.
func TestEmpty(t *testing.T) {
	for what, c := range map[string]struct { // order-free: each for itself
		Contents
		empty bool
	}{
		"nothing":          {Contents{}, true},
		"as made":          {Contents{Items: []Item{made, {"schema public", "x"}}}, true},
		"a role":           {Contents{Items: []Item{made, {"role clerk", "x"}}}, false},
		"another database": {Contents{Items: []Item{made}, Databases: []string{"shop"}}, false},
		"a copy":           {Contents{CopyOf: 2}, false},
		"adopted":          {Contents{Items: []Item{made}, Adopted: true}, false},
	} {
		if got := c.Contents.Empty(); got != c.empty {
			t.Errorf("%s: %t", what, got)
		}
	}
}

// TestBeginning: who comes later goes by what the first began with, not by its own clone.
func TestBeginning(t *testing.T) {
	own, begun := copyOf(1, 2), works(3, 1, nil, Item{"a", "1"})
	if got := Beginning(own, []Heard{{2, empty(2)}, {3, begun}}); got != begun.Contents {
		t.Errorf("%v", got)
	}
	if got := Beginning(own, []Heard{{2, empty(2)}, {3, nil}}); got != own.Contents {
		t.Errorf("%v", got)
	}
}

var sample = &Facts{Member: 2, Incarnation: 7, Known: map[uint32]uint64{3: 9, 1: 4}, Settings: settings("100"),
	Contents: &Contents{Items: []Item{{"the content of public.t", "3 rows"}}, CopyOf: 1}}

var adoptedSample = &Facts{Member: 1, Settings: settings("100"), Contents: &Contents{
	Items:     []Item{{`the content of public.t in database "shop"`, "3 rows"}},
	Databases: []string{"shop"}, Adopted: true}}

// The encoded form is kept for ever.
func TestGolden(t *testing.T) {
	for file, sample := range map[string]*Facts{ // order-free: files
		"facts": sample, "facts_adopted": adoptedSample,
	} {
		want, err := os.ReadFile(filepath.Join("testdata", file+".golden"))
		if err != nil {
			t.Fatal(err)
		}
		if got := sample.Append(nil); !bytes.Equal(got, bytes.TrimSpace(want)) {
			t.Errorf("%s, want %s", got, want)
		}
		back, err := Decode(want)
		if err != nil || !reflect.DeepEqual(back, sample) {
			t.Errorf("%+v, %v", back, err)
		}
	}
	if _, err := Decode([]byte(`{"incarnation": 1}`)); err == nil {
		t.Error("facts of nobody are taken")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sample.Append(nil))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := Decode(b)
		if err != nil {
			return
		}
		y, err := Decode(x.Append(nil))
		if err != nil || !bytes.Equal(x.Append(nil), y.Append(nil)) {
			t.Errorf("%s: %v, %v", b, y, err)
		}
		own := empty(9)
		_ = Judge(own, x, name)
		_ = Decide(own, []Heard{{x.Member, x}}, name)
	})
}
