package semantics

import "strings"

// Still reports whether a text is a SELECT that, as far as it tells, calls no functions but a few of PostgreSQL's that
// leave everything as it is: no setting, nor role. It reads no view, which may call others: view tells whether
// something of a name, without schema, may be one.
func Still(sql string, view func(name string) bool) bool {
	x := scanner{sql: sql}
	if x.next(); !x.is("select") {
		return false
	}
	word, dotted := "", false // what stands before
	for x.next(); x.kind != 0; x.next() {
		before := word
		switch word = ""; x.kind {
		case '(':
			if before != "" && !stillWords[before] {
				return false
			}
		case wordToken:
			if word = strings.ToLower(x.text()); word == "into" {
				return false
			}
			if view(word) {
				return false
			}
			if dotted {
				word = "."
			}
		case quotedToken:
			if view(unquoted(x.text())) || strings.HasSuffix(x.sql[:x.from], "&") { // it may be U&"…"
				return false
			}
			word = "."
		}
		dotted = x.kind == '.'
	}
	return true
}

// stillWords may stand before a parenthesis: they are no functions, or such as do nothing but compute.
var stillWords = stillOnes()

func stillOnes() map[string]bool {
	words := map[string]bool{}
	for _, list := range [][]string{{"and", "or", "not", "in", "any", "all", "some", "exists", "from", "where", "on",
		"using", "select", "distinct", "by", "having", "when", "then",
		"else", "case", "as", "join", "union", "except", "intersect", "values", "limit", "offset", "with", "over",
		"filter", "between", "like", "ilike", "is"},
		{"numeric", "decimal", "varchar", "char", "character", "timestamp", "timestamptz", "time", "interval", "bit",
			"float"},
		{"count", "sum", "avg", "min", "max", "coalesce", "nullif", "greatest", "least", "cast", "row", "array"},
		directFunctions} {
		for _, w := range list {
			words[w] = true
		}
	}
	return words
}
