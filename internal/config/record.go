package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/tuttidb/tutti/internal/bootstrap"
)

// said is which of the settings that hold for the whole cluster are in the file.
type said struct{ minCopies, expelAfter bool }

// Record is what holds for the whole cluster; nil: it has not begun, as far as is known.
func (c *Config) Record() *bootstrap.Record {
	if c.roster == nil {
		return nil
	}
	return c.roster.record.Load()
}

// Recorded takes what holds for the cluster from now on, unless something later is known.
func (c *Config) Recorded(r *bootstrap.Record) {
	if was := c.Record(); r != nil && (was == nil || was.Changed <= r.Changed) {
		c.roster.record.Store(r)
	}
}

// ClusterLevel is what may be put into the log, as far as the record says it.
func (c *Config) ClusterLevel() uint32 {
	if r := c.Record(); r != nil {
		return max(r.Level, bootstrap.Membership)
	}
	return bootstrap.Membership
}

// Copies is min_copies: that of the cluster, or of the file, as long as the cluster has none.
func (c *Config) Copies() int {
	if r := c.Record(); r != nil && r.MinCopies > 0 {
		return r.MinCopies
	}
	return c.MinCopies
}

// Expel is expel_after, likewise.
func (c *Config) Expel() time.Duration {
	text := c.ExpelAfter
	if r := c.Record(); r != nil && r.ExpelAfter != "" {
		text = r.ExpelAfter
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0 // it is not validated
	}
	return d
}

// FirstRecord is with what a cluster would begin by this file; nil: it is a witness's, with which none begins.
func (c *Config) FirstRecord() *bootstrap.Record {
	d, err := time.ParseDuration(c.ExpelAfter)
	if err != nil || c.Witness { // or it is not validated
		return nil
	}
	return &bootstrap.Record{MinCopies: c.MinCopies, ExpelAfter: d.String()}
}

// Differs says what the file says otherwise than the cluster's record; nil if it says nothing else.
func (c *Config) Differs() error {
	r, first := c.Record(), c.FirstRecord()
	switch {
	case r == nil || first == nil || r.MinCopies == 0:
	case c.roster.said.minCopies && c.MinCopies != r.MinCopies:
		return differs("min_copies", fmt.Sprint(c.MinCopies), fmt.Sprint(r.MinCopies))
	case c.roster.said.expelAfter && first.ExpelAfter != r.ExpelAfter:
		return differs("expel_after", first.ExpelAfter, r.ExpelAfter)
	}
	return nil
}

func differs(key, file, record string) error {
	return fmt.Errorf("%s is %s in the configuration, and %s for the whole cluster: take it out of the file, or CALL "+
		"tutti.set_%s at a node that runs", key, file, record, key)
}

// expelAfterMin is twice what an election takes at most, minCopiesMax what a majority of the voters of a large cluster
// are.
const (
	expelAfterMin = 2 * time.Second
	minCopiesMax  = 5
)

// Votes refuses what would make no sense of who votes.
func Votes(minCopies int, expelAfter string) error {
	d, err := time.ParseDuration(expelAfter)
	switch {
	case err != nil || d != 0 && d < expelAfterMin:
		return fmt.Errorf("expel_after is %q: use %s at least, or \"0s\" to have members vote for ever: one that is "+
			"silent for less may only be slow", expelAfter, expelAfterMin)
	case minCopies < 1 || minCopies > minCopiesMax:
		return fmt.Errorf("min_copies is %d: use 1 to %d", minCopies, minCopiesMax)
	case minCopies == 1 && d == 0:
		return errors.New("min_copies is 1, and expel_after is \"0s\": the last member can only go on alone when it " +
			"knows after which silence the other is gone")
	}
	return nil
}
