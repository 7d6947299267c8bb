package sim

// event is something that happens at a simulated time, in microseconds.
type event struct {
	at  int64
	seq uint64
	run func()
}

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// agenda is a heap of events ordered by (time, sequence).
type agenda struct {
	heap []event
	seq  uint64
}

func (q *agenda) push(at int64, run func()) {
	q.seq++
	q.heap = append(q.heap, event{at, q.seq, run})
	h := q.heap
	for i := len(h) - 1; i > 0; {
		p := (i - 1) / 2
		if !h[i].before(&h[p]) {
			return
		}
		h[i], h[p] = h[p], h[i]
		i = p
	}
}

func (q *agenda) pop() event {
	h := q.heap
	top, n := h[0], len(h)-1
	h[0], h[n] = h[n], event{}
	q.heap = h[:n]
	h = q.heap
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			return top
		}
		if c+1 < n && h[c+1].before(&h[c]) {
			c++
		}
		if !h[c].before(&h[i]) {
			return top
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}
