package session

import (
	"bytes"
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// prepared is a statement the client has parsed. own says that the session carries it out
// and the backend has never heard of it.
type prepared struct {
	statement semantics.Statement
	sql       string
	types     []uint32            // of its parameters, as the client prescribed
	form      *form               // how it is run directly, see forms.formOf
	locks     *semantics.RowLocks // how the rows it locks are followed
	own       bool
	odd       bool // it was parsed while the server read texts otherwise than we do
	foreign   bool // its text is not in UTF-8
	marked    bool // the backend knows it with the mark of statements that are captured as a whole

	told []uint32 // types of its parameters, as the backend has described them; if it is noted
	note string   // of a portal: the statement with its parameters in it, if it is noted
}

// gather adds one extended-protocol message to the batch.
func (s *Session) gather(f wire.Frame) error {
	if len(s.batch.bytes)+len(f.Raw) > pipelineBytesMax && s.batch.crowded(len(f.Raw)) || resets(s.batch.messages) ||
		f.Type == wire.TypeParse && bytes.IndexByte(f.Raw, '\\') >= 0 && s.batch.executes() {
		if err := s.process(false); err != nil {
			return err
		}
	}
	if s.batch.skip {
		return nil
	}
	m, err := s.named.examine(f)
	if err != nil {
		m = message{err: protocolError(err)}
	}
	if m.raw == nil {
		m.raw = f.Raw
	}
	m.typ, m.start = f.Type, len(s.batch.bytes)
	if m.err == nil && m.typ == wire.TypeParse && m.of.marked {
		m.raw = wire.AppendParse(nil, m.name, s.o.Collector.BulkMark()+m.of.sql, m.of.types)
	}
	s.batch.bytes = append(s.batch.bytes, m.raw...)
	m.raw = nil
	m.end = len(s.batch.bytes)
	s.batch.messages = append(s.batch.messages, m)
	if s.batch.pause.counts = true; m.typ == wire.TypeExecute {
		s.batch.pause = pause{}
	}
	return nil
}

func protocolError(err error) *wire.SQLError {
	if p, ok := err.(*wire.ProtocolError); ok {
		return p.SQLError()
	}
	return wire.Errorf(wire.CodeProtocolViolation, "%s", err.Error())
}

// sync ends the batch: what is left is run, an implicit block ends, the client gets its
// ReadyForQuery.
func (s *Session) sync() error {
	s.batch.pause = pause{}
	if err := s.process(true); err != nil {
		return err
	}
	if s.batch.voidSync {
		s.batch.voidSync = false
		return nil
	}
	s.batch.skip = false
	if err := s.endImplicit(); err != nil {
		return err
	}
	if s.txn.Idle() {
		clear(s.named.portals)
	}
	return s.ready()
}

// process runs the gathered messages. last says that a Sync follows at once.
func (s *Session) process(last bool) error {
	batch := s.batch.messages
	defer func() { s.batch.messages, s.batch.bytes = s.batch.messages[:0], s.batch.bytes[:0] }()
	for len(batch) > 0 && !s.batch.skip {
		n := 0
		if err := s.admit(&batch[0]); err != nil {
			return err
		}
		for n < len(batch) && !batch[n].own() && (n == 0 || !batch[n].hidden && !s.misplaced(&batch[n])) {
			n++
		}
		if n > 0 {
			done, err := s.run(batch[:n], last && n == len(batch))
			if err != nil {
				return err
			}
			batch = batch[done:]
			continue
		}
		s.joins(batch, last)
		var err error
		if s.batch.skip, err = s.controls.message(&batch[0]); err != nil {
			return err
		}
		if !s.batch.skip {
			batch = batch[1:]
		}
	}
	s.named.takeBack(batch)
	if cap(s.batch.bytes) > 4*pipelineBytesMax {
		s.batch.bytes = nil
	}
	return nil
}

// admit refuses a message that cannot be carried out, as it shows when its turn has come.
func (s *Session) admit(m *message) error {
	if m.err == nil && s.misplaced(m) {
		m.err = errOutside(m.of.statement)
	}
	return s.expose(m)
}

// misplaced reports whether a message executes what deals with savepoints outside of the client's blocks.
func (s *Session) misplaced(m *message) bool {
	return m.typ == wire.TypeExecute && m.of.statement.Savepoint() && s.txn.Outside()
}

// joins opens an implicit block for a definition that is executed before other statements of the same
// batch.
func (s *Session) joins(batch []message, last bool) {
	m := &batch[0]
	if !s.txn.Idle() || m.typ != wire.TypeExecute || m.err != nil || m.of.statement.Kind != semantics.Definition {
		return
	}
	if !last || slices.ContainsFunc(batch[1:], func(m message) bool { return m.typ == wire.TypeExecute }) {
		s.txn.Begin(false)
	}
}

// run sends consecutive messages to the backend. Outside a block, a run that is the whole
// rest up to the Sync is a transaction of its own; others that bind or execute open an
// implicit block, see inImplicit. It reports how many messages were carried out.
func (s *Session) run(batch []message, last bool) (int, error) {
	if err := s.settleUnnamed(batch); err != nil {
		return 0, err
	}
	r := s.batch.request(batch)
	binds := !r.prepares
	owed := s.named.unnamed.owed
	s.named.unnamed.owed = false
	if s.txn.Idle() && binds && r.inImplicit(last, resets(batch)) {
		s.txn.Begin(false)
	}
	var rep reply
	var failedToo bool
	var err error
	if s.txn.Idle() && !binds {
		failedToo, err = s.plain.run(r, &rep)
	} else {
		failedToo, err = s.executing.execute(r, &rep)
	}
	if err != nil {
		return 0, err
	}
	s.batch.voidSync = last && rep.swallows()
	done := len(batch)
	if s.batch.skip = failedToo; failedToo {
		done = min(rep.done, len(batch))
	}
	if s.named.unnamed.noted(batch, s.batch.bytes, done, &rep, owed); failedToo {
		return done, nil
	}
	for i := range batch {
		if batch[i].typ != wire.TypeExecute {
			continue
		}
		if err := s.learn(batch[i].of.statement); err != nil {
			return 0, err
		}
	}
	return len(batch), nil
}

// inImplicit reports whether a request that binds or executes opens an implicit block where there is none: because more
// comes before the Sync, or the statements have to be prepared anew of which its COMMIT would be made.
func (r *request) inImplicit(last, resets bool) bool {
	return !r.does.alone && (!last || resets && r.does.added > 1)
}
