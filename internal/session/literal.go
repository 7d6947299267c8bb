package session

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// A statement that comes as a Query is run directly with its literals as parameters: that is one form for all
// texts that differ in nothing else, and PostgreSQL need not parse and plan each of them. The client is told the same.

// literally finds out whether a statement that came as a Query can be run directly; nil if not.
func (s *Session) literally(st semantics.Statement, sql string) *directRun {
	if st.Kind != semantics.Write || st.Notes || s.escape || s.direct.encoded || s.direct.off {
		return nil
	}
	text, literals, ok := semantics.Parametrized(sql)
	if !ok {
		return nil
	}
	types, params := make([]uint32, len(literals)), make([][]byte, len(literals))
	for i, l := range literals {
		types[i], params[i] = l.Type, []byte(l.Value)
	}
	f := s.direct.form(text, types, true)
	if f == nil {
		return nil
	}
	s.direct.use(f)
	return &directRun{query: true, closes: s.statements[""] != nil,
		parts: []directPart{{form: f, bind: wire.AppendBind(nil, "", "", nil, params, nil), text: sql, literals: literals}}}
}

// asLiteral makes an error about a parameter one about the literal that it stands for, at its place in the client's text.
// It reports whether it is one.
func (p *directPart) asLiteral(e *wire.ErrorFields) bool {
	before := max(0, strings.LastIndexByte(e.Where, '\n'))
	_, number, _ := strings.Cut(e.Where[before:], "$") // unnamed portal parameter $1 = '...', in whatever language
	n, err := strconv.Atoi(number[:len(number)-len(strings.TrimLeft(number, "0123456789"))])
	if p.bound || err != nil || n < 1 || n > len(p.literals) {
		return false
	}
	e.Where, e.Position = e.Where[:before], int32(utf8.RuneCountInString(p.text[:p.literals[n-1].At]))+1
	return true
}
