package config

import (
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/bootstrap"
)

// TestRecord: what holds for the cluster is the file's until it has begun, and then the record's, for all that are made
// of the configuration; an older one does not come behind a newer one.
func TestRecord(t *testing.T) {
	c := valid()
	c.MinCopies, c.ExpelAfter = 3, "5s"
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	other := c.Changed(valid())
	expect := func(when string, level uint32, copies int, expel time.Duration) {
		t.Helper()
		for _, c := range []*Config{c, other} {
			if c.ClusterLevel() != level || c.Copies() != copies || c.Expel() != expel {
				t.Errorf("%s: level %d, %d copies, %s", when, c.ClusterLevel(), c.Copies(), c.Expel())
			}
		}
	}
	expect("before", bootstrap.Membership, 3, 5*time.Second)
	if r := c.FirstRecord(); r.MinCopies != 3 || r.ExpelAfter != "5s" {
		t.Errorf("it begins with %+v", r)
	}
	c.Witness = true
	if r := c.FirstRecord(); r != nil || c.Differs() != nil {
		t.Errorf("a witness begins a cluster with %+v, %v", r, c.Differs())
	}
	c.Witness = false
	c.Recorded(nil)
	c.Recorded(&bootstrap.Record{Level: bootstrap.Membership})
	expect("of a release before", bootstrap.Membership, 3, 5*time.Second)
	c.Recorded(&bootstrap.Record{Level: bootstrap.Roles, MinCopies: 1, ExpelAfter: "1m0s", Changed: 7})
	expect("the upgrade is finished", bootstrap.Roles, 1, time.Minute)
	c.Recorded(&bootstrap.Record{Level: bootstrap.Roles, MinCopies: 2, ExpelAfter: "2s", Changed: 6})
	expect("an older one comes later", bootstrap.Roles, 1, time.Minute)
}

// TestDiffers: what the file says otherwise than the record is named with both values; what it does not say is not
// otherwise, however it is written.
func TestDiffers(t *testing.T) {
	for _, x := range []struct {
		copies int
		expel  string
		record *bootstrap.Record
		want   string
	}{
		{1, "", nil, ""},
		{1, "", &bootstrap.Record{Level: bootstrap.Membership}, ""},
		{0, "", &bootstrap.Record{MinCopies: 1, ExpelAfter: "5s"}, ""},
		{1, "5000ms", &bootstrap.Record{MinCopies: 1, ExpelAfter: "5s"}, ""},
		{2, "", &bootstrap.Record{MinCopies: 1, ExpelAfter: "5s"},
			"min_copies is 2 in the configuration, and 1 for the whole cluster: take it out of the file, or CALL " +
				"tutti.set_min_copies"},
		{0, "10s", &bootstrap.Record{MinCopies: 1, ExpelAfter: "5s"},
			"expel_after is 10s in the configuration, and 5s for the whole cluster"},
	} {
		c := valid()
		c.MinCopies, c.ExpelAfter = x.copies, x.expel
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		c.Recorded(x.record)
		if err := c.Differs(); (err != nil) != (x.want != "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%d, %q, %+v: %v", x.copies, x.expel, x.record, err)
		}
	}
}
