package session

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// named is what the client has given names: prepared statements and portals, as they will be when its messages are
// carried out.
type named struct {
	texts *texts
	locks *locks

	statements map[string]*prepared
	portals    map[string]*prepared
	unnamed    unnamed
}

// examine finds out what a message is about and keeps track of names.
func (k *named) examine(f wire.Frame) (message, error) {
	switch f.Type {
	case wire.TypeParse:
		p, err := wire.DecodeParse(f.Body())
		if err != nil {
			return message{}, err
		}
		return k.examineParse(p), nil
	case wire.TypeBind:
		return k.examineBind(f)
	case wire.TypeExecute:
		portal, _, err := wire.DecodeExecute(f.Body())
		m := message{of: k.portals[portal]}
		if m.of == nil {
			m.of, m.kind, m.name, m.hidden = unknownStatement, 'P', portal, true
		} else if name := m.of.statement.Deallocates; name != "" {
			m.kind, m.name, m.before = 'S', name, k.statements[name]
			delete(k.statements, name) // another one may get the name unseen, by PREPARE
		}
		return m, err
	}
	kind, name, err := wire.DecodeTarget(f.Body())
	if e := reserved(name); e != nil {
		return message{err: e}, nil
	}
	m := message{kind: kind, name: name}
	m.of = k.of(kind)[name]
	m.before = m.of
	if err == nil && f.Type == wire.TypeClose {
		delete(k.of(kind), name)
	}
	return m, err
}

func (k *named) examineParse(p wire.Parse) message {
	if e := reserved(p.Name); e != nil {
		return message{err: e}
	}
	list, e := k.texts.classify(p.SQL)
	if e != nil {
		return message{err: e}
	}
	st := list[0]
	if len(list) > 1 {
		st = semantics.Statement{Kind: semantics.Read} // the backend refuses it
	}
	of := &prepared{statement: st, sql: p.SQL, types: p.ParamOIDs(), own: st.Control() || k.deallocates(st),
		odd: k.texts.escape || k.texts.encoded, foreign: k.texts.foreign(p.SQL)}
	if len(list) == 1 {
		of.locks = k.locks.follows(st, k.statements[st.Executes])
	}
	of.marked = of.locks == nil && len(list) == 1 && k.texts.marks(st, p.SQL)
	old := k.statements[p.Name]
	if old != nil && p.Name != "" && (old.own || of.own) {
		return message{err: wire.Errorf(wire.CodeDuplicatePreparedStmt, "prepared statement \"%s\" already exists",
			p.Name)}
	}
	k.statements[p.Name] = of
	m := message{of: of, kind: 'S', name: p.Name, before: old}
	sql := k.texts.told(p.SQL)
	if of.locks != nil && of.locks == st.Locks {
		sql = of.locks.Text
	}
	if sql != p.SQL {
		m.raw = wire.AppendParse(nil, p.Name, sql, of.types)
	}
	return m
}

// examineBind finds out what a Bind is about.
func (k *named) examineBind(f wire.Frame) (message, error) {
	b, err := wire.DecodeBind(f.Body())
	if err != nil {
		return message{}, err
	}
	if e := reserved(b.Statement, b.Portal); e != nil {
		return message{err: e}, nil
	}
	of := k.statements[b.Statement]
	if of == nil {
		of = unknownStatement
	}
	if n := parameters(b.Rest); of.own && n > 0 {
		return message{err: wire.Errorf(wire.CodeProtocolViolation,
			"bind message supplies %d parameters, but prepared statement \"%s\" requires 0", n, b.Statement)}, nil
	}
	if of.statement.Notes {
		with, e := bound(of, b)
		if e == nil && (of.foreign || k.texts.foreign(with.note)) {
			e = errForeignNote()
		}
		if e != nil {
			return message{err: e}, nil
		}
		of = with
	}
	m := message{of: of, kind: 'P', name: b.Portal, statement: b.Statement, before: k.portals[b.Portal],
		hidden: of == unknownStatement}
	k.portals[b.Portal] = of
	if of.locks != nil {
		m.raw = wire.AppendBindColumn(nil, f.Raw)
	}
	return m, nil
}

// forget forgets those with names; the one without stays.
func (k *named) forget() {
	maps.DeleteFunc(k.statements, func(name string, _ *prepared) bool { return name != "" })
}

// writes remembers that texts thought to read turned out to write, also of statements that are prepared already.
func (k *named) writes(texts []string) {
	for _, sql := range texts {
		k.texts.cache.writes(sql)
	}
	for _, of := range k.statements { // order-free: each by itself
		if of.statement.Kind == semantics.Read && slices.Contains(texts, of.sql) {
			of.statement.Kind = semantics.Write
		}
	}
}

// takeBack takes back what examine noted of messages that were not carried out, last first.
func (k *named) takeBack(batch []message) {
	for i := len(batch) - 1; i >= 0; i-- {
		m := &batch[i]
		if m.err != nil || m.typ == wire.TypeDescribe || m.typ == wire.TypeExecute && m.kind != 'S' {
			continue
		}
		if m.before == nil {
			delete(k.of(m.kind), m.name)
			continue
		}
		k.of(m.kind)[m.name] = m.before
	}
}

// of is the table of statements ('S') or portals ('P').
func (k *named) of(kind byte) map[string]*prepared {
	if kind == 'P' {
		return k.portals
	}
	return k.statements
}

// parameters is how many parameters the rest of a Bind message announces.
func parameters(rest []byte) int {
	if len(rest) < 2 {
		return 0
	}
	at := 2 + 2*int(binary.BigEndian.Uint16(rest))
	if len(rest) < at+2 {
		return 0
	}
	return int(binary.BigEndian.Uint16(rest[at:]))
}

// reserved refuses the names of our own statements: who could close or replace them could
// decide what is replicated.
func reserved(names ...string) *wire.SQLError {
	for _, n := range names {
		if strings.HasPrefix(n, ownPrefix) {
			return wire.Errorf(wire.CodeInsufficientPrivilege, "the name \"%s\" is reserved for Tutti", n)
		}
	}
	return nil
}

// deallocates reports whether a statement is a DEALLOCATE of one that the backend has never heard of.
func (k *named) deallocates(st semantics.Statement) bool {
	of := k.statements[st.Deallocates]
	return st.Deallocates != "" && of != nil && of.own
}
