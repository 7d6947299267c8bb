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
	form      *form               // how it is run directly, see direct.formOf
	locks     *semantics.RowLocks // how the rows it locks are followed
	own       bool
	odd       bool // it was parsed while the server read texts otherwise than we do
	marked    bool // the backend knows it with the mark of statements that are captured as a whole

	told []uint32 // types of its parameters, as the backend has described them; if it is noted
	note string   // of a portal: the statement with its parameters in it, if it is noted
}

// message is one frame of the batch up to a Sync or Flush.
type message struct {
	typ        byte
	start, end int       // in Session.batchBytes
	of         *prepared // what it is about; nil when unknown
	name       string    // of the statement or portal it names
	statement  string    // what a Bind binds
	kind       byte      // 'S' or 'P': what name is the name of
	before     *prepared // what the name stood for before a Parse, Bind or Close
	hidden     bool      // it binds or executes what SQL has made, whose text is not known
	err        *wire.SQLError
	raw        []byte // goes to the backend instead, if not nil
}

// own reports whether the session answers the message itself.
func (m *message) own() bool { return m.err != nil || m.of != nil && m.of.own }

// unknownStatement stands for statements made by SQL's PREPARE and portals of DECLARE.
var unknownStatement = &prepared{statement: semantics.Statement{Kind: semantics.Unknown}}

// gather adds one extended-protocol message to the batch.
func (s *Session) gather(f wire.Frame) error {
	if len(s.batchBytes)+len(f.Raw) > pipelineBytesMax && s.crowded(len(f.Raw)) ||
		f.Type == wire.TypeParse && bytes.IndexByte(f.Raw, '\\') >= 0 && s.executes() {
		if err := s.process(false); err != nil {
			return err
		}
	}
	if s.skip {
		return nil
	}
	m, err := s.named.examine(f)
	if err != nil {
		m = message{err: protocolError(err)}
	}
	if m.raw == nil {
		m.raw = f.Raw
	}
	m.typ, m.start = f.Type, len(s.batchBytes)
	if m.err == nil && m.typ == wire.TypeParse && m.of.marked {
		m.raw = wire.AppendParse(nil, m.name, s.o.Collector.BulkMark()+m.of.sql, m.of.types)
	}
	s.batchBytes = append(s.batchBytes, m.raw...)
	m.raw = nil
	m.end = len(s.batchBytes)
	s.batch = append(s.batch, m)
	if s.pause.counts = true; m.typ == wire.TypeExecute {
		s.pause = pause{}
	}
	return nil
}

// crowded reports whether the batch must be run before a further message of n bytes joins
// it: because it executes something, whose results would fill the way back while the message
// is written (S5), or because it would hold too much besides one large message.
func (s *Session) crowded(n int) bool {
	if s.executes() {
		return true
	}
	largest := n
	for i := range s.batch {
		largest = max(largest, s.batch[i].end-s.batch[i].start)
	}
	return len(s.batchBytes)+n-largest > pipelineBytesMax
}

