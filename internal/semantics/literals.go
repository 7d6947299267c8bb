package semantics

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Literal is a number or a string that stands in a statement's text.
type Literal struct {
	Value string // as PostgreSQL reads it for a parameter in text form
	Type  uint32 // the type's OID; 0 for a string, whose type depends on what it is used for
	At    int    // bytes before it in the text
}

const (
	literalsMax = 256
	// literalsTextMax is how long a text may be, in bytes, that is looked through for literals.
	literalsTextMax = 64 << 10

	oidInt8    = 20
	oidInt4    = 23
	oidNumeric = 1700
)

// Parametrized gives an INSERT, UPDATE or DELETE with parameters for its literals, in order. With them it means what
// the text means, or it is no statement at all, because a literal stands where only a literal may. Columns of intervals
// are an exception: a literal's fields are those of the column ('5' is days for interval day), a parameter's are not,
// and whoever uses the form has to see to it. ok is false for other statements, for literals that are more than digits,
// a sign before them, or plain strings, with BETWEEN, whose left side PostgreSQL takes twice, each time as another
// type, with the word interval, and if there are parameters already. The text is meant for
// standard_conforming_strings = on.
func Parametrized(sql string) (form string, literals []Literal, ok bool) {
	return parametrized(sql, "insert", "update", "delete")
}

// ParametrizedRead is Parametrized for a SELECT of which GlanceOf knows the form. What follows LIMIT stays as it is.
// Of another SELECT the form may mean something else: ORDER BY 1 names a column.
func ParametrizedRead(sql string) (form string, literals []Literal, ok bool) {
	return parametrized(sql, "select")
}

func parametrized(sql string, verbs ...string) (form string, literals []Literal, ok bool) {
	if len(sql) > literalsTextMax || !utf8.ValidString(sql) {
		return "", nil, false
	}
	p := parametrizer{scanner: scanner{sql: sql}, read: verbs[0] == "select"}
	if p.next(); !slices.ContainsFunc(verbs, p.is) {
		return "", nil, false
	}
	p.form = make([]byte, 0, len(sql)+16)
	for ; p.kind != 0; p.next() {
		switch p.kind {
		case wordToken:
			ok = !p.is("between") && !p.is("interval")
		case paramToken:
			ok = false
		case valueToken:
			ok = p.limit || p.take()
		default:
			ok = true
		}
		if !ok {
			return "", nil, false
		}
		p.sign.follow(&p.scanner)
		p.limit = p.read && p.is("limit")
	}
	return string(append(p.form, sql[p.done:]...)), p.literals, true
}

// parametrizer makes a form of a text.
type parametrizer struct {
	scanner
	read     bool // it is a SELECT
	limit    bool // LIMIT was read last
	sign     signs
	form     []byte
	done     int // bytes of the text that are in the form
	literals []Literal
}

// take puts a parameter in place of the literal that was read last; false if it may be none.
func (p *parametrizer) take() bool {
	at := p.from
	if p.sign.minus && p.text()[0] != '\'' && !p.bound() {
		at = p.sign.at
	}
	l, ok := literal(p.text(), at < p.from)
	if !ok || len(p.literals) == literalsMax || p.sql[p.from-1] == '&' { // which may be of U&'…'
		return false
	}
	l.At = p.from
	p.literals = append(p.literals, l)
	p.form = append(p.form, p.sql[p.done:at]...)
	if !apart(p.sql[at-1]) {
		p.form = append(p.form, ' ')
	}
	p.form = strconv.AppendInt(append(p.form, '$'), int64(len(p.literals)), 10)
	if p.done = p.to; p.done < len(p.sql) && !apart(p.sql[p.done]) {
		p.form = append(p.form, ' ')
	}
	return true
}

// signs finds the minus signs that PostgreSQL makes a part of the number behind them: those that follow neither an
// operand nor another sign that does not.
type signs struct {
	minus   bool // such a sign was read last
	at      int  // where it is
	operand bool // what was read last may end an operand
	prefix  bool // it was an operator that follows none
	dot     bool // it was a dot
}

// follow takes the word that was read last.
func (s *signs) follow(x *scanner) {
	n := signs{at: x.from, operand: true, dot: x.kind == '.'}
	switch x.kind {
	case operatorToken:
		n.operand, n.prefix = false, !s.operand
		n.minus = n.prefix && !s.prefix && x.text() == "-"
	case '(', ',', '[':
		n.operand = false
	case wordToken:
		n.operand = s.dot || !slices.ContainsFunc(beforeOperands, x.is)
	}
	*s = n
}

// beforeOperands are key words that no operand ends with, unless a dot stands before them. More there are not needed.
var beforeOperands = []string{"and", "or", "not", "where", "case", "when", "then", "else", "returning", "select"}

// bound reports whether something follows the word that binds it more tightly than a sign before it: a cast, or a
// subscript.
func (x scanner) bound() bool {
	x.next()
	return x.kind == ':' || x.kind == '['
}

// apart reports whether a character beside a parameter cannot become a part of it, nor the other way round.
func apart(c byte) bool { return strings.IndexByte(" \t\r\n(),;=", c) >= 0 }

// literal reads one; minus says that a sign before a number belongs to it. A number that fits its type with such a sign
// only is refused without one: PostgreSQL may make a sign a part of it that is not known to be one.
func literal(text string, minus bool) (Literal, bool) {
	if text[0] == '\'' {
		inner, ok := strings.CutSuffix(text[1:], "'")
		if quotes := strings.Count(inner, "'"); quotes > 0 {
			plain := strings.ReplaceAll(inner, "''", "'")
			ok = ok && 2*(len(inner)-len(plain)) == quotes // or it has parts, or no end
			inner = plain
		}
		return Literal{Value: inner}, ok
	}
	l := Literal{Value: text, Type: oidNumeric}
	if minus {
		l.Value = "-" + text
	}
	digits := strings.TrimLeft(text, "0123456789")
	switch {
	case digits != "":
		whole := len(digits) < len(text) && digits[0] == '.'
		return l, whole && strings.TrimLeft(digits[1:], "0123456789") == ""
	case minus:
		l.Type = integerType(l.Value)
		return l, true
	}
	l.Type = integerType(text)
	return l, l.Type == integerType("-"+text)
}

// integerType is the type that PostgreSQL gives to an integer, which may have a sign.
func integerType(text string) uint32 {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return oidNumeric
	case n == int64(int32(n)):
		return oidInt4
	}
	return oidInt8
}

// Pinned are the columns that have one of few values in all rows that an UPDATE or DELETE of one table looks for.
func Pinned(sql string) []string {
	if _, compared := many(sql); compared != nil {
		return compared.Columns
	}
	return nil
}
