package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// piece is a captured row that stands for many, see bulkBody. It aliases what it was read from.
type piece struct {
	table  int
	op     writeset.Op
	run    uint64   // which run of which statement's trigger captured it; never 0
	idents []uint64 // all 0 if the rows have none
	images [][]byte
	keys   [][]rowKey // of each row; nil if no row has any
}

// runBits are the bits of piece.run that tell runs within one statement of the client's apart; the others
// tell when the statement began.
const runBits = 12

// sameStatement reports whether two runs may be of one statement. Then it is not known which of them
// changed a row last: a function may have changed it that the statement called.
func sameStatement(a, b uint64) bool { return a>>runBits == b>>runBits }

// folded adds a captured row that stands for many.
func (c *section) folded(r captured) error {
	table, err := c.table(r.header)
	if err != nil {
		return err
	}
	p := piece{table: table, op: r.op - opBulk, run: r.ident}
	if p.op < writeset.OpInsert || p.op > writeset.OpDelete {
		return fmt.Errorf("capture: captured rows of table %s have unknown operation %d", c.tables[table].table, r.op)
	}
	if p.idents, err = r.many, nil; len(p.idents) == 0 || p.idents[0] == 0 && p.op != writeset.OpInsert {
		return fmt.Errorf("capture: captured rows of table %s have no identities", c.tables[table].table)
	}
	if err := p.split(r.image); err != nil {
		return fmt.Errorf("%w, of table %s", err, c.tables[table].table)
	}
	c.pieces = append(c.pieces, p)
	return nil
}

var errPiece = errors.New("capture: captured rows are malformed")

// split reads the images and keys: for each row a record in binary, of a bytea and maybe an int8[].
func (p *piece) split(b []byte) error {
	p.images = make([][]byte, len(p.idents))
	for i := range p.images {
		if len(b) < 4 {
			return errPiece
		}
		n := binary.BigEndian.Uint32(b)
		b = b[4:]
		if n < 1 || n > 2 {
			return errPiece
		}
		var image, keys []byte
		var ok bool
		if image, b, ok = takeField(b); !ok || len(image) == 0 {
			return errPiece
		}
		if n == 2 {
			if keys, b, ok = takeField(b); !ok {
				return errPiece
			}
		}
		p.images[i] = image
		list, err := decodeBinaryKeys(keys)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			if p.keys == nil {
				p.keys = make([][]rowKey, len(p.idents))
			}
			p.keys[i] = list
		}
	}
	if len(b) != 0 {
		return errPiece
	}
	return nil
}

// takeField takes a field off a record in binary: type, length and value, nil for NULL.
func takeField(b []byte) (value, rest []byte, ok bool) {
	if len(b) < 8 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b[4:])
	b = b[8:]
	if n == 1<<32-1 {
		return nil, b, true
	}
	if uint64(n) > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

// rowKeys are the keys of the i-th row.
func (p *piece) rowKeys(i int) []rowKey {
	if p.keys == nil {
		return nil
	}
	return p.keys[i]
}

// straight reports whether all that was captured of a table, since it was truncated, is one run of a trigger, or of
// rows without identity that were all inserted: no row twice.
func (c *section) straight(table int) bool {
	run := uint64(0)
	for i := range c.pieces {
		if p := &c.pieces[i]; p.table == table {
			if run != 0 && run != p.run && p.idents[0] != 0 || p.op != c.pieces[c.first(table)].op {
				return false
			}
			run = p.run
		}
	}
	return run != 0 && !slices.ContainsFunc(c.rows, func(ch change) bool {
		return ch.table == table && !ch.gone && ch.op != writeset.OpTruncate
	})
}

func (c *section) first(table int) int {
	return slices.IndexFunc(c.pieces, func(p piece) bool { return p.table == table })
}

// unfold makes single changes of pieces, unless they are all there is of a table.
func (c *section) unfold() error {
	straight := make([]bool, len(c.tables))
	for i := range c.tables {
		straight[i] = c.straight(i)
	}
	left := c.pieces[:0]
	for i := range c.pieces {
		p := c.pieces[i]
		if straight[p.table] {
			left = append(left, p)
			continue
		}
		for j := range p.idents {
			r := captured{op: p.op, ident: p.idents[j], keys: p.rowKeys(j), image: p.images[j]}
			if err := c.add1(p.table, r, false, p.run); err != nil {
				return err
			}
		}
	}
	clear(c.pieces[len(left):])
	c.pieces = left
	return nil
}

// appendPieces adds the rows that were left folded.
func (c *section) appendPieces(w *writeset.Writeset, keys *keySet, number func(int) uint32) error {
	n := 0
	for i := range c.pieces {
		n += len(c.pieces[i].idents)
	}
	w.Rows = slices.Grow(w.Rows, n)
	for i := range c.pieces {
		p := &c.pieces[i]
		table := number(p.table)
		for j, ident := range p.idents {
			w.Rows = append(w.Rows, writeset.Row{Table: table, Op: p.op, Identity: ident, Image: p.images[j]})
			for _, k := range p.rowKeys(j) {
				keys.add(table, c.tables[p.table].key(k, p.op))
			}
		}
		p.images, p.keys = nil, nil
	}
	return c.distinct(w.Rows[len(w.Rows)-n:])
}

// distinct makes sure that no two rows of a run have the same identity, if they have any: one statement has changed
// both, so they are two. Rows are those of all pieces.
func (c *section) distinct(rows []writeset.Row) error {
	for table := range c.tables {
		all := make([]uint64, 0, 1024)
		for i := range c.pieces {
			if p := &c.pieces[i]; p.table == table && p.idents[0] != 0 {
				all = append(all, p.idents...)
			}
		}
		slices.Sort(all)
		for i := range all[min(1, len(all)):] {
			if all[i] == all[i+1] {
				return c.twins(table, all[i], rows)
			}
		}
	}
	return nil
}

// twins is the Collision of two rows of a run.
func (c *section) twins(table int, ident uint64, rows []writeset.Row) error {
	var images [][]byte
	for i := range c.pieces {
		for j, id := range c.pieces[i].idents {
			if c.pieces[i].table == table && id == ident {
				images = append(images, rows[j].Image)
			}
		}
		rows = rows[len(c.pieces[i].idents):]
	}
	return c.tables[table].collision(images[0], images[1])
}
