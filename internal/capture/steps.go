package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// ErrEntangled says that a function changed rows more than once, then the schema, and then the rows' tables: what the
// rows were in between cannot be read again.
var ErrEntangled = errors.New("capture: rows were changed more than once before the schema was changed by the same " +
	"statement")

// steps is what a transaction that changed the schema did, with the keys of all of it.
type steps struct {
	list    []writeset.Step
	barrier bool
	tables  []writeset.Table
	numbers map[uint64]uint32 // of a table's key
	keys    keySet
	locked  map[uint32]bool  // tables, by number, that were locked or dropped
	beheld  []writeset.Table // tables that were locked, and not against writers
	changed map[uint64]bool  // keys that are Exclusive because of rows
	read    []writeset.Table // by a SERIALIZABLE transaction
	names   map[string]bool  // that its definitions have searched for, by what stands for them
}

func (s *steps) any() bool { return len(s.list) > 0 }

// step ends the rows before a definition, or what stands for them.
func (c *Collector) step(r captured) error {
	if err := c.unfold(); err != nil {
		return err
	}
	if (len(c.open) > 0 || c.unsure()) && !r.keepsRows() {
		return ErrEntangled
	}
	w, err := c.end()
	if err != nil {
		return err
	}
	switch r.op {
	case opDefinition:
		return c.steps.define(r.image, c.Settle)
	case opTouched:
		return c.steps.touch(r.image)
	case opEmptied:
		return c.steps.empty(r.image)
	}
	if w, err = writeset.Decode(r.image); err != nil {
		return fmt.Errorf("capture: frozen rows: %w", err)
	}
	c.steps.take(w)
	return nil
}

// end ends a section. One with images that must be read again stays open: that can only be done at the end.
func (c *Collector) end() (w *writeset.Writeset, err error) {
	if err := c.disentangled(); err != nil {
		return nil, err
	}
	if c.unsure() {
		c.section.step = len(c.steps.list)
		c.steps.list = append(c.steps.list, writeset.Step{})
		c.open = append(c.open, c.section)
	} else if w, err = c.net(); err != nil {
		return nil, err
	} else {
		c.steps.rows(w)
	}
	c.section = section{}
	return w, nil
}

// close puts the rows of open sections in their places.
func (c *Collector) close() error {
	for i := range c.open {
		w, err := c.open[i].net()
		if err != nil {
			return err
		}
		c.steps.list[c.open[i].step].Rows = w
		c.steps.hold(w)
	}
	c.open = nil
	c.steps.list = slices.DeleteFunc(c.steps.list,
		func(s writeset.Step) bool { return s.Definition == nil && s.Rows.Empty() })
	return nil
}

// keepsRows reports whether the rows captured so far are afterwards as they were: a definition that changes no table
// there is, or what is noted when definitions are followed up.
func (r *captured) keepsRows() bool {
	if r.op != opDefinition {
		return r.op == opTouched
	}
	var d Definition
	return json.Unmarshal(r.image, &d) == nil && slices.Contains(keepingTags, d.Tag)
}

var keepingTags = []string{
	"REFRESH MATERIALIZED VIEW", "CREATE TABLE", "CREATE TABLE AS", "SELECT INTO", "CREATE VIEW",
	"CREATE MATERIALIZED VIEW", "CREATE SEQUENCE", "CREATE SCHEMA",
	"CREATE FUNCTION", "CREATE PROCEDURE", "COMMENT", "GRANT", "REVOKE", SteadyTag, sharedTag,
	ownedTag,
}

// disentangled makes sure that the last section has not changed the tables of rows that must be read again, and were
// captured before it.
func (c *Collector) disentangled() error {
	for i := range c.open {
		of := &c.open[i]
		for t := range of.tables {
			again := slices.ContainsFunc(of.reread,
				func(r int) bool { return of.rows[r].table == t && !of.rows[r].gone }) ||
				slices.ContainsFunc(of.doubts, func(d doubt) bool { return of.rows[d.row].table == t })
			if again && slices.ContainsFunc(c.tables,
				func(h header) bool { return h.table.Key == of.tables[t].table.Key }) {
				return ErrEntangled
			}
		}
	}
	return nil
}

// rows adds the rows of one step, and their keys.
func (s *steps) rows(w *writeset.Writeset) {
	if w.Empty() {
		return
	}
	s.list = append(s.list, writeset.Step{Rows: w})
	s.hold(w)
}

// take adds what was frozen.
func (s *steps) take(w *writeset.Writeset) {
	if len(w.Steps) == 0 {
		s.rows(w)
		return
	}
	s.list = append(s.list, w.Steps...)
	s.barrier = s.barrier || w.Barrier
	s.hold(w)
}

// hold adds a writeset's keys. A key of an inserted row is held as strongly as any other: the row may
// be older than this step.
func (s *steps) hold(w *writeset.Writeset) {
	w.EachKey(func(k writeset.Key) bool {
		if t := &w.Tables[k.Table]; k.Mode == writeset.Read && t.Schema == SchemaName {
			s.reads(t.Name)
			return true
		}
		n := s.add(w.Tables[k.Table], tableKey{hash: k.Hash, mode: k.Mode})
		switch {
		case k.Held:
			s.locked[n] = true
		case k.Mode == writeset.Exclusive:
			s.changed[k.Hash] = true
		}
		return true
	})
}

