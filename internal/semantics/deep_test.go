package semantics

import (
	"strings"
	"testing"
)

// A text that would end the process is unknown to the session, and left to PostgreSQL.
func TestDeep(t *testing.T) {
	const many = 50_000
	for _, sql := range []string{
		"SELECT 1" + strings.Repeat("+1", many),
		"SELECT 1" + strings.Repeat("::int", many),
		"SELECT ((('a'" + strings.Repeat(" || ',' || E'\\'' /*,*/ -- ,\n", many) + "|| 'b')))",
		"SELECT a" + strings.Repeat(" COLLATE c", many),
		"SELECT a" + strings.Repeat(" IS NULL", many),
		"SELECT 1, 2 WHERE a AND b" + strings.Repeat(" UNION ALL SELECT 1, 2 WHERE a AND b", many),
		"SELECT 1 FROM a" + strings.Repeat(" JOIN a ON a.a = b.b AND b.c = a.d", many),
		"SELECT 1" + strings.Repeat(" + (2, 3)", many),
		"SELECT 1" + strings.Repeat(" + CASE WHEN true AND false THEN 1 END", many),
		"SELECT 1" + strings.Repeat(" + t.case", many) + " FROM t",
		"SELECT 1" + strings.Repeat(" + CASE WHEN t.end AND true THEN 1 END", many) + " FROM t",
		"SELECT 1 WHERE (" + strings.Repeat("1=1 AND ", many) + "1" + strings.Repeat("+1", many) + ")",
		"SELECT " + strings.Repeat("(", 1000) + "1" + strings.Repeat("+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1)", 1000) +
			strings.Repeat("+1", many),
	} {
		list := Classify("EXPLAIN " + sql)
		if _, ok := GlanceOf(sql); ok || len(list) != 1 || list[0].Kind != Unknown {
			t.Errorf("%.60s…: %d statements, the first of kind %v", sql, len(list), list[0].Kind)
		}
	}
	for _, sql := range []string{
		"INSERT INTO t VALUES (1, -1, 'a')" + strings.Repeat(", (-1, 2 + -3, 'b' || 'c')", many),
		strings.Repeat("UPDATE t SET a = a + 1 WHERE id = -1;", many/50),
		"SELECT 1 FROM t WHERE a = 1" + strings.Repeat(" OR a = -1 AND b = 2", many/10),
		"SELECT 1 WHERE 1 IN (1" + strings.Repeat(", -1", many) + ")",
		"SELECT 1" + strings.Repeat(" UNION ALL SELECT a, b FROM t WHERE c = 1", 2000),
	} {
		if list := Classify("EXPLAIN " + sql); list[0].Kind == Unknown {
			t.Errorf("%.60s… is unknown", sql)
		}
	}
}
