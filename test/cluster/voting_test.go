package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/config"
)

// votes lists which members vote, as node k shows them: v for one that does, - for a learner.
func (c *Cluster) votes(k int) (roles string) {
	s := c.Connect(k)
	defer s.Close(s.ctx())
	results, err := s.PgConn().Exec(s.ctx(), "SHOW tutti.status").ReadAll()
	if err != nil || len(results) == 0 {
		return fmt.Sprint(err)
	}
	for _, row := range results[0].Rows {
		role := "v"
		if string(row[2]) == "learner" {
			role = "-"
		}
		roles += role
	}
	return roles
}

// voters waits until node k shows that these vote.
func (c *Cluster) voters(k int, want ...string) {
	c.tb.Helper()
	var got string
	c.soon(func() bool {
		got = c.votes(k)
		return slices.Contains(want, got)
	}, func() string { return fmt.Sprintf("node %d shows %s, and it is to be %v", k, got, want) })
}

// TestMembersGone: of five nodes three die, one after the other, and the two that are left commit; started again from
// what they have, all vote again. A database that the two have created is everywhere then.
func TestMembersGone(t *testing.T) {
	t.Parallel()
	const segment, retention = 1 << 20, 4 << 20
	c := Start(t, 5, func(_ int, c *config.Config) {
		c.ExpelAfter = "2s"
		c.Limits.LogSegmentBytes, c.Limits.LogRetention = segment, retention
	})
	s := c.Connect(1)
	s.Do("CREATE TABLE gone(k serial PRIMARY KEY, v text)", "INSERT INTO gone(v) VALUES ('all')")
	c.Everywhere("SELECT count(*) FROM gone", "1")
	c.voters(1, "vvvvv")
	c.tool(0, []string{"at once              yes", "one after the other  yes"}, "what-if", "--lose", "node4,node5")
	c.tool(1, []string{"at once              no", "one after the other  yes",
		"does not go on without node3 and node4 and node5, but if they are lost one after the other, 2s apart"},
		"what-if", "--lose", "node3,node4,node5")

	c.KillBoth(4)
	c.voters(1, "vvv--", "vv--v") // the leader, and the first ones
	s.Do("INSERT INTO gone(v) VALUES ('four')")
	c.KillBoth(5)
	c.voters(1, "vvv--")
	c.tool(0, []string{`"goes_on": "yes"`, `"voters": "node1, node2, node3"`, `"another": "no"`}, "what-if", "--lose",
		"node3", "--output", "json")
	c.tool(1, nil, "what-if", "--lose", "node2,node3")
	s.Do("INSERT INTO gone(v) VALUES ('three')",
		"CREATE TABLE ballast AS SELECT i, repeat(md5(i::text), 30) AS v FROM generate_series(1, 9000) i")
	c.compacted(retention, segment, 1, 2) // so what they start from says who votes
	c.KillBoth(3)
	c.Connect(2).Do("INSERT INTO gone(v) VALUES ('two')")
	s.Do("INSERT INTO gone(v) VALUES ('still two')", "CREATE DATABASE of_two")
	two := c.In("of_two")
	two.Connect(1).Do("CREATE TABLE made(k int PRIMARY KEY)", "INSERT INTO made VALUES (1)")
	c.KillBoth(1, 2)

	c.Run(1)
	c.Run(2)
	c.WaitReady(1, 2)
	c.Connect(1).Do("INSERT INTO gone(v) VALUES ('two again')")
	c.voters(2, "vvv--")
	two.Connect(2).Do("INSERT INTO made VALUES (2)")
	for _, k := range []int{5, 3, 4} { // two of them have been away for too long, and copy
		c.Run(k)
	}
	c.WaitReady()
	c.voters(1, "vvvvv")
	c.voters(4, "vvvvv")
	c.Connect(4).Do("INSERT INTO gone(v) VALUES ('five')")
	c.Everywhere("SELECT string_agg(v, ' ' ORDER BY v) FROM gone", "all five four still two three two two again")
	two.voters(5, "vvvvv")
	two.Connect(3).Do("INSERT INTO made VALUES (3)")
	two.Everywhere("SELECT count(*) FROM made", "3")
	c.Check()
}
