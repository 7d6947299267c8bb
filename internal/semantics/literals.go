package semantics

import (
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

// Parametrized gives an INSERT, UPDATE or DELETE with parameters for its literals, in order. With them it means what the text means, or it
// is no statement at all, because a literal stands where only a literal may; a column of intervals is an exception: a literal's
// fields are those of the column ('5' is days for interval day), a parameter's are not, and whoever uses the form has to see to it. ok is false for other
// statements, for literals that are more than digits or plain strings, with BETWEEN, whose left side PostgreSQL takes twice, each time as another
// type, with the word interval, and if there are parameters already. The text is meant for standard_conforming_strings = on.
func Parametrized(sql string) (form string, literals []Literal, ok bool) {
	if len(sql) > literalsTextMax || !utf8.ValidString(sql) {
		return "", nil, false
	}
	x := scanner{sql: sql}
	if x.next(); !x.is("insert") && !x.is("update") && !x.is("delete") {
		return "", nil, false
	}
	b := make([]byte, 0, len(sql)+16)
	from := 0
	for ; x.kind != 0; x.next() {
		switch x.kind {
		case wordToken:
			if x.is("between") || x.is("interval") {
				return "", nil, false
			}
		case paramToken:
			return "", nil, false
		case valueToken:
			l, ok := literal(x.text())
			if !ok || len(literals) == literalsMax || x.from > 0 && x.sql[x.from-1] == '&' { // which may be of U&'…'
				return "", nil, false
			}
			l.At = x.from
			literals = append(literals, l)
			b = append(b, sql[from:x.from]...)
			if !apart(sql[x.from-1]) {
				b = append(b, ' ')
			}
			b = strconv.AppendInt(append(b, '$'), int64(len(literals)), 10)
			if from = x.to; from < len(sql) && !apart(sql[from]) {
				b = append(b, ' ')
			}
		}
	}
	return string(append(b, sql[from:]...)), literals, true
}

// apart reports whether a character beside a parameter cannot become a part of it, nor the other way round.
func apart(c byte) bool { return strings.IndexByte(" \t\r\n(),;=", c) >= 0 }

// literal reads one. A number that fits its type with a sign only is refused: PostgreSQL makes the sign a part of it.
func literal(text string) (Literal, bool) {
	if text[0] == '\'' {
		inner, ok := strings.CutSuffix(text[1:], "'")
		if quotes := strings.Count(inner, "'"); quotes > 0 {
			plain := strings.ReplaceAll(inner, "''", "'")
			ok = ok && 2*(len(inner)-len(plain)) == quotes // or it has parts, or no end
			inner = plain
		}
		return Literal{Value: inner}, ok
	}
	digits := strings.TrimLeft(text, "0123456789")
	if digits == "" {
		n, err := strconv.ParseUint(text, 10, 64)
		switch {
		case n == 1<<31 || n == 1<<63:
			return Literal{}, false
		case n < 1<<31:
			return Literal{Value: text, Type: oidInt4}, true
		case err == nil && n < 1<<63:
			return Literal{Value: text, Type: oidInt8}, true
		}
		return Literal{Value: text, Type: oidNumeric}, true
	}
	if len(digits) == len(text) || digits[0] != '.' {
		return Literal{}, false
	}
	return Literal{Value: text, Type: oidNumeric}, strings.TrimLeft(digits[1:], "0123456789") == ""
}

// Pinned are the columns that have one of few values in all rows that an UPDATE or DELETE of one table looks for.
func Pinned(sql string) []string {
	if _, compared := many(sql); compared != nil {
		return compared.Columns
	}
	return nil
}
