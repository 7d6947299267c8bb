package sim

import (
	"slices"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// unseen is what a blind transaction (writeset.OpSet and OpDrop) does: it changes rows, if all of them exist at its
// place in the order, and has seen nothing. It has no transaction in its member's database.
type unseen struct {
	changes []change
	missed  bool // its session was told that there was no such row, and that nothing was done
	// held is what its client has seen of the first rows: nobody must have changed them until its place in the order.
	held []version
}

// versionOf is a version that a blind transaction with a tag has made of a row.
type versionOf struct {
	tag uint64
	key rowKey
}

// countMost is what a counter may hold at most after a blind addition, one way or the other. What would make it more
// finds no row.
const countMost = 20

// goBlind draws whether an attempt is blind, and what it does.
func (w *world) goBlind(a *attempt) bool {
	r := w.rnd
	if w.swarm.blindPerMille == 0 || !r.chance(w.swarm.blindPerMille) {
		return false
	}
	u := &unseen{}
	for range []int{1, 1, 2, 3}[r.intn(4)] {
		t := []table{tCounter, tCounter, tParent, tList, tAccount}[r.intn(5)]
		c := change{key: rowKey{t, uint32(r.skewed(int(rowsOf[t]), w.swarm.skew))}, op: writeset.OpSet}
		if slices.ContainsFunc(u.changes, func(x change) bool { return x.key == c.key }) {
			continue
		}
		switch t {
		case tCounter:
			if c.adds, c.v.n = r.chance(500), r.between(-9, 9); r.chance(100) {
				c.op, c.adds = writeset.OpDrop, false
			}
		case tList:
			w.values++
			c.adds, c.v.n = true, int64(w.values)
			a.ops = append(a.ops, listOp{key: c.key.id, value: w.values})
		}
		u.changes = append(u.changes, c)
	}
	a.unseen, a.repeat = u, false
	return true
}

// runBlind submits a blind transaction. Up to where definitions are known is noted before anything is made of what
// they say (N13).
func (s *modelSession) runBlind() {
	a, m := s.a, s.m
	s.base, s.progress, s.order = m.engine.Applied(), 0, 0
	a.shape = m.db.shapes(a.unseen)
	a.changes = slices.Clone(a.unseen.changes)
	ws := encode(a.changes, a.tag)
	s.glance(ws)
	m.w.after(m.w.rnd.between(1, m.w.swarm.statementMax), m.in(func() {
		if s.a != a || s.state != sessionRunning {
			return
		}
		if m.w.o.Planted == "blind-base-late" {
			s.base = m.engine.Applied()
		}
		a.base = s.base
		if mix(a.tag^0xa5c5)%2 == 0 && !m.knows.mayBeBlind(a.unseen.changes) {
			m.w.stats.Shunned++
			s.fail()
			return
		}
		if m.engine.Shuns(ws) {
			m.w.stats.Shunned++
			s.fail()
			return
		}
		s.submit(engine.KindCertified, ws, ws.Append(nil))
	}))
}

// glance draws what its client sees of the rows of a blind transaction that it is about to submit, and has that
// certified.
func (s *modelSession) glance(ws *writeset.Writeset) {
	u, m := s.a.unseen, s.m
	u.held = nil
	for i := range mix(s.a.tag) % uint64(2*len(u.changes)) % uint64(len(u.changes)+1) {
		seen := m.db.at(u.changes[i].key, m.db.visible)
		if seen.gone {
			return
		}
		u.held = append(u.held, seen)
		if m.w.o.Planted != "held-forgotten" {
			ws.Keys = append(ws.Keys, writeset.Key{Hash: ws.Rows[i].Identity, Mode: ws.Rows[i].Op.KeyMode(), Table: ws.Rows[i].Table})
		}
		m.w.stats.Held++
	}
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

// shapes tells how often definitions have changed the rows of a blind transaction's tables.
func (d *database) shapes(u *unseen) (n int64) {
	for _, c := range u.changes {
		n += d.shape(c.key.t)
	}
	return n
}

// blindly is what a version holds after a blind change; false if it is none, or cannot hold that.
func (v version) blindly(c change) (value, bool) {
	out := v.v
	switch {
	case v.gone:
		return out, false
	case c.key.t == tList:
		out.list = append(out.list[:len(out.list):len(out.list)], uint64(c.v.n))
	case c.key.t == tCounter && c.adds:
		out.n += c.v.n
		return out, out.n <= countMost && out.n >= -countMost
	case c.key.t == tAccount && c.adds:
		out.n += c.v.n
	case c.key.t == tCounter:
		out.n = c.v.n
	}
	return out, true
}

// blindly makes blind changes of whatever rows t finds, and returns the versions that it has made, which depend on
// those before; nil, and nothing is changed, if one of the rows is not there, or cannot hold what is added.
func (t *tx) blindly(changes []change, tag uint64) (versions []uint64) {
	var out []tagged
	for _, c := range changes {
		cur := t.latest(c.key)
		v, ok := cur.blindly(c)
		if !ok {
			return nil
		}
		does, version := writeset.OpUpdate, mix(cur.tag^mix(tag))
		if c.op == writeset.OpDrop {
			does = writeset.OpDelete
		}
		out = append(out, tagged{change: change{key: c.key, op: does, prev: cur.tag, v: v}, tag: version})
		versions = append(versions, version)
	}
	for _, c := range out {
		t.net(c)
	}
	return versions
}

// blindly carries out the blind transaction whose changes come next, and reports whether it has; else the applier
// must wait. For a row that does not exist it takes no lock, nor does it wait for who is about to make it.
func (a *applier) blindly() bool {
	rest := a.work[a.next:]
	tag := rest[0].tag
	var changes []change
	for i := 0; i < len(rest) && rest[i].op.Blind() && rest[i].tag == tag; i++ {
		c := rest[i].change
		if !a.t.latest(c.key).gone && !a.lock(c.key.identity(), c.op.KeyMode()) {
			return false
		}
		changes = append(changes, c)
	}
	versions := a.t.blindly(changes, tag)
	if versions == nil && a.m.w.o.Planted == "blind-half" {
		for _, c := range changes {
			a.t.blindly([]change{c}, tag)
		}
	}
	for i, c := range changes {
		version, want := uint64(0), a.m.w.truth.blind[versionOf{tag, c.key}]
		if versions != nil {
			version = versions[i]
		}
		if version != want {
			a.m.w.violation("%v: blind transaction with tag %d makes version %d of %v, and version %d in the order", a.m, tag, version, c.key, want)
		}
	}
	if versions == nil {
		a.missed = append(a.missed, tag)
		for _, c := range changes {
			if _, ok := a.t.latest(c.key).blindly(c); !ok {
				a.absent = append(a.absent, c.key)
			}
		}
	}
	a.next += len(changes)
	return true
}

// judgeBlind checks that sessions were told whether their blind transactions have found their rows.
func (w *world) judgeBlind() {
	for _, a := range w.history {
		if u := a.unseen; u != nil && a.outcome == outcomeOK && u.missed != (w.truth.blind[versionOf{a.tag, u.changes[0].key}] == 0) {
			w.violation("the blind transaction with tag %d was told %v for whether it has missed a row", a.tag, u.missed)
		}
	}
}
