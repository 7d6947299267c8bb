package writeset

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Blind reports whether w is of a transaction that has seen nothing of what it writes: all its operations are Blind. It
// does the same at every member, given what is before it in the order, so that it is ordered first and carried out by
// everybody's executor (decision 0057): all of it if all its rows are there and can be changed so, else nothing.
func (w *Writeset) Blind() bool { return len(w.Rows) > 0 && w.Rows[0].Op.Blind() }

// Setting is a column that OpSet changes: it is set to the record's value, or that is added to it.
type Setting struct {
	Column int // place in the record
	Add    bool
}

// AppendSet makes an OpSet row's image: how many settings there are, each as twice its column and 1 for an addition,
// all as uvarints; and then a record with the key's columns and the settings' values.
func AppendSet(dst []byte, settings []Setting, record []Field) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(settings)))
	for _, s := range settings {
		v := uint64(s.Column) << 1
		if s.Add {
			v |= 1
		}
		dst = binary.AppendUvarint(dst, v)
	}
	return AppendRecord(dst, record)
}

// columnsMax is more than how many columns a table of PostgreSQL's can have.
const columnsMax = 1 << 11

// ReadSet reads what AppendSet has made, as far as the record, which aliases image.
func ReadSet(image []byte) (settings []Setting, record []byte, err error) {
	r := Reader{b: image}
	settings = make([]Setting, r.Count(1))
	for i := range settings {
		v := r.Uvarint()
		if v>>1 >= columnsMax {
			r.fail("a column is beyond those of any table")
		}
		settings[i] = Setting{Column: int(v >> 1), Add: v&1 != 0}
	}
	if r.err == nil && len(settings) == 0 {
		r.fail("a blind row is not changed")
	}
	return settings, r.b, r.err
}

// Record is the row's composite value, or what there is of it.
func (r *Row) Record() []byte {
	if r.Op != OpSet {
		return r.Image
	}
	_, record, err := ReadSet(r.Image)
	if err != nil {
		return nil
	}
	return record
}

// validateSet checks a row of a blind transaction, or that it is none.
func (w *Writeset) validateSet(i int) error {
	r := &w.Rows[i]
	switch {
	case r.Op.Blind() != w.Blind():
		return errors.New("writeset: blind rows and others do not go together")
	case !r.Op.Blind():
		return nil
	case w.Tables[r.Table].Format != FormatBinary:
		return fmt.Errorf("writeset: row %d is changed blindly, and not in binary", i)
	case len(w.Held) > 0:
		return errors.New("writeset: a blind transaction holds tables")
	case (r.Op == OpPut) != (r.Identity == 0):
		return fmt.Errorf("writeset: row %d is put into a table with a key, or changed in one without", i)
	case r.Op != OpSet:
		return nil
	}
	if _, _, err := ReadSet(r.Image); err != nil {
		return fmt.Errorf("writeset: row %d: %w", i, err)
	}
	return nil
}
