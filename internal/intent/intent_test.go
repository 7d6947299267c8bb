package intent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// world plays random calls and checks the invariants after each, with nothing of the manager's but what it tells.
type world struct {
	random *rand.Rand
	m      Manager
	now    uint64
	asked  []asked
	edges  map[Owner][]Owner
	trace  []string
}

type asked struct {
	owner    Owner
	resource Resource
	mode     Mode
	deadline uint64
	granted  bool
}

func (w *world) waits(o Owner) bool {
	return slices.ContainsFunc(w.asked, func(a asked) bool { return a.owner == o && !a.granted })
}

// step makes one call.
func (w *world) step() {
	o := Owner(1 + w.random.IntN(5))
	switch k := w.random.IntN(10); {
	case k < 5 && !w.waits(o):
		r := w.random.IntN(2)
		a := asked{owner: o, resource: Resource(r), mode: Mode(2*r + w.random.IntN(2))}
		a.deadline = w.now + uint64(w.random.IntN(8))
		w.trace = append(w.trace, fmt.Sprintf("request %+v", a))
		w.asked = append(w.asked, a)
		w.m.Request(a.owner, a.resource, a.mode, a.deadline)
	case k < 7:
		w.trace = append(w.trace, fmt.Sprintf("release %d", o))
		w.asked = slices.DeleteFunc(w.asked, func(a asked) bool { return a.owner == o })
		delete(w.edges, o)
		w.m.Release(o)
	case k == 7 && w.random.IntN(2) == 0:
		w.trace = append(w.trace, fmt.Sprintf("drop %d", o))
		w.asked = slices.DeleteFunc(w.asked, func(a asked) bool { return a.owner == o && a.granted && a.resource == 1 })
		w.m.Drop(o, 1)
	case k < 8:
		by := []Owner{Owner(1 + w.random.IntN(5))}
		if by[0] == o || w.waits(o) || w.random.IntN(3) == 0 { // it waits in one place
			by = nil
		}
		w.trace = append(w.trace, fmt.Sprintf("blocked %d by %d", o, by))
		w.edges[o] = by
		w.m.Blocked(o, by...)
	default:
		w.now += uint64(w.random.IntN(4))
		w.trace = append(w.trace, fmt.Sprintf("tick %d", w.now))
		w.m.Tick(w.now)
	}
	for _, e := range w.m.Ready() {
		w.trace = append(w.trace, fmt.Sprintf("  %d %s", e.Owner, e.Outcome))
		w.take(e)
	}
}

// take notes how the request of a waiting owner has ended.
func (w *world) take(e Event) {
	for i, a := range w.asked {
		if a.owner == e.Owner && !a.granted {
			if w.asked[i].granted = true; e.Outcome != Granted {
				w.asked = slices.Delete(w.asked, i, i+1)
			}
			return
		}
	}
	w.trace = append(w.trace, "  nobody asked for that")
}

// exclusive are the modes that nobody has beside another.
var exclusive = map[Mode]bool{Own: true, Bars: true}

// behind are those in whose way somebody is, and who that is (I2).
func (w *world) behind() map[Owner][]Owner {
	out := map[Owner][]Owner{}
	for i, a := range w.asked {
		for j, b := range w.asked {
			conflict := a.resource == b.resource && a.owner != b.owner && (exclusive[a.mode] || exclusive[b.mode])
			more := slices.ContainsFunc(w.asked, func(c asked) bool {
				return c.owner == a.owner && c.resource == a.resource && c.granted
			})
			if !a.granted && conflict && (b.granted || j < i && !more) {
				out[a.owner] = append(out[a.owner], b.owner)
			}
		}
	}
	return out
}

// wrong says what invariant does not hold.
func (w *world) wrong() string {
	if len(w.trace) > 0 && w.trace[len(w.trace)-1] == "  nobody asked for that" {
		return "an event for nobody"
	}
	here, waits := w.behind(), w.behind()
	for o, by := range w.edges {
		waits[o] = append(waits[o], by...)
	}
	for _, a := range w.asked {
		for _, b := range w.asked {
			both := a.granted && b.granted && a.owner != b.owner && a.resource == b.resource
			if both && (exclusive[a.mode] || exclusive[b.mode]) {
				return fmt.Sprintf("I1: %+v and %+v", a, b)
			}
		}
		if a.granted {
			continue
		}
		if len(here[a.owner]) == 0 {
			return fmt.Sprintf("I2: %+v waits for nobody", a)
		}
		if a.deadline <= w.now {
			return fmt.Sprintf("I3: %+v waits at %d", a, w.now)
		}
		seen := map[Owner]bool{}
		for next := waits[a.owner]; len(next) > 0; next = next[1:] {
			if next[0] == a.owner {
				return fmt.Sprintf("I4: %+v waits for itself", a)
			}
			if !seen[next[0]] {
				seen[next[0]] = true
				next = append(next, waits[next[0]]...)
			}
		}
	}
	return ""
}

// play plays one seed for so many steps.
func play(seed uint64, steps int) (trace []string, wrong string) {
	w := &world{random: rand.New(rand.NewPCG(seed, 1)), edges: map[Owner][]Owner{}}
	for range steps {
		w.step()
		if wrong = w.wrong(); wrong != "" {
			break
		}
	}
	return w.trace, wrong
}

// TestInvariants: I1 to I4 after every call of 3,000 random histories, and I5 over two runs of each.
func TestInvariants(t *testing.T) {
	for seed := range uint64(3000) {
		trace, wrong := play(seed, 60)
		if wrong != "" {
			t.Fatalf("seed %d: %s\n%s", seed, wrong, trace)
		}
		if again, _ := play(seed, 60); !slices.Equal(trace, again) {
			t.Fatalf("I5: seed %d goes another way when it is played again", seed)
		}
	}
}

// TestWhoWaitsDoesNotAsk: a session has one statement at a time.
func TestWhoWaitsDoesNotAsk(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an owner asked while it waited")
		}
	}()
	var m Manager
	m.Request(1, 1, Own, 9)
	m.Request(2, 1, Own, 9)
	m.Request(2, 1, Own, 9)
}
