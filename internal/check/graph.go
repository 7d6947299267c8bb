package check

import "slices"

// dependency is a kind of edge between transactions.
type dependency uint8

const (
	ww dependency = 1 << iota // overwrote
	wr                        // was read by
	rw                        // read what the other overwrote
	so                        // came before, in a session or in real time
)

type edge struct {
	from, to int32
	kind     dependency
}

// graph is a set of edges grouped by origin.
type graph struct {
	n     int
	first []int32 // of each node's edges
	edges []edge
}

// newGraph sorts edges by origin, keeping their order otherwise.
func newGraph(n int, edges []edge) *graph {
	g := &graph{n: n, first: make([]int32, n+1), edges: make([]edge, len(edges))}
	for _, e := range edges {
		g.first[e.from+1]++
	}
	for i := range n {
		g.first[i+1] += g.first[i]
	}
	at := append([]int32(nil), g.first[:n]...)
	for _, e := range edges {
		g.edges[at[e.from]] = e
		at[e.from]++
	}
	return g
}

func (g *graph) out(v int32) []edge { return g.edges[g.first[v]:g.first[v+1]] }

// components returns the strongly connected components with more than one node, over the
// edges whose kind is in mask (Tarjan's algorithm without recursion).
func (g *graph) components(mask dependency) [][]int32 {
	const unseen = -1
	index := make([]int32, g.n)
	low := make([]int32, g.n)
	next := make([]int32, g.n)
	on := make([]bool, g.n)
	for i := range index {
		index[i] = unseen
	}
	var stack, path []int32
	var found [][]int32
	count := int32(0)
	for root := range int32(g.n) {
		if index[root] != unseen {
			continue
		}
		path = append(path, root)
		for len(path) > 0 {
			v := path[len(path)-1]
			if index[v] == unseen {
				index[v], low[v], next[v] = count, count, g.first[v]
				count++
				stack, on[v] = append(stack, v), true
			}
			descended := false
			for ; next[v] < g.first[v+1]; next[v]++ {
				e := &g.edges[next[v]]
				if e.kind&mask == 0 {
					continue
				}
				if index[e.to] == unseen {
					path = append(path, e.to)
					descended = true
					break
				}
				if on[e.to] {
					low[v] = min(low[v], low[e.to])
				}
			}
			if descended {
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				p := path[len(path)-1]
				low[p] = min(low[p], low[v])
			}
			if low[v] == index[v] {
				n := len(stack) - 1
				for stack[n] != v {
					n--
				}
				for _, x := range stack[n:] {
					on[x] = false
				}
				if len(stack)-n > 1 {
					found = append(found, append([]int32(nil), stack[n:]...))
				}
				stack = stack[:n]
			}
		}
	}
	return found
}

// search finds ways inside one component of a graph at a time.
type search struct {
	g      *graph
	part   []int32 // of each node; zero: of none
	parts  int32
	before []int32 // on the way to each node
	seen   []int32 // the round in which it was reached
	round  int32
	work   int // edges looked at
}

func newSearch(g *graph) *search {
	return &search{g: g, part: make([]int32, g.n), before: make([]int32, g.n), seen: make([]int32, g.n)}
}

// in makes ways stay inside a component, whose nodes are taken modulo the graph's size.
func (s *search) in(component []int32) {
	s.parts++
	for _, v := range component {
		s.part[int(v)%s.g.n] = s.parts
	}
}

// path finds a shortest way between two nodes over edges in mask; nil if there is none.
// The way starts with from and ends with to; equal ends ask for a cycle.
func (s *search) path(from, to int32, mask dependency) []int32 {
	s.round++
	queue := []int32{from}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, e := range s.g.out(v) {
			s.work++
			if e.kind&mask == 0 || s.part[e.to] != s.parts {
				continue
			}
			if e.to == to {
				way := []int32{to}
				for x := v; x != from; x = s.before[x] {
					way = append(way, x)
				}
				way = append(way, from)
				slices.Reverse(way)
				return way
			}
			if s.seen[e.to] != s.round && e.to != from {
				s.seen[e.to], s.before[e.to] = s.round, v
				queue = append(queue, e.to)
			}
		}
	}
	return nil
}

// alternating is the graph whose cycles are g's closed walks without two adjacent rw
// edges: node v+n is v reached by rw.
func (g *graph) alternating() *graph {
	n := int32(g.n)
	edges := make([]edge, 0, 2*len(g.edges))
	for _, e := range g.edges {
		if e.kind == rw {
			edges = append(edges, edge{e.from, e.to + n, rw})
		} else {
			edges = append(edges, edge{e.from, e.to, e.kind}, edge{e.from + n, e.to, e.kind})
		}
	}
	return newGraph(2*g.n, edges)
}

// smallest sorts a component so that reports do not depend on the search.
func smallest(c []int32) int32 {
	slices.Sort(c)
	return c[0]
}
