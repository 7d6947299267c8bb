package cluster

import (
	"strconv"
	"strings"
)

// limit is a row of SHOW tutti.limits.
type limit struct {
	max, now int64 // -1: none, or not told
	reached  uint64
}

// limit is what the node of a session says of one of its limits.
func (c *Cluster) limit(s *Conn, name string) limit {
	c.tb.Helper()
	number := func(text string) int64 {
		if text == "" {
			return -1
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			c.tb.Fatal(err)
		}
		return n
	}
	for _, row := range strings.Split(s.Get("SHOW tutti.limits"), ",") {
		if f := strings.Split(row, "|"); f[0] == name {
			return limit{number(f[1]), number(f[2]), uint64(number(f[3]))}
		}
	}
	c.tb.Fatalf("SHOW tutti.limits does not show %s", name)
	return limit{}
}
