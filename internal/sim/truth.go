package sim

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// truth is the one order as members reveal it, executed one after the other on a model
// database, and what every prefix of it looks like.
type truth struct {
	w        *world
	voting   voting
	attempts map[writeset.TxID]*attempt
	early    map[uint64]engine.Task
	order    []writeset.TxID // by ordinal; zero ID: nothing committed there
	seqs     map[uint64]uint64
	// the version that a blind transaction has made; zero: it has missed a row, and made none
	blind  map[versionOf]uint64
	hashes []uint64
	model  *database
	heard  map[listenerKey]heard // by other members' sessions
}

func newTruth(w *world) *truth {
	t := &truth{w: w, voting: newVoting(w), attempts: map[writeset.TxID]*attempt{}, early: map[uint64]engine.Task{},
		seqs: map[uint64]uint64{}, blind: map[versionOf]uint64{},
		heard: map[listenerKey]heard{}}
	t.model = newDatabase(w, nil, w.base(0))
	t.order = []writeset.TxID{{}}
	t.hashes = []uint64{t.model.hash}
	return t
}

// learn compares a group with what is known of the order and extends it.
func (t *truth) learn(m *member, g *engine.Group) {
	t.reach(g.First - 1)
	i := 0
	for o := g.First; o <= g.Last; o++ {
		var task *engine.Task
		if i < len(g.Tasks) && g.Tasks[i].Ordinal == o {
			task = &g.Tasks[i]
			i++
		} else if e, ok := t.early[o]; ok {
			task = &e
		}
		if o == uint64(len(t.order)) {
			t.extend(task)
			continue
		}
		if task != nil && task.Item.ID != t.order[o] {
			t.w.violation("%v: ordinal %d is %v, but another member had %v", m, o, task.Item.ID, t.order[o])
		}
	}
	if i != len(g.Tasks) {
		t.w.violation("%v: group %d to %d has tasks out of order", m, g.First, g.Last)
	}
}

// reach extends the order to o: a member passed the ordinals without a group, so nothing
// but early tasks committed there.
func (t *truth) reach(o uint64) {
	for n := uint64(len(t.order)); n <= o; n++ {
		if e, ok := t.early[n]; ok {
			t.extend(&e)
		} else {
			t.extend(nil)
		}
	}
}

// learnEarly notes a task that leaves the queue before its group.
func (t *truth) learnEarly(task engine.Task) {
	t.early[task.Ordinal] = task
	t.w.callers.early = max(t.w.callers.early, task.Ordinal)
}

func (t *truth) extend(task *engine.Task) {
	o := uint64(len(t.order))
	id := writeset.TxID{}
	if task != nil {
		id = task.Item.ID
		var r record
		tr := &tx{d: t.model}
		switch task.Item.Kind {
		case engine.KindCertified:
			changes, tag := decode(task.Writeset)
			a, now := t.attempts[id], t.model.at(shapeKey, t.model.visible).v.n
			if a.unseen != nil {
				now = t.model.shapes(a.unseen)
			}
			if a.shape != now {
				t.w.violation("ordinal %d: transaction with tag %d has rows of shape %d, they have shape %d now", o,
					tag, a.shape, now)
			}
			missed := false
			if task.Writeset.Blind() {
				for i, seen := range a.unseen.held {
					if is := tr.latest(changes[i].key); is.tag != seen.tag || is.gone {
						t.w.violation("ordinal %d: transaction with tag %d was shown version %d of %v, which is %d now",
							o, tag, seen.tag, changes[i].key, is.tag)
					}
				}
				t.blindly(tr, changes, tag)
				missed, changes = len(tr.changes) == 0, nil
			}
			for _, c := range changes {
				if err := tr.apply(c, tag); err != nil {
					t.w.violation("ordinal %d: transaction with tag %d %v", o, tag, err)
				}
				t.checkFamily(o, tag, c, tr)
			}
			if a.of != nil && missed { // its session runs it again as what it is
				break
			}
			t.w.callers.lands(a, o, t.model, tr)
			t.settle(o, tag)
		case engine.KindStatement:
			d := definitionOf(task.Writeset)
			d.ordinal = o
			tr.execute(d)
			if r.listed = tr.listed; r.listed != nil {
				t.voting.joins.extends(o, r.listed)
			}
			t.settle(o, d.tag)
			for _, c := range tr.changes {
				a := t.attempts[id]
				a.changes = append(a.changes, c.change)
			}
			t.w.callers.lands(nil, o, t.model, tr)
		}
		r.changes = tr.changes
		t.model.install(&r)
		t.w.stats.Committed++
	}
	t.order = append(t.order, id)
	t.hashes = append(t.hashes, t.model.hash)
}

// blindly carries a blind transaction out.
func (t *truth) blindly(tr *tx, changes []change, tag uint64) {
	for i, version := range tr.blindly(changes, tag) {
		t.blind[versionOf{tag, changes[i].key}] = version
	}
	t.w.stats.Blind++
	if t.blind[versionOf{tag, changes[0].key}] == 0 {
		t.w.stats.BlindMissed++
	}
}

// committed is what was committed at an ordinal, or nil. The end of a large payload that was broken off has its
// transaction's name and commits nothing.
func (t *truth) committed(o uint64) *attempt {
	a := t.attempts[t.order[o]]
	if a == nil || t.seqs[a.tag] != o {
		return nil
	}
	return a
}

// settle records that the attempt with a tag has an ordinal.
func (t *truth) settle(o, tag uint64) {
	if old, ok := t.seqs[tag]; ok {
		t.w.violation("the transaction with tag %d was ordered twice, at %d and %d", tag, old, o)
	}
	t.seqs[tag] = o
}

// checkFamily checks the foreign key after a change.
func (t *truth) checkFamily(o, tag uint64, c change, tr *tx) {
	switch {
	case c.key.t == tChild && c.op != writeset.OpDelete && tr.latest(rowKey{tParent, uint32(c.v.n)}).gone:
		t.w.violation("ordinal %d: transaction with tag %d inserts a child of parent %d, which does not exist", o, tag,
			c.v.n)
	case c.key.t == tParent && c.op == writeset.OpDelete && tr.hasChild(c.key.id):
		t.w.violation("ordinal %d: transaction with tag %d deletes parent %d, which has a child", o, tag, c.key.id)
	}
}

// checkPrefix checks that m's database is exactly the order's prefix it says it is.
func (t *truth) checkPrefix(m *member) {
	t.reach(m.engine.Applied())
	t.voting.joins.check(m)
	if a := m.engine.Applied(); m.db.hash != t.hashes[a] {
		t.w.violation("%v: its database is not the prefix up to ordinal %d", m, a)
	}
}
