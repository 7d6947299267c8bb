package semantics

import "strings"

// Escaped rewrites a text that is meant for standard_conforming_strings = off, so that it means the same with
// it on: strings with backslashes become E'…'. ok is false where that cannot be told; unsafe is true if
// PostgreSQL refuses the whole text, because of U&'…' in it.
func Escaped(sql string) (meant string, ok, unsafe bool) {
	var b strings.Builder
	from := 0
	for i := 0; i < len(sql); {
		c := sql[i]
		switch {
		case c == '-' && strings.HasPrefix(sql[i:], "--"):
			i = lineEnd(sql, i)
		case c == '/' && strings.HasPrefix(sql[i:], "/*"):
			end, ok := commentEnd(sql, i)
			if !ok {
				return sql, false, false
			}
			i = end
		case c == '"':
			end := strings.IndexByte(sql[i+1:], '"')
			if end < 0 {
				return sql, false, false
			}
			i += end + 2
		case c == '$':
			i = dollarEnd(sql, i)
		case c == '\'':
			before := i > 0 && wordByte(sql[i-1])
			word := wordBefore(sql, i)
			bits := strings.EqualFold(word, "b") || strings.EqualFold(word, "x")
			escapes := strings.EqualFold(word, "e")
			if i >= 2 && sql[i-1] == '&' && strings.EqualFold(wordBefore(sql, i-1), "u") {
				return sql, false, true
			}
			end, backslash, ok := stringEnd(sql, i, !bits)
			if !ok || before && !bits && !escapes {
				return sql, false, false
			}
			if backslash && !escapes && !bits {
				b.WriteString(sql[from:i] + "E")
				from = i
			}
			i = end
		case wordByte(c):
			for i < len(sql) && (wordByte(sql[i]) || sql[i] == '$') {
				i++
			}
		default:
			i++
		}
	}
	return b.String() + sql[from:], true, false
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// wordBefore is the word that ends at i.
func wordBefore(sql string, i int) string {
	from := i
	for from > 0 && (wordByte(sql[from-1]) || sql[from-1] == '$') {
		from--
	}
	return sql[from:i]
}

func lineEnd(sql string, i int) int {
	if n := strings.IndexAny(sql[i:], "\r\n"); n >= 0 {
		return i + n
	}
	return len(sql)
}

// commentEnd finds the end of a comment, in which others may be.
func commentEnd(sql string, i int) (int, bool) {
	depth := 0
	for i < len(sql) {
		switch {
		case strings.HasPrefix(sql[i:], "/*"):
			depth++
			i += 2
		case strings.HasPrefix(sql[i:], "*/"):
			depth--
			if i += 2; depth == 0 {
				return i, true
			}
		default:
			i++
		}
	}
	return i, false
}

// dollarEnd finds the end of a string between dollars, or of what only looks like one's beginning.
func dollarEnd(sql string, i int) int {
	n := strings.IndexByte(sql[i+1:], '$')
	if n < 0 {
		return i + 1
	}
	tag := sql[i : i+n+2]
	for j := 1; j < len(tag)-1; j++ {
		if !wordByte(tag[j]) || j == 1 && tag[j] >= '0' && tag[j] <= '9' {
			return i + 1
		}
	}
	end := strings.Index(sql[i+len(tag):], tag)
	if end < 0 {
		return len(sql)
	}
	return i + 2*len(tag) + end
}

// stringEnd finds the end of a string with all its parts, which stand on lines of their own, and whether a
// backslash is in it; escapes says that one takes the next character along.
func stringEnd(sql string, i int, escapes bool) (end int, backslash, ok bool) {
	for {
		for i++; ; i++ {
			if i >= len(sql) {
				return i, backslash, false
			}
			if sql[i] == '\\' && escapes {
				backslash = true
				i++
				continue
			}
			if sql[i] != '\'' {
				continue
			}
			if i+1 >= len(sql) || sql[i+1] != '\'' {
				break
			}
			i++
		}
		i++
		next, more := continued(sql, i)
		if !more {
			return i, backslash, true
		}
		i = next
	}
}

// continued finds the next part of a string after i: on another line, with nothing but blanks and comments to the
// end of a line between.
func continued(sql string, i int) (int, bool) {
	line := false
	for i < len(sql) {
		switch c := sql[i]; {
		case c == '\n' || c == '\r':
			line = true
			i++
		case c == ' ' || c == '\t' || c == '\f' || c == '\v':
			i++
		case strings.HasPrefix(sql[i:], "--"):
			i = lineEnd(sql, i)
		case c == '\'' && line:
			return i, true
		default:
			return i, false
		}
	}
	return i, false
}
