package sim

import (
	"encoding/binary"
	"encoding/json"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/writeset"
)

// definition is the model's DDL. It rewrites the accounts' table, and the lists' as well if the catalog links
// the two when it runs. Its session looks up which ones that will be before it is ordered; another
// definition may come in between. One that does not say what it changes gives all rows another shape, those
// that open transactions have written included, and takes no locks for it.
type definition struct {
	tag  uint64
	link bool // it also turns the link
	all  bool // it does not say what it changes

	member  semantics.Membership // what it does to the list of members instead, if it does anything
	ordinal uint64               // at which it is carried out
}

// The catalog's rows: n of catalogKey is 1 while the tables are linked, that of shapeKey the shape of all rows. The
// others have that of the rows of one table that definitions rewrite, see shapeOf.
var catalogKey, shapeKey = rowKey{tCatalog, 0}, rowKey{tCatalog, 1}

func shapeOf(t table) rowKey { return rowKey{tCatalog, 2 + uint32(t)} }

// shape tells how often definitions have changed the rows of a table. Only what is blind may not find them otherwise
// than it knew them: all else has seen its rows.
func (d *database) shape(t table) int64 {
	n := d.at(shapeKey, d.visible).v.n
	if k := shapeOf(t); k.id < rowsOf[tCatalog] {
		n += d.at(k, d.visible).v.n
	}
	return n
}

// noteShape notes in which shape the transaction's rows are captured.
func (s *modelSession) noteShape() {
	if len(s.t.changes) == 0 {
		s.a.shape = s.m.db.at(shapeKey, s.m.db.visible).v.n
	}
}

// tableKey is the key of a whole table.
func tableKey(t table) uint64 { return mix(uint64(t) | 1<<62) }

func linked(catalog version) bool { return catalog.v.n == 1 }

// writeset is what is ordered, with the keys of the tables as the catalog has them.
func (d definition) writeset(catalog version) *writeset.Writeset {
	b := binary.AppendUvarint(nil, d.tag)
	b = append(b, bit(d.link), bit(d.all))
	if d.member.Does != semantics.NoMember {
		text, err := json.Marshal(d.member)
		must(err)
		b = append(b, text...)
	}
	ws := modelWriteset()
	ws.Steps = []writeset.Step{{Definition: b}}
	if ws.Barrier = d.all; ws.Barrier {
		return ws
	}
	for _, t := range d.tables(catalog) {
		ws.Keys = append(ws.Keys, writeset.Key{Hash: tableKey(t), Mode: writeset.Exclusive})
	}
	holdsDefinitions(ws)
	return ws
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// definitionOf is the inverse of writeset, but for what it says about keys.
func definitionOf(ws *writeset.Writeset) definition {
	b := ws.Steps[0].Definition
	tag, n := binary.Uvarint(b)
	d := definition{tag: tag, link: b[n] == 1, all: b[n+1] == 1}
	if text := b[n+2:]; len(text) > 0 {
		must(json.Unmarshal(text, &d.member))
	}
	return d
}

// tables are those whose rows it writes.
func (d definition) tables(catalog version) []table {
	if d.member.Does != semantics.NoMember {
		return nil
	}
	if d.link || linked(catalog) {
		return []table{tAccount, tList}
	}
	return []table{tAccount}
}

// rewrites lists the rows it writes.
func (d definition) rewrites(catalog version) (keys []rowKey) {
	for _, t := range d.tables(catalog) {
		for id := range rowsOf[t] {
			keys = append(keys, rowKey{t, id})
		}
	}
	return keys
}

// execute runs a definition.
func (t *tx) execute(d definition) {
	if d.member.Does != semantics.NoMember {
		t.listed = t.d.w.truth.voting.joins.next(t.d.listed, &d)
	}
	write := func(k rowKey, n func(int64) int64) {
		cur := t.latest(k)
		t.changes = append(t.changes, tagged{change{key: k, op: writeset.OpUpdate, prev: cur.tag,
			v: value{n(cur.v.n), cur.v.list}}, d.tag, 0})
	}
	for _, k := range d.rewrites(t.latest(catalogKey)) {
		write(k, func(n int64) int64 { return n })
	}
	for _, table := range d.tables(t.latest(catalogKey)) {
		write(shapeOf(table), func(n int64) int64 { return n + 1 })
	}
	if d.link {
		write(catalogKey, func(n int64) int64 { return 1 - n })
	}
	if d.all {
		write(shapeKey, func(n int64) int64 { return n + 1 })
	}
}
