package metrics

import (
	"cmp"
	"slices"
	"sync"
)

// Others is the value of labels under which counts what is beyond the bound.
const Others = "(others)"

// tablesMax bounds how many tables, by cause, have a count of their own.
const tablesMax = 200

// Tables counts what has happened to tables, by cause. The tables that it happens to most have counts of their own: for
// one more than there is room for, the one with the smallest count loses its own, which goes to Others.
type Tables struct {
	mu     sync.Mutex
	counts map[tableCause]uint64
	others uint64
}

type tableCause struct{ schema, table, cause string }

// Add counts one.
func (t *Tables) Add(schema, table, cause string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[tableCause]uint64{}
	}
	key := tableCause{schema, table, cause}
	if _, ok := t.counts[key]; !ok && len(t.counts) >= tablesMax {
		t.makeRoom()
	}
	t.counts[key]++
}

// makeRoom takes the smallest count away. The caller holds mu.
func (t *Tables) makeRoom() {
	first := true
	var least tableCause
	for k, n := range t.counts { // order-free: the least is one, ties go by name
		if first || n < t.counts[least] || n == t.counts[least] && compareTables(k, least) < 0 {
			least, first = k, false
		}
	}
	t.others += t.counts[least]
	delete(t.counts, least)
}

func compareTables(a, b tableCause) int {
	return cmp.Or(cmp.Compare(a.schema, b.schema), cmp.Compare(a.table, b.table), cmp.Compare(a.cause, b.cause))
}

func (t *Tables) read(of family, emit func(Sample)) {
	t.mu.Lock()
	keys := make([]tableCause, 0, len(t.counts))
	for k := range t.counts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareTables)
	counts := make([]uint64, len(keys))
	for i, k := range keys {
		counts[i] = t.counts[k]
	}
	others := t.others
	t.mu.Unlock()
	for i, k := range keys {
		emit(of.with(k.schema, k.table, k.cause).sample(float64(counts[i])))
	}
	if others > 0 {
		emit(of.with("", Others, "").sample(float64(others)))
	}
}
