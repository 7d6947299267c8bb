package sim

import (
	"cmp"
	"slices"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/rowcache"
	"github.com/tuttidb/tutti/internal/writeset"
)

// knowledge is what a life of a node knows of rows: production's row cache, fed as internal/node feeds it, and beside
// it what the run expects of that (S9).
type knowledge struct {
	m      *member
	rows   *rowcache.Rows
	values *rowcache.Values
	forms  forms
	claims intent.Claims // of the sessions' transactions
	sights []sighting    // what the running group has brought so far

	rough  map[rowKey]bool             // values that were found inside of a group: some of it may be counted twice
	missed [knownRestMax]missedBlindly // by places of the back-off
}

// sighting is what a transaction has done that is in the database.
type sighting struct {
	ordinal  uint64
	writeset *writeset.Writeset
}

// missedBlindly is a row that a blind transaction has not found.
type missedBlindly struct {
	key rowKey
	at  int64
}

const (
	knownRows    = 64 // fewer than there are, so that some are driven out
	knownRestMax = 32
	knownRestFor = 200_000
	knownValues  = 3 // of four counters
	modelTableID = 1 // the table that all rows of the model are of, see encode
)

func newKnowledge(m *member) knowledge {
	return knowledge{
		m: m, rows: rowcache.NewRows(rowcache.Options{Rows: knownRows, RestMax: knownRestMax, RestFor: knownRestFor}),
		values: rowcache.NewValues(knownValues), rough: map[rowKey]bool{},
	}
}

// counterColumns reads the rows of tCounter. What is known of one is what it holds and which version that is, apart
// from what was added since.
type counterColumns struct{}

func (counterColumns) Read(image []byte) (values []int64, key []byte, ok bool) {
	c, tag := parseImage(writeset.OpUpdate, image)
	return []int64{c.v.n, int64(tag)}, nil, true
}

func (counterColumns) Sum(values []int64, image []byte) bool {
	c, _ := parseImage(writeset.OpAdd, image)
	values[0] += c.v.n
	return true
}

// found takes what a statement of an attempt has found in a row before it changed it.
func (k *knowledge) found(a *attempt, key rowKey, v version) {
	if key.t != tCounter || v.tag == a.tag {
		return
	}
	applied := k.m.engine.Applied()
	if old, ok := k.values.Known(key.String(), applied); !ok || old.At < applied {
		k.rough[key] = k.m.group != nil || k.m.engine.Holes()
	}
	k.values.Learn(rowcache.Counted{
		Row: key.String(), Identity: key.identity(), Values: []int64{v.v.n, int64(v.root)}, At: applied,
		Columns: counterColumns{},
	}, applied)
}

// learn takes what a production session has found in a row since an ordinal was applied.
func (k *knowledge) learn(row rowcache.Counted) {
	applied := k.m.engine.Applied()
	for id := range rowsOf[tCounter] {
		key := rowKey{tCounter, id}
		if old, ok := k.values.Known(row.Row, applied); key.String() == row.Row && (!ok || old.At < row.At) {
			k.rough[key] = k.m.group != nil || k.m.engine.Holes() || row.At != applied
		}
	}
	k.values.Learn(row, applied)
}

// known is what a transaction may know of a row to which it adds when it commits: the version, and when it was that.
func (k *knowledge) known(key rowKey) (root, at uint64, ok bool) {
	applied := k.m.engine.Applied()
	c, ok := k.values.Known(key.String(), applied)
	if !ok {
		return 0, 0, false
	}
	return uint64(c.Values[1]), c.At, true
}

// loses notes by what a transaction has lost.
func (k *knowledge) loses(a *attempt, v certify.Verdict) {
	k.values.Lost(encode(a.changes, a.tag), v)
}

// begins comes before a group.
func (k *knowledge) begins(g *engine.Group) {
	for i := range g.Tasks {
		if w := g.Tasks[i].Writeset; w != nil {
			k.rows.Forget(w)
			k.forget(w)
		}
	}
}

// forget forgets values of tables that are defined anew.
func (k *knowledge) forget(w *writeset.Writeset) {
	if rowcache.Forgets(w) {
		k.values.Clear()
	}
}

// applied takes what has just been committed, and which rows of blind transactions were not found.
func (k *knowledge) applied(tasks []engine.Task, absent []rowKey) {
	for i := range tasks {
		t := &tasks[i]
		if t.Writeset == nil {
			continue
		}
		k.forget(t.Writeset) // what was learnt while it waited for its locks
		k.rows.Saw(t.Writeset)
		k.sights = append(k.sights, sighting{t.Ordinal, t.Writeset})
		for _, r := range t.Writeset.Rows {
			if r.Op == writeset.OpInsert {
				k.missed[r.Identity%knownRestMax] = missedBlindly{}
			}
		}
	}
	for _, key := range absent {
		id := key.identity()
		k.rows.Missed(modelTableID, id, k.m.w.now)
		k.missed[id%knownRestMax] = missedBlindly{key, k.m.w.now}
	}
}

// done ends a group.
func (k *knowledge) done() {
	slices.SortFunc(k.sights, func(x, y sighting) int { return cmp.Compare(x.ordinal, y.ordinal) })
	for _, x := range k.sights {
		k.values.Saw(x.ordinal, x.writeset)
	}
	k.sights = nil
	for id := range rowsOf[tCounter] { // an early one may be taken in before what it has passed
		key := rowKey{tCounter, id}
		k.rough[key] = k.rough[key] || k.m.engine.Holes()
	}
}

// check compares what is known with the database, which is the prefix up to Applied.
func (k *knowledge) check() {
	for t, n := range rowsOf {
		for id := range n {
			key := rowKey{table(t), id}
			there, _ := k.rows.There(modelTableID, key.identity(), k.m.w.now)
			if there && k.m.db.at(key, k.m.db.visible).gone {
				k.m.w.violation("%v: %v is known to be there, and is not", k.m, key)
			}
			is := k.m.db.at(key, k.m.db.visible)
			if c, ok := k.values.Known(key.String(), k.m.engine.Applied()); ok && !k.rough[key] && c.Values[0] != is.v.n {
				k.m.w.violation("%v: %v is known to hold %d, and holds %d", k.m, key, c.Values[0], is.v.n)
			}
		}
	}
}

// mayBeBlind reports whether a session that asks first would try a blind transaction.
func (k *knowledge) mayBeBlind(changes []change) bool {
	for _, c := range changes {
		id := c.key.identity()
		there, resting := k.rows.There(modelTableID, id, k.m.w.now)
		if !there || resting {
			return false
		}
		if m := k.missed[id%knownRestMax]; m.key == c.key && m.at > 0 && k.m.w.now < m.at+knownRestFor {
			k.m.w.violation("%v: %v is tried blindly again %d µs after that was in vain", k.m, c.key, k.m.w.now-m.at)
		}
	}
	return true
}
