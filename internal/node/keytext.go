package node

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// keyText renders a key of a writeset for an error's DETAIL, such as "Key (aid)=(5)".
func (l *life) keyText(ws *writeset.Writeset, k writeset.Key) string {
	t := ws.Tables[k.Table]
	if k.Hash == t.Key {
		return "The whole"
	}
	if object, ok := capture.LargeObject(ws); ok && t.Schema == capture.SchemaName && t.Name == capture.LargeName {
		return fmt.Sprintf("Large object %d, a row", object)
	}
	for _, r := range ws.Rows {
		if r.Table == k.Table && r.Identity == k.Hash {
			if columns, values, ok := l.tables.Load().KeyText(t, r.Record()); ok {
				return fmt.Sprintf("Key (%s)=(%s)", columns, values)
			}
		}
	}
	if k.Mode == writeset.Read {
		return fmt.Sprintf("A row that was read, or looked for, by its key (hash %016x)", k.Hash)
	}
	if d := l.tables.Load().Capture(t.Schema, t.Name); d != nil && d.Key() == nil {
		return fmt.Sprintf("A row without primary key, or a unique or foreign key (hash %016x)", k.Hash)
	}
	return fmt.Sprintf("A unique or foreign key (hash %016x)", k.Hash)
}

// keyOf renders the first row a task writes.
func (l *life) keyOf(t *engine.Task) string {
	for _, r := range t.Writeset.Rows {
		if r.Identity != 0 {
			k := writeset.Key{Hash: r.Identity, Table: r.Table}
			return fmt.Sprintf("%s of table %q", l.keyText(t.Writeset, k), t.Writeset.Tables[r.Table].String())
		}
	}
	return fmt.Sprintf("table %q", t.Writeset.Tables[0].String())
}
