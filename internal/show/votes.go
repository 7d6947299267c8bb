package show

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Votes is who votes on the order of a database.
type Votes struct {
	Database string
	Voters   []uint32
	There    []uint32      // members that can be heard
	Expel    time.Duration // after which a member that is silent no longer votes; zero: it does for ever
	Copies   int           // that there are to be of what is acknowledged
	// Slow are the members that are far too slow, since when.
	Slow map[uint32]time.Time
}

// votes has one row per database and member.
func (r *Replica) votes() (rows [][]string) {
	said := map[bool]string{true: "yes", false: "no"}
	for _, v := range r.Votes() {
		after := "never"
		if v.Expel > 0 {
			after = v.Expel.String()
		}
		for _, m := range r.everybody() {
			rows = append(rows, []string{v.Database, strconv.FormatUint(uint64(m.Member), 10), m.Name,
				said[slices.Contains(v.Voters, m.Member)], said[slices.Contains(v.There, m.Member)], after,
				strconv.Itoa(v.Copies), role(m), strconv.Itoa(m.Rank), slowSince(v.Slow, m.Member)})
		}
	}
	return rows
}

// slowSince says since when a member is far too slow, if it is.
func slowSince(slow map[uint32]time.Time, member uint32) string {
	if at, is := slow[member]; is {
		return "slow since " + at.UTC().Format("2006-01-02 15:04:05Z")
	}
	return ""
}

// slowIn says in which databases a member is far too slow, and since when.
func (r *Replica) slowIn(member uint32) string {
	var in []string
	all := r.Votes()
	for _, v := range all {
		if since := slowSince(v.Slow, member); since != "" && len(all) > 1 {
			in = append(in, v.Database+": "+since)
		} else if since != "" {
			in = append(in, since)
		}
	}
	return strings.Join(in, ", ")
}
