package apply

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// A blind transaction says what to make of a row that it has not seen. Whether the row is there shows when it is
// applied, at its place in the order. So what is to be done with a row is not netted with what others do to it: a
// table's rows begin anew, except that of settings of the same columns the last counts.

// set is add for a blind operation. i is where the row is in b.rows, if ok.
func (b *batch) set(r *writeset.Row, i int, ok bool) error {
	var settings []writeset.Setting
	record := r.Image
	if r.Op == writeset.OpSet {
		var err error
		if settings, record, err = writeset.ReadSet(r.Image); err != nil {
			return fmt.Errorf("apply: table %s: %w", b.table, err)
		}
	}
	kind := r.Image[:len(r.Image)-len(record)]
	if ok {
		p := &b.rows[i]
		if p.op == r.Op && r.Op == writeset.OpSet && bytes.Equal(p.kind, kind) &&
			!slices.ContainsFunc(settings, func(s writeset.Setting) bool { return s.Add }) {
			p.image, p.asks = record, append(p.asks, r)
			return nil
		}
		b.anew()
	}
	b.index[r.Identity] = len(b.rows)
	b.rows = append(b.rows, pending{op: r.Op, image: record, kind: kind, asks: []*writeset.Row{r}})
	return nil
}

// anew has what follows done after all that is pending.
func (b *batch) anew() {
	b.earlier = append(b.earlier, b.rows)
	b.rows, b.half = nil, half{}
	clear(b.index)
}

// forgo notes that rows were not changed by who asks, because all of them go.
func (b *batch) forgo() {
	for _, rows := range append(b.earlier, b.rows) {
		for _, p := range rows {
			if len(p.asks) > 0 {
				b.gone = append(b.gone, p.asks)
			}
		}
	}
}

// sets are the operations that change the rows, of one kind after the other.
func (b *batch) sets(rows []pending) (out []Operation, err error) {
	var images [][][]byte
	var kinds []string
	for _, p := range rows {
		if !p.op.Blind() {
			continue
		}
		n := slices.Index(kinds, string(p.kind))
		if n < 0 {
			n = len(kinds)
			sql, err := b.local.blindSQL(p.kind)
			if err != nil {
				return nil, err
			}
			kinds, images = append(kinds, string(p.kind)), append(images, nil)
			out = append(out, Operation{Table: b.table.String(), Relation: b.local.qualified(), SQL: sql,
				Format: b.table.Format, Rows: AnyRows})
		}
		images[n] = append(images[n], p.image)
		out[n].Asks = append(out[n].Asks, p.asks)
	}
	for n := range out {
		out[n].Args = [][]byte{writeset.AppendArray(nil, b.table.Format, images[n])}
	}
	return out, nil
}

// blindSQL changes columns of the parameter's rows, or deletes these if kind is empty, as far as they are there and can
// hold what is added to them, and returns their places in it.
func (t *Table) blindSQL(kind []byte) (string, error) {
	var settings []writeset.Setting
	if len(kind) > 0 {
		var err error
		if settings, _, err = writeset.ReadSet(kind); err != nil {
			return "", err
		}
	}
	if len(t.Key) == 0 {
		return "", fmt.Errorf("apply: table %s.%s has no primary key or other key in the local database", t.Schema,
			t.Name)
	}
	names := make([]string, len(t.Columns))
	for i := range names {
		names[i] = "c" + strconv.Itoa(i)
	}
	var set []string
	var on strings.Builder
	for i, k := range t.Key {
		if i > 0 {
			on.WriteString(" AND ")
		}
		on.WriteString("t." + quote(t.Columns[k.Column].Name) + " " + k.Equal + " r." + names[k.Column])
	}
	for _, s := range settings {
		if s.Column >= len(t.Columns) || s.Add && !t.Columns[s.Column].Integer || t.Columns[s.Column].Generated ||
			t.Columns[s.Column].Always {
			return "", fmt.Errorf("apply: column %d of table %s.%s cannot be set", s.Column, t.Schema, t.Name)
		}
		n, v := quote(t.Columns[s.Column].Name), "r."+names[s.Column]
		if !s.Add {
			set = append(set, n+" = "+v)
			continue
		}
		set = append(set, n+" = t."+n+" OPERATOR(pg_catalog.+) "+v)
		if t.Columns[s.Column].Long {
			fmt.Fprintf(&on, " AND t.%s BETWEEN -%d AND %d", n, writeset.LongMost, writeset.LongMost)
		} else {
			fmt.Fprintf(&on, " AND t.%s::pg_catalog.int8 OPERATOR(pg_catalog.+) %s BETWEEN -2147483648 AND 2147483647",
				n, v)
		}
	}
	does := "UPDATE ONLY " + t.qualified() + " AS t SET " + strings.Join(set, ", ") + " FROM"
	if len(kind) == 0 {
		does = "DELETE FROM ONLY " + t.qualified() + " AS t USING"
	}
	return does + " ROWS FROM (pg_catalog.unnest($1::" + t.qualified() +
		"[])) WITH ORDINALITY AS r(" + strings.Join(names, ", ") + ", i) WHERE " + on.String() + " RETURNING r.i", nil
}

// Missed gives who has asked for rows that were not changed, given the places that were returned.
func (o *Operation) Missed(places []int64) (missed []*writeset.Row, err error) {
	found := make([]bool, len(o.Asks))
	for _, n := range places {
		if n < 1 || n > int64(len(found)) || found[n-1] {
			return nil, fmt.Errorf("apply: table %s has diverged from the cluster: row %d of %d was changed", o.Table,
				n, len(found))
		}
		found[n-1] = true
	}
	for i, ok := range found {
		if !ok {
			missed = append(missed, o.Asks[i]...)
		}
	}
	return missed, nil
}

// emptied reports whether a table may be truncated behind a blind transaction of several rows: whether they were there
// has to show all the same.
func emptied(writesets []*writeset.Writeset) bool {
	blind := false
	for _, w := range writesets {
		blind = blind || w.Blind() && len(w.Rows) > 1
		if blind && slices.ContainsFunc(w.Rows, func(r writeset.Row) bool { return r.Op == writeset.OpTruncate }) {
			return true
		}
	}
	return false
}
