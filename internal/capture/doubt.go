package capture

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Rows of a table are told apart by 64 bits of a hash. Whenever an identity comes again in a transaction, the bytes of
// the key's columns are compared with those that came before. If they differ, it is in doubt whether it is the same
// row: an UPDATE makes 1.00 of 1.0. Then the database is asked, by one of the Rereads, whether the keys are equal. If
// they are not, nothing is dropped and nothing mistaken: the transaction fails with a Collision.

// Collision says that two rows which a transaction has changed have different keys and the same identity.
type Collision struct {
	Table writeset.Table
	Keys  [2]string // as texts
}

func (e *Collision) Error() string {
	return fmt.Sprintf("capture: rows (%s) and (%s) of table %s cannot be told apart", e.Keys[0], e.Keys[1], e.Table)
}

// doubt is an identity that came with two keys.
type doubt struct {
	row    int
	images [2][]byte
}

// compare notes a doubt if an image of a row that was captured before has another key.
func (c *section) compare(row int, image []byte) error {
	ch := &c.rows[row]
	h := &c.tables[ch.table]
	switch same, ok := writeset.SameKey(h.table.Format, h.places, ch.image, image); {
	case !ok:
		return fmt.Errorf("capture: a captured row of table %s has no key", h.table)
	case !same:
		c.doubts = append(c.doubts, doubt{row, [2][]byte{ch.image, image}})
	}
	return nil
}

// askDoubts adds the queries for the doubts of a section.
func (c *Collector) askDoubts(out []Reread, of *section) []Reread {
	of.asked = len(of.doubts)
	for table := range of.tables {
		var images [][]byte
		for _, d := range of.doubts {
			if ch := &of.rows[d.row]; ch.table == table && !ch.gone {
				images = append(images, d.images[:]...)
			}
		}
		if len(images) > 0 {
			out = append(out, of.query(table, images, true))
			c.queries = append(c.queries, query{of: of, table: table, pairs: true})
		}
	}
	return out
}

// collision is the one that a doubt about an identity has come to.
func (c *section) collision(table int, ident uint64) error {
	h := &c.tables[table]
	for _, d := range c.doubts {
		if ch := &c.rows[d.row]; ch.table == table && ch.ident == ident {
			return h.collision(d.images[0], d.images[1])
		}
	}
	return fmt.Errorf("capture: a pair of rows of table %s was not asked about", h.table)
}

func (h *header) collision(a, b []byte) error {
	e := &Collision{Table: h.table}
	for i, image := range [2][]byte{a, b} {
		e.Keys[i], _ = valuesText(h.table.Format, image, h.places)
	}
	return e
}
