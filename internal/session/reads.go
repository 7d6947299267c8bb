package session

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A SERIALIZABLE transaction is certified by the tables it has read. If every statement of it says by its text which
// rows of a table it has looked for, by values of the table's key, these rows are certified in its place. One
// statement of which that is not known, or one that fails, may have read anything (decision 0030).

// reads is what a session has of that.
type reads struct {
	runs   []Run // of this transaction
	anyway bool  // something else may have been read, too
	since  any   // the catalog when it began

	catalog          any // what follows is known of
	names            map[string]uint32
	operators, plain bool // are PostgreSQL's own: operators, and functions
	texts            map[string]*semantics.Reads
}

// Run is one execution of a statement.
type Run struct {
	Reads   *semantics.Reads
	Types   []uint32 // of its parameters, as the client prescribed
	Values  [][]byte // of its parameters
	formats []uint16
}

// Names is what is known of relations; an OID is zero if nothing of it is certified by key.
type Names struct {
	OIDs                 []uint32
	Operators, Functions bool // PostgreSQL's own are the only ones of their names
}

// Pins is what a transaction's statements have looked for. Read takes the answer to the frames: keys of
// the tables of which nothing else was read, and the rows. ok is false if names mean something else by now.
type Pins interface {
	Append(dst []byte) []byte
	Read(rows [][][]byte) (tables []uint64, pinned []writeset.Pinned, ok bool, err error)
}

const (
	runsMax  = 1000 // of a transaction that are kept
	textsMax = 512
)

// Format is that of a parameter, from 0: 0 text, 1 binary.
func (r *Run) Format(i int) int16 {
	switch {
	case len(r.formats) == 1:
		return int16(r.formats[0])
	case i < len(r.formats):
		return int16(r.formats[i])
	}
	return 0
}

// begin begins a transaction.
func (r *reads) begin(catalog any) { r.runs, r.anyway, r.since = nil, false, catalog }

// of tells what a text reads; nil if that is not known.
func (r *reads) of(sql string) *semantics.Reads {
	found, ok := r.texts[sql]
	if !ok {
		found = semantics.ReadsOf(sql)
		if len(sql) > cacheTextMax {
			return found
		}
		if r.texts == nil || len(r.texts) >= textsMax {
			r.texts = map[string]*semantics.Reads{}
		}
		r.texts[sql] = found
	}
	return found
}

// reading adds to a request of a SERIALIZABLE transaction what one of its statements reads.
func (s *Session) reading(r *request, sql string, bind *Run) {
	if s.currentLevel() != semantics.Serializable || r.opaque {
		return
	}
	run := Run{}
	if bind != nil {
		run = *bind
	}
	if !s.escape && !s.direct.encoded {
		run.Reads = s.reads.of(sql)
	}
	if run.Reads == nil || len(r.runs) >= runsMax {
		r.opaque, r.runs = true, nil
		return
	}
	r.followed = true
	if len(run.Reads.Tables) > 0 {
		r.runs = append(r.runs, run)
	}
}

// binding adds to a request what a statement reads that is bound to parameters.
func (s *Session) binding(r *request, m *message) {
	if s.currentLevel() != semantics.Serializable || r.opaque {
		return
	}
	raw := s.batchBytes[m.start:m.end]
	f := wire.Frame{Type: m.typ, Raw: raw}
	b, err := wire.DecodeBind(f.Body())
	run := Run{Types: m.of.types}
	var values [][]byte
	if err == nil {
		run.formats, values, err = wire.DecodeBindValues(b.Rest)
	}
	if err != nil || m.of.odd || len(raw) > cacheTextMax {
		r.opaque, r.runs = true, nil
		return
	}
	run.Values = make([][]byte, len(values))
	for i, v := range values {
		if v != nil {
			run.Values[i] = append([]byte{}, v...)
		}
	}
	s.reading(r, m.of.sql, &run)
}

// noteReads notes what a request, which is about to be carried out, will read.
func (s *Session) noteReads(r *request) {
	if s.currentLevel() != semantics.Serializable || r.prepares {
		return
	}
	n := &s.reads
	if n.anyway = n.anyway || !r.followed || r.opaque || len(n.runs)+len(r.runs) > runsMax; n.anyway {
		n.runs = nil
		return
	}
	n.runs = append(n.runs, r.runs...)
}

// pin puts into a collected writeset, in place of tables, the rows that were looked for by key.
func (s *Session) pin(c *collected) error {
	if s.currentLevel() != semantics.Serializable || s.reads.anyway || len(s.reads.runs) == 0 || c.failed != nil || c.ws == nil || c.ws.Empty() {
		return nil
	}
	known, err := s.learnNames(c)
	if !known || err != nil || c.failed != nil {
		return err
	}
	pins, ok := s.o.Collector.Pins(s.reads.runs, s.reads.names)
	if !ok {
		return nil
	}
	s.srvW.Append(wire.AppendSync(pins.Append(s.srvW.AvailableBuffer())))
	r, rows, err := s.backend.internal(true)
	if err != nil {
		return err
	}
	if r.failed != nil {
		c.failed = &wire.SQLError{ErrorFields: *r.failed}
		return nil
	}
	tables, pinned, ok, err := pins.Read(rows)
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	if !ok {
		s.reads.names = nil
		return nil
	}
	c.ws.Pin(tables, pinned)
	return nil
}

// learnNames finds out what the relations of the transaction's statements are. It reports false if they cannot be
// certified by key: because something was defined meanwhile, or means something else than it says.
func (s *Session) learnNames(c *collected) (bool, error) {
	n := &s.reads
	now := s.o.Collector.Catalog()
	if now != n.since {
		return false, nil
	}
	if now != n.catalog {
		n.catalog, n.names = now, nil
	}
	var unknown []string
	functions := false
	asked := map[string]bool{}
	for _, run := range n.runs {
		functions = functions || run.Reads.Functions
		for _, t := range run.Reads.Tables {
			if _, ok := n.names[t.Relation]; !ok && !asked[t.Relation] {
				asked[t.Relation] = true
				unknown = append(unknown, t.Relation)
			}
		}
	}
	if len(unknown) > 0 || n.names == nil {
		r, rows, err := s.backend.ask(s.o.Collector.AskNames(unknown))
		if err != nil {
			return false, err
		}
		if r.failed != nil {
			c.failed = &wire.SQLError{ErrorFields: *r.failed}
			return false, nil
		}
		got, ok := s.o.Collector.Names(rows)
		if !ok || len(got.OIDs) != len(unknown) {
			return false, fmt.Errorf("session: %d relations were told of %d", len(got.OIDs), len(unknown))
		}
		if n.names == nil || len(n.names) > textsMax {
			n.names = map[string]uint32{}
		}
		for i, name := range unknown {
			n.names[name] = got.OIDs[i]
		}
		n.operators, n.plain = got.Operators, got.Functions
	}
	return n.operators && (n.plain || !functions), nil
}
