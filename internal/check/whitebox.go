package check

import "sort"

// Access is one read or write of one key. Version names the value: unique per key and
// write, zero for "no row". Reads give what was seen, writes what was left.
type Access struct {
	Key     uint64
	Version uint64
	Write   bool
	Makes   bool // a write that found no row
}

// Transaction is one entry of a white-box history, in the order its session ran them.
type Transaction struct {
	Session int
	Level   Level
	Outcome Outcome
	// Snap is the ordinal of the last transaction the snapshot sees (for ReadCommitted:
	// of the last one applied when it began).
	Snap uint64
	// Seq is the transaction's own ordinal, zero if it was never ordered.
	Seq      uint64
	Accesses []Access
	// Start and End are times; used only when strong.
	Start, End int64
}

// WhiteBoxOptions says what else was promised.
type WhiteBoxOptions struct {
	// Initial gives the version of each key before ordinal 1, by key; absent means none.
	Initial map[uint64]uint64
	// Strong: a transaction sees everything acknowledged before it began.
	Strong bool
}

// installed is one version in a key's history.
type installed struct {
	seq, version uint64
	tx           int
}

type whiteBox struct {
	report
	h    []Transaction
	o    WhiteBoxOptions
	keys map[uint64][]installed // by seq
}

// WhiteBox checks a history against the order it claims.
func WhiteBox(h []Transaction, o WhiteBoxOptions) []Anomaly {
	w := &whiteBox{h: h, o: o, keys: map[uint64][]installed{}}
	w.install()
	for i := range h {
		w.outcome(i)
		w.reads(i)
		if h[i].Level != ReadCommitted && h[i].Seq != 0 {
			w.firstCommitter(i)
		}
	}
	w.sessions()
	if o.Strong {
		w.strong()
	}
	return w.anomalies
}

// install builds every key's versions in the order of ordinals.
func (w *whiteBox) install() {
	var order []int
	for i := range w.h {
		if w.h[i].Seq != 0 {
			order = append(order, i)
		}
	}
	sort.SliceStable(order, func(a, b int) bool { return w.h[order[a]].Seq < w.h[order[b]].Seq })
	for n, i := range order {
		t := &w.h[i]
		if n > 0 && w.h[order[n-1]].Seq == t.Seq {
			w.add("ordinal", []int{order[n-1], i}, "two transactions have ordinal %d", t.Seq)
		}
		for _, a := range t.Accesses {
			if !a.Write {
				continue
			}
			vs := w.keys[a.Key]
			if len(vs) > 0 && vs[len(vs)-1].tx == i {
				vs[len(vs)-1].version = a.Version
				continue
			}
			w.keys[a.Key] = append(vs, installed{t.Seq, a.Version, i})
		}
	}
}

func (w *whiteBox) outcome(i int) {
	t := &w.h[i]
	writes := false
	for _, a := range t.Accesses {
		writes = writes || a.Write
	}
	switch {
	case t.Outcome == OK && writes && t.Seq == 0:
		w.add("lost commit", []int{i}, "acknowledged, but it has no ordinal")
	case t.Outcome == Fail && t.Seq != 0:
		w.add("failed commit", []int{i}, "reported as failed, but it has ordinal %d", t.Seq)
	case t.Seq != 0 && t.Snap >= t.Seq:
		w.add("future", []int{i}, "its snapshot %d is not before its ordinal %d", t.Snap, t.Seq)
	}
}

// at gives the version of a key after ordinal s.
func (w *whiteBox) at(key, s uint64) uint64 {
	vs := w.keys[key]
	n := sort.Search(len(vs), func(i int) bool { return vs[i].seq > s })
	if n == 0 {
		return w.o.Initial[key]
	}
	return vs[n-1].version
}

