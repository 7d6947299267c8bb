package apply

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Rows of a table without key are known by their images. They are compared as this database sends or
// prints them, not as it stores them: the same value can be stored in more than one way. Generated columns are
// left out: an image has none of those that are computed when they are read. Any update may change a unique value.

// addWholes adds the changes of rows without identity. Those of one writeset were netted: none
// begins with what another one left.
func addWholes(w *writeset.Writeset, tables []*batch) (err error) {
	w.EachWhole(func(table uint32, was, is []byte) {
		if was != nil && err == nil {
			err = tables[table].change(was, is)
		}
	})
	w.EachWhole(func(table uint32, was, is []byte) {
		if was == nil {
			tables[table].arrive(pending{op: writeset.OpInsert, image: is})
		}
	})
	w.EachWhole(func(table uint32, was, is []byte) {
		tables[table].settled = tables[table].settled || is != nil
	})
	return err
}

// arrive appends a row that changes, or comes or goes.
func (b *batch) arrive(p pending) {
	if b.arrived != nil && p.image != nil {
		b.arrived[string(p.image)] = append(b.arrived[string(p.image)], len(b.rows))
	}
	b.rows = append(b.rows, p)
}

// change adds a row's update, or its deletion if is is nil. If the row is about to be there, that
// changes instead.
func (b *batch) change(was, is []byte) error {
	if b.arrived == nil {
		b.arrived = make(map[string][]int)
		for i, p := range b.rows {
			if p.op == writeset.OpInsert {
				b.arrived[string(p.image)] = append(b.arrived[string(p.image)], i)
			}
		}
	}
	if l := b.arrived[string(was)]; len(l) > 0 {
		i := l[len(l)-1]
		b.arrived[string(was)] = l[:len(l)-1]
		b.rows[i].become(is)
		if is != nil && b.rows[i].op != 0 {
			b.arrived[string(is)] = append(b.arrived[string(is)], i)
		}
		return nil
	}
	if b.settled && b.local != nil && !b.local.Portable {
		// Equal rows may have other images: it may be about to be there all the same.
		b.earlier = append(b.earlier, b.rows)
		b.rows, b.arrived, b.settled = nil, make(map[string][]int), false
	}
	if b.truncated && len(b.earlier) == 0 {
		return fmt.Errorf("apply: table %s: a row is changed that was truncated before", b.table)
	}
	p := pending{op: writeset.OpUpdate, was: was, image: is}
	if is == nil {
		p.op = writeset.OpDelete
	}
	b.arrive(p)
	return nil
}

// become makes the row that is about to be there another one, or nothing.
func (p *pending) become(is []byte) {
	switch {
	case is != nil:
		p.image = is
		if bytes.Equal(p.was, is) {
			p.op = 0
		}
	case p.was == nil:
		p.op = 0
	default:
		p.op, p.image = writeset.OpDelete, nil
	}
}

// whole is what rows are compared by; of is a row, and what its columns are of.
func (t *Table) whole(row, of string) string {
	if given := t.given(of); len(given) < len(t.Columns) {
		row = "ROW(" + strings.Join(given, ", ") + ")"
	}
	if t.Portable {
		return "pg_catalog.record_send(" + row + ")"
	}
	return "((" + row + ")::pg_catalog.text COLLATE pg_catalog.\"C\")"
}

// given are the columns of a row that are not generated.
func (t *Table) given(row string) (out []string) {
	for _, c := range t.Columns {
		if !c.Generated {
			out = append(out, row+"."+quote(c.Name))
		}
	}
	return out
}

// candidates are rows of id and image that may be equal to one of the parameter's. IS TRUE keeps the
// comparison a hashed one where joins are not (SessionSettings).
func (t *Table) candidates(columns string) string {
	return "SELECT s.ctid AS id, " + t.whole("s.*", "s") + " AS image" + columns + " FROM ONLY " + t.qualified() +
		" AS s WHERE (" + t.whole("s.*", "s") +
		" OPERATOR(pg_catalog.=) ANY (SELECT " + t.whole("r.*", "r") + " FROM " + t.rows() + ")) IS TRUE"
}

// deleteWholeSQL deletes, of equal rows, as many as the parameter has of them. The table is read once.
func (t *Table) deleteWholeSQL() string {
	return "DELETE FROM ONLY " + t.qualified() + " AS t WHERE t.ctid OPERATOR(pg_catalog.=) ANY (ARRAY(" +
		"SELECT m.id FROM (SELECT u.id, pg_catalog.count(*) FILTER (WHERE u.id IS NULL) OVER (PARTITION BY u.image) " +
		"AS wanted," +
		" pg_catalog.row_number() OVER (PARTITION BY u.image ORDER BY u.id) AS n FROM (" +
		"SELECT NULL::pg_catalog.tid AS id, " + t.whole("r.*", "r") + " AS image FROM " + t.rows() + " UNION ALL " +
		t.candidates("") +
		") AS u) AS m WHERE m.id IS NOT NULL AND m.n OPERATOR(pg_catalog.<=) m.wanted))"
}

// updateWholeSQL makes of a row that is equal to the parameter's first element a row like the
// second, and so on. The n-th of equal pairs gets the n-th of the rows equal to it, being next to each
// other when sorted; no join is needed to bring them together.
func (t *Table) updateWholeSQL() string {
	var set []string
	for _, c := range t.Columns {
		if !c.Generated && !c.Always {
			set = append(set, quote(c.Name)+" = (m.becomes)."+quote(c.Name))
		}
	}
	if len(set) == 0 {
		return "" // only an insert can make the row another one
	}
	pairs := "SELECT NULL::pg_catalog.tid AS id, " + t.whole("p.was", "(p.was)") +
		" AS image, p.becomes FROM (SELECT e.was, e.i," +
		" pg_catalog.lead(e.was) OVER (ORDER BY e.i) AS becomes FROM (SELECT u.was, pg_catalog.row_number() OVER () " +
		"AS i FROM (SELECT pg_catalog.unnest($1::" +
		t.qualified() + "[]) AS was) AS u) AS e) AS p WHERE p.i OPERATOR(pg_catalog.%) 2 OPERATOR(pg_catalog.=) 1"
	return "UPDATE ONLY " + t.qualified() + " AS t SET " + strings.Join(set, ", ") + " FROM (" +
		"SELECT v.id, pg_catalog.lead(v.becomes) OVER w AS becomes, pg_catalog.lead(v.id IS NULL) OVER w AS matched " +
		"FROM (" +
		"SELECT u.*, pg_catalog.row_number() OVER (PARTITION BY u.image, u.id IS NULL) AS n FROM (" +
		pairs + " UNION ALL " + t.candidates(", NULL::"+t.qualified()) + ") AS u) AS v" +
		" WINDOW w AS (PARTITION BY v.image, v.n ORDER BY v.id IS NULL)) AS m WHERE m.id IS NOT NULL AND m.matched " +
		"AND t.ctid OPERATOR(pg_catalog.=) m.id" + t.same("(m.becomes)")
}
