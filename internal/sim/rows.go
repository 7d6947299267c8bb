package sim

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// table names the model's tables.
type table uint8

const (
	tAccount table = iota // n is the balance
	tList                 // list grows at its end
	tUnique               // n is a unique column
	tParent               // referenced by tChild
	tChild                // n is the parent's id
	tCatalog              // see definition
	tCounter              // n is added to
	tables
)

// rowsOf bounds ids, so that whole tables can be scanned.
var rowsOf = [tables]uint32{tAccount: 8, tList: 12, tUnique: 16, tParent: 6, tChild: 8, tCatalog: 4, tCounter: 4}

const uniqueValues = 8

type rowKey struct {
	t  table
	id uint32
}

func (k rowKey) String() string { return fmt.Sprintf("t%d[%d]", k.t, k.id) }

// identity is the row's key in writesets and in the lock table.
func (k rowKey) identity() uint64 { return mix(uint64(k.t)<<32 | uint64(k.id) | 1<<60) }

// uniqueKey is the key of a value of tUnique's unique column.
func uniqueKey(n int64) uint64 { return mix(uint64(n) | 1<<61) }

type value struct {
	n    int64
	list []uint64 // never changed in place
}

// change is a transaction's net effect on one row. prev is the tag of the transaction
// whose version it replaced, so that every applier can tell whether it replaces the same. What adds to a row, by v.n,
// replaces whatever others have added to the same version.
type change struct {
	key  rowKey
	op   writeset.Op
	prev uint64
	old  int64 // tUnique: the replaced unique value
	adds bool  // OpSet: it adds v to what the row holds
	v    value
}

func (c *change) image(tag uint64) []byte {
	b := binary.AppendUvarint([]byte{byte(c.key.t)}, uint64(c.key.id))
	b = binary.AppendUvarint(b, tag)
	b = binary.AppendUvarint(b, c.prev)
	b = binary.AppendVarint(b, c.old)
	b = binary.AppendVarint(b, c.v.n)
	for _, x := range c.v.list {
		b = binary.AppendUvarint(b, x)
	}
	if c.op == writeset.OpSet {
		rest := make([]byte, tag%4*50) // some travel in parts
		b = writeset.AppendSet(nil, []writeset.Setting{{Add: c.adds}}, []writeset.Field{{Value: b}, {Value: rest}})
	}
	return b
}

// parseImage is the inverse of image; the simulator wrote it, so it is well formed.
func parseImage(op writeset.Op, b []byte) (c change, tag uint64) {
	if op == writeset.OpSet {
		settings, record, err := writeset.ReadSet(b)
		must(err)
		fields, err := writeset.ReadRecord(record)
		must(err)
		c.adds, b = settings[0].Add, fields[0].Value
	}
	c.op, c.key.t = op, table(b[0])
	b = b[1:]
	u := func() uint64 {
		x, n := binary.Uvarint(b)
		b = b[n:]
		return x
	}
	s := func() int64 {
		x, n := binary.Varint(b)
		b = b[n:]
		return x
	}
	c.key.id, tag, c.prev, c.old, c.v.n = uint32(u()), u(), u(), s(), s()
	for len(b) > 0 {
		c.v.list = append(c.v.list, u())
	}
	return c, tag
}

// modelTable is a table of the model, as a key.
func modelTable(t table) writeset.Table {
	return writeset.Table{Schema: "public", Name: fmt.Sprint("model", t), Format: writeset.FormatBinary,
		Key: tableKey(t)}
}

// modelWriteset is an empty one; the rows of all tables of the model go by one name in it.
func modelWriteset() *writeset.Writeset {
	return &writeset.Writeset{Tables: []writeset.Table{
		{Schema: "public", Name: "model", Format: writeset.FormatBinary, Key: 1}}}
}

// encode makes the writeset capture would make of the changes.
func encode(changes []change, tag uint64) *writeset.Writeset {
	ws := modelWriteset()
	key := func(hash uint64, mode writeset.Mode) {
		ws.Keys = append(ws.Keys, writeset.Key{Hash: hash, Mode: mode})
	}
	var touched [tables]bool
	for i := range changes {
		c := &changes[i]
		touched[c.key.t] = true
		ws.Rows = append(ws.Rows, writeset.Row{Op: c.op, Identity: c.key.identity(), Image: c.image(tag)})
		if c.key.t == tUnique {
			if c.op != writeset.OpInsert {
				key(uniqueKey(c.old), writeset.Exclusive)
			}
			if c.op != writeset.OpDelete {
				key(uniqueKey(c.v.n), writeset.Exclusive)
			}
		}
		if c.key.t == tChild && c.op == writeset.OpInsert {
			key(rowKey{tParent, uint32(c.v.n)}.identity(), writeset.Shared)
		}
	}
	for t, yes := range touched {
		if yes {
			ws.Tables = append(ws.Tables, modelTable(table(t)))
			ws.Keys = append(ws.Keys, writeset.Key{Hash: tableKey(table(t)), Mode: writeset.Shared,
				Table: uint32(len(ws.Tables) - 1)})
		}
	}
	for i := range ws.Rows {
		if ws.Rows[i].Op == writeset.OpAdd {
			ws.Rows[i].Table = uint32(slices.IndexFunc(ws.Tables,
				func(t writeset.Table) bool { return t.Key == tableKey(tCounter) }))
		}
	}
	return ws
}

// takenForOne is what was captured where two rows have one identity: the last change of each.
func takenForOne(changes []change) (out []change) {
	for _, c := range changes {
		i := slices.IndexFunc(out, func(o change) bool { return o.key.t == c.key.t && o.key.id/2 == c.key.id/2 })
		if i < 0 {
			out = append(out, c)
		} else {
			out[i] = c
		}
	}
	return out
}

// decode returns what encode was given.
func decode(ws *writeset.Writeset) (changes []change, tag uint64) {
	for _, r := range ws.Rows {
		var c change
		c, tag = parseImage(r.Op, r.Image)
		changes = append(changes, c)
	}
	return changes, tag
}

// initial gives the rows every database starts with, as one transaction with tag 1.
func initial() []change {
	var cs []change
	for _, t := range []table{tAccount, tList, tParent, tCatalog, tCounter} {
		for id := range rowsOf[t] {
			c := change{key: rowKey{t, id}, op: writeset.OpInsert}
			if t == tAccount {
				c.v.n = accountStart
			}
			cs = append(cs, c)
		}
	}
	return cs
}

const (
	accountStart = 100
	initialTag   = 1
)
