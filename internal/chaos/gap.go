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
	client    time.Duration // of a single client of a survivor
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

// times are the moments of acknowledged commits at one node, by client and together.
type times struct {
	clients [][]int64
	all     []int64
}

func (r *recorder) times() map[int]times {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[int]times{}
	for k, clients := range r.commits {
		t := times{clients: clients}
		for _, c := range clients {
			t.all = append(t.all, c...)
		}
		slices.Sort(t.all)
		out[k] = t
	}
	return out
}

// calm is the row for the times between faults.
const calm = "(no fault)"

// measure sums up what clients saw, by kind of fault. A fault's time lasts until the next
// fault; what happens after every node has committed again counts as calm as well.
func (r *recorder) measure(windows []window, end time.Time, nodes int) (rows []gaps, perFault []gaps) {
	at := r.times()
	find := func(kind string, led bool) *gaps {
		i := slices.IndexFunc(rows, func(g gaps) bool { return g.kind == kind && g.led == led })
		if i < 0 {
			rows = append(rows, gaps{kind: kind, led: led})
			i = len(rows) - 1
		}
		return &rows[i]
	}
	for i, w := range windows {
		next := end
		if i+1 < len(windows) {
			next = windows[i+1].start
		}
		g := gaps{kind: w.fault.Kind, led: w.led, count: 1, recovery: w.over.Sub(w.healed)}
		between := gaps{kind: calm, count: 1}
		for k := 1; k <= nodes; k++ {
			gap := longest(at[k].all, r.at(w.start), r.at(next))
			between.survivors = max(between.survivors, longest(at[k].all, r.at(w.over), r.at(next)))
			if slices.Contains(w.victims, k) {
				g.victims = max(g.victims, gap)
				continue
			}
			g.survivors = max(g.survivors, gap)
			for _, c := range at[k].clients {
				if len(c) > 0 {
					g.client = max(g.client, longest(c, r.at(w.start), r.at(next)))
				}
			}
		}
		perFault = append(perFault, g)
		for _, x := range []gaps{g, between} {
			row := find(x.kind, x.led)
			row.count += x.count
			row.survivors, row.victims = max(row.survivors, x.survivors), max(row.victims, x.victims)
			row.client, row.recovery = max(row.client, x.client), max(row.recovery, x.recovery)
		}
	}
	return rows, perFault
}
