package chaos

import (
	"slices"
	"time"
)

// gaps are the longest times without a commit that clients saw around faults of one kind.
type gaps struct {
	kind      string
	led       bool
	count     int
	survivors time.Duration // at one node whose clients should see little of it
	victims   time.Duration // at one node that was hit
	answer    time.Duration // the longest a client of a survivor waited for one transaction
	machine   time.Duration // the longest the machine itself stood still, see pulse
	recovery  time.Duration // from the end of the fault until every node had committed
}

// longest is the longest time within [from, to] without any of these moments, which are in
// order.
func longest(times []int64, from, to int64) time.Duration {
	i, _ := slices.BinarySearch(times, from)
	var gap int64
	for last := from; ; i++ {
		next := to
		if i < len(times) && times[i] < to {
			next = times[i]
		}
		gap = max(gap, next-last)
		if next == to {
			return time.Duration(gap)
		}
		last = next
	}
}

// measured is what the gaps are computed from, in nanoseconds since the run began.
type measured struct {
	commits map[int][]int64 // acknowledged at each node, in order
	pulse   []int64
	txs     []Tx
}

func (r *recorder) measured(pulse []int64) measured {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := measured{commits: map[int][]int64{}, pulse: pulse, txs: r.history.Txs}
	for k, times := range r.commits {
		m.commits[k] = slices.Sorted(slices.Values(times))
	}
	return m
}

// waited is the longest that clients of these nodes waited for a transaction that ended
// within [from, to].
func (m measured) waited(nodes []int, from, to int64) time.Duration {
	var longest int64
	for i := range m.txs {
		if t := &m.txs[i]; t.End >= from && t.End <= to && slices.Contains(nodes, t.Node) {
			longest = max(longest, t.End-max(t.Start, from))
		}
	}
	return time.Duration(longest)
}

// calm is the row for the times between faults. A fault's victims are left out: they may still
// catch up.
const calm = "(no fault)"

// measure sums up what clients saw, by kind of fault, and lists it fault by fault. A fault's
// time lasts until the next fault; what its survivors see after every node has committed
// again is listed as calm as well.
func (m measured) measure(windows []window, at func(time.Time) int64, end time.Time) (rows, perFault []gaps) {
	add := func(x gaps) {
		i := slices.IndexFunc(rows, func(g gaps) bool { return g.kind == x.kind && g.led == x.led })
		if i < 0 {
			rows = append(rows, gaps{kind: x.kind, led: x.led})
			i = len(rows) - 1
		}
		g := &rows[i]
		g.count++
		g.survivors, g.victims, g.answer = max(g.survivors, x.survivors), max(g.victims, x.victims),
			max(g.answer, x.answer)
		g.machine, g.recovery = max(g.machine, x.machine), max(g.recovery, x.recovery)
	}
	for i, w := range windows {
		next := end
		if i+1 < len(windows) {
			next = windows[i+1].start
		}
		g := m.between(w.members, w.victims, at(w.start), at(next))
		g.kind, g.led, g.recovery = w.fault.what(), w.led, w.over.Sub(w.healed)
		perFault = append(perFault, g)
		add(g)
		between := m.between(w.members, w.victims, at(w.over), at(next))
		between.kind, between.victims = calm, 0
		add(between)
	}
	return rows, perFault
}

// between measures one stretch of time.
func (m measured) between(nodes, victims []int, from, to int64) gaps {
	var g gaps
	var survivors []int
	for _, k := range nodes {
		gap := longest(m.commits[k], from, to)
		if slices.Contains(victims, k) {
			g.victims = max(g.victims, gap)
			continue
		}
		g.survivors = max(g.survivors, gap)
		survivors = append(survivors, k)
	}
	g.answer, g.machine = m.waited(survivors, from, to), longest(m.pulse, from, to)
	return g
}
