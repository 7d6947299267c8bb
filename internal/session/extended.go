package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// prepared is a statement the client has parsed. own says that the session carries it out
// and the backend has never heard of it.
type prepared struct {
	statement semantics.Statement
	sql       string
	own       bool
}

// message is one frame of the batch up to a Sync or Flush.
type message struct {
	typ        byte
	start, end int       // in Session.batchBytes
	of         *prepared // what it is about; nil when unknown
	name       string    // of the statement a Parse defines
	kind       byte      // of a Describe or Close
	err        *wire.SQLError
}

// own reports whether the session answers the message itself.
func (m *message) own() bool { return m.err != nil || m.of != nil && m.of.own }

// unknownStatement stands for statements made by SQL's PREPARE and portals of DECLARE.
var unknownStatement = &prepared{statement: semantics.Statement{Kind: semantics.Unknown}}

// gather adds one extended-protocol message to the batch.
func (s *Session) gather(f wire.Frame) error {
	if s.skip {
		return nil
	}
	m, err := s.examine(f)
	if err != nil {
		m = message{err: protocolError(err)}
	}
	m.typ, m.start = f.Type, len(s.batchBytes)
	s.batchBytes = append(s.batchBytes, f.Raw...)
	m.end = len(s.batchBytes)
	s.batch = append(s.batch, m)
	if len(s.batchBytes) >= pipelineBytesMax {
		return s.process(false)
	}
	return nil
}

func protocolError(err error) *wire.SQLError {
	if p, ok := err.(*wire.ProtocolError); ok {
		return p.SQLError()
	}
	return wire.Errorf(wire.CodeProtocolViolation, "%s", err.Error())
}

// examine finds out what a message is about and keeps track of names.
func (s *Session) examine(f wire.Frame) (message, error) {
	switch f.Type {
	case wire.TypeParse:
		p, err := wire.DecodeParse(f.Body())
		if err != nil {
			return message{}, err
		}
		return s.examineParse(p), nil
	case wire.TypeBind:
		b, err := wire.DecodeBind(f.Body())
		if err != nil {
			return message{}, err
		}
		of := s.statements[b.Statement]
		if of == nil {
			of = unknownStatement
		}
		s.portals[b.Portal] = of
		return message{of: of}, nil
	case wire.TypeExecute:
		portal, _, err := wire.DecodeExecute(f.Body())
		of := s.portals[portal]
		if of == nil {
			of = unknownStatement
		}
		return message{of: of}, err
	}
	kind, name, err := wire.DecodeTarget(f.Body())
	m := message{kind: kind, of: s.statements[name]}
	if kind == 'P' {
		m.of = s.portals[name]
	}
	if err == nil && f.Type == wire.TypeClose {
		if kind == 'P' {
			delete(s.portals, name)
		} else {
			delete(s.statements, name)
		}
	}
	return m, err
}

func (s *Session) examineParse(p wire.Parse) message {
	list := s.cache.classify(p.SQL)
	st := list[0]
	if len(list) > 1 {
		st = semantics.Statement{Kind: semantics.Read} // the backend refuses it
	}
	of := &prepared{statement: st, sql: p.SQL, own: st.Control()}
	if old := s.statements[p.Name]; old != nil && p.Name != "" && (old.own || of.own) {
		return message{err: wire.Errorf(wire.CodeDuplicatePreparedStmt, "prepared statement %q already exists", p.Name)}
	}
	s.statements[p.Name] = of
	return message{of: of, name: p.Name}
}

// sync ends the batch: what is left is run, an implicit block ends, the client gets its
// ReadyForQuery.
func (s *Session) sync() error {
	if err := s.process(true); err != nil {
		return err
	}
	s.skip = false
	if s.voidSync {
		s.voidSync = false
		return nil
	}
	if err := s.endImplicit(); err != nil {
		return err
	}
	if s.block == idle {
		clear(s.portals)
	}
	return s.ready()
}

// process runs the gathered messages. last says that a Sync follows at once.
func (s *Session) process(last bool) error {
	batch := s.batch
	defer func() { s.batch, s.batchBytes = s.batch[:0], s.batchBytes[:0] }()
	for len(batch) > 0 && !s.skip {
		n := 0
		for n < len(batch) && !batch[n].own() {
			n++
		}
		if n == 0 {
			if err := s.answerOwn(&batch[0]); err != nil {
				return err
			}
			batch = batch[1:]
			continue
		}
		if err := s.run(batch[:n], last && n == len(batch)); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// run sends consecutive messages to the backend. Outside a block, a run that is the whole
// rest up to the Sync is a transaction of its own; an earlier one that binds or executes
// opens an implicit block.
func (s *Session) run(batch []message, last bool) error {
	r := request{extended: true, settings: true}
	binds := false
	var executed []*prepared
	for i := range batch {
		m := &batch[i]
		switch m.typ {
		case wire.TypeParse:
			r.parses = append(r.parses, m.name)
		case wire.TypeBind:
			binds = true
		case wire.TypeExecute:
			binds = true
			executed = append(executed, m.of)
			r.add(m.of.statement)
			r.sql = append(r.sql, m.of.sql)
			r.settings = r.settings && settingsOnly(m.of.statement)
		}
	}
	raw := s.batchBytes[batch[0].start:batch[len(batch)-1].end]
	r.frames = wire.AppendSync(append([]byte(nil), raw...))
	r.prepares = !binds
	var failedToo bool
	var err error
	switch {
	case s.block == idle && !binds:
		failedToo, err = s.plain(r)
	case s.block == idle && !last && !r.local:
		s.block, s.implicit = active, true
		failedToo, err = s.execute(r)
	default:
		failedToo, err = s.execute(r)
	}
	if err != nil {
		return err
	}
	s.skip = failedToo
	if failedToo {
		s.forget(batch)
		return nil
	}
	for _, p := range executed {
		if err := s.learn(p.statement); err != nil {
			return err
		}
		if p.statement.Kind == semantics.Copy && last {
			s.voidSync = true
		}
	}
	return nil
}

// forget drops the statements a failed run may not have parsed.
func (s *Session) forget(batch []message) {
	for i := range batch {
		if batch[i].typ == wire.TypeParse {
			delete(s.statements, batch[i].name)
		}
	}
}

// answerOwn answers a message about a statement that the session carries out itself.
func (s *Session) answerOwn(m *message) error {
	if m.err != nil {
		s.skip = true
		return s.fail(m.err)
	}
	switch m.typ {
	case wire.TypeParse:
		s.out.Append(wire.AppendParseComplete(s.out.AvailableBuffer()))
	case wire.TypeBind:
		s.out.Append(wire.AppendBindComplete(s.out.AvailableBuffer()))
	case wire.TypeClose:
		s.out.Append(wire.AppendCloseComplete(s.out.AvailableBuffer()))
	case wire.TypeDescribe:
		if m.kind == 'S' {
			s.out.Append(wire.AppendParameterDescription(s.out.AvailableBuffer(), nil))
		}
		if m.of.statement.Kind == semantics.Tutti {
			s.out.Append(wire.AppendRowDescription(nil, columns(s.host.ShowColumns(m.of.statement.Name))))
			return nil
		}
		s.out.Append(wire.AppendNoData(s.out.AvailableBuffer()))
	case wire.TypeExecute:
		if m.of.statement.Kind == semantics.Tutti && s.block != failed {
			r := s.host.Show(m.of.statement.Name)
			s.skip = r.Err != nil
			return s.answer(r, false)
		}
		failedToo, err := s.control(m.of.statement)
		s.skip = failedToo
		return err
	}
	return nil
}
