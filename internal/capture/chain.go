package capture

import "github.com/tuttidb/tutti/internal/writeset"

// A row whose key changes, or its partition, is captured as a deletion and, right behind it, an insertion, and whoever
// applies them knows by that that they are one row (decision 0024). If that happens again, the row in between is
// nothing in the end. So what is left of such a chain is put together again. Where a row has come to the key of another
// one, its deletion and its insertion are not both left: who applies them locks the table.

// opMoved is the op of a deletion that is the first half of an update; the next row is the other. If a row leaves for
// another partition PostgreSQL tells of a deletion and an insertion.
const opMoved = 12

// chain notes whether a change follows the deletion of the row that it makes anew. moved: the deletion is the first
// half of an update.
func (c *section) chain(table int, ident uint64, op writeset.Op, moved bool) {
	i, ok := c.index[rowName{table, ident}]
	if ok && op == writeset.OpInsert {
		c.rows[i].origin = 0
		if c.half > 0 && c.half != i+1 {
			c.rows[c.half-1].became, c.chained = i+1, true
			if c.moved {
				c.rows[i].origin = c.origin(c.half - 1)
			}
		}
	}
	if c.half, c.moved = 0, moved; ok && op == writeset.OpDelete {
		c.half = i + 1
	}
}

// origin is 1 and the place from which updates have brought the row at a place.
func (c *section) origin(i int) int {
	if from := c.rows[i].origin; from != 0 {
		return from
	}
	return i + 1
}

// crossed reports whether the row at a place was at another one before all that was captured, and that one has another
// row now, or this one had one then.
func (c *section) crossed(i int) bool {
	from := c.rows[i].origin - 1
	if from < 0 || from == i || c.rows[i].gone || c.is(i, 0) || c.is(i, writeset.OpDelete) {
		return false
	}
	if c.is(from, writeset.OpDelete) {
		return !c.is(i, writeset.OpInsert)
	}
	return !c.rows[from].gone && !c.is(from, 0) && !c.is(from, writeset.OpInsert)
}

// appendLocks adds, for tables with rows that have crossed, that they are to be locked. Nobody conflicts with that.
func (c *section) appendLocks(w *writeset.Writeset, number func(int) uint32) {
	locked := make([]bool, len(c.tables))
	for i := range c.rows {
		if c.chained && c.crossed(i) {
			locked[c.rows[i].table] = true
		}
	}
	for table, is := range locked {
		if is {
			w.Rows = append(w.Rows, writeset.Row{Table: number(table), Op: writeset.OpLock,
				Image: []byte{byte(writeset.ExclusiveTable)}})
		}
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
