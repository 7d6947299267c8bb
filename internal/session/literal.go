package session

import (
	"regexp"
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
	types := make([]uint32, len(literals))
	for i, l := range literals {
		types[i] = l.Type
	}
	f := s.direct.form(text, types, true)
	if f == nil || f.refused {
		return nil
	}
	if s.direct.use(f); f.uses < formUses {
		return nil
	}
	params := make([][]byte, len(literals))
	for i, l := range literals {
		params[i] = []byte(l.Value)
	}
	return &directRun{query: true, closes: s.statements[""] != nil,
		parts: []directPart{{form: f, bind: wire.AppendBind(nil, "", "", nil, params, nil), text: sql, literals: literals}}}
}

// asLiteral makes an error about a parameter one about the literal that it stands for, at its place in the client's text.
// It reports whether it is one.
func (p *directPart) asLiteral(e *wire.ErrorFields) bool {
	at := parameterContext.FindStringSubmatchIndex(e.Where)
	if p.bound || at == nil {
		return false
	}
	n, err := strconv.Atoi(e.Where[at[2]:at[3]])
	if err != nil || n < 1 || n > len(p.literals) {
		return false
	}
	e.Where, e.Position = strings.TrimSuffix(e.Where[:at[0]], "\n"), int32(utf8.RuneCountInString(p.text[:p.literals[n-1].At]))+1
	return true
}

// parameterContext begins what PostgreSQL says, in whatever language, of a parameter that it cannot read: unnamed portal parameter $1 = '...'.
// The value can have more lines.
var parameterContext = regexp.MustCompile(`(?m)^[^'"$\n]*\$([0-9]+) = '`)
