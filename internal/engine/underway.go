package engine

import (
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// underway are the rows of a group's local transactions, which are committed beside its blind ones. It is gathered
// when there is one of those.
type underway struct {
	locals []*writeset.Writeset
	held   map[uint64]bool
	taken  int // of locals
}

// meets takes the next task of a group, and reports whether it is blind and would meet a row that a local one has
// under way: it must find it as it will be.
func (u *underway) meets(t *Task) bool {
	switch {
	case t.Local:
		u.locals = append(u.locals, t.Writeset)
		return false
	case len(u.locals) == 0 || !t.Writeset.Blind():
		return false
	}
	if u.held == nil {
		u.held = map[uint64]bool{}
	}
	for ; u.taken < len(u.locals); u.taken++ {
		u.locals[u.taken].EachKey(func(k writeset.Key) bool {
			u.held[k.Hash] = true
			return true
		})
	}
	return slices.ContainsFunc(t.Writeset.Rows, func(r writeset.Row) bool { return u.held[r.Identity] })
}
