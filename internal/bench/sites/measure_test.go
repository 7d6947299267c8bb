package sites

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// model is a cluster as the protocol says it is: an update takes its delays and a millisecond. The lead goes where the
// last updates need least, a while after it does.
type model struct {
	*measurement
	at       time.Time
	far      bool
	leads    int
	down     int            // the site that is; -1: none
	starting time.Time      // it answers from then on
	writers  []int          // of the last updates
	content  map[int]string // by site, where it is not as elsewhere
	fails    map[string]error
	stays    bool // the lead does
	restless bool // the lead never does
	said     []string
}

var errModel = errors.New("it fails")

func newModel() *model {
	x := &model{at: time.Unix(0, 0), down: -1, content: map[int]string{}, fails: map[string]error{}}
	o := Defaults()
	o.Updates = 9
	x.measurement = newMeasurement(world{
		spread: func() error { x.far = true; return x.fails["spread"] },
		update: x.makes, leader: func(ask int) (int, error) {
			if ask == x.down {
				return -1, errModel
			}
			x.follow()
			return x.leads, x.fails["leader"]
		},
		kill: func(site int) error {
			x.down = site
			if x.leads == site {
				x.leads = (site + 1) % len(x.ways)
			}
			return x.fails["kill"]
		},
		start: func(int) error { x.starting = x.at.Add(2 * time.Second); return x.fails["start"] },
		connect: func(site int) error {
			if site == x.down && (x.starting.IsZero() || x.at.Before(x.starting)) {
				return errModel
			}
			x.down = -1
			return x.fails["connect"]
		},
		digest: func(site int) (string, error) { return x.content[site], x.fails["digest"] },
		now:    func() time.Time { return x.at }, sleep: func(d time.Duration) { x.at = x.at.Add(d) },
		say: func(format string, args ...any) { x.said = append(x.said, fmt.Sprintf(format, args...)) },
	}, o)
	return x
}

// makes an update.
func (x *model) makes(site int) (time.Duration, error) {
	if site == x.down {
		return 0, errModel
	}
	took := time.Millisecond
	if x.far {
		took += time.Duration(floor(x.ways, x.leads, site)) * time.Millisecond
	}
	x.at = x.at.Add(took)
	x.writers = append(x.writers, site)
	if len(x.writers) > len(x.ways) {
		x.writers = x.writers[1:]
	}
	return took, x.fails["update"]
}

// follow moves the lead.
func (x *model) follow() {
	switch best := bestFor(x.ways, x.writers...); {
	case x.restless:
		x.leads = (x.leads + 1) % len(x.ways)
	case x.far && !x.stays && best != x.down:
		x.leads = best
	}
}

// TestRun goes through all of it.
func TestRun(t *testing.T) {
	x := newModel()
	if err := x.run(); err != nil {
		t.Fatal(err)
	}
	r := &x.report
	if r.Idle.Leader != 4 || len(r.Idle.Sites) != 7 {
		t.Fatalf("%+v", r.Idle)
	}
	for _, a := range r.Idle.Sites {
		if a.Median != float64(a.Floor)+1 || a.Near != 1 || a.Updates != x.updates ||
			a.Floor != floor(x.ways, 3, a.Site-1) {
			t.Errorf("%+v", a)
		}
	}
	if m := r.Moved; m.Site != 2 || m.From != 4 || m.To != 2 || m.Seconds <= 0 || m.Before.Floor != 62 ||
		m.After.Median != 51 || m.Before.Updates == 0 || m.After.Updates != x.updates {
		t.Errorf("%+v", m)
	}
	if l := r.Lost; l.Site != 2 || !l.Led || l.Updates < 100 || l.Longest < l.Median || l.Back < 2 ||
		l.Back > 3 || !l.Equal {
		t.Errorf("%+v", l)
	}
	if x.away >= 0 || len(x.said) != 3 {
		t.Errorf("site %d is away, %q is said", x.away+1, x.said)
	}
}

// TestFails: what goes wrong ends it, and is said.
func TestFails(t *testing.T) {
	for _, what := range []string{"update", "leader", "spread", "kill", "start", "digest"} {
		x := newModel()
		x.fails[what] = errModel
		if err := x.run(); !errors.Is(err, errModel) {
			t.Errorf("%s: %v", what, err)
		}
	}
	x := newModel()
	x.fails["connect"] = errModel
	if err := x.run(); err == nil || !strings.Contains(err.Error(), "site 2 is not back") {
		t.Errorf("it never comes back: %v", err)
	}
}

// TestRestless: where the lead moves during each measurement there is no figure (BS1).
func TestRestless(t *testing.T) {
	x := newModel()
	x.restless = true
	if err := x.idle(nil); err == nil || len(x.report.Idle.Sites) > 0 {
		t.Errorf("%v: %+v", err, x.report.Idle)
	}
	if a, err := x.alone(2, 5); err != nil || a.Updates > 1 {
		t.Errorf("%v: %+v", err, a)
	}
}

// TestStays: a lead that does not move is reported as such, after a time.
func TestStays(t *testing.T) {
	x := newModel()
	x.stays = true
	if err := x.settle(); err != nil || x.report.Settled < settleMax.Seconds() ||
		!strings.HasSuffix(x.said[0], "false") {
		t.Errorf("%v: %v, %q", err, x.report.Settled, x.said)
	}
	x.report.Idle.Leader = 4
	if err := x.move(); err != nil || x.report.Moved.Seconds != 0 || x.report.Moved.After.Updates != 0 {
		t.Errorf("%v: %+v", err, x.report.Moved)
	}
}

// TestTurns: all sites write in turn (BS2), but for one that is away, and then another one says who leads.
func TestTurns(t *testing.T) {
	x := newModel()
	took, err := x.turns(2)
	if want := []int{0, 1, 2, 3, 4, 5, 6}; err != nil || !slices.Equal(x.writers, want) {
		t.Errorf("%v: %v write", err, x.writers)
	}
	for k, d := range took {
		if len(d) != 2 {
			t.Errorf("site %d has made %d updates", k+1, len(d))
		}
	}
	x.down, x.away = 0, 0
	if took, err = x.turns(1); err != nil || len(took[0]) != 0 || len(took[6]) != 1 {
		t.Errorf("%v: %v", err, took)
	}
	if _, err := x.measurement.leads(); err != nil {
		t.Errorf("who is away is asked who leads: %v", err)
	}
}

// TestDiffers: databases that are not equal are found to be so, after a time in which they could have become it.
func TestDiffers(t *testing.T) {
	x := newModel()
	x.content[6] = "other"
	began := x.at
	if is, err := x.equal(); err != nil || is || x.at.Sub(began) < equalMax {
		t.Errorf("%v, %v after %v", is, err, x.at.Sub(began))
	}
	delete(x.content, 6)
	if is, err := x.equal(); err != nil || !is {
		t.Errorf("%v, %v", is, err)
	}
}
