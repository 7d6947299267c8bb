package check

import (
	"math/rand/v2"
	"sort"
	"testing"
)

// model is what a correct database of lists does.
type model struct {
	r      *rand.Rand
	values map[uint64][]uint64 // per key, committed
	when   map[uint64][]int    // the moment of each
	now    int
	fresh  uint64
}

// running is a transaction that has begun and not ended.
type running struct {
	ListTransaction
	begin int
}

// read gives a key's list at a moment.
func (m *model) read(key uint64, moment int) []uint64 {
	w := m.when[key]
	n := sort.Search(len(w), func(i int) bool { return w[i] > moment })
	return m.values[key][:n:n]
}

// generate runs n transactions of all levels, 20 at a time, over some keys. It returns what
// clients of a correct database saw, and its last state.
func generate(r *rand.Rand, n, keys int) ([]ListTransaction, ListOptions) {
	m := &model{r: r, values: map[uint64][]uint64{}, when: map[uint64][]int{}}
	var open [20]*running
	var session [len(open)]int
	ids := 0
	var h []ListTransaction
	for len(h) < n {
		s := r.IntN(len(open))
		if open[s] == nil {
			if session[s] == 0 {
				ids++
				session[s] = ids
			}
			open[s] = m.begin(session[s], keys)
			continue
		}
		h = append(h, m.end(open[s]))
		if open[s].Outcome == Unknown {
			session[s] = 0
		}
		open[s] = nil
	}
	var final []ListOp
	for k := range uint64(keys) {
		final = append(final, ListOp{Key: k, Read: m.read(k, m.now)})
	}
	return h, ListOptions{Final: [][]ListOp{final, final}}
}

// begin draws what a transaction will do.
func (m *model) begin(session, keys int) *running {
	m.now++
	t := &running{begin: m.now, ListTransaction: ListTransaction{Session: session, Level: Level(m.r.IntN(3)),
		Start: int64(m.now)}}
	for range 1 + m.r.IntN(4) {
		op := ListOp{Key: uint64(min(m.r.IntN(keys), m.r.IntN(keys)))}
		if m.r.IntN(2) == 0 {
			m.fresh++
			op.Append = m.fresh
		}
		t.Ops = append(t.Ops, op)
	}
	return t
}

// end lets a transaction happen: its reads at its snapshot, or at READ COMMITTED now; its
// appends now, if it commits.
func (m *model) end(t *running) ListTransaction {
	m.now++
	t.End = int64(m.now)
	commits := m.r.IntN(30) > 0 && m.certified(t)
	t.Outcome = Fail
	if commits {
		t.Outcome = OK
	}
	if m.r.IntN(30) == 0 {
		t.Outcome = Unknown
	}
	at, own := t.begin, map[uint64][]uint64{}
	if t.Level == ReadCommitted {
		at = m.now
	}
	for i := range t.Ops {
		if op := &t.Ops[i]; op.Append != 0 {
			own[op.Key] = append(own[op.Key], op.Append)
		} else if op.Read = m.read(op.Key, at); len(own[op.Key]) > 0 {
			op.Read = append(op.Read, own[op.Key]...) // a copy: there is no capacity
		}
	}
	for _, op := range t.Ops {
		if commits && op.Append != 0 {
			m.values[op.Key] = append(m.values[op.Key], op.Append)
			m.when[op.Key] = append(m.when[op.Key], m.now)
		}
	}
	return t.ListTransaction
}

// certified: the first committer wins, and who is serializable has read what is there.
func (m *model) certified(t *running) bool {
	for _, op := range t.Ops {
		w := m.when[op.Key]
		newer := len(w) > 0 && w[len(w)-1] > t.begin
		if newer && (op.Append != 0 && t.Level == Snapshot || t.Level == Serializable) {
			return false
		}
	}
	return true
}

// TestGenerated: a correct run has no anomaly, at any level, whatever the mixture (J1).
func TestGenerated(t *testing.T) {
	for seed := range uint64(60) {
		h, o := generate(rand.New(rand.NewPCG(seed, 7)), 500, 2+int(seed%20))
		o.Strong = seed%2 == 0
		if as := ListAppend(h, o); len(as) > 0 {
			t.Fatalf("seed %d: %v", seed, as[0])
		}
	}
}

// TestGeneratedSkew: one reader of two keys in a long run sees one of them as it was long ago.
func TestGeneratedSkew(t *testing.T) {
	made, noticed := 0, 0
	for seed := range uint64(40) {
		h, _ := generate(rand.New(rand.NewPCG(seed, 9)), 400, 6)
		for i := 300; i < len(h); i++ {
			x := &h[i]
			if x.Outcome == OK && x.Level == Snapshot && len(x.Ops) == 2 && x.Ops[0].Append+x.Ops[1].Append == 0 &&
				x.Ops[0].Key != x.Ops[1].Key && len(x.Ops[0].Read) > 40 {
				x.Ops[0].Read = x.Ops[0].Read[:len(x.Ops[0].Read)-30]
				made++
				if len(ListAppend(h, ListOptions{})) > 0 {
					noticed++
				}
				break
			}
		}
	}
	if made < 10 || noticed < made {
		t.Errorf("%d of %d were noticed", noticed, made)
	}
}
