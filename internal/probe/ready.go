package probe

import (
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// Facts are what is known of one database at this member.
type Facts struct {
	Starting bool   // it does not serve clients yet
	Draining bool   // the node was told to stop
	Halted   string // the entry that cannot be carried out here, and why; empty: it is not halted

	Members int  // of the cluster
	Heard   int  // members of which something came of late, this one included
	Led     bool // a leader is known, and something came of it of late, or it is this member

	Lag uint64        // transactions that are ordered and not applied here
	Age time.Duration // of what is read here, at most
}

// want is what a client of /ready asks.
type want struct {
	reads  bool
	lag    uint64
	age    time.Duration
	hasLag bool
	hasAge bool
}

// parse reads the parameters of /ready. A parameter that is not known is a mistake that should be found.
func parse(q url.Values) (w want, database string, err error) {
	for name, values := range q { // order-free: each for itself
		if len(values) != 1 {
			return w, "", fmt.Errorf("%s is given %d times", name, len(values))
		}
		v := values[0]
		switch name {
		case "database":
			database = v
		case "for":
			if w.reads = v == "reads"; !w.reads && v != "writes" {
				return w, "", fmt.Errorf("for is %q: use reads or writes", v)
			}
		case "lag":
			if err := w.bound(v); err != nil {
				return w, "", err
			}
		default:
			return w, "", fmt.Errorf("%q is no parameter: there are for, lag and database", name)
		}
	}
	return w, database, nil
}

// bound reads a number of transactions, or a time.
func (w *want) bound(text string) (err error) {
	if w.lag, err = strconv.ParseUint(text, 10, 64); err == nil {
		w.hasLag = true
		return nil
	}
	if w.age, err = time.ParseDuration(text); err == nil && w.age >= 0 {
		w.hasAge = true
		return nil
	}
	return fmt.Errorf("lag is %q: use a number of transactions, or a time like 5s", text)
}

// refuses says why clients should not be sent here; empty if they should.
func (f *Facts) refuses(w want) string {
	switch {
	case f.Draining:
		return "this node stops"
	case f.Halted != "":
		return "the database is halted at this member at " + f.Halted
	case f.Starting:
		return "this member is starting"
	case !w.reads && !f.Led:
		return "nobody leads, as far as this member knows"
	case !w.reads && 2*f.Heard <= f.Members:
		return fmt.Sprintf("%d of %d members are heard: no majority", f.Heard, f.Members)
	case w.hasLag && f.Lag > w.lag:
		return fmt.Sprintf("%d transactions are yet to be applied here, more than %d", f.Lag, w.lag)
	case w.hasAge && f.Age > w.age:
		return fmt.Sprintf("what is read here may be %s old, more than %s", f.Age.Round(time.Millisecond), w.age)
	}
	return ""
}
