package forced

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Change is one row, or one definition.
type Change struct {
	Op    string `json:"op"`
	Table string `json:"table,omitempty"`
	// Row has the values as PostgreSQL writes them, by column: all of an INSERT and an UPDATE, of the others those
	// that the log has. Of op "add", those that are no key are what was added.
	Row map[string]*string `json:"row,omitempty"`
	SQL string             `json:"sql,omitempty"` // of op "define"
}

// names of operations; what is not there changes nothing.
var names = map[writeset.Op]string{writeset.OpInsert: "insert", writeset.OpPut: "insert", writeset.OpUpdate: "update",
	writeset.OpReplace: "update", writeset.OpSet: "set", writeset.OpDelete: "delete", writeset.OpDrop: "delete",
	writeset.OpTruncate: "truncate", writeset.OpAdd: "add"}

// readable makes rows that people can read, with the names and types that a database has.
type readable struct {
	conn   *pgconn.PgConn
	tables map[string][]string // names of columns
}

// changes are those of a transaction. A definition was run as a statement of its own (alone), or in a block.
func (r *readable) changes(ctx context.Context, w *writeset.Writeset, alone bool) (list []Change) {
	for _, s := range w.Steps {
		switch {
		case s.Rows != nil:
			list = append(list, r.changes(ctx, s.Rows, alone)...)
		case alone:
			d, meeting, err := replay.DecodeDefinition(s.Definition)
			if meeting == 0 { // that is how databases wait for each other
				list = append(list, defined(d, err, s.Definition))
			}
		default:
			d, err := collect.Definition(s.Definition)
			list = append(list, defined(d, err, s.Definition))
		}
	}
	for i := range w.Rows {
		row := &w.Rows[i]
		op, changes := names[row.Op]
		if !changes {
			continue
		}
		c := Change{Op: op, Table: w.Tables[row.Table].String()}
		if row.Op != writeset.OpTruncate {
			c.Row = r.row(ctx, w.Tables[row.Table], row)
		}
		list = append(list, c)
	}
	return list
}

func defined(d session.Definition, err error, encoded []byte) Change {
	switch name := d.Membership.Does.Procedure(); {
	case err != nil:
		d.SQL = "\\x" + hex.EncodeToString(encoded)
	case d.Record.Does != semantics.NoRecord && d.SQL == "":
		d.SQL = d.Record.String()
	case name != "" && d.SQL == "":
		d.SQL = fmt.Sprintf("CALL tutti.%s('%s')", name, d.Membership.Name)
	}
	return Change{Op: "define", SQL: d.SQL}
}

// row is one, by column.
func (r *readable) row(ctx context.Context, t writeset.Table, row *writeset.Row) map[string]*string {
	fields, ok := writeset.ReadTextRecord(row.Record())
	if t.Format == writeset.FormatBinary {
		var err error
		fields, err = writeset.ReadRecord(row.Record())
		ok = err == nil
	}
	if !ok {
		return map[string]*string{"?": new("\\x" + hex.EncodeToString(row.Image))}
	}
	all := row.Op == writeset.OpInsert || row.Op == writeset.OpPut || row.Op == writeset.OpUpdate ||
		row.Op == writeset.OpReplace
	columns := r.columns(ctx, t)
	texts := r.texts(ctx, t.Format, fields)
	out := map[string]*string{}
	for i := range fields {
		name := fmt.Sprintf("column %d", i+1) // it has become another table since
		if len(columns) == len(fields) {
			name = columns[i]
		}
		if all || texts[i] != nil {
			out[name] = texts[i]
		}
	}
	return out
}

// columns are those of a table, as it is in the database.
func (r *readable) columns(ctx context.Context, t writeset.Table) []string {
	list, known := r.tables[t.String()]
	if known {
		return list
	}
	const sql = "SELECT attname FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_class c ON attrelid = c.oid WHERE " +
		"relname = $1 AND relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $2) AND attnum > 0 " +
		"AND NOT attisdropped ORDER BY attnum"
	got := r.conn.ExecParams(ctx, sql, [][]byte{[]byte(t.Name), []byte(t.Schema)}, nil, nil, nil).Read()
	for _, row := range got.Rows {
		list = append(list, string(row[0]))
	}
	r.tables[t.String()] = list
	return list
}

// texts has PostgreSQL write values of its own binary form as texts. What it does not take stays hexadecimal.
func (r *readable) texts(ctx context.Context, f writeset.Format, fields []writeset.Field) []*string {
	out := make([]*string, len(fields))
	var columns []string
	var values [][]byte
	var types []uint32
	formats := make([]int16, 0, len(fields))
	for i, v := range fields {
		if f == writeset.FormatText {
			if v.Value != nil {
				out[i] = new(string(v.Value))
			}
			continue
		}
		columns = append(columns, fmt.Sprintf("$%d::pg_catalog.text", i+1))
		values, types, formats = append(values, v.Value), append(types, v.OID), append(formats, 1)
	}
	if len(columns) == 0 {
		return out
	}
	got := r.conn.ExecParams(ctx, "SELECT "+strings.Join(columns, ", "), values, types, formats, nil).Read()
	for i, v := range fields {
		switch {
		case got.Err == nil && got.Rows[0][i] != nil:
			out[i] = new(string(got.Rows[0][i]))
		case got.Err == nil || v.Value == nil:
		case len(fields) == 1:
			out[i] = new("\\x" + hex.EncodeToString(v.Value))
		default:
			out[i] = r.texts(ctx, f, fields[i:i+1])[0]
		}
	}
	return out
}
