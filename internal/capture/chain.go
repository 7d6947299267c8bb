package capture

import "github.com/tuttidb/tutti/internal/writeset"

// A row whose key changes, or its partition, is captured as a deletion and, right behind it, an insertion, and whoever
// applies them knows by that that they are one row (decision 0024). If that happens again, the row in between is
// nothing in the end. So what is left of such a chain is put together again.

// chain notes whether a change follows the deletion of the row that it makes anew.
func (c *section) chain(table int, ident uint64, op writeset.Op) {
	i, ok := c.index[rowName{table, ident}]
	if ok && op == writeset.OpInsert && c.half > 0 && c.half != i+1 {
		c.rows[c.half-1].became, c.chained = i+1, true
	}
	if c.half = 0; ok && op == writeset.OpDelete {
		c.half = i + 1
	}
}

// beside is the order of the rows, nil for as they are, in which a deletion comes right before the insertion that the
// row has become in the end.
func (c *section) beside() []int {
	if !c.chained {
		return nil
	}
	order := make([]int, 0, len(c.rows))
	first := make(map[int]int) // the deletion that goes before an insertion
	for i := range c.rows {
		if end := c.end(i); end != i && c.is(i, writeset.OpDelete) && c.is(end, writeset.OpInsert) {
			first[end] = i
		}
	}
	for i := range c.rows {
		if end := c.end(i); end != i {
			if before, ok := first[end]; ok && before == i {
				continue
			}
		}
		if before, ok := first[i]; ok {
			order = append(order, before)
		}
		order = append(order, i)
	}
	return order
}

// chainMax is how often a row may change its key.
const chainMax = 64

// end is the place of the row that a row has become in the end, its own if it is none.
func (c *section) end(i int) int {
	for start, steps := i, 0; c.rows[i].became > 0 && steps < chainMax; steps++ {
		if i = c.rows[i].became - 1; i == start {
			break
		}
	}
	return i
}

func (c *section) is(i int, op writeset.Op) bool {
	net, err := c.rows[i].net()
	return err == nil && !c.rows[i].gone && net == op
}
