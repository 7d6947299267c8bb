package sim

// shape is a way to cut links. Each has broken databases.
type shape struct {
	name string
	cut  func(r *random, l links)
}

var shapes = []shape{
	{"isolate: one member alone", func(r *random, l links) {
		a := r.intn(len(l))
		l.between(func(i, j int) bool { return i == a || j == a })
	}},
	{"link: two members do not reach each other", func(r *random, l links) {
		a, b := l.two(r)
		l[a][b], l[b][a] = true, true
	}},
	{"one way: a link works in one direction", func(r *random, l links) {
		a, b := l.two(r)
		l[a][b] = true
	}},
	{"deaf: a member can send but not receive", func(r *random, l links) {
		a := r.intn(len(l))
		l.between(func(_, j int) bool { return j == a })
	}},
	{"mute: a member can receive but not send", func(r *random, l links) {
		a := r.intn(len(l))
		l.between(func(i, _ int) bool { return i == a })
	}},
	{"split: two sides, at most one a majority", func(r *random, l links) {
		order := r.order(len(l))
		minority := order[:1+r.intn((len(l)+1)/2)]
		in := members(len(l), minority)
		l.between(func(i, j int) bool { return in[i] != in[j] })
	}},
	{"bridge: one member reaches both halves", func(r *random, l links) {
		order := r.order(len(l))
		half, bridge := members(len(l), order[1:1+len(l)/2]), order[0]
		l.between(func(i, j int) bool { return i != bridge && j != bridge && half[i] != half[j] })
	}},
	{"ring: everybody reaches two neighbours", func(r *random, l links) {
		order, n := r.order(len(l)), len(l)
		l.between(func(i, j int) bool { d := (order[i] - order[j] + n) % n; return d != 1 && d != n-1 })
	}},
	{"lots: each direction with its own luck", func(r *random, l links) {
		l.between(func(_, _ int) bool { return r.chance(300) })
	}},
}

// between cuts every direction f names.
func (l links) between(f func(i, j int) bool) {
	for i := range l {
		for j := range l {
			l[i][j] = i != j && (l[i][j] || f(i, j))
		}
	}
}

// two draws two members.
func (l links) two(r *random) (a, b int) {
	a = r.intn(len(l))
	return a, (a + 1 + r.intn(len(l)-1)) % len(l)
}

// members says of each of n members whether it is in the list.
func members(n int, list []int) []bool {
	in := make([]bool, n)
	for _, i := range list {
		in[i] = true
	}
	return in
}

// partition cuts links in some shape for some time; a flapping one comes and goes.
func (n *network) partition() {
	w := n.w
	if len(n.cut) == 1 {
		return
	}
	w.stats.Partitions++
	s, l := &shapes[w.rnd.intn(len(shapes))], newLinks(len(n.cut))
	s.cut(w.rnd, l)
	until, flap := w.now+w.rnd.between(20_000, 500_000), int64(0)
	if w.rnd.chance(250) {
		w.stats.Flaps++
		flap = w.rnd.between(500, 50_000)
	}
	w.say("partition until %d, flapping every %d µs: %s %v", until, flap, s.name, l)
	n.epoch++
	n.hold(l, flap, until, n.epoch)
}

// hold keeps links cut until a moment, or (flap > 0) cuts and mends them in turn.
func (n *network) hold(l links, flap, until int64, epoch int) {
	w := n.w
	if n.epoch != epoch {
		return
	}
	if w.now >= until {
		n.heal()
		return
	}
	n.rewire(l)
	if flap == 0 {
		w.after(until-w.now, func() { n.hold(l, 0, until, epoch) })
		return
	}
	w.after(w.rnd.between(1, flap), func() {
		if n.epoch != epoch {
			return
		}
		n.rewire(newLinks(len(n.cut)))
		w.after(w.rnd.between(1, flap), func() { n.hold(l, flap, until, epoch) })
	})
}

// heal mends every link.
func (n *network) heal() {
	if n.w.faulty {
		n.w.say("partition ends")
	}
	n.epoch++
	n.rewire(newLinks(len(n.cut)))
}

// rewire cuts these links and no others. Members find out that they reach others again, if they still do by then.
func (n *network) rewire(l links) {
	was := n.cut
	n.cut = l
	for _, m := range n.w.members {
		for _, o := range n.w.members {
			if !was[m.id-1][o.id-1] || l[m.id-1][o.id-1] {
				continue
			}
			n.w.after(n.w.rnd.between(100, 30_000), m.in(func() {
				if m.linked(o) {
					n.w.stats.Reached++
					m.engine.Reached(o.id)
					m.wake()
				}
			}))
		}
	}
}
