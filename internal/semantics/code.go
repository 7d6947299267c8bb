package semantics

import "strings"

// codeWords are in texts that may make functions of the session alone, or run queries that are given as text: what such
// a session calls is not known.
var codeWords = []string{"function", "procedure", "routine", "_to_xml", "ts_stat", "ts_rewrite"}

// mentionsCode reports whether one of them is in a text.
func mentionsCode(sql string) bool {
	for i := range len(sql) {
		switch sql[i] | 0x20 {
		case 'f', 'p', 'r', 't', '_' | 0x20:
		default:
			continue
		}
		for _, w := range codeWords {
			if len(sql)-i >= len(w) && strings.EqualFold(sql[i:i+len(w)], w) {
				return true
			}
		}
	}
	return false
}

// Access reports whether a text asks whether its transaction may write.
func Access(sql string) bool {
	const name = "transaction_read_only"
	return strings.Contains(strings.ToLower(sql), name)
}
