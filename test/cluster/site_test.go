package cluster

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// at has nodes be at sites, by the order's list of members, which is written by hand before they start again.
func (c *Cluster) at(sites ...string) {
	c.tb.Helper()
	s := c.Connect(1)
	list := "INSERT INTO tutti.member(number, name, address, clients, first, since, changed, removed, site) VALUES "
	for i, m := range s.rows("SHOW tutti.members") {
		if i > 0 {
			list += ", "
		}
		list += fmt.Sprintf("(%s, '%s', '%s', 'localhost', true, 0, 1, false, '%s')", m[0], m[1], m[2], sites[i])
	}
	for _, k := range c.All() {
		if _, err := c.alone(k, "postgres").Exec(c.tb.Context(), list); err != nil {
			c.tb.Fatal(err)
		}
	}
	c.Stop(c.All()...)
	for _, k := range c.All() {
		c.Run(k)
	}
	c.WaitReady()
}

// relayed is how many messages the nodes have sent once for several of a site.
func (c *Cluster) relayed() (n int) {
	for _, k := range c.All() {
		s := c.Connect(k)
		for _, row := range s.rows("SHOW tutti.metrics") {
			if row[0] == "tutti_member_frames_relayed_total" {
				v, err := strconv.Atoi(row[2])
				if err != nil {
					c.tb.Fatal(err)
				}
				n += v
			}
		}
		_ = s.Close(s.ctx())
	}
	return n
}

// rows gives the first three columns of a statement's rows.
func (s *Conn) rows(sql string) (out [][3]string) {
	s.c.tb.Helper()
	results, err := s.PgConn().Exec(s.ctx(), sql).ReadAll()
	if err != nil {
		s.c.tb.Fatal(err)
	}
	for _, row := range results[0].Rows {
		out = append(out, [3]string{string(row[0]), string(row[1]), string(row[2])})
	}
	return out
}

// TestSites: entries go to another site once; when the node that passes them on is killed, those behind it go on, and
// all have the same in the end.
func TestSites(t *testing.T) {
	t.Parallel()
	c := Start(t, 4)
	c.Connect(1).Do("CREATE TABLE sited(id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY)")
	c.Everywhere("SELECT count(*) FROM sited", "0")
	c.at("north", "north", "south", "south")
	before := c.relayed()
	stop := c.writing("sited", time.Millisecond, c.All()...)
	c.soon(func() bool { return c.relayed() > before+100 }, func() string {
		return fmt.Sprintf("%d messages are passed on", c.relayed()-before)
	})
	t.Logf("the longest answer took %v", stop())
	leader := c.Leader()
	relay := map[int]int{1: 3, 2: 3, 3: 1, 4: 1}[leader]
	stop = c.writing("sited", time.Millisecond, leader, relay+1)
	c.Kill(relay)
	time.Sleep(3 * time.Second)
	t.Logf("the longest answer took %v while node %d was killed", stop(), relay)
	c.Run(relay)
	c.WaitReady()
	c.Check()
}
