package semantics

import "strings"

// unlessAlone are words that stand in no SELECT of one relation, or in one that does more than to show it.
var unlessAlone = map[string]bool{"select": true, "join": true, "union": true, "intersect": true, "except": true,
	"table": true, "into": true, "for": true, "tablesample": true, "lateral": true, "only": true}

// ReadsAlone gives the name, without its schema, of the only relation that a SELECT reads, if its text is so plain that
// it tells: it calls nothing, has no query in it, and names no column with something before it, which may be a
// function.
func ReadsAlone(sql string) (name string, ok bool) {
	x := scanner{sql: sql}
	if x.next(); !x.is("select") {
		return "", false
	}
	for x.next(); x.plain(); x.next() {
		if x.is("from") {
			break
		}
	}
	if !x.is("from") {
		return "", false
	}
	if x.next(); !x.plain() {
		return "", false
	}
	if _, name = x.name(); name == "" || strings.Contains(name, `"`) || x.kind == operatorToken { // it may be U&"…"
		return "", false
	}
	for x.plain() && x.kind != ',' && !x.is("from") {
		x.next()
	}
	if x.kind == ';' {
		x.next()
	}
	return name, x.kind == 0
}

// plain reports whether a word may stand in the text of ReadsAlone.
func (x *scanner) plain() bool {
	return x.kind != 0 && x.kind != '(' && x.kind != ';' && x.kind != '.' &&
		(x.kind != wordToken || !unlessAlone[strings.ToLower(x.text())])
}
