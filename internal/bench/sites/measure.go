package sites

import (
	"errors"
	"fmt"
	"time"

	"github.com/tuttidb/tutti/internal/lead"
)

const (
	settleMax = 3 * time.Minute // for the lead to come to rest where nobody writes
	moveMax   = time.Minute     // for it to follow a writer
	awayTime  = 20 * time.Second
	backMax   = 2 * time.Minute
	equalMax  = 10 * time.Second
	pause     = 50 * time.Millisecond // between two updates
	triesMax  = 5                     // of a measurement during which the lead moved
)

// world is where it is measured. Sites are numbered from zero.
type world struct {
	spread  func() error                          // has the sites be far from each other from now on
	update  func(site int) (time.Duration, error) // makes one, and says what it took
	leader  func(ask int) (site int, err error)   // as a site knows it; -1: none
	kill    func(site int) error
	start   func(site int) error
	connect func(site int) error           // false errors: it is not there yet
	digest  func(site int) (string, error) // of what is in its database
	now     func() time.Time
	sleep   func(time.Duration)
	say     func(format string, args ...any)
}

// measurement is one being made.
type measurement struct {
	world
	ways    lead.Ways
	updates int
	away    int // the site that is lost; -1: none
	report  Report
}

func newMeasurement(w world, o Options) *measurement {
	m := &measurement{world: w, ways: waysOf(tree, o.Diameter), updates: o.Updates, away: -1}
	m.report = Report{Started: w.now(), Diameter: o.Diameter, Ways: m.ways, Paper: paperMs}
	return m
}

// run goes through all of it.
func (m *measurement) run() error {
	near, err := m.turns(m.updates)
	if err != nil {
		return err
	}
	for _, step := range []func() error{m.spread, m.settle, func() error { return m.idle(near) }, m.move, m.lose} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// turns has all sites that are there make so many updates in turn, and gives what they took, by site (BS2).
func (m *measurement) turns(n int) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(m.ways))
	for range n {
		for k := range took {
			if k == m.away {
				continue
			}
			d, err := m.update(k)
			if err != nil {
				return nil, fmt.Errorf("site %d: %w", k+1, err)
			}
			took[k] = append(took[k], d)
			m.sleep(pause)
		}
	}
	return took, nil
}

// leads is the site that leads, as the first one knows that is there.
func (m *measurement) leads() (int, error) {
	if m.away == 0 {
		return m.leader(1)
	}
	return m.leader(0)
}

// until asks again and again who leads, with do before each time, until it is a right one; false if it takes too long.
func (m *measurement) until(right func(leader int) bool, long time.Duration, do func() error) (bool, error) {
	for end := m.now().Add(long); m.now().Before(end); {
		if err := do(); err != nil {
			return false, err
		}
		now, err := m.leads()
		if err != nil || now >= 0 && right(now) {
			return err == nil, err
		}
	}
	return false, nil
}

// settle waits until the lead is where it rests while all write alike.
func (m *measurement) settle() error {
	began := m.now()
	right := func(leader int) bool { return rests(m.ways, leader) }
	is, err := m.until(right, settleMax, func() error { m.sleep(time.Second); return nil })
	m.report.Settled = m.now().Sub(began).Seconds()
	m.say("after %.0f s the lead is where it rests: %v", m.report.Settled, is)
	return err
}

// idle measures updates of all sites, one at a time. Near is what they took when nothing was far.
func (m *measurement) idle(near [][]time.Duration) error {
	for range triesMax {
		before, err := m.leads()
		if err != nil {
			return err
		}
		took, err := m.turns(m.updates)
		if err != nil {
			return err
		}
		after, err := m.leads()
		if err != nil {
			return err
		}
		if after != before || before < 0 {
			continue // BS1
		}
		var list []At
		for k := range m.ways {
			list = append(list, at(k, floor(m.ways, before, k), near[k], took[k]))
		}
		m.report.Idle = measured(before, list)
		return nil
	}
	return errors.New("the lead does not come to rest")
}

// alone measures updates of a site, as long as one leads.
func (m *measurement) alone(site, leader int) (At, error) {
	var took []time.Duration
	for range m.updates {
		d, err := m.update(site)
		if err != nil {
			return At{}, err
		}
		now, err := m.leads()
		if err != nil {
			return At{}, err
		}
		if now != leader {
			break // BS1
		}
		took = append(took, d)
	}
	return at(site, floor(m.ways, leader, site), nil, took), nil
}

// move has only one site write, until the lead has followed.
func (m *measurement) move() error {
	from := m.report.Idle.Leader - 1
	site := mover(m.ways, from)
	to := bestFor(m.ways, site)
	r := Moved{Site: site + 1, From: from + 1, To: to + 1}
	began := m.now()
	var err error
	if r.Before, err = m.alone(site, from); err != nil {
		return err
	}
	is, err := m.until(func(leader int) bool { return leader == to }, moveMax, func() error {
		_, err := m.update(site)
		return err
	})
	if is {
		r.Seconds = m.now().Sub(began).Seconds()
		r.After, err = m.alone(site, to)
	}
	m.report.Moved = r
	return err
}

// lose kills the site that leads, has the others go on, starts it again and waits until it takes part.
func (m *measurement) lose() error {
	site, err := m.leads()
	if err != nil || site < 0 {
		return errors.Join(errors.New("no site leads"), err)
	}
	l := &m.report.Lost
	l.Site, l.Led = site+1, true
	m.say("site %d is killed", l.Site)
	if err := m.kill(site); err != nil {
		return err
	}
	m.away = site
	var took []time.Duration
	for end := m.now().Add(awayTime); m.now().Before(end); {
		round, err := m.turns(1)
		if err != nil {
			return err
		}
		for _, d := range round {
			took = append(took, d...)
		}
	}
	l.Updates, l.Median = len(took), ms(median(took))
	for _, d := range took {
		l.Longest = max(l.Longest, ms(d))
	}
	m.say("site %d is started again", l.Site)
	if err := m.start(site); err != nil {
		return err
	}
	if l.Back, err = m.back(site); err != nil {
		return err
	}
	l.Equal, err = m.equal()
	return err
}

// back waits until a site makes an update again, and gives how many seconds that took.
func (m *measurement) back(site int) (float64, error) {
	for began := m.now(); m.now().Sub(began) < backMax; m.sleep(pause) {
		if m.connect(site) != nil {
			continue
		}
		if _, err := m.update(site); err == nil {
			m.away = -1
			return m.now().Sub(began).Seconds(), nil
		}
	}
	return 0, fmt.Errorf("site %d is not back after %v", site+1, backMax)
}

// equal compares the databases until they are, or for some time.
func (m *measurement) equal() (is bool, err error) {
	for end := m.now().Add(equalMax); !is && m.now().Before(end); m.sleep(pause) {
		first := ""
		is = true
		for k := range m.ways {
			got, err := m.digest(k)
			if err != nil {
				return false, err
			}
			if k == 0 {
				first = got
			}
			is = is && got == first
		}
	}
	return is, nil
}
