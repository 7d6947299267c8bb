package session

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// unnamed is the statement without a name: the client's last Parse without one, until a Query or a Close removes it.
// Where the session answers such a Parse itself, or ends a transaction with a Query, the backend does not have the
// statement. A client that uses it without another Parse has the backend told of it first (settleUnnamed).
type unnamed struct {
	frame []byte // the client's Parse; empty if there is no such statement
	owed  bool   // the backend may know another one, or none
}

// removed notes that a Query has come.
func (u *unnamed) removed(statements map[string]*prepared) {
	if statements[""] != nil {
		delete(statements, "")
		u.replaced(nil, true)
	}
}

// sent notes that the backend gets a request as it came. A Query removes the statement there.
func (u *unnamed) sent(r *request) { u.owed = u.owed || !r.extended }

// replaced notes a Parse without a name, or a Close, that was carried out. Its frame is empty if the backend is never
// asked to carry out the statement.
func (u *unnamed) replaced(frame []byte, owed bool) {
	u.frame, u.owed = append(u.frame[:0], frame...), owed
}

// touches reports whether a message is a Parse or Close of the statement without a name, and whether it uses the
// statement.
func (m *message) touches() (replaces, uses bool) {
	switch m.typ {
	case wire.TypeParse:
		return m.name == "", false
	case wire.TypeClose:
		return m.kind == 'S' && m.name == "", false
	case wire.TypeDescribe:
		return false, m.kind == 'S' && m.name == ""
	case wire.TypeBind:
		return false, m.statement == ""
	}
	return false, false
}

// settleUnnamed has the backend know the statement without a name if messages use it as it was before them, or may
// change how it would be read. What the backend would read otherwise than when it was parsed is gone.
func (s *Session) settleUnnamed(batch []message) error {
	of, replaced := usesUnnamed(batch)
	if of == nil && !replaced && s.txn.Idle() && unsettles(batch, s.texts.facts.View) {
		of = s.named.statements[""]
	}
	if of == nil || !s.named.unnamed.owed {
		return nil
	}
	return sendUnnamed(s, of)
}

// sendUnnamed has the backend know the statement without a name.
func sendUnnamed(s *Session, of *prepared) error {
	if err := s.tx.takeAhead(); err != nil {
		return err
	}
	if s.txn.Open() && s.levels.snapshot() { // a Parse takes a snapshot, too
		if err := s.tx.ensureOpen(true); err != nil {
			return err
		}
	}
	frame := s.named.unnamed.frame
	if len(frame) == 0 || of == unknownStatement || (of.odd || s.texts.escape || s.texts.encoded) && !isPlain(of.sql) {
		frame = wire.AppendClose(nil, 'S', "")
	}
	s.backend.out.Append(wire.AppendSync(append(s.backend.out.AvailableBuffer(), frame...)))
	r, err := s.backend.quiet()
	s.named.unnamed.owed = r.failed != nil
	return err
}

// usesUnnamed gives the statement without a name as it is before messages that use it, or reports that they replace it
// first.
func usesUnnamed(batch []message) (of *prepared, replaced bool) {
	for i := range batch {
		if replaces, uses := batch[i].touches(); uses {
			return cmp.Or(batch[i].of, unknownStatement), false
		} else if replaces {
			return nil, true
		}
	}
	return nil, false
}

// unsettles reports whether messages execute something that may change how texts are read: anything but statements that
// read and write rows.
func unsettles(batch []message, view func(string) bool) bool {
	return slices.ContainsFunc(batch, func(m message) bool {
		if m.typ != wire.TypeExecute || m.of == nil {
			return false
		}
		kind := m.of.statement.Kind
		return kind != semantics.Write && (kind != semantics.Read || !semantics.Still(m.of.sql, view))
	})
}

// isPlain reports whether a text means the same with every encoding of a client and however backslashes are read.
func isPlain(sql string) bool {
	return !strings.ContainsFunc(sql, func(c rune) bool { return c >= 0x80 || c == '\\' })
}

// noted notes what messages have done to the statement, of which done were carried out. bytes are the messages', and
// owed is what was owed before them.
func (u *unnamed) noted(batch []message, bytes []byte, done int, rep *reply, owed bool) {
	lost := u.owed // the session has sent a Query of its own
	u.owed = u.owed || owed
	for i := range batch[:done] {
		m := &batch[i]
		if replaces, _ := m.touches(); replaces && m.typ == wire.TypeParse {
			u.replaced(bytes[m.start:m.end], lost || rep.unparsed)
		} else if replaces {
			u.replaced(nil, lost)
		}
	}
	if done < len(batch) {
		if m := &batch[done]; m.typ == wire.TypeParse && m.name == "" { // its failure has removed the one before
			m.before = nil
			u.replaced(nil, true)
		}
	}
}

// answered notes a Parse that the session has answered and the backend is never asked about.
func (u *unnamed) answered(m *message) {
	if m.name == "" {
		u.replaced(nil, true)
	}
}
