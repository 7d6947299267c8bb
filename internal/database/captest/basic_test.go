package captest

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

func ops(w *writeset.Writeset) (out []writeset.Op) {
	for _, r := range w.Rows {
		out = append(out, r.Op)
	}
	return out
}

func TestRows(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, a int, b text)")
	p.tx("INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y'), (3, NULL, NULL)")
	p.equal()
	p.tx("UPDATE t SET a = a + 1 WHERE id < 3")
	p.tx("DELETE FROM t WHERE id = 1")
	p.tx("UPDATE t SET id = id + 10")
	p.equal()
	w := p.tx("SELECT * FROM t")
	if !w.Empty() {
		t.Fatalf("a reading transaction has %d rows", len(w.Rows))
	}
}
