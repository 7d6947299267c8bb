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
	backend *backend
	pinning Pinning
	facts   Facts
	serial  func() bool // the transaction is SERIALIZABLE; else nothing is noted
	alike   func() bool // the server reads texts as the session does

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
func (n *reads) begin() { n.runs, n.anyway, n.since = nil, false, n.facts.Catalog() }

// of tells what a text reads; nil if that is not known.
func (n *reads) of(sql string) *semantics.Reads {
	found, ok := n.texts[sql]
	if !ok {
		found = semantics.ReadsOf(sql)
		if len(sql) > cacheTextMax {
			return found
		}
		if n.texts == nil || len(n.texts) >= textsMax {
			n.texts = map[string]*semantics.Reads{}
		}
		n.texts[sql] = found
	}
	return found
}

// reading adds to a request of a SERIALIZABLE transaction what one of its statements reads. Bind is what
// its parameters are, if it has some.
func (n *reads) reading(r *request, sql string, bind *Run) {
	if !n.serial() || r.looks.opaque {
		return
	}
	run := Run{}
	if bind != nil {
		run = *bind
	}
	if n.alike() {
		run.Reads = n.of(sql)
	}
	if run.Reads == nil || len(r.looks.runs) >= runsMax {
		r.looks.opaque, r.looks.runs = true, nil
		return
	}
	r.looks.followed = true
	if len(run.Reads.Tables) > 0 {
		r.looks.runs = append(r.looks.runs, run)
	}
}

// binding adds to a request of a SERIALIZABLE transaction what a statement reads that is bound to parameters by a
// frame.
func (n *reads) binding(r *request, of *prepared, f wire.Frame) {
	if !n.serial() || r.looks.opaque {
		return
	}
	b, err := wire.DecodeBind(f.Body())
	run := Run{Types: of.types}
	var values [][]byte
	if err == nil {
		run.formats, values, err = wire.DecodeBindValues(b.Rest)
	}
	if err != nil || of.odd || len(f.Raw) > cacheTextMax {
		r.looks.opaque, r.looks.runs = true, nil
		return
	}
	run.Values = make([][]byte, len(values))
	for i, v := range values {
		if v != nil {
			run.Values[i] = append([]byte{}, v...)
		}
	}
	n.reading(r, of.sql, &run)
}

// note notes what a request of a SERIALIZABLE transaction, which is about to be carried out, will read.
func (n *reads) note(r *request) {
	if !n.serial() || r.prepares {
		return
	}
	if n.anyway = n.anyway || !r.looks.followed || r.looks.opaque || len(n.runs)+len(r.looks.runs) > runsMax; n.anyway {
		n.runs = nil
		return
	}
	n.runs = append(n.runs, r.looks.runs...)
}

// pin puts into the collected writeset of a SERIALIZABLE transaction, in place of tables, the rows that were looked for
// by key.
func (n *reads) pin(c *collected) error {
	if !n.serial() || n.anyway || len(n.runs) == 0 || c.failed != nil || c.ws == nil || c.ws.Empty() {
		return nil
	}
	known, err := n.learnNames(c)
	if !known || err != nil || c.failed != nil {
		return err
	}
	pins, ok := n.pinning.Pins(n.runs, n.names)
	if !ok {
		return nil
	}
	n.backend.out.Append(wire.AppendSync(pins.Append(n.backend.out.AvailableBuffer())))
	r, rows, err := n.backend.internal(true)
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
		n.names = nil
		return nil
	}
	c.ws.Pin(tables, pinned)
	return nil
}

// learnNames finds out what the relations of the transaction's statements are. It reports false if they cannot be
// certified by key: because something was defined meanwhile, or means something else than it says.
func (n *reads) learnNames(c *collected) (bool, error) {
	now := n.facts.Catalog()
	if now != n.since {
		return false, nil
	}
	if now != n.catalog {
		n.catalog, n.names = now, nil
	}
	unknown, functions := n.unknown()
	if len(unknown) > 0 || n.names == nil {
		if ok, err := n.askNames(unknown, c); !ok || err != nil {
			return false, err
		}
	}
	return n.operators && (n.plain || !functions), nil
}

// unknown gives the relations of the transaction's statements that are yet to be asked for, and whether the statements
// call functions.
func (n *reads) unknown() (names []string, functions bool) {
	asked := map[string]bool{}
	for _, run := range n.runs {
		functions = functions || run.Reads.Functions
		for _, t := range run.Reads.Tables {
			if _, ok := n.names[t.Relation]; !ok && !asked[t.Relation] {
				asked[t.Relation] = true
				names = append(names, t.Relation)
			}
		}
	}
	return names, functions
}

// askNames asks the backend for relations; false if it refuses, which has failed the transaction.
func (n *reads) askNames(unknown []string, c *collected) (bool, error) {
	r, rows, err := n.backend.ask(n.pinning.AskNames(unknown))
	if err != nil {
		return false, err
	}
	if r.failed != nil {
		c.failed = &wire.SQLError{ErrorFields: *r.failed}
		return false, nil
	}
	got, ok := n.pinning.Names(rows)
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
	return true, nil
}
