package capture

import "github.com/tuttidb/tutti/internal/writeset"

// Rows of tables without key are known by their images. A transaction's changes of them are netted
// by following each row from image to image: what became X is what went from X. Which of equal rows
// went on does not matter, and so no order is needed (C2).

// updated turns the change captured last, of which c.row has just made another, into an update. The
// trigger captures what was and what is one after the other. It returns nil if there is no such change.
func (c *section) updated(table int) *change {
	n := len(c.rows) - 1
	c.rows = c.rows[:n]
	if n == 0 {
		return nil
	}
	ch := &c.rows[n-1]
	if ch.table != table || ch.ident != 0 || ch.op != writeset.OpDelete || ch.gone {
		return nil
	}
	ch.was = ch.image
	ch.times, ch.del = 0, 0
	return ch
}

// from is the image of the row before the change, or nil.
func (ch *change) from() []byte {
	if ch.op == writeset.OpDelete {
		return ch.image
	}
	return ch.was
}

// whole reports whether the change is one of a row without identity.
func (ch *change) whole() bool {
	return ch.ident == 0 && ch.op != writeset.OpTruncate && !ch.gone
}

// follow finds the first and the last change of each row of tables without key.
func (c *section) follow() {
	type image struct {
		table int
		image string
	}
	var went map[image][]int // changes that began with an image
	for i := range c.rows {
		if ch := &c.rows[i]; ch.whole() {
			ch.last = ch
			if from := ch.from(); from != nil {
				if went == nil {
					went = make(map[image][]int)
				}
				m := image{ch.table, string(from)}
				went[m] = append(went[m], i)
			}
		}
	}
	if went == nil {
		return
	}
	next := make(map[int]int)
	later := make(map[int]bool)
	for i := range c.rows {
		ch := &c.rows[i]
		if !ch.whole() || ch.op == writeset.OpDelete {
			continue
		}
		m := image{ch.table, string(ch.image)}
		if l := went[m]; len(l) > 0 {
			n := l[len(l)-1]
			went[m] = l[:len(l)-1]
			next[i], later[n] = n, true
		}
	}
	for i := range c.rows {
		first := &c.rows[i]
		if !first.whole() {
			continue
		}
		if later[i] { // a later one, or of a row that is as it was
			first.last = nil
			continue
		}
		for n, ok := next[i]; ok; n, ok = next[n] {
			first.last = &c.rows[n]
		}
	}
}

// appendWhole adds what happened to a row without identity, or to its table. Keys are not
// netted: what a row was meanwhile is certified, as are rows that were written back as they were.
func (ch *change) appendWhole(rows []writeset.Row, table uint32) []writeset.Row {
	if ch.op == writeset.OpTruncate {
		return append(rows, writeset.Row{Table: table, Op: ch.op})
	}
	if ch.last == nil {
		return rows
	}
	from, op := ch.from(), writeset.OpInsert
	if from != nil {
		op = writeset.OpUpdate
		rows = append(rows, writeset.Row{Table: table, Op: writeset.OpDelete, Image: from})
	}
	if ch.last.op == writeset.OpDelete {
		return rows
	}
	return append(rows, writeset.Row{Table: table, Op: op, Image: ch.last.image})
}
