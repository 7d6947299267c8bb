package chaos

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/check"
)

// A large transaction has some megabytes, so that it travels in parts and is executed at the other members while it
// comes in.
const (
	largeRowsMin  = 15_000
	largeRowsMore = 30_000
	largeMax      = 6 // sets of rows that are there at a time, about
	largeRest     = 3 * time.Second
)

// larges are the sets of rows that large transactions have made.
type larges struct {
	mu   sync.Mutex
	sets []largeSet
}

type largeSet struct{ tag, rows int64 }

func (l *larges) put(s largeSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sets = append(l.sets, s)
}

// pick chooses one, and takes it away if it is to be deleted.
func (l *larges) pick(rng *rand.Rand, take bool) (s largeSet, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sets) == 0 {
		return s, false
	}
	i := rng.IntN(len(l.sets))
	s = l.sets[i]
	if take {
		l.sets[i] = l.sets[len(l.sets)-1]
		l.sets = l.sets[:len(l.sets)-1]
	}
	return s, true
}

func (l *larges) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sets)
}

// large inserts, updates or deletes a whole set of rows at once.
func large(c *client, t *Tx) error {
	c.rest(time.Duration(c.rng.Float64() * float64(largeRest)))
	t.Start = c.r.now()
	n := c.larges.count()
	if n < largeMax && (n == 0 || c.rng.IntN(3) == 0) {
		return insertLarge(c, t)
	}
	deletes := n >= largeMax || c.rng.IntN(4) == 0
	s, ok := c.larges.pick(c.rng, deletes)
	if !ok {
		return insertLarge(c, t)
	}
	sql := "UPDATE chaos_large SET v = v + 1 WHERE tag BETWEEN $1 AND $1"
	if t.Workload, t.Key = wLargeUpdate, s.tag; deletes {
		t.Workload = wLargeDelete
		sql = "DELETE FROM chaos_large WHERE tag BETWEEN $1 AND $1"
	}
	changed := int64(0)
	change := func() (err error) {
		if changed, err = c.exec(sql, s.tag); err == nil && changed == 0 {
			return errNone // another one has deleted it
		}
		return err
	}
	var err error
	if c.rng.IntN(2) == 0 {
		err = c.single(t, change)
	} else {
		err = c.block(t, c.level(), change)
	}
	t.Values = []int64{changed, s.rows}
	return c.refusal(t, err, "")
}

func insertLarge(c *client, t *Tx) error {
	rows := int64(largeRowsMin + c.rng.IntN(largeRowsMore))
	t.Workload, t.Values = wLarge, []int64{rows}
	insert := func() error {
		_, err := c.exec("INSERT INTO chaos_large SELECT $1::bigint, i, 0, repeat(chr(65 + i % 26), 90) FROM "+
			"generate_series(1, $2::int) i", t.Tag, rows)
		return err
	}
	var err error
	if c.rng.IntN(2) == 0 {
		err = c.single(t, insert)
	} else {
		err = c.block(t, c.level(), func() error {
			if err := insert(); err != nil {
				return err
			}
			_, err := c.exec("UPDATE chaos_large SET pad = 'x' WHERE tag = $1 AND i = 1", t.Tag)
			return err
		})
	}
	if t.Outcome != check.Fail {
		c.larges.put(largeSet{t.Tag, rows})
	}
	return err
}

// rest waits, unless the clients are to stop.
func (c *client) rest(d time.Duration) {
	select {
	case <-c.stop:
	case <-time.After(d):
	}
}
