package forced

import (
	"fmt"
	"sort"

	"github.com/tuttidb/tutti/internal/ordering"
)

// Term is where a log's entries of a term begin. In two logs of one order entries with the same place and term are the
// same, and so is all before them (Raft's log matching).
type Term struct {
	Term  uint64 `json:"term"`
	First uint64 `json:"first"`
}

// terms lists the terms of a log's entries, the one behind which it is compacted included, if it is.
func terms(log ordering.Storage) (list []Term, err error) {
	first, err := log.FirstIndex()
	if err != nil {
		return nil, err
	}
	last, err := log.LastIndex()
	if err != nil {
		return nil, err
	}
	for at := max(first-1, 1); at <= last; {
		term, err := log.Term(at)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", at, err)
		}
		list = append(list, Term{Term: term, First: at})
		var failed error
		at += uint64(sort.Search(int(last-at+1), func(n int) bool { // terms only grow
			t, err := log.Term(at + uint64(n))
			if err != nil {
				failed = err
			}
			return t > term
		}))
		if failed != nil {
			return nil, failed
		}
	}
	return list, nil
}

// shared is the last entry that a log with these terms, which goes up to last, has in common with another one. Of what
// both have compacted, or know to be decided, they have the same.
func shared(mine []Term, last uint64, other Log, known uint64) uint64 {
	at := func(list []Term, index uint64) uint64 {
		n := sort.Search(len(list), func(i int) bool { return list[i].First > index })
		if n == 0 {
			return 0
		}
		return list[n-1].Term
	}
	most := min(last, other.Last)
	same := uint64(sort.Search(int(most), func(n int) bool { // whether the entries behind n differ
		index := uint64(n) + 1
		a, b := at(mine, index), at(other.Terms, index)
		return a != b && a != 0 && b != 0
	}))
	if len(other.Terms) > 0 && last < other.Terms[0].First {
		return min(same, known) // the other log has nothing to compare with any more
	}
	return same
}
