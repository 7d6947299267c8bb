package sim

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// unseen is what a blind transaction (writeset.OpSet) does: it changes one row, if that exists at its place in the order, and has seen nothing. It has
// no transaction in its member's database.
type unseen struct {
	change
	missed bool // its session was told that there was no such row
}

// countMost is what a counter may hold at most after a blind addition, one way or the other. What would make it more finds no row.
const countMost = 20

// goBlind draws whether an attempt is blind, and what it does.
func (w *world) goBlind(a *attempt) bool {
	r := w.rnd
	if w.swarm.blindPerMille == 0 || !r.chance(w.swarm.blindPerMille) {
		return false
	}
	t := []table{tCounter, tCounter, tParent, tList, tAccount}[r.intn(5)]
	c := change{key: rowKey{t, uint32(r.skewed(int(rowsOf[t]), w.swarm.skew))}, op: writeset.OpSet}
	switch t {
	case tCounter:
		c.adds, c.v.n = r.chance(500), r.between(-9, 9)
	case tList:
		w.values++
		c.adds, c.v.n = true, int64(w.values)
		a.ops = []listOp{{key: c.key.id, value: w.values}}
	}
	a.unseen, a.repeat = &unseen{change: c}, false
	return true
}

// runBlind submits a blind transaction. Up to where definitions are known is noted before anything is made of what they say (N13).
func (s *session) runBlind() {
	a, m := s.a, s.m
	s.base, s.progress, s.order = m.engine.Applied(), 0, 0
	a.shape = m.db.shape(a.unseen.key.t)
	a.changes = []change{a.unseen.change}
	ws := encode(a.changes, a.tag)
	m.w.after(m.w.rnd.between(1, m.w.swarm.statementMax), m.in(func() {
		if s.a != a || s.state != sessionRunning {
			return
		}
		if m.w.o.Planted == "blind-base-late" {
			s.base = m.engine.Applied()
		}
		a.base = s.base
		if m.engine.Shuns(ws) {
			m.w.stats.Shunned++
			s.fail()
			return
		}
		s.submit(engine.KindCertified, ws, ws.Append(nil))
	}))
}

// shun asks, now and then, for a while without blind transactions in the tables of one that has lost to such.
func (m *member) shun(a *attempt) {
	if !m.w.rnd.chance(m.w.swarm.shunPerMille) {
		return
	}
	m.seq++
	m.engine.Submit(engine.Submission{Kind: engine.KindShun, Seq: m.seq, Payload: engine.ShunPayload(encode(a.changes, a.tag).Tables)})
	m.wake()
}

// set makes a blind change of whatever row t finds, and returns the version that it has made, which depends on the one before; zero if
// there was no row, or it cannot hold what is added.
func (t *tx) set(c change, tag uint64) (version uint64) {
	cur := t.latest(c.key)
	if cur.gone {
		return 0
	}
	v := cur.v
	switch {
	case c.key.t == tList:
		v.list = append(v.list[:len(v.list):len(v.list)], uint64(c.v.n))
	case c.key.t == tCounter && c.adds:
		if v.n += c.v.n; v.n > countMost || v.n < -countMost {
			return 0
		}
	case c.key.t == tCounter:
		v.n = c.v.n
	}
	version = mix(cur.tag ^ mix(tag))
	t.net(tagged{change: change{key: c.key, op: writeset.OpUpdate, prev: cur.tag, v: v}, tag: version})
	return version
}

// set carries a blind change out. For a row that does not exist it takes no lock, nor does it wait for who is about to make it. It is false
// if the applier must wait.
func (a *applier) set(c *tagged) bool {
	if !a.t.latest(c.key).gone && !a.lock(c.key.identity(), c.op.KeyMode()) {
		return false
	}
	version, want := a.t.set(c.change, c.tag), a.m.w.truth.blind[c.tag]
	if version != want {
		a.m.w.violation("%v: blind transaction with tag %d makes version %d of %v, and version %d in the order", a.m, c.tag, version, c.key, want)
	}
	if version == 0 {
		a.missed = append(a.missed, c.tag)
	}
	return true
}

// judgeBlind checks that sessions were told whether their blind transactions have found their rows.
func (w *world) judgeBlind() {
	for _, a := range w.history {
		if u := a.unseen; u != nil && a.outcome == outcomeOK && u.missed != (w.truth.blind[a.tag] == 0) {
			w.violation("the blind transaction with tag %d was told %v for whether it has missed its row", a.tag, u.missed)
		}
	}
}
