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

// literally finds out whether a statement that came as a Query can be run directly, or be a glance; nil if not.
func (h *batch) literally(st semantics.Statement, sql string) (*directRun, *glancePart) {
	switch {
	case st.Notes || h.texts.escape || h.texts.encoded || h.forms.off:
	case st.Kind == semantics.Write:
		return h.forms.literally(sql), nil
	case st.Kind == semantics.Read && st.Locks == nil && len(h.later.unseen) > 0:
		text, literals, ok := semantics.ParametrizedRead(sql)
		if !ok || len(text) > formTextMax {
			break
		}
		types, bind := literalBind(literals)
		return nil, &glancePart{bind: bind, sql: text, types: types, query: true, describes: true}
	}
	return nil, nil
}

// literally gives the direct run of a text with literals; nil if there is none.
func (fs *forms) literally(sql string) *directRun {
	text, literals, ok := semantics.Parametrized(sql)
	if !ok {
		return nil
	}
	types, bind := literalBind(literals)
	f := fs.form(text, types, true)
	if f == nil || f.refused {
		return nil
	}
	fs.use(f)
	return &directRun{query: true, parts: []directPart{{form: f, bind: bind, text: sql, literals: literals}}}
}

// literalBind gives the types of literals, and the Bind with them as parameters.
func literalBind(literals []semantics.Literal) (types []uint32, bind []byte) {
	types, params := make([]uint32, len(literals)), make([][]byte, len(literals))
	for i, l := range literals {
		types[i], params[i] = l.Type, []byte(l.Value)
	}
	return types, wire.AppendBind(nil, "", "", nil, params, nil)
}

// asLiteral makes an error about a parameter one about the literal that it stands for, at its place in the client's
// text. It reports whether it is one.
func (p *directPart) asLiteral(e *wire.ErrorFields) bool {
	at := parameterContext.FindStringSubmatchIndex(e.Where)
	if p.bound || at == nil {
		return false
	}
	n, err := strconv.Atoi(e.Where[at[2]:at[3]])
	if err != nil || n < 1 || n > len(p.literals) {
		return false
	}
	e.Where, e.Position = strings.TrimSuffix(e.Where[:at[0]], "\n"),
		int32(utf8.RuneCountInString(p.text[:p.literals[n-1].At]))+1
	return true
}

// parameterContext begins what PostgreSQL says, in whatever language, of a parameter that it cannot read: unnamed
// portal parameter $1 = '...'. The value can have more lines.
var parameterContext = regexp.MustCompile(`(?m)^[^'"$\n]*\$([0-9]+) = '`)
