package probe

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/tuttidb/tutti/internal/replica"
)

// Facts are what is known of one database at this member.
type Facts struct {
	Starting bool   // it does not serve clients yet
	Waits    string // for what, if that is known
	Draining bool   // the node was told to stop
	Slow     bool   // the leader has found this member far too slow
	Halted   string // the entry that cannot be carried out here, and why; empty: it is not halted

	replica.Reach

	Lag uint64        // transactions that are ordered and not applied here
	Age time.Duration // of what is read here, at most
}

// Recovers says what a database still waits for that is open and does not serve clients yet.
func (f *Facts) Recovers() string {
	if !f.Led {
		return "nobody leads its order, as far as this member knows"
	}
	return fmt.Sprintf("what was committed before it came is being applied: %d of these transactions are left", f.Lag)
}

// parse reads the parameters of /ready. A parameter that is not known is a mistake that should be found.
func parse(q url.Values) (w replica.Want, database string, err error) {
	for name, values := range q { // order-free: each for itself
		if len(values) != 1 {
			return w, "", fmt.Errorf("%s is given %d times", name, len(values))
		}
		v := values[0]
		switch name {
		case "database":
			database = v
		case "for":
			if w.Reads = v == "reads"; !w.Reads && v != "writes" {
				return w, "", fmt.Errorf("for is %q: use reads or writes", v)
			}
		case "lag":
			if err := bound(&w, v); err != nil {
				return w, "", err
			}
		default:
			return w, "", fmt.Errorf("%q is no parameter: there are for, lag and database", name)
		}
	}
	return w, database, nil
}

// bound reads a number of transactions, or a time.
func bound(w *replica.Want, text string) error {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		w.LagMax = &n
		return nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		age := int64(d)
		w.AgeMax = &age
		return nil
	}
	return fmt.Errorf("lag is %q: use a number of transactions, or a time like 5s", text)
}

// refuses says why clients should not be sent here; empty if they should.
func (f *Facts) refuses(w replica.Want) string {
	s := replica.Standing{Serves: !f.Starting, Stopping: f.Draining, Halted: f.Halted != "", Slow: f.Slow,
		Reach: f.Reach, Lag: f.Lag, Age: int64(f.Age)}
	switch s.Refuses(w) {
	case replica.IsStopping:
		return "this node stops"
	case replica.IsHalted:
		return "the database is halted at this member at " + f.Halted
	case replica.IsStarting:
		if f.Waits != "" {
			return "this member is starting: " + f.Waits
		}
		return "this member is starting"
	case replica.Leaderless:
		return "nobody leads, as far as this member knows"
	case replica.Minority:
		return fmt.Sprintf("%d of %d members that vote are heard: no majority", f.Heard, f.Members)
	case replica.IsSlow:
		return fmt.Sprintf("this member is far too slow: %d transactions are yet to be applied here", f.Lag)
	case replica.Lags:
		return fmt.Sprintf("%d transactions are yet to be applied here, more than %d", f.Lag, *w.LagMax)
	case replica.Old:
		return fmt.Sprintf("what is read here may be %s old, more than %s", f.Age.Round(time.Millisecond),
			time.Duration(*w.AgeMax))
	}
	return ""
}
