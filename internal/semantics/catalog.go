package semantics

import "strings"

// The catalog holds the increments that sequences have at this member. Who asks pg_catalog.pg_sequence by its
// full name, as psql and pg_dump do, is shown what a function tells: the declared ones: a dump would restore
// sequences of other increments. Its name is as long, so that positions in the text stay.
const (
	sequenceCatalog = "pg_catalog.pg_sequence"
	sequenceTold    = "tutti.pg_sequence_is()"
)

// Told makes a text ask for what was declared where the catalog says something else here.
func Told(sql string) string {
	if !strings.Contains(sql, sequenceCatalog) {
		return sql
	}
	var b strings.Builder
	for rest := sql; ; {
		i := strings.Index(rest, sequenceCatalog)
		if i < 0 {
			return b.String() + rest
		}
		end := i + len(sequenceCatalog)
		name := sequenceCatalog
		if i > 0 && strings.IndexByte(" \t\r\n(,", rest[i-1]) >= 0 && (end == len(rest) || strings.IndexByte(" \t\r\n),;", rest[end]) >= 0) {
			name = sequenceTold
		}
		b.WriteString(rest[:i] + name)
		rest = rest[end:]
	}
}
