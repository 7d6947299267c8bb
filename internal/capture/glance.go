package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// A glance is a SELECT of a row, found by its key, that shows the row as it is with a change which its transaction has
// not carried out yet (writeset.OpSet).

// GlanceColumns is how many columns of a glance's result are its own. They must be asked for in binary.
const GlanceColumns = 5

// GlanceSQL is the text of a glance at a table, of a statement that has text between SELECT and the table's name, and
// behind its alias. image begins with the settings of the change, whose values are the parameters from first on, in
// binary; it is nil if the row is not changed. Like every direct statement it names a function that goes with the first
// change of the table.
func (t *TableDesc) GlanceSQL(alias string, text [2]string, image []byte, first int) (string, bool) {
	g := generate(t)
	if !g.direct || !g.installed(t) {
		return "", false
	}
	value := make([]string, len(t.Columns))
	for i := range t.Columns {
		value[i] = Quote(alias) + "." + Quote(t.Columns[i].Name)
	}
	if image != nil {
		settings, _, err := writeset.ReadSet(image)
		if err != nil {
			return "", false
		}
		for n, s := range settings {
			if s.Column >= len(t.Columns) {
				return "", false
			}
			c := &t.Columns[s.Column]
			v := fmt.Sprintf("$%d::%s", first+n, c.Type)
			if s.Add {
				v = value[s.Column] + " OPERATOR(pg_catalog.+) " + v
			}
			value[s.Column] = v + " AS " + Quote(c.Name)
		}
	}
	return g.glances() + "," + text[0] + "(SELECT " + strings.Join(value, ", ") + " FROM ONLY " + Quote(t.Schema) +
		"." + Quote(t.Name) + " AS " + Quote(alias) + ") AS " + Quote(alias) + " " + text[1], true
}

// glances begins a glance's text.
func (g *generated) glances() string {
	return DirectMark + "SELECT pg_catalog.now(), LOCALTIMESTAMP, CURRENT_USER, " +
		"pg_catalog.current_setting('search_path'), tutti." + g.directName() + "()"
}

// ProbeSQL is a glance of no other columns, whose parameters are Keys: whether a row is there.
func (b *Blind) ProbeSQL() string {
	var where []string
	for n, i := range b.keys {
		c := &b.columns[i]
		where = append(where, fmt.Sprintf("t.%s %s $%d::%s", Quote(c.Name), b.equal[n], n+1, c.Type))
	}
	return b.glances + " FROM ONLY " + Quote(b.Table.Schema) + "." + Quote(b.Table.Name) + " AS t WHERE " +
		strings.Join(where, " AND ")
}

// KeyValues are the values of the key of a row that Row has made, in binary.
func (b *Blind) KeyValues(row writeset.Row) (values [][]byte, err error) {
	fields, err := writeset.ReadRecord(row.Record())
	if err != nil || len(fields) != len(b.columns) {
		return nil, errors.New("capture: the change of a row is malformed")
	}
	for _, i := range b.keys {
		values = append(values, fields[i].Value)
	}
	return values, nil
}

// GlanceValues are the parameters that a change of a row adds to a glance at it.
func GlanceValues(image []byte) (values [][]byte, err error) {
	settings, record, err := writeset.ReadSet(image)
	if err != nil {
		return nil, err
	}
	fields, err := writeset.ReadRecord(record)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		if s.Column >= len(fields) {
			return nil, errors.New("capture: a change of a row sets a column that it does not have")
		}
		values = append(values, fields[s.Column].Value)
	}
	return values, nil
}

// Glanced are a glance's own columns.
type Glanced struct {
	Stamp, Local int64  // when the transaction began, see session.Began
	Who          string // as of Returned
}

// ReadGlance decodes them.
func ReadGlance(cols [][]byte) (g Glanced, err error) {
	if len(cols) != GlanceColumns || len(cols[0]) != 8 || len(cols[1]) != 8 {
		return g, errors.New("capture: a row of a glance is malformed")
	}
	return Glanced{int64(binary.BigEndian.Uint64(cols[0])), int64(binary.BigEndian.Uint64(cols[1])),
		string(cols[2]) + "\x00" + string(cols[3])}, nil
}