// add gives the table's number.
func (s *steps) add(t writeset.Table, k tableKey) uint32 {
	if s.numbers == nil {
		s.numbers, s.keys = make(map[uint64]uint32), newKeySet(0)
		s.locked, s.changed = map[uint32]bool{}, map[uint64]bool{}
	}
	n := s.number(t)
	s.keys.add(n, k)
	return n
}

// number gives the number of a table.
func (s *steps) number(t writeset.Table) uint32 {
	n, ok := s.numbers[t.Key]
	if !ok {
		n = uint32(len(s.tables))
		s.numbers[t.Key] = n
		s.tables = append(s.tables, t)
	}
	return n
}

func (s *steps) define(image []byte, settle func(*Definition) error) error {
	var d Definition
	if err := json.Unmarshal(image, &d); err != nil {
		return fmt.Errorf("capture: a noted definition: %w", err)
	}
	if len(d.Emptied) > 0 {
		return errors.New("capture: a noted definition that empties tables")
	}
	image = append([]byte(nil), image...)
	if settle != nil {
		filled := d.Rewritten || d.Filled != nil
		err := settle(&d)
		d.Filled, d.Rewritten = nil, false
		if err == nil && filled {
			image, err = json.Marshal(d)
		}
		if err != nil {
			return err
		}
	}
	s.list = append(s.list, writeset.Step{Definition: image})
	s.searches(&d)
	s.barrier = s.barrier || d.barrier()
	s.exclude(d.Dropped)
	names, _ := d.known()
	s.exclude(names)
	return nil
}

// empty has the other members delete a table's rows, which follow.
func (s *steps) empty(image []byte) error {
	var name [2]string
	err := json.Unmarshal(image, &name)
	if err == nil {
		image, err = json.Marshal(Definition{Tag: "ALTER TABLE", Emptied: [][2]string{name}})
	}
	if err != nil {
		return fmt.Errorf("capture: a table that is filled anew: %w", err)
	}
	s.list = append(s.list, writeset.Step{Definition: image})
	return nil
}

// touched is a table that a transaction with definitions has locked as definitions do.
type touched struct {
	name    [2]string
	excepts bool // writers
}

// UnmarshalJSON takes an array of schema, name and whether writers are kept out.
func (t *touched) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&t.name[0], &t.name[1], &t.excepts})
}

func (s *steps) touch(image []byte) error {
	var tables []touched
	if err := json.Unmarshal(image, &tables); err != nil {
		return fmt.Errorf("capture: tables locked: %w", err)
	}
	for _, t := range tables {
		if t.excepts {
			s.exclude([][2]string{t.name})
		} else {
			s.beheld = append(s.beheld, whole(t.name))
		}
	}
	return nil
}

// behold holds the tables that writers may go on with. Only if nothing was done but to validate constraints is it
// certain that the others' rows mean the same before and after it.
func (s *steps) behold() error {
	for _, step := range s.list {
		var d Definition
		if step.Definition == nil || len(s.beheld) == 0 {
			continue
		}
		if err := json.Unmarshal(step.Definition, &d); err != nil {
			return fmt.Errorf("capture: a noted definition: %w", err)
		}
		if !d.validates() {
			for _, t := range s.beheld {
				s.exclude([][2]string{{t.Schema, t.Name}})
			}
			return nil
		}
	}
	for _, t := range s.beheld {
		s.add(t, tableKey{hash: t.Key, mode: writeset.Shared})
	}
	return nil
}

// noteRead notes tables that were read.
func (s *steps) noteRead(image []byte) error {
	var tables [][2]string
	if err := json.Unmarshal(image, &tables); err != nil {
		return fmt.Errorf("capture: tables read: %w", err)
	}
	s.read = nil
	for _, t := range tables {
		s.read = append(s.read, whole(t))
	}
	return nil
}

// whole names a table, for its key alone.
func whole(name [2]string) writeset.Table {
	return writeset.Table{Schema: name[0], Name: name[1], Format: writeset.FormatBinary,
		Key: TableKey(name[0], name[1])}
}

// exclude holds whole tables, given by schema and name.
func (s *steps) exclude(tables [][2]string) {
	for _, t := range tables {
		w := whole(t)
		n := s.add(w, tableKey{hash: w.Key, mode: writeset.Exclusive})
		s.locked[n] = t != [2]string{SchemaName, LargeName} // which nobody locks
	}
}

// writeset is all of it.
func (s *steps) writeset() (*writeset.Writeset, error) {
	if err := s.behold(); err != nil {
		return nil, err
	}
	s.beside()
	last := slices.IndexFunc(s.keys.keys, func(k writeset.Key) bool { return k.Hash == DefinitionsKey })
	keys := slices.Concat(s.keys.keys[:last], s.keys.keys[last+1:])
	for _, name := range slices.Sorted(maps.Keys(s.names)) { // order-free: sorted
		w := whole([2]string{SchemaName, name})
		keys = append(keys, writeset.Key{Hash: w.Key, Mode: writeset.Read, Table: s.number(w)})
	}
	keys = append(keys, s.keys.keys[last])
	w := &writeset.Writeset{Tables: s.tables, Keys: keys, Steps: s.list, Barrier: s.barrier}
	for n := range uint32(len(s.tables)) {
		if s.locked[n] && !s.changed[s.tables[n].Key] {
			w.Held = append(w.Held, n)
		}
	}
	return w, nil
}
