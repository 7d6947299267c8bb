package capture

import "strings"

// IsQuery reports whether a noted text is a query, and no definition: that is a setval.
func IsQuery(sql string) bool {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v(")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			sql = afterComment(sql)
		default:
			word := strings.ToUpper(sql[:min(len(sql), len("SELECT"))])
			return word == "SELECT" || strings.HasPrefix(word, "WITH") || word == "VALUES"
		}
	}
}

// afterComment is what follows a comment, which may hold others.
func afterComment(sql string) string {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return sql[i+1:]
		}
	}
	return ""
}
