package semantics

import "strings"

// quick classifies the statements that make up most traffic without parsing them: one
// SELECT, INSERT, UPDATE or DELETE that mentions nothing of special meaning. It is exact
// where it answers true; anything doubtful goes to the grammar.
func quick(sql string) (Statement, bool) {
	rest := skipBlank(sql)
	n := 0
	for n < len(rest) && n < 8 && isLetter(rest[n]) {
		n++
	}
	var kind Kind
	switch word := rest[:n]; {
	case strings.EqualFold(word, "select"):
		kind = Read
	case strings.EqualFold(word, "insert"), strings.EqualFold(word, "update"), strings.EqualFold(word, "delete"):
		kind = Write
	default:
		return Statement{}, false
	}
	if kind == Write && n == len("insert") && strings.EqualFold(rest[:n], "insert") {
		rest = afterInto(rest[n:]) // its INTO is nothing special
	}
	if !single(rest) || mentionsSpecial(rest) || kind == Read && mentionsLocks(rest) {
		return Statement{}, false
	}
	s := Statement{Kind: kind, Text: sql}
	if kind == Write {
		s.Many, s.Compared = many(sql)
	}
	return s, true
}

// afterInto drops the INTO that follows INSERT.
func afterInto(s string) string {
	s = skipBlank(s)
	if len(s) > 4 && strings.EqualFold(s[:4], "into") {
		return s[4:]
	}
	return s
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// skipBlank drops leading white space and line comments.
func skipBlank(s string) string {
	for {
		s = strings.TrimLeft(s, " \t\r\n\f\v")
		if !strings.HasPrefix(s, "--") {
			return s
		}
		end := strings.IndexByte(s, '\n')
		if end < 0 {
			return ""
		}
		s = s[end:]
	}
}

// single reports whether the text surely is one statement: it has no semicolon, or only
// trailing ones.
func single(s string) bool {
	i := strings.IndexByte(s, ';')
	return i < 0 || strings.Trim(s[i:], "; \t\r\n") == ""
}

// special are words the grammar has to look at: functions and settings, INTO, schema tutti,
// and identifiers written with escapes.
var special = []string{"setval", "set_config", "lo_", "lowrite", "into ", "into\t", "into\n", "into\r", "into\f",
	"into\v", "into/", "into-", "into\"", "tutti", "u&"}

// mentionsLocks reports whether a SELECT may lock rows.
func mentionsLocks(s string) bool {
	for i := range len(s) {
		switch s[i] | 0x20 {
		case 'u', 's':
		default:
			continue
		}
		for _, w := range []string{"update", "share"} {
			if len(s)-i >= len(w) && strings.EqualFold(s[i:i+len(w)], w) {
				return true
			}
		}
	}
	return false
}

func mentionsSpecial(s string) bool {
	for i := range len(s) {
		switch s[i] | 0x20 {
		case 's', 'l', 'i', 't', 'u':
		default:
			continue
		}
		for _, w := range special {
			if len(s)-i >= len(w) && s[i]|0x20 == w[0] && strings.EqualFold(s[i:i+len(w)], w) {
				return true
			}
		}
	}
	return false
}
