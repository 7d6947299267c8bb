package semantics

import "strings"

// The catalog holds the bounds that sequences have at this member, see decision 0028. Who asks pg_catalog.pg_sequence
// by its full name, as psql and pg_dump do, is shown what a function tells: the declared ones: a dump would restore
// sequences of other bounds. Who asks for prepared statements is shown those that are not the session's own.
// What stands instead is as long, so that positions in the text stay.
var told = []struct {
	name, instead string
	columns       string // for the name before a column's
	relation      bool   // only where FROM or JOIN is before it, and its columns are not qualified with it
}{
	{"pg_catalog.pg_sequence", "tutti.pg_sequence()   ", "           pg_sequence", false},
	{"pg_catalog.pg_prepared_statements", "tutti.prepared_statements_of_user", "", true},
	{"pg_prepared_statements", "tutti.prepared_by_user", "", true},
}

// Told makes a text ask for what was declared where the catalog says something else here.
func Told(sql string) string {
	for _, t := range told {
		if strings.Contains(sql, t.name) && !(t.relation && strings.Contains(sql, t.name+".")) {
			sql = instead(sql, t.name, t.instead, t.columns, t.relation)
		}
	}
	return sql
}

// instead finds the name where it is no part of a string or comment.
func instead(sql, name, other, columns string, relation bool) string {
	var b strings.Builder
	done := 0
	x := scanner{sql: sql}
	for x.next(); x.kind != 0; x.next() {
		i, end := x.from, x.from+len(name)
		if x.kind != wordToken || !strings.HasPrefix(sql[i:], name) {
			continue
		}
		use := name
		if columns != "" && i > 0 && end < len(sql) && sql[end] == '.' &&
			strings.IndexByte(" \t\r\n(,=<>+-*/|!", sql[i-1]) >= 0 {
			use = columns
		}
		if i > 0 && strings.IndexByte(" \t\r\n(,", sql[i-1]) >= 0 &&
			(end == len(sql) || strings.IndexByte(" \t\r\n),;", sql[end]) >= 0) &&
			(!relation || fromBefore(sql[:i])) {
			use = other
		}
		b.WriteString(sql[done:i] + use)
		done = end
	}
	return b.String() + sql[done:]
}

// fromBefore reports whether a text ends with FROM or JOIN.
func fromBefore(text string) bool {
	words := strings.Fields(text[max(0, len(text)-20):])
	if len(words) == 0 {
		return false
	}
	last := words[len(words)-1]
	return strings.EqualFold(last, "FROM") || strings.EqualFold(last, "JOIN")
}
