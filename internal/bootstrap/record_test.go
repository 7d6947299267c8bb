package bootstrap

import (
	"reflect"
	"strings"
	"testing"
)

// builds is a member without a log whose build understands a level.
func builds(m, level uint32, first *Record) *Facts {
	f := empty(m)
	f.Level, f.First = level, first
	return f
}

func has(f *Facts, r *Record) *Facts { f.Record = r; return f }

// TestBegins: those that begin a cluster begin it at the level that all of them understand, with their settings; who
// comes later begins with what those have that have begun.
func TestBegins(t *testing.T) {
	first := &Record{MinCopies: 2, ExpelAfter: "10s"}
	old := &Record{Level: Membership}
	begun := func(m uint32, r *Record) *Facts { return has(works(m, 1, nil), r) }
	for _, c := range []struct {
		what   string
		own    *Facts
		others []*Facts
		want   *Record
	}{
		{"alone", builds(1, Roles, first), nil, &Record{Level: Roles, MinCopies: 2, ExpelAfter: "10s"}},
		{"all of one build", builds(1, 7, first), []*Facts{builds(2, 7, first), builds(3, 7, first)},
			&Record{Level: 7, MinCopies: 2, ExpelAfter: "10s"}},
		{"one of the build before", builds(1, 7, first), []*Facts{builds(2, Roles, first), builds(3, 7, first)},
			&Record{Level: Roles, MinCopies: 2, ExpelAfter: "10s"}},
		{"one that knows of no record", builds(1, Roles, first), []*Facts{builds(2, Membership, nil)}, old},
		{"one of the first releases", builds(1, Roles, first), []*Facts{builds(2, 0, nil)}, old},
		{"late, where others have begun", builds(1, 7, first),
			[]*Facts{begun(2, &Record{Level: 6, MinCopies: 1}), builds(3, 7, first)}, &Record{Level: 6, MinCopies: 1}},
		{"late, where one has not heard of a change", builds(1, 7, first),
			[]*Facts{begun(2, &Record{Level: 7, Changed: 9}), begun(3, &Record{Level: 6})},
			&Record{Level: 7, Changed: 9}},
		{"late, in a cluster of the release before", builds(1, 7, first), []*Facts{works(2, 1, nil)}, old},
		{"it has heard of it", has(builds(1, 7, first), &Record{Level: 6}), []*Facts{nil, builds(3, 7, first)},
			&Record{Level: 6}},
	} {
		var others []Heard
		for i, f := range c.others {
			others = append(others, Heard{uint32(i + 2), f})
		}
		if got := Begins(c.own, others); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

// TestSurpassed (B8): a build that does not understand the cluster's level is talked to by nobody, and ends; one that
// understands more is welcome.
func TestSurpassed(t *testing.T) {
	for _, c := range []struct {
		level  uint32
		record *Record
		ends   bool
	}{
		{Membership, nil, false},
		{Membership, &Record{Level: Membership}, false},
		{Membership, &Record{Level: Roles}, true},
		{Roles, &Record{Level: Roles}, false},
		{Roles, &Record{Level: 99}, true},
		{99, &Record{Level: Roles}, false},
		{0, &Record{Level: Roles}, true},
	} {
		own, theirs := has(works(1, 4, nil), c.record), works(2, 4, nil)
		theirs.Level = c.level
		refused, ends := Judge(own, theirs, name), Surpassed(c.level, c.record, "node2")
		if (ends != nil) != c.ends || (refused != nil) != c.ends {
			t.Errorf("level %d, %+v: refused %v, ends %v", c.level, c.record, refused, ends)
		}
		if c.ends && (!strings.Contains(refused.Error(), "node2 runs a release that understands level") ||
			!strings.Contains(refused.Error(), "install there")) {
			t.Errorf("level %d: %v", c.level, refused)
		}
	}
}

// TestUnlike: members that begin a cluster begin with equal settings. A release that does not say them is not
// different; where a cluster has begun, its record counts.
func TestUnlike(t *testing.T) {
	two, one := &Record{MinCopies: 2, ExpelAfter: "10s"}, &Record{MinCopies: 1, ExpelAfter: "10s"}
	for _, c := range []struct {
		what        string
		own, theirs *Facts
		want        string
	}{
		{"equal", builds(1, Roles, two), builds(2, Roles, two), ""},
		{"other copies", builds(1, Roles, two), builds(2, Roles, one),
			"min_copies is 2 at node1 and 1 at node2: it must be the same at all members"},
		{"another time", builds(1, Roles, two), builds(2, Roles, &Record{MinCopies: 2, ExpelAfter: "5s"}),
			"expel_after is 10s at node1 and 5s at node2"},
		{"the release before", builds(1, Roles, two), builds(2, Membership, nil), ""},
		{"this one has begun", works(1, 3, nil), builds(2, Roles, one), ""},
		{"the other one has heard of a cluster", builds(1, Roles, two), has(builds(2, Roles, one), &Record{Level: 5}),
			""},
	} {
		err := Judge(c.own, c.theirs, name)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
