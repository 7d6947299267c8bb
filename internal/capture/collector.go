package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Collector turns the rows of tutti.collect into a writeset. Feed it every row (AddBinary
// or AddText), run the queries of Rereads and feed their rows to AddFinal, then take
// Writeset. The zero Collector is ready. It keeps the values it is fed, and so does the writeset.
type Collector struct {
	// Settle gives an ALTER TABLE that has filled columns the form for the other members: Filled says with
	// what, and Rewritten that rows follow. It looks at every definition, and may refuse it. Nil leaves it as it is.
	Settle func(*Definition) error

	isolation  string
	order      uint64
	all        bool
	unfollowed bool
	steps      steps
	section              // since the last step
	open       []section // before it, with images to be read again
	queries    []query   // of Rereads
}

// section is what was captured between two definitions.
type section struct {
	headers map[string]int
	tables  []header
	rows    []change
	pieces  []piece         // rows that were captured many at a time
	index   map[rowName]int // of rows
	reread  []int           // rows whose image must be read again, in order
	doubts  []doubt         // rows that came with two keys
	asked   int             // of them by Rereads
	step    int             // of an open one, where its rows belong
	half    int             // 1 and the place of the row that the last change has deleted; 0 for none
	moved   bool            // by an update
	chained bool            // some row has become another
}

// query is what one query of Rereads asks for.
type query struct {
	of    *section
	table int
	pairs bool // of doubts
}

type rowName struct {
	table int
	ident uint64
}

// change is what the transaction did to one row so far.
type change struct {
	table          int
	ident          uint64
	op             writeset.Op // of the only capture
	ins, del, repl int
	times          int
	image          []byte
	gone           bool // by a later TRUNCATE
	became         int  // 1 and the place of the row that it has become, if its key has changed; 0 for none
	origin         int  // 1 and the place from which updates have brought it, since it was made; 0 for none

	// Of a table without key:
	was   []byte  // what an update found
	last  *change // the last change of the row; nil: this is not its first, or it is as it was
	again bool    // to be read again
	found bool    // at the re-read, or after the last change if that is known
	read  bool    // again
	run   uint64  // of the last capture, if it was one of many at a time
	keys  []tableKey
}

type tableKey struct {
	hash uint64
	mode writeset.Mode
}

// Isolation is the transaction's isolation level as PostgreSQL spells it, or empty before any
// row came.
func (c *Collector) Isolation() string { return c.isolation }

// Order is the position of the server's WAL while the transaction held its locks.
func (c *Collector) Order() uint64 { return c.order }

// All reports whether the last row of AheadStatement's answer has come.
func (c *Collector) All() bool { return c.all }

// Unfollowed reports whether the collect step did nothing, because Follow must come first.
func (c *Collector) Unfollowed() bool { return c.unfollowed }

// AddBinary adds a row of CollectStatement: the DataRow's column values in binary, nil for NULL.
func (c *Collector) AddBinary(cols [][]byte) error { return c.add(decodeBinaryRow(cols)) }

// AddText adds a row of CollectSQL: the DataRow's column values in text, nil for NULL.
func (c *Collector) AddText(cols [][]byte) error { return c.add(decodeTextRow(cols)) }

func (c *Collector) add(r captured, err error) error {
	if err != nil {
		return err
	}
	switch r.op {
	case 0:
		c.isolation, c.order = string(r.header), r.ident
		return nil
	case opAll:
		c.all = true
		return nil
	case opUnfollowed:
		c.unfollowed = true
		return nil
	case opRead:
		return c.steps.noteRead(r.image)
	case opLarge:
		return errors.New("capture: notes of large objects were not carried out")
	case opDefinition, opFrozen, opTouched, opEmptied:
		return c.step(r)
	case opMoved:
		r.op, r.moved = writeset.OpDelete, true
	}
	if r.op > opBulk {
		return c.folded(r)
	}
	return c.change(r, false)
}

// change adds a captured or returned change of a row.
func (c *section) change(r captured, returned bool) error {
	table, err := c.table(r.header)
	if err != nil {
		return err
	}
	return c.add1(table, r, returned, 0)
}

// add1 adds the change of one row and keeps its image. run is not 0 if it was captured with others.
func (c *section) add1(table int, r captured, returned bool, run uint64) error {
	h := &c.tables[table]
	switch {
	case r.op == writeset.OpTruncate:
		c.truncate(table)
		return nil
	case r.op > writeset.OpTruncate:
		return fmt.Errorf("capture: captured row of table %s has unknown operation %d", h.table, r.op)
	case len(r.image) == 0:
		return fmt.Errorf("capture: captured row of table %s has no image", h.table)
	}
	ch, err := c.row(table, r, returned, run)
	if err != nil {
		return err
	}
	if r.ident == 0 && (r.op == writeset.OpUpdate || r.op == writeset.OpReplace) {
		if ch = c.updated(table); ch == nil {
			return fmt.Errorf("capture: captured change of table %s has no identity", h.table)
		}
	}
	ch.op = r.op
	if returned || run != 0 && !ch.again {
		ch.found = r.op != writeset.OpDelete
	}
	ch.image, ch.run = r.image, run
	ch.times++
	c.chain(table, r.ident, r.op, r.moved)
	switch r.op {
	case writeset.OpInsert:
		ch.ins++
	case writeset.OpDelete:
		ch.del++
	case writeset.OpReplace:
		ch.repl++
	}
	for _, k := range r.keys {
		ch.keys = append(ch.keys, h.key(k, r.op))
	}
	return nil
}

// key tells how a key of a captured row is held.
func (h *header) key(k rowKey, op writeset.Op) tableKey {
	mode := writeset.Exclusive
	// A row's own deletion references nothing, and its keys are all Exclusive.
	if k.position >= h.unique && k.position < h.unique+h.shared && op != writeset.OpDelete {
		mode = writeset.Shared
	}
	return tableKey{hash: k.hash, mode: mode}
}

func (c *section) table(b []byte) (int, error) {
	if i, ok := c.headers[string(b)]; ok {
		return i, nil
	}
	h, err := decodeHeader(b)
	if err != nil {
		return 0, err
	}
	if c.headers == nil {
		c.headers = make(map[string]int)
		c.index = make(map[rowName]int)
	}
	c.headers[string(b)] = len(c.tables)
	c.tables = append(c.tables, h)
	return len(c.tables) - 1, nil
}

// row returns the change of an identity, noting that it needs a re-read if it is not new. What is
// returned, or captured by whole statements one after the other, comes in the order of the writes, and
// the last of it is final.
func (c *section) row(table int, r captured, returned bool, run uint64) (*change, error) {
	ident := r.ident
	name := rowName{table, ident}
	if i, ok := c.index[name]; ok && ident != 0 {
		if err := c.compare(i, r.image); err != nil {
			return nil, err
		}
		last := c.rows[i].run
		inOrder := returned || run != 0 && last != 0 && !sameStatement(run, last)
		if !inOrder && !c.rows[i].again {
			c.rows[i].again, c.rows[i].found = true, false
			c.reread = append(c.reread, i)
		}
		return &c.rows[i], nil
	}
	if ident != 0 {
		c.index[name] = len(c.rows)
	}
	c.rows = append(c.rows, change{table: table, ident: ident})
	return &c.rows[len(c.rows)-1], nil
}

// truncate forgets what happened to the table. Captures before a TRUNCATE are of writes
// before it: PostgreSQL refuses to truncate a table with statements or triggers pending.
func (c *section) truncate(table int) {
	c.pieces = slices.DeleteFunc(c.pieces, func(p piece) bool { return p.table == table })
	for i := range c.rows {
		if ch := &c.rows[i]; ch.table == table {
			ch.gone = true
			delete(c.index, rowName{table, ch.ident})
		}
	}
	c.rows = append(c.rows, change{table: table, op: writeset.OpTruncate, times: 1})
}

// Reread is a query for the final images of rows that were captured more than once. It has
// one parameter.
type Reread struct {
	SQL          string
	ParameterOID uint32 // to declare in Parse: the text cannot name types the client may not use
	Format       writeset.Format
	Parameter    []byte
}

// Rereads returns the queries to run in the same transaction with binary results; mostly
// none. Each row goes to AddFinal with the query's number.
func (c *Collector) Rereads() ([]Reread, error) {
	if err := c.unfold(); err != nil {
		return nil, err
	}
	if err := c.disentangled(); err != nil {
		return nil, err
	}
	var out []Reread
	c.queries = nil
	for i := range c.open {
		out = c.ask(out, &c.open[i])
	}
	return c.ask(out, &c.section), nil
}

// ask adds the queries for one section.
func (c *Collector) ask(out []Reread, of *section) []Reread {
	byTable := make([][]int, len(of.tables))
	for _, i := range of.unread() {
		byTable[of.rows[i].table] = append(byTable[of.rows[i].table], i)
	}
	for table, rows := range byTable {
		if len(rows) == 0 {
			continue
		}
		images := make([][]byte, len(rows))
		for i, r := range rows {
			images[i] = of.rows[r].image
		}
		out = append(out, of.query(table, images, false))
		c.queries = append(c.queries, query{of: of, table: table})
	}
	return c.askDoubts(out, of)
}

// query asks for the rows of images, or about pairs of images.
func (c *section) query(table int, images [][]byte, pairs bool) Reread {
	h := &c.tables[table]
	return Reread{
		SQL: fmt.Sprintf("SELECT ident, img FROM tutti.%s($1, %t)", finalName(h.table.Schema, h.table.Name),
			pairs),
		ParameterOID: h.array,
		Format:       h.table.Format,
		Parameter:    writeset.AppendArray(nil, h.table.Format, images),
	}
}

// unread are the rows whose image must be read again.
func (c *section) unread() (rows []int) {
	for _, i := range c.reread {
		if !c.rows[i].gone {
			rows = append(rows, i)
		}
	}
	return rows
}

// unsure reports whether Rereads has queries for the section.
func (c *section) unsure() bool { return len(c.unread())+len(c.doubts) > 0 }

// AddFinal adds a row of the query'th of Rereads: its column values in binary. It fails with a Collision if two rows
// have one identity.
func (c *Collector) AddFinal(query int, cols [][]byte) error {
	if query < 0 || query >= len(c.queries) || len(cols) != 2 || len(cols[0]) != 8 ||
		(len(cols[1]) == 0) != c.queries[query].pairs {
		return errors.New("capture: a final row is malformed")
	}
	of, table := c.queries[query].of, c.queries[query].table
	ident := nonZero(binary.BigEndian.Uint64(cols[0]))
	if c.queries[query].pairs {
		return of.collision(table, ident)
	}
	i, ok := of.index[rowName{table, ident}]
	if !ok {
		return fmt.Errorf("capture: a final row of table %s was not asked for", of.tables[table].table)
	}
	ch := &of.rows[i]
	if ch.read {
		if h := &of.tables[table]; !bytes.Equal(ch.image, cols[1]) {
			return h.collision(ch.image, cols[1])
		}
	}
	ch.image, ch.found, ch.read = cols[1], true, true
	return nil
}

// Writeset returns the net effect of the transaction, with table keys. It is not empty-checked:
// a transaction can capture rows and change nothing.
func (c *Collector) Writeset() (*writeset.Writeset, error) {
	w, err := c.net()
	if err == nil {
		err = c.close()
	}
	if err == nil && c.steps.any() {
		c.steps.rows(w)
		w, err = c.steps.writeset()
	}
	if err != nil {
		return nil, err
	}
	if !w.Empty() { // what only reads has its place at its snapshot
		for _, t := range c.steps.read {
			w.AddRead(t)
		}
	}
	return w, w.Validate()
}

// net is the net effect of the rows since the last step.
func (c *section) net() (*writeset.Writeset, error) {
	if err := c.unfold(); err != nil {
		return nil, err
	}
	if c.asked < len(c.doubts) {
		return nil, errors.New("capture: rows that came with two keys were not asked about")
	}
	c.follow()
	w := &writeset.Writeset{}
	numbers := make([]int, len(c.tables)) // 1-based index into w.Tables
	number := func(table int) uint32 {
		if numbers[table] == 0 {
			w.Tables = append(w.Tables, c.tables[table].table)
			numbers[table] = len(w.Tables)
		}
		return uint32(numbers[table] - 1)
	}
	keys := newKeySet(len(c.rows))
	order := c.beside()
	for i := range c.rows {
		if order != nil {
			i = order[i]
		}
		ch := &c.rows[i]
		if ch.gone {
			continue
		}
		op, err := ch.net()
		if err != nil {
			return nil, fmt.Errorf("%w in table %s", err, c.tables[ch.table].table)
		}
		if op == 0 {
			continue // and nothing of it is certified
		}
		table := number(ch.table)
		if ch.ident != 0 {
			w.Rows = append(w.Rows, writeset.Row{Table: table, Op: op, Identity: ch.ident, Image: ch.image})
		} else {
			w.Rows = ch.appendWhole(w.Rows, table)
		}
		for _, k := range ch.keys {
			keys.add(table, k)
		}
	}
	if err := c.appendPieces(w, &keys, number); err != nil {
		return nil, err
	}
	c.appendLocks(w, number)
	w.Keys = keys.keys
	w.AddTableKeys()
	return w, nil
}

// net is the row's net operation, or 0 for none. Whether the row existed before follows from
// whether it does now and how often it came and went; no order is needed.
func (ch *change) net() (writeset.Op, error) {
	if ch.times == 1 {
		return ch.op, nil
	}
	after := 0
	if ch.found {
		after = 1
	}
	switch before := after - ch.ins + ch.del; {
	case before != 0 && before != 1:
		return 0, fmt.Errorf("capture: a row came %d times and went %d times, which cannot be", ch.ins, ch.del)
	case before == 0 && after == 0:
		return 0, nil
	case before == 0:
		return writeset.OpInsert, nil
	case after == 0:
		return writeset.OpDelete, nil
	case ch.ins+ch.del+ch.repl > 0:
		return writeset.OpReplace, nil
	default:
		return writeset.OpUpdate, nil
	}
}

// keySet gathers keys without repeats, the strongest mode winning.
type keySet struct {
	at   map[uint64]int
	keys []writeset.Key
}

func newKeySet(n int) keySet { return keySet{at: make(map[uint64]int, n)} }

func (s *keySet) add(table uint32, k tableKey) {
	if i, ok := s.at[k.hash]; ok {
		s.keys[i].Mode = max(s.keys[i].Mode, k.mode)
		return
	}
	s.at[k.hash] = len(s.keys)
	s.keys = append(s.keys, writeset.Key{Hash: k.hash, Mode: k.mode, Table: table})
}

// DecodeCollected is the whole of a Collector for a transaction without re-reads: rows are
// binary column values. It fails if images must be read again.
func DecodeCollected(rows [][][]byte) (*writeset.Writeset, error) {
	var c Collector
	for _, r := range rows {
		if err := c.AddBinary(r); err != nil {
			return nil, err
		}
	}
	if again, err := c.Rereads(); err != nil {
		return nil, err
	} else if len(again) > 0 {
		return nil, errors.New("capture: rows were captured more than once; their final images must be read again")
	}
	return c.Writeset()
}
