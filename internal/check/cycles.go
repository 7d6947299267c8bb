package check

import "sort"

// before makes the edges of sessions, and of real time if strong.
func (l *lists) before() {
	last := map[int]int32{}
	for i := range l.h {
		if l.h[i].Outcome != OK {
			continue
		}
		if p, ok := last[l.h[i].Session]; ok {
			l.edges = append(l.edges, edge{p, int32(i), so})
		}
		last[l.h[i].Session] = int32(i)
	}
	if l.o.Strong {
		l.realTime()
	}
}

// realTime links every transaction to those that began after its end, through a chain of
// extra nodes, one per end, so that the number of edges stays linear.
func (l *lists) realTime() {
	var ends, starts []int32
	for i := range l.h {
		if l.h[i].Outcome == OK {
			ends, starts = append(ends, int32(i)), append(starts, int32(i))
		}
	}
	sort.SliceStable(ends, func(a, b int) bool { return l.h[ends[a]].End < l.h[ends[b]].End })
	sort.SliceStable(starts, func(a, b int) bool { return l.h[starts[a]].Start < l.h[starts[b]].Start })
	chain, n := int32(-1), 0
	for _, i := range starts {
		for ; n < len(ends) && l.h[ends[n]].End < l.h[i].Start; n++ {
			node := int32(len(l.h) + l.extra)
			l.extra++
			l.edges = append(l.edges, edge{ends[n], node, so})
			if chain >= 0 {
				l.edges = append(l.edges, edge{chain, node, so})
			}
			chain = node
		}
		if chain >= 0 {
			l.edges = append(l.edges, edge{chain, i, so})
		}
	}
}

// cycles looks for anomalies that are cycles, the worst first.
func (l *lists) cycles() {
	g := newGraph(len(l.h)+l.extra, l.edges)
	l.each(g, "G0", "writes in a circle", ww)
	if len(l.anomalies) > 0 {
		return // a broken order makes every further cycle doubtful
	}
	l.each(g, "G1c", "circular flow of information", ww|wr|so)
	if len(l.anomalies) > 0 {
		return
	}
	l.snapshotCycles(g)
	l.serializableCycles()
}

// each reports a cycle of every component.
func (l *lists) each(g *graph, kind, text string, mask dependency) {
	s := newSearch(g)
	for _, c := range g.components(mask) {
		s.in(c)
		from := smallest(c)
		l.add(kind, l.visible(s.path(from, from, mask)), "%s", text)
	}
}

// visible drops the nodes that stand for moments, and the repeated end of a cycle.
func (l *lists) visible(way []int32) []int {
	var txs []int
	for n, v := range way {
		if int(v) < len(l.h) && (n == 0 || v != way[0]) {
			txs = append(txs, int(v))
		}
	}
	return txs
}

// snapshotCycles looks for closed walks without two adjacent rw edges: snapshot isolation
// has none, because (ww ∪ wr ∪ so) ; rw? is acyclic.
func (l *lists) snapshotCycles(g *graph) {
	a := g.alternating()
	plain, doubled := newSearch(g), newSearch(a)
	for _, c := range a.components(ww | wr | rw | so) {
		from := smallest(c)
		plain.in(c)
		if way := l.single(plain, c); way != nil {
			l.add("G-single", l.visible(way), "one anti-dependency closes a circle")
			continue
		}
		doubled.in(c)
		way := doubled.path(from, from, ww|wr|rw|so)
		for i := range way {
			way[i] %= int32(g.n)
		}
		l.add("G-nonadjacent", l.visible(way), "a circle whose anti-dependencies are not adjacent (a long fork is one)")
	}
}

// workMax bounds the search for the simplest name of a broken snapshot, in edges: about a second.
const workMax = 20_000_000

// single looks in a component of the alternating graph for a cycle with exactly one rw.
func (l *lists) single(s *search, c []int32) []int32 {
	for _, v := range c {
		if int(v) >= s.g.n {
			continue
		}
		for _, e := range s.g.out(v) {
			if e.kind != rw || s.part[e.to] != s.parts {
				continue
			}
			if s.work > workMax {
				return nil
			}
			if way := s.path(e.to, e.from, ww|wr|so); way != nil {
				return way
			}
		}
	}
	return nil
}

// serializableCycles looks for any cycle among the transactions that asked for none.
func (l *lists) serializableCycles() {
	ok := func(v int32) bool { return int(v) >= len(l.h) || l.h[v].Level == Serializable }
	var edges []edge
	for _, e := range l.edges {
		if ok(e.from) && ok(e.to) {
			edges = append(edges, e)
		}
	}
	g := newGraph(len(l.h)+l.extra, edges)
	if len(l.anomalies) > 0 {
		return
	}
	l.each(g, "G2-item", "a circle that no serial order explains (write skew is one)", ww|wr|rw|so)
}
