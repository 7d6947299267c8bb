package check

import "sort"

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

// path finds a shortest way between two nodes over edges in mask; nil if there is none.
// The way starts with from and ends with to; equal ends ask for a cycle.
func (g *graph) path(from, to int32, mask dependency) []int32 {
	before := map[int32]int32{}
	queue := []int32{from}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, e := range g.out(v) {
			if e.kind&mask == 0 {
				continue
			}
			if e.to == to {
				way := []int32{to}
				for x := v; x != from; x = before[x] {
					way = append(way, x)
				}
				way = append(way, from)
				for i, j := 0, len(way)-1; i < j; i, j = i+1, j-1 {
					way[i], way[j] = way[j], way[i]
				}
				return way
			}
			if _, ok := before[e.to]; !ok && e.to != from {
				before[e.to] = v
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
	sort.Slice(c, func(a, b int) bool { return c[a] < c[b] })
	return c[0]
}
