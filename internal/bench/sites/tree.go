package sites

import "github.com/tuttidb/tutti/internal/lead"

// paperMs is the latency of an update when nothing else runs, at seven sites with a diameter of 45 ms, in Amir,
// Danilov, Miskin-Amir, Stanton and Tutu, Practical Wide-Area Database Replication, 5 (Emulab).
const paperMs, paperDiameter = 268, 45

// link joins two sites, so many milliseconds apart when the tree's diameter is paperDiameter.
type link struct{ a, b, ms int }

// tree has seven sites and six links, as that paper's network. The paper does not give its links' delays. In these no
// site is near all others: the one in the middle is 11 ms from the nearest majority and 25 ms from the farthest site.
var tree = []link{{0, 1, 6}, {1, 2, 14}, {2, 3, 11}, {3, 4, 8}, {4, 5, 6}, {3, 6, 10}}

// waysOf are those between all sites of a tree, in milliseconds each way, when its diameter is as given.
func waysOf(links []link, diameter int) lead.Ways {
	n := len(links) + 1
	w := make(lead.Ways, n)
	for from := range w {
		w[from] = make([]int64, n)
		walk(links, from, -1, 0, func(to, ms int) {
			w[from][to] = int64((ms*diameter + paperDiameter/2) / paperDiameter)
		})
	}
	return w
}

// walk calls f for a site and all behind it, with how far each is; before is where it came from.
func walk(links []link, at, before, far int, f func(site, ms int)) {
	f(at, far)
	for _, l := range links {
		switch {
		case l.a == at && l.b != before:
			walk(links, l.b, at, far+l.ms, f)
		case l.b == at && l.a != before:
			walk(links, l.a, at, far+l.ms, f)
		}
	}
}

// all is that each of so many votes.
func all(n int) []bool {
	votes := make([]bool, n)
	for i := range votes {
		votes[i] = true
	}
	return votes
}

// floor is how long an update at a site needs at least while one leads.
func floor(w lead.Ways, leader, at int) int64 { return w.Commit(all(len(w)), leader, at) }

// sum is how long updates of these sites need at least, one of each.
func sum(w lead.Ways, leader int, writers []int) (s int64) {
	for _, at := range writers {
		s += floor(w, leader, at)
	}
	return s
}

// bestFor is the leader with which updates of these sites need least; the first one of equals.
func bestFor(w lead.Ways, writers ...int) (best int) {
	least := sum(w, best, writers)
	for l := range w {
		if s := sum(w, l, writers); s < least {
			best, least = l, s
		}
	}
	return best
}

// restPercent is by how much less updates must need for the lead to move (lead.Options).
const restPercent = 15

// rests reports whether the lead rests where it is while all write alike.
func rests(w lead.Ways, leader int) bool {
	var every []int
	for k := range w {
		every = append(every, k)
	}
	now, best := sum(w, leader, every), sum(w, bestFor(w, every...), every)
	return (now-best)*100 < now*restPercent
}

// mover is the site that gains most, in proportion, when the lead is where its own updates need least instead of at
// leader.
func mover(w lead.Ways, leader int) (at int) {
	share := func(at int) float64 { return float64(floor(w, bestFor(w, at), at)) / float64(floor(w, leader, at)) }
	for k := range w {
		if share(k) < share(at) {
			at = k
		}
	}
	return at
}
