package show

import (
	"slices"
	"strconv"
	"time"
)

// Votes is who votes on the order of a database.
type Votes struct {
	Database string
	Voters   []uint32
	There    []uint32      // members that can be heard
	Expel    time.Duration // after which a member that is silent no longer votes; zero: it does for ever
	Copies   int           // that there are to be of what is acknowledged
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
				strconv.Itoa(v.Copies), role(m), strconv.Itoa(m.Rank)})
		}
	}
	return rows
}
