package schemalock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// turnTaker is a session that wants its turn at some keys, one after the other, several times.
type turnTaker struct {
	member uint32
	name   string
	keys   []uint64
	times  int

	before  Before
	request Request
	asks    bool
	waits   []uint32 // for the answers of these
	has     []uint64
}

// turnWord is on its way from one member to another.
type turnWord struct {
	id     ID
	r      Request
	answer bool
}

// turnGame is a cluster of three members, whose words between two of them keep their order.
type turnGame struct {
	rnd      *rand.Rand
	locks    map[uint32]*Locks
	takers   []*turnTaker
	words    map[[2]uint32][]turnWord
	granting map[uint32][]turnWord
}

func newTurnGame(seed uint64) *turnGame {
	g := &turnGame{rnd: rand.New(rand.NewPCG(seed, 0)), locks: map[uint32]*Locks{},
		words: map[[2]uint32][]turnWord{}, granting: map[uint32][]turnWord{}}
	for m := uint32(1); m <= 3; m++ {
		g.locks[m] = InTurn(100, 1<<40)
		for i := range 1 + g.rnd.IntN(3) {
			t := &turnTaker{member: m, name: fmt.Sprint(m, ".", i), times: 3}
			for k := uint64(1); k <= 4; k++ {
				if g.rnd.IntN(2) == 0 || k == 4 {
					t.keys = append(t.keys, k)
				}
			}
			g.takers = append(g.takers, t)
		}
	}
	return g
}

func (g *turnGame) tell(from uint32, w turnWord) {
	for to := uint32(1); to <= 3; to++ {
		if to != from {
			g.words[[2]uint32{from, to}] = append(g.words[[2]uint32{from, to}], w)
		}
	}
}

// moves has a session go on.
func (g *turnGame) moves(t *turnTaker) error {
	l := g.locks[t.member]
	switch {
	case t.times == 0 || t.asks && len(t.waits) > 0:
		return nil
	case t.asks:
		l.Answered(t.name, t.before, true, false)
		k := t.keys[len(t.has)]
		t.asks, t.has = false, append(t.has, k)
		for _, o := range g.takers {
			if o.member != t.member && slices.Contains(o.has, k) {
				return fmt.Errorf("%s and %s both have their turn at %d", t.name, o.name, k)
			}
		}
	case len(t.has) < len(t.keys):
		t.before, t.request, t.asks = l.Want(t.name, Tables{Keys: []uint64{t.keys[len(t.has)]}}, 1)
		for m := range g.locks { // order-free: a set
			if m != t.member {
				t.waits = append(t.waits, m)
			}
		}
		g.tell(t.member, turnWord{id: ID{t.member, 1, t.request.Number}, r: t.request})
	default:
		number, _ := l.Release(t.name)
		t.has, t.times = nil, t.times-1
		g.tell(t.member, turnWord{id: ID{t.member, 1, number}, r: Request{Over: true}})
	}
	return nil
}

// arrives has a word arrive.
func (g *turnGame) arrives(from, to uint32) {
	way := [2]uint32{from, to}
	if len(g.words[way]) == 0 {
		return
	}
	w := g.words[way][0]
	g.words[way] = g.words[way][1:]
	switch l := g.locks[to]; {
	case w.answer:
		for _, t := range g.takers {
			if t.member == to && t.asks && t.request.Number == w.r.Number && t.request.Round == w.r.Round {
				t.waits = slices.DeleteFunc(t.waits, func(m uint32) bool { return m == from })
			}
		}
	case w.r.Over:
		l.Over(w.id, 0)
	case l.Asked(now, w.id, w.r):
		g.granting[to] = append(g.granting[to], w)
	}
}

// grants has a member look whether it can grant what it was asked for.
func (g *turnGame) grants(m uint32) {
	g.granting[m] = slices.DeleteFunc(g.granting[m], func(w turnWord) bool {
		given, _, vain := g.locks[m].Give(now, m, w.id, w.r)
		if given {
			way := [2]uint32{m, w.id.Member}
			g.words[way] = append(g.words[way], turnWord{r: w.r, answer: true})
		}
		if given || vain {
			g.locks[m].Gave(w.id)
		}
		return given || vain
	})
}

// TestInTurn (SL5): of sessions of different members one at a time has its turn at a key, and if all want keys in the
// same order, all get them.
func TestInTurn(t *testing.T) {
	for seed := range uint64(400) {
		g := newTurnGame(seed)
		over := false
		for step := 0; !over; step++ {
			if step == 100_000 {
				t.Fatalf("seed %d: they wait for each other", seed)
			}
			m := uint32(1 + g.rnd.IntN(3))
			switch g.rnd.IntN(3) {
			case 0:
				if err := g.moves(g.takers[g.rnd.IntN(len(g.takers))]); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			case 1:
				g.arrives(m, uint32(1+g.rnd.IntN(3)))
			case 2:
				g.grants(m)
				g.locks[m].Renew(now, 0)
			}
			over = !slices.ContainsFunc(g.takers, func(t *turnTaker) bool { return t.times > 0 })
		}
	}
}