func (w *whiteBox) reads(i int) {
	t := &w.h[i]
	at := t.Snap
	if t.Level == Serializable && t.Seq != 0 {
		at = t.Seq - 1
	}
	own := map[uint64]uint64{}
	for _, a := range t.Accesses {
		if a.Write {
			own[a.Key] = a.Version
			continue
		}
		if v, ok := own[a.Key]; ok {
			if v != a.Version {
				w.add("internal", []int{i}, "wrote version %d of key %x and then read version %d", v, a.Key, a.Version)
			}
			continue
		}
		if t.Level == ReadCommitted {
			if !w.existed(a.Key, a.Version) {
				w.add("G1a", []int{i}, "read version %d of key %x, which nobody committed", a.Version, a.Key)
			}
			continue
		}
		if want := w.at(a.Key, at); want != a.Version {
			w.add("snapshot", []int{i}, "read version %d of key %x, but at ordinal %d it is version %d", a.Version,
				a.Key, at, want)
		}
	}
}

func (w *whiteBox) existed(key, version uint64) bool {
	if version == 0 || w.o.Initial[key] == version {
		return true
	}
	for _, v := range w.keys[key] {
		if v.version == version {
			return true
		}
	}
	return false
}

// firstCommitter looks for another writer of the same key between snapshot and ordinal. A row that is made is not built
// on what the snapshot shows of its key: there must be none.
func (w *whiteBox) firstCommitter(i int) {
	t := &w.h[i]
	first := map[uint64]bool{}
	for _, a := range t.Accesses {
		if !a.Write || first[a.Key] {
			continue
		}
		first[a.Key] = true
		if a.Makes {
			if v := w.at(a.Key, t.Seq-1); t.Seq != 0 && v != 0 {
				w.add("lost update", []int{i}, "key %x was made at %d over version %d", a.Key, t.Seq, v)
			}
			continue
		}
		vs := w.keys[a.Key]
		n := sort.Search(len(vs), func(j int) bool { return vs[j].seq > t.Snap })
		if n < len(vs) && vs[n].seq < t.Seq {
			w.add("lost update", []int{vs[n].tx, i}, "key %x was written at %d, inside (%d, %d) of another writer",
				a.Key, vs[n].seq, t.Snap, t.Seq)
		}
	}
}

// sessions checks that a session sees its own commits, and never an older state.
func (w *whiteBox) sessions() {
	type last struct {
		seen uint64
		tx   int
	}
	seen := map[int]last{}
	for i := range w.h {
		t := &w.h[i]
		if t.Outcome != OK {
			continue
		}
		l := seen[t.Session]
		if t.Level != ReadCommitted && t.Snap < l.seen {
			w.add("session", []int{l.tx, i}, "its snapshot %d is older than %d, which its session had seen", t.Snap,
				l.seen)
		}
		now := t.Seq
		if t.Level != ReadCommitted {
			now = max(now, t.Snap)
		}
		if now >= l.seen {
			seen[t.Session] = last{now, i}
		}
	}
}

// strong checks snapshots against everything acknowledged before they were asked for.
func (w *whiteBox) strong() {
	var ends, starts []int
	for i := range w.h {
		if w.h[i].Outcome == OK {
			starts = append(starts, i)
			if w.h[i].Seq != 0 {
				ends = append(ends, i)
			}
		}
	}
	sort.SliceStable(starts, func(a, b int) bool { return w.h[starts[a]].Start < w.h[starts[b]].Start })
	sort.SliceStable(ends, func(a, b int) bool { return w.h[ends[a]].End < w.h[ends[b]].End })
	newest, n := -1, 0
	for _, i := range starts {
		for ; n < len(ends) && w.h[ends[n]].End < w.h[i].Start; n++ {
			if newest < 0 || w.h[ends[n]].Seq > w.h[newest].Seq {
				newest = ends[n]
			}
		}
		if newest >= 0 && w.h[i].Snap < w.h[newest].Seq {
			w.add("stale", []int{newest, i}, "its snapshot %d misses ordinal %d, acknowledged before it began",
				w.h[i].Snap, w.h[newest].Seq)
		}
	}
}
