package catalog

import (
	"slices"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Doubt is a value of a writeset, or a row, that other members may not be able to store: it has to be read in where it
// comes from before it is ordered.
type Doubt struct {
	capture.Doubt
	Table writeset.Table
	Row   *writeset.Row
	Name  string             // of its column; empty if it is not known, or all of the row
	Desc  *capture.TableDesc // nil if the table is not known
	Steps bool               // the transaction changes the schema, so that the table may be another one
}

// Doubts lists what is doubtful in the values of a writeset. What finds a row and does not need such a value loses it.
func (t *Tables) Doubts(ws *writeset.Writeset) (out []Doubt) { return t.doubts(nil, ws, false) }

func (t *Tables) doubts(out []Doubt, ws *writeset.Writeset, steps bool) []Doubt {
	for i := range ws.Steps {
		if rows := ws.Steps[i].Rows; rows != nil {
			out = t.doubts(out, rows, true)
		}
	}
	known := make([]*table, len(ws.Tables))
	for i, w := range ws.Tables {
		known[i] = t.byName[[2]string{w.Schema, w.Name}]
	}
	for i := range ws.Rows {
		r := &ws.Rows[i]
		w, x := ws.Tables[r.Table], known[r.Table]
		if r.All() || x != nil && x.sure && !steps || w.Schema == capture.SchemaName {
			continue
		}
		var d *capture.TableDesc
		if x != nil {
			d = &x.capture
		}
		found := d.Doubts(w.Format, r.Record())
		if len(found) > 0 && d != nil && !steps {
			found = dispense(d, w.Format, r, found)
		}
		for _, f := range found {
			doubt := Doubt{Doubt: f, Table: w, Row: r, Desc: d, Steps: steps}
			if d != nil && f.Column >= 0 && f.Column < len(d.Columns) {
				doubt.Name = d.Columns[f.Column].Name
			}
			out = append(out, doubt)
		}
	}
	return out
}

// dispense takes doubtful values out of the image of a row that is deleted or locked: it is found by its key.
func dispense(d *capture.TableDesc, f writeset.Format, r *writeset.Row, found []capture.Doubt) []capture.Doubt {
	if f != writeset.FormatBinary || r.Identity == 0 || r.Op != writeset.OpDelete && !r.Op.Locks() ||
		!slices.ContainsFunc(found, func(x capture.Doubt) bool { return d.Dispensable(x.Column) }) {
		return found
	}
	fields, err := writeset.ReadRecord(r.Image)
	if err != nil || len(fields) != len(d.Columns) {
		return found
	}
	found = slices.DeleteFunc(found, func(x capture.Doubt) bool {
		if !d.Dispensable(x.Column) {
			return false
		}
		fields[x.Column].Value = nil
		return true
	})
	r.Image = writeset.AppendRecord(nil, fields)
	return found
}

// Wide lists the rows of a writeset that may not fit a page, or an entry of an index, at other members. Those of tables
// that are not known, and of transactions that change the schema, are not among them.
func (t *Tables) Wide(ws *writeset.Writeset) (rows []Doubt) {
	known := make([]*table, len(ws.Tables))
	for i, w := range ws.Tables {
		known[i] = t.byName[[2]string{w.Schema, w.Name}]
	}
	for i := range ws.Rows {
		r := &ws.Rows[i]
		switch r.Op {
		case writeset.OpInsert, writeset.OpUpdate, writeset.OpReplace, writeset.OpPut:
			w := ws.Tables[r.Table]
			if x := known[r.Table]; x != nil && x.capture.Wide(w.Format, r.Image) {
				rows = append(rows, Doubt{Doubt: capture.Doubt{Column: -1}, Table: w, Row: r, Desc: &x.capture})
			}
		}
	}
	return rows
}
