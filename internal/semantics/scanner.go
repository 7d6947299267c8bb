package semantics

import "strings"

// scanner reads the words of a text as PostgreSQL's own does, which is taken for one that is meant for
// standard_conforming_strings = on. It knows nothing of grammar, and of what is no statement it makes something.
type scanner struct {
	sql string
	at  int // where the next word may begin
	// of the word that was read last: one of the tokens, a character that stands for itself, or 0 at the end
	kind     byte
	from, to int  // where it is
	equal    bool // an operator = was read
}

// Kinds of words.
const (
	wordToken     = 'a' // a name or a key word
	quotedToken   = '"' // a name in quotes
	valueToken    = '1' // a number or a string
	paramToken    = '$'
	operatorToken = '='
)

// text is the word as it stands in the text.
func (x *scanner) text() string { return x.sql[x.from:x.to] }

// is reports whether the last word is this one, which is given in small letters.
func (x *scanner) is(word string) bool {
	if x.kind != wordToken || x.to-x.from != len(word) {
		return false
	}
	for i := range len(word) {
		if c := x.sql[x.from+i]; c != word[i] && (c < 'A' || c > 'Z' || c|0x20 != word[i]) {
			return false
		}
	}
	return true
}

// name reads a name with dots in it, and gives its last part and the one before; empty if there is none.
func (x *scanner) name() (before, name string) {
	for {
		switch before = name; x.kind {
		case wordToken:
			name = strings.ToLower(x.text())
		case quotedToken:
			name = unquoted(x.text())
		default:
			return before, name
		}
		if x.next(); x.kind != '.' {
			return before, name
		}
		x.next()
	}
}

// unquoted is the name in a quotedToken.
func unquoted(text string) string { return strings.ReplaceAll(strings.Trim(text, `"`), `""`, `"`) }

// skip passes over white space and comments.
func (x *scanner) skip() {
	for x.at < len(x.sql) {
		switch c := x.sql[x.at]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			x.at++
		case c == '-' && strings.HasPrefix(x.sql[x.at:], "--"):
			x.at = lineEnd(x.sql, x.at)
		case c == '/' && strings.HasPrefix(x.sql[x.at:], "/*"):
			x.at, _ = commentEnd(x.sql, x.at)
		default:
			return
		}
	}
}

// next reads a word.
func (x *scanner) next() {
	x.skip()
	sql, i := x.sql, x.at
	x.kind, x.from = 0, i
	if i < len(sql) {
		switch c := sql[i]; {
		case c >= '0' && c <= '9':
			x.kind = valueToken
			for i < len(sql) && (wordByte(sql[i]) || sql[i] == '.') {
				i++
			}
		case wordByte(c):
			x.kind = wordToken
			for i < len(sql) && (wordByte(sql[i]) || sql[i] == '$') {
				i++
			}
			if i == x.from+1 && i < len(sql) && sql[i] == '\'' && strings.IndexByte("eEbBxXnN", c) >= 0 {
				x.kind = valueToken
				i, _, _ = stringEnd(sql, i, c|0x20 == 'e')
			}
		case c == '\'':
			x.kind = valueToken
			i, _, _ = stringEnd(sql, i, false)
		case c == '"':
			x.kind = quotedToken
			i = quotedEnd(sql, i)
		case c == '$':
			x.kind = valueToken
			if i = dollarEnd(sql, i); i == x.from+1 {
				x.kind = paramToken
				for i < len(sql) && sql[i] >= '0' && sql[i] <= '9' {
					i++
				}
			}
		case operatorByte(c):
			x.kind = operatorToken
			i = operatorEnd(sql, i)
			x.equal = x.equal || i == x.from+1 && c == '='
		default:
			x.kind = c
			i++
		}
	}
	x.at = min(i, len(sql))
	x.to = x.at
}

func quotedEnd(sql string, i int) int {
	for i++; i < len(sql); i++ {
		if sql[i] != '"' {
			continue
		}
		if i++; i == len(sql) || sql[i] != '"' {
			return i
		}
	}
	return i
}

func operatorByte(c byte) bool { return strings.IndexByte("+-*/<>=~!@#%^&|`?", c) >= 0 }

// operatorEnd finds the end of an operator, in which no comment begins, and which ends with a sign only if it is
// one of a user's.
func operatorEnd(sql string, i int) int {
	from, users := i, false
	for i < len(sql) && operatorByte(sql[i]) {
		if rest := sql[i:]; i > from && (strings.HasPrefix(rest, "--") || strings.HasPrefix(rest, "/*")) {
			break
		}
		users = users || strings.IndexByte("~!@#%^&|`?", sql[i]) >= 0
		i++
	}
	for !users && i > from+1 && (sql[i-1] == '+' || sql[i-1] == '-') {
		i--
	}
	return i
}
