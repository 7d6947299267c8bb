package semantics

import "strings"

// many guesses from the text of an INSERT, UPDATE, DELETE or MERGE whether it will change many rows. It
// is not looked at closely: a value may be compared with anything, and words may stand in literals.
func many(sql string) bool {
	words := 0
	insert, from, where := false, false, false
	for i := 0; i < len(sql); i++ {
		if where && sql[i] == '=' && i > 0 && !strings.ContainsRune("<>!", rune(sql[i-1])) {
			return false
		}
		if !isLetter(sql[i]) {
			continue
		}
		n := i
		for n < len(sql) && (isLetter(sql[n]) || sql[n] == '_' || sql[n] >= '0' && sql[n] <= '9') {
			n++
		}
		word := sql[i:n]
		i = n - 1
		words++
		switch {
		case words == 1 && strings.EqualFold(word, "insert"):
			insert = true
		case words == 1 && (strings.EqualFold(word, "merge") || strings.EqualFold(word, "with")):
			return true
		case insert:
			if strings.EqualFold(word, "select") {
				return true
			}
		case words > 2 && (strings.EqualFold(word, "from") || strings.EqualFold(word, "using")):
			from = true
		case strings.EqualFold(word, "where"):
			if from {
				return true
			}
			where = true
		}
	}
	return !insert
}
