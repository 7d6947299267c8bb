package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDiff: what differs is named as the file names it.
func TestDiff(t *testing.T) {
	a, b := valid(), valid()
	if got := Diff(a, b); len(got) > 0 {
		t.Errorf("equal ones differ in %v", got)
	}
	b.LogLevel, b.Limits.Sessions, b.ClientTLS.Key, b.Members[0].Name = "debug", 7, "k", "other"
	a.Postgres.Settings = map[string]string{"same": "1", "less": "1", "other": "1"}
	b.Postgres.Settings = map[string]string{"same": "1", "more": "", "other": "2"}
	if got, want := fmt.Sprint(Diff(a, b)), "[client_tls.key limits.sessions log_level members "+
		"postgres.settings.less postgres.settings.more postgres.settings.other]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestDrainTimeout: a time with its unit.
func TestDrainTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 10 * time.Second, "0s": 0, "1m30s": 90 * time.Second, "10": -1,
		"-1s": -1, "soon": -1} {
		c := valid()
		c.DrainTimeout = text
		if err := c.Validate(); (err == nil) != (want >= 0) || err == nil && c.Drain() != want {
			t.Errorf("%q: %v, %v", text, c.Drain(), err)
		}
	}
}

// TestMinCopies: as many as a majority can be; one only where it is known when the others are gone.
func TestMinCopies(t *testing.T) {
	for _, x := range []struct {
		copies int
		expel  string
		want   int // zero: refused
	}{{0, "", 2}, {1, "", 1}, {5, "", 5}, {2, "0s", 2}, {-1, "", 0}, {6, "", 0}, {1, "0s", 0}} {
		c := valid()
		c.MinCopies, c.ExpelAfter = x.copies, x.expel
		err := c.Validate()
		if (err == nil) != (x.want > 0) || err == nil && c.MinCopies != x.want {
			t.Errorf("%d copies, expel_after %q: %d, %v", x.copies, x.expel, c.MinCopies, err)
		}
		if err != nil && !strings.Contains(err.Error(), "min_copies is") {
			t.Errorf("%d copies, expel_after %q: %v", x.copies, x.expel, err)
		}
	}
}

// TestExpelAfter: a time with its unit, longer than an election takes; or never.
func TestExpelAfter(t *testing.T) {
	for _, x := range []struct {
		text string
		want time.Duration // negative: refused
	}{{"", 10 * time.Second}, {"0s", 0}, {"2s", 2 * time.Second}, {"1m", time.Minute}, {"1999ms", -1}, {"-5s", -1},
		{"10", -1}, {"never", -1}} {
		c := valid()
		c.ExpelAfter = x.text
		err := c.Validate()
		if (err == nil) != (x.want >= 0) || err == nil && c.Expel() != x.want {
			t.Errorf("%q: %v, %v", x.text, c.Expel(), err)
		}
		if err != nil && !strings.Contains(err.Error(), "expel_after is") {
			t.Errorf("%q: %v", x.text, err)
		}
	}
}