// executes reports whether the batch executes something. A text with a backslash that follows waits for that, which may
// have changed how it is to be read.
func (s *Session) executes() bool {
	return slices.ContainsFunc(s.batch, func(m message) bool { return m.typ == wire.TypeExecute })
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
	s.pause = pause{}
	if err := s.process(true); err != nil {
		return err
	}
	if s.voidSync {
		s.voidSync = false
		return nil
	}
	s.skip = false
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
	batch := s.batch
	defer func() { s.batch, s.batchBytes = s.batch[:0], s.batchBytes[:0] }()
	for len(batch) > 0 && !s.skip {
		n := 0
		if err := s.expose(&batch[0]); err != nil {
			return err
		}
		for n < len(batch) && !batch[n].own() && (n == 0 || !batch[n].hidden) {
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
		if err := s.answerOwn(&batch[0]); err != nil {
			return err
		}
		if !s.skip {
			batch = batch[1:]
		}
	}
	s.named.takeBack(batch)
	if cap(s.batchBytes) > 4*pipelineBytesMax {
		s.batchBytes = nil
	}
	return nil
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
// rest up to the Sync is a transaction of its own; an earlier one that binds or executes
// opens an implicit block. It reports how many messages were carried out.
func (s *Session) run(batch []message, last bool) (int, error) {
	if err := s.settleUnnamed(batch); err != nil {
		return 0, err
	}
	r := s.request(batch)
	binds := !r.prepares
	owed := s.unnamed.owed
	s.unnamed.owed = false
	if s.txn.Idle() && binds && !last && !r.local {
		s.txn.Begin(false)
	}
	var rep reply
	var failedToo bool
	var err error
	if s.txn.Idle() && !binds {
		failedToo, err = s.plain(r, &rep)
	} else {
		failedToo, err = s.execute(r, &rep)
	}
	if err != nil {
		return 0, err
	}
	s.voidSync = last && rep.swallows()
	done := len(batch)
	if s.skip = failedToo; failedToo {
		done = min(rep.done, len(batch))
	}
	if s.unnamed.noted(batch, s.batchBytes, done, &rep, owed); failedToo {
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

// request makes one of messages for the backend.
func (s *Session) request(batch []message) request {
	r := request{extended: true, settings: true, prepares: true, messages: len(batch)}
	binds, parses := false, false // and of the latter, without a name
	r.outlives = outlivesIf(replacesUsed(batch), names)
	for i := range batch {
		m := &batch[i]
		switch m.typ {
		case wire.TypeParse:
			r.parses = append(r.parses, m.name)
			parses = parses || m.name == ""
		case wire.TypeBind:
			r.prepares, binds = false, true
			r.runsCode = r.runsCode || runsCode(m.of.statement) // it is planned, too
			r.apart = r.apart || m.name != "" || m.statement == "" && !parses
			s.reads.binding(&r, m.of, wire.Frame{Type: m.typ, Raw: s.batchBytes[m.start:m.end]})
		case wire.TypeExecute:
			r.prepares = false
			r.apart = r.apart || !binds
			r.followed = r.followed || m.of != unknownStatement // with its Bind
			r.opaque = r.opaque || m.of == unknownStatement
			r.add(m.of.statement)
			r.sql = append(r.sql, m.of.sql)
			if m.of.note != "" {
				r.defines, r.notes = true, append(r.notes, m.of.note)
			}
		case wire.TypeClose:
			r.closes = r.closes || m.kind == 'S'
		case wire.TypeDescribe:
			if m.kind == 'S' {
				r.describes = append(r.describes, m.of)
			}
		}
		if m.of != nil && m.of.locks != nil {
			r.follow(i, m.of.locks)
		}
		shift := int32(0)
		if m.of != nil && m.of.marked {
			r.marked = r.marked || m.typ == wire.TypeExecute
			shift = -int32(len(s.o.Collector.BulkMark()))
		}
		r.shifts = append(r.shifts, shift)
		// To parse or bind a query takes a snapshot, too.
		if m.typ != wire.TypeClose && (m.of == nil || !settingsOnly(m.of.statement)) {
			r.settings = false
		}
	}
	raw := s.batchBytes[batch[0].start:batch[len(batch)-1].end]
	if r.direct = s.directly(batch); len(s.later.unseen) > 0 {
		r.glance = s.glancePart(batch)
	}
	r.frames = append(make([]byte, 0, len(raw)+8), raw...)
	if r.flushes() {
		r.frames = wire.AppendFlush(r.frames)
	} else {
		r.frames = wire.AppendSync(r.frames)
	}
	return r
}

// replacesUsed reports whether messages use a statement that was there before them, and then close it or give its name
// to another one. Done once more they would use that one, as ROLLBACK does not bring the first one back.
func replacesUsed(batch []message) bool {
	var used, parsed []string
	use := func(name string) {
		if !slices.Contains(parsed, name) {
			used = append(used, name)
		}
	}
	for i := range batch {
		switch m := &batch[i]; {
		case m.typ == wire.TypeBind:
			use(m.statement)
		case m.typ == wire.TypeDescribe && m.kind == 'S':
			use(m.name)
		case m.typ != wire.TypeParse && (m.typ != wire.TypeClose || m.kind != 'S'):
		case slices.Contains(used, m.name):
			return true
		case m.typ == wire.TypeParse:
			parsed = append(parsed, m.name)
		}
	}
	return false
}

// follow notes how the answer to the i-th message is followed.
func (r *request) follow(i int, l *semantics.RowLocks) {
	if r.locks == nil {
		r.locks = make([]*semantics.RowLocks, r.messages)
	}
	r.locks[i] = l
}

// answerOwn answers a message about a statement that the session carries out itself.
func (s *Session) answerOwn(m *message) error {
	if m.err != nil {
		s.skip = true
		return s.block.fail(m.err)
	}
	switch m.typ {
	case wire.TypeParse:
		if m.of.statement.Planned || s.txn.Failed() && !m.of.statement.Ends() {
			failedToo, err := s.control(m.of.statement)
			s.skip = failedToo
			return err
		}
		s.unnamed.answered(m)
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
		if m.of.statement.Kind == semantics.Tutti && !s.txn.Failed() {
			if s.later.relied {
				if err := s.caughtUp(); err != nil {
					return err
				}
			}
			s.redo.off = s.redo.off || !s.txn.Idle()
			r := s.host.Show(m.of.statement.Name)
			s.skip = r.Err != nil
			return s.block.answer(r, false)
		}
		failedToo, err := s.control(m.of.statement)
		s.skip = failedToo
		return err
	}
	return nil
}
