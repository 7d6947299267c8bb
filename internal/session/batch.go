package session

import (
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// batch is what the client has sent since the last Sync or Flush, and what requests are made of it.
type batch struct {
	reserved Marks
	texts    *texts
	reads    *reads
	forms    *forms
	later    *later

	messages []message
	bytes    []byte // of all of them
	skip     bool   // after an error, until Sync
	pause    pause

	gathering bool // the next frame is waited for with a batch that may be run meanwhile
	voidSync  bool // the Sync just read came before the end of a COPY and gets no answer
}

// message is one frame of the batch up to a Sync or Flush.
type message struct {
	typ        byte
	start, end int       // in batch.bytes
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

// crowded reports whether the batch must be run before a further message of n bytes joins
// it: because it executes something, whose results would fill the way back while the message
// is written (S5), or because it would hold too much besides one large message.
func (h *batch) crowded(n int) bool {
	if h.executes() {
		return true
	}
	largest := n
	for i := range h.messages {
		largest = max(largest, h.messages[i].end-h.messages[i].start)
	}
	return len(h.bytes)+n-largest > pipelineBytesMax
}

// executes reports whether the batch executes something. A text with a backslash that follows waits for that, which may
// have changed how it is to be read.
func (h *batch) executes() bool {
	return slices.ContainsFunc(h.messages, func(m message) bool { return m.typ == wire.TypeExecute })
}

// resets reports whether messages end with an execution that takes something from the session that it stands on:
// prepared statements, its own among them, or tutti.tx. What follows is looked at when these are there again, and the
// client's are known to be gone.
func resets(batch []message) bool {
	if len(batch) == 0 {
		return false
	}
	m := &batch[len(batch)-1]
	return m.err == nil && m.typ == wire.TypeExecute &&
		(m.of.statement.Forgets || m.of.statement.Scope == semantics.ResetAll)
}

// request makes one of messages for the backend.
func (h *batch) request(batch []message) request {
	r := request{extended: true, prepares: true, messages: len(batch), does: doing{settings: true}}
	r.does.outlives = outlivesIf(replacesUsed(batch), names)
	var seen seen
	for i := range batch {
		m := &batch[i]
		h.add(&r, m, &seen)
		if m.of != nil && m.of.locks != nil {
			r.follow(i, m.of.locks)
			if m.typ == wire.TypeBind {
				r.answer.locked = append(r.answer.locked, lockedRow{m.of.locks.Row, h.bytes[m.start:m.end]})
			}
		}
		shift := int32(0)
		if m.of != nil && m.of.marked {
			r.marked = r.marked || m.typ == wire.TypeExecute
			shift = -int32(len(h.reserved.BulkMark()))
		}
		r.answer.shifts = append(r.answer.shifts, shift)
		// To parse or bind a query takes a snapshot, too.
		if m.typ != wire.TypeClose && (m.of == nil || !settingsOnly(m.of.statement)) {
			r.does.settings = false
		}
	}
	raw := h.bytes[batch[0].start:batch[len(batch)-1].end]
	if r.way.direct = h.directly(batch); len(h.later.unseen) > 0 {
		r.way.glance = h.glancePart(batch)
	}
	r.frames = append(make([]byte, 0, len(raw)+8), raw...)
	if r.flushes() {
		r.frames = wire.AppendFlush(r.frames)
	} else {
		r.frames = wire.AppendSync(r.frames)
	}
	return r
}

// seen is what has come in a request: a Bind, and a Parse without a name.
type seen struct{ bind, parse bool }

// add adds to a request what one of its messages needs.
func (h *batch) add(r *request, m *message, seen *seen) {
	switch m.typ {
	case wire.TypeParse:
		r.parses = append(r.parses, m.name)
		seen.parse = seen.parse || m.name == ""
	case wire.TypeBind:
		r.prepares, seen.bind = false, true
		r.does.runsCode = r.does.runsCode || runsCode(m.of.statement) // it is planned, too
		r.does.apart = r.does.apart || m.name != "" || m.statement == "" && !seen.parse
		h.reads.binding(r, m.of, wire.Frame{Type: m.typ, Raw: h.bytes[m.start:m.end]})
	case wire.TypeExecute:
		r.prepares = false
		r.does.apart = r.does.apart || !seen.bind
		r.executes(m.of)
	case wire.TypeClose:
		r.closes = r.closes || m.kind == 'S'
	case wire.TypeDescribe:
		if m.kind == 'S' {
			r.answer.describes = append(r.answer.describes, m.of)
		}
	}
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
	if r.answer.locks == nil {
		r.answer.locks = make([]*semantics.RowLocks, r.messages)
	}
	r.answer.locks[i] = l
}

// directly finds out whether a request can be run directly: it is nothing but executions of prepared
// statements that write, all by the unnamed portal.
func (h *batch) directly(batch []message) *directRun {
	var parts []directPart
	for len(batch) > 0 {
		part, n := h.directPart(batch)
		if n == 0 {
			return nil
		}
		parts = append(parts, part)
		batch = batch[n:]
	}
	for i := range parts {
		h.forms.use(parts[i].form)
	}
	return &directRun{parts: parts}
}

// directPart finds out whether the batch begins with such an execution, and of how many messages.
func (h *batch) directPart(batch []message) (part directPart, n int) {
	raw := func(m *message) []byte { return h.bytes[m.start:m.end] }
	var parsed *prepared
	if batch[0].typ == wire.TypeParse {
		if parsed = batch[0].of; batch[0].name == "" {
			part.unparsed = true
		} else {
			part.parse = raw(&batch[0])
		}
		n++
	}
	if len(batch) < n+2 || batch[n].typ != wire.TypeBind || batch[n].name != "" {
		return part, 0
	}
	bind := &batch[n]
	part.bind, part.name = raw(bind), bind.statement
	n++
	if m := &batch[n]; m.typ == wire.TypeDescribe && m.kind == 'P' && m.name == "" {
		part.describes = true
		n++
	}
	if len(batch) == n || batch[n].typ != wire.TypeExecute || batch[n].of != bind.of ||
		parsed != nil && parsed != bind.of || !bind.of.writes() {
		return part, 0
	}
	_, limit, _ := wire.DecodeExecute(wire.Frame{Raw: raw(&batch[n])}.Body())
	part.limited = limit > 0
	part.form = h.forms.formOf(bind.of)
	if part.form == nil {
		return part, 0
	}
	return part, n + 1
}

// writes reports whether a statement does nothing but write, and its text means to the backend what it means to us.
func (p *prepared) writes() bool {
	return p.statement.Kind == semantics.Write && !(p.marked && p.statement.Many) && !p.odd
}

// executes adds what an Execute needs.
func (r *request) executes(of *prepared) {
	r.looks.followed = r.looks.followed || of != unknownStatement // with its Bind
	r.looks.opaque = r.looks.opaque || of == unknownStatement
	r.does.add(of.statement)
	r.sql = append(r.sql, of.sql)
	if of.note != "" {
		r.does.defines, r.does.notes = true, append(r.does.notes, of.note)
	}
}
