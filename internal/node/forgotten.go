package node

import (
	"github.com/tuttidb/tutti/internal/rowcache"
	"github.com/tuttidb/tutti/internal/writeset"
)

// forget forgets what is known of rows that a transaction takes away with their tables. It comes before the transaction
// is visible to a session of this node; who looks at such a table before it is waits for its lock.
func (l *life) forget(w *writeset.Writeset) {
	if w == nil {
		return
	}
	if l.additions.max > 0 && rowcache.Forgets(w) {
		l.additions.forget()
	}
	l.present.forget(w)
}
