package chaos

import (
	"math/rand/v2"
	"slices"
)

// crew are the clients of one node. When it is removed they go to others, as soon as they see an error, until another
// node comes.
type crew struct{ home int } // zero: none

// comes has clients at a node: those that have no home, or new ones.
func (l *load) comes(k int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.crews {
		if w.home == 0 {
			w.home = k
			return
		}
	}
	w := &crew{home: k}
	l.crews = append(l.crews, w)
	works := append(slices.Clone(workloads), transfer)
	if l.c.o.Large {
		works[len(workloads)] = large
	}
	for i := range l.c.o.Clients {
		c := &client{load: l, crew: w, node: k, work: works[i%len(works)], mode: modes[(i+k)%len(modes)],
			rng: rand.New(rand.NewPCG(l.c.o.Seed, uint64(1000*k+i)))}
		l.wg.Go(c.run)
	}
}

// goes says that a node is none of the cluster any more.
func (l *load) goes(k int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.crews {
		if w.home == k {
			w.home = 0
		}
	}
}

func (l *load) home(w *crew) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.home
}
