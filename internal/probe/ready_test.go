package probe

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/replica"
)

// TestReady: each fact alone keeps clients away that it concerns, and no others.
func TestReady(t *testing.T) {
	well := Facts{Reach: replica.Reach{Members: 3, Heard: 3, Led: true}, Lag: 10, Age: time.Second}
	with := func(change func(f *Facts)) Facts {
		f := well
		change(&f)
		return f
	}
	for _, c := range []struct {
		name, query string
		facts       Facts
		want        string // in the reason; empty: it is ready
	}{
		{"well", "", well, ""},
		{"well, for writes", "for=writes", well, ""},
		{"well, for reads", "for=reads", well, ""},
		{"draining", "for=reads", with(func(f *Facts) { f.Draining = true }), "stops"},
		{"draining and starting", "", with(func(f *Facts) { f.Draining, f.Starting = true, true }), "stops"},
		{"starting", "for=reads", with(func(f *Facts) { f.Starting = true }), "starting"},
		{"copying", "", with(func(f *Facts) { f.Starting, f.Waits = true, "7 MB have come" }),
			"starting: 7 MB have come"},
		{"halted", "for=reads", with(func(f *Facts) { f.Halted = "entry 7" }), "halted at this member at entry 7"},
		{"no leader", "", with(func(f *Facts) { f.Led = false }), "nobody leads"},
		{"no leader, for reads", "for=reads", with(func(f *Facts) { f.Led = false }), ""},
		{"alone", "", with(func(f *Facts) { f.Heard = 1 }), "1 of 3 members"},
		{"alone, for reads", "for=reads", with(func(f *Facts) { f.Heard = 1 }), ""},
		{"half of them", "", with(func(f *Facts) { f.Members, f.Heard = 4, 2 }), "2 of 4 members"},
		{"a majority by itself", "", with(func(f *Facts) { f.Heard = 2 }), ""},
		{"one member", "", Facts{Reach: replica.Reach{Members: 1, Heard: 1, Led: true}}, ""},
		{"lags", "for=reads&lag=9", well, "10 transactions"},
		{"lags as much as it may", "for=reads&lag=10", well, ""},
		{"no lag at all", "lag=0", with(func(f *Facts) { f.Lag = 0 }), ""},
		{"old", "for=reads&lag=999ms", well, "1s old, more than 999ms"},
		{"as old as it may be", "lag=1s", well, ""},
	} {
		q, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		w, _, err := parse(q)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		why := c.facts.refuses(w)
		if (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: %q, want %q", c.name, why, c.want)
		}
	}
}

// TestRecovers: what a database waits for before it serves clients.
func TestRecovers(t *testing.T) {
	f := Facts{Starting: true, Lag: 7}
	if said := f.Recovers(); !strings.Contains(said, "nobody leads") {
		t.Errorf("without a leader: %q", said)
	}
	f.Led = true
	if said := f.Recovers(); !strings.Contains(said, ": 7 of") {
		t.Errorf("behind: %q", said)
	}
}

// TestReadyParameters: a mistake in the query is told, and does not make a node ready, or another one.
func TestReadyParameters(t *testing.T) {
	mistakes := "for=read for= lag= lag=-1 lag=-1s lag=5+s lag=x max_lag=5 for=reads&for=writes"
	for _, bad := range strings.Fields(mistakes) {
		q, err := url.ParseQuery(bad)
		if err != nil {
			t.Fatal(err)
		}
		if w, _, err := parse(q); err == nil {
			t.Errorf("%s is taken as %+v", bad, w)
		}
	}
	q, _ := url.ParseQuery("database=shop&lag=1m")
	if w, database, err := parse(q); err != nil || database != "shop" || w.AgeMax == nil ||
		*w.AgeMax != int64(time.Minute) || w.LagMax != nil || w.Reads {
		t.Errorf("%+v of %q, %v", w, database, err)
	}
}
