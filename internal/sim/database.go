package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// database models one PostgreSQL: versions, row locks, snapshots, and commits that become
// durable later, in the order of its log, and visible in another.
type database struct {
	w       *world
	rows    map[rowKey]*row
	locks   map[uint64]*lock
	visible uint64 // commits so far, in the order snapshots see them
	hash    uint64 // of the visible rows
	dead    bool
	paused  bool
	held    []func() // what waits for the end of the pause
	host    *member  // whose it is; nil for the truth's model
	open    []*tx    // neither committed nor rolled back, oldest first

	log     []record // survives as far as durable
	durable int

	marks    map[uint32]engine.Mark
	progress uint64
	collects uint64   // so many transactions' rows were collected
	passed   []uint64 // the progress when each was
	member   uint32   // whose marks they are
	floor    uint64
	saved    *saved // the newest checkpoint; nil: none
	listens  []announcement
	listed   *listed // who the members are; nil: as at the beginning
}

type row struct{ versions []version }

// version is one committed state of a row. born is when its row was last inserted, root the tag of who wrote it, apart
// from those who have added to it since: their tags make its own, in whatever order they came.
type version struct {
	visible, born, tag, root uint64
	gone                     bool
	v                        value
}

// record is one commit in the database's log.
type record struct {
	changes  []tagged
	locked   []change // rows that were locked, and may have been changed
	marks    []mark
	progress uint64
	adopt    *adoption
	saved    *saved
	listens  []announcement
	listed   *listed
}

// adoption turns a clone of another member's database into the member's own.
type adoption struct {
	member uint32
	floor  uint64
}

type tagged struct {
	change
	tag  uint64
	root uint64 // zero: it is the tag
}

func (c *tagged) version(visible uint64) version {
	return version{tag: c.tag, root: cmp.Or(c.root, c.tag), gone: c.op == writeset.OpDelete, v: c.v, visible: visible}
}

type mark struct {
	slot uint32
	engine.Mark
}

type txState uint8

const (
	txOpen txState = iota
	txCommitting
	txLogged
	txCommitted
	txRolledBack
)

// tx is a database transaction.
type tx struct {
	d        *database
	owner    owner // nil for the applier's
	repeat   bool  // REPEATABLE READ
	snapshot uint64
	record
	state txState
	held  []*lock
	wait  *waiter
}

// newDatabase replays a log.
func newDatabase(w *world, host *member, log []record) *database {
	d := &database{w: w, host: host, rows: map[rowKey]*row{}, locks: map[uint64]*lock{},
		marks: map[uint32]engine.Mark{}}
	for _, r := range log {
		d.install(&r)
	}
	d.log, d.durable = log, len(log)
	return d
}

func (d *database) begin(owner owner, repeat bool) *tx {
	t := &tx{d: d, owner: owner, repeat: repeat, snapshot: d.visible}
	d.open = append(d.open, t)
	return t
}

// lockFor returns the lock of a key.
func (d *database) lockFor(key uint64) *lock {
	l := d.locks[key]
	if l == nil {
		l = &lock{}
		d.locks[key] = l
	}
	return l
}

// read returns the version of k that t sees: its own, its snapshot's, or the latest.
func (t *tx) read(k rowKey) version {
	for i := range t.changes {
		if c := &t.changes[i]; c.key == k {
			return c.version(t.snapshot)
		}
	}
	if t.repeat {
		return t.d.at(k, t.snapshot)
	}
	return t.d.at(k, t.d.visible)
}

// at returns the version of k visible to a snapshot.
func (d *database) at(k rowKey, snapshot uint64) version {
	if r := d.rows[k]; r != nil {
		for i := len(r.versions) - 1; i >= 0; i-- {
			if r.versions[i].visible <= snapshot {
				return r.versions[i]
			}
		}
	}
	return version{gone: true}
}

// latest returns what t would find under a lock: its own version or the last commit's.
func (t *tx) latest(k rowKey) version {
	for i := range t.changes {
		if c := &t.changes[i]; c.key == k {
			return c.version(t.snapshot)
		}
	}
	return t.d.at(k, t.d.visible)
}

// put records a change of t, net of earlier ones on the same row.
func (t *tx) put(c change, tag uint64) {
	for i := range t.changes {
		if o := &t.changes[i]; o.key == c.key {
			c.prev, c.old = o.prev, o.old
			if o.op == writeset.OpInsert {
				c.op = writeset.OpInsert
			}
			*o = tagged{change: c, tag: tag}
			return
		}
	}
	t.changes = append(t.changes, tagged{change: c, tag: tag})
}

// rollback ends t, unless its commit is logged already.
func (t *tx) rollback() bool {
	if t.state == txOpen || t.state == txCommitting {
		t.state = txRolledBack
		t.d.end(t)
	}
	return t.state == txRolledBack
}

func (d *database) end(t *tx) {
	for i, o := range d.open {
		if o == t {
			d.open = append(d.open[:i], d.open[i+1:]...)
			break
		}
	}
	d.releaseAll(t)
}

// commit commits t in two steps, logged and visible; then calls done.
func (t *tx) commit(done func()) {
	d := t.d
	t.state = txCommitting
	longest := d.w.swarm.commitMax * d.slowness()
	d.w.after(d.w.rnd.between(5, longest), d.in(func() {
		if t.state != txCommitting {
			return
		}
		t.state = txLogged
		d.log = append(d.log, t.record)
		d.w.after(d.w.rnd.between(1, longest), d.in(func() {
			if t.state == txLogged {
				t.show()
				done()
			}
		}))
	}))
}

// show makes a logged transaction visible.
func (t *tx) show() {
	t.state = txCommitted
	if t.saved != nil && t.d.w.o.Planted != "checkpoint-not-flushed" {
		t.d.durable = len(t.d.log) // PostgreSQL flushes such a commit, with all before it, and then shows it
	}
	t.d.install(&t.record)
	t.d.end(t)
}

// install makes a commit record visible.
func (d *database) install(r *record) {
	d.visible++
	for i := range r.changes {
		c := &r.changes[i]
		rw := d.rows[c.key]
		if rw == nil {
			rw = &row{}
			d.rows[c.key] = rw
		}
		v := c.version(d.visible)
		v.born = d.visible
		if n := len(rw.versions); n > 0 && !rw.versions[n-1].gone {
			last := &rw.versions[n-1]
			d.hash ^= rowHash(c.key, last.tag)
			if c.op == writeset.OpUpdate {
				v.born = last.born
			}
		}
		if !v.gone {
			d.hash ^= rowHash(c.key, c.tag)
		}
		rw.versions = append(rw.versions, v)
	}
	for _, m := range r.marks {
		if o := d.marks[m.slot]; o.Incarnation < m.Incarnation || o.Incarnation == m.Incarnation && o.Seq < m.Seq {
			d.marks[m.slot] = m.Mark
		}
	}
	d.progress = max(d.progress, r.progress)
	d.listens = append(d.listens, r.listens...)
	if r.listed != nil {
		d.listed = r.listed
	}
	if r.saved != nil {
		d.saved = r.saved
	}
	if r.adopt != nil {
		d.member, d.floor = r.adopt.member, r.adopt.floor
		if d.w.o.Planted != "clone-keeps-marks" {
			clear(d.marks)
		}
	}
}

func rowHash(k rowKey, tag uint64) uint64 { return mix(k.identity() ^ mix(tag)) }

// disconnect ends every backend, as the death of the node or a restart does: commits that
// are logged are completed, all others rolled back.
func (d *database) disconnect() {
	for len(d.open) > 0 {
		if t := d.open[0]; t.state == txLogged {
			t.show()
		} else {
			t.rollback()
		}
	}
}

// die ends all processes of the database at once.
func (d *database) die() { d.dead, d.paused, d.held = true, false, nil }

// recover returns what the database is after a crash: a prefix of its log.
func (d *database) recover() *database {
	keep := d.durable + d.w.rnd.intn(len(d.log)-d.durable+1)
	d.w.stats.LostCommits += len(d.log) - keep
	return newDatabase(d.w, d.host, d.log[:keep:keep])
}

// clone returns a copy for another member as a base backup makes it: all that is logged.
func (d *database) clone(host *member) *database {
	return newDatabase(d.w, host, slices.Clone(d.log))
}

// slowness is the factor by which commits and statements take longer than elsewhere.
func (d *database) slowness() int64 { return d.host.slowness(d.w.swarm.slowDatabase) }

// apply checks one change of an ordered transaction against what t finds and records it.
// An error is a broken promise: the origin saw something else.
func (t *tx) apply(c change, tag uint64) error {
	cur := t.latest(c.key)
	switch {
	case c.op == writeset.OpInsert && !cur.gone:
		return fmt.Errorf("inserts %v, which exists with tag %d", c.key, cur.tag)
	case c.op != writeset.OpInsert && cur.gone:
		return fmt.Errorf("changes %v, which does not exist", c.key)
	case c.op == writeset.OpAdd && cur.root != c.prev:
		return fmt.Errorf("adds to version %d of %v but had known version %d", cur.root, c.key, c.prev)
	case c.op != writeset.OpInsert && c.op != writeset.OpAdd && cur.tag != c.prev:
		return fmt.Errorf("replaces version %d of %v but had seen version %d", cur.tag, c.key, c.prev)
	}
	if c.op.Locks() {
		return nil
	}
	if c.key.t == tUnique && c.op != writeset.OpDelete {
		if other, ok := t.findUnique(c.v.n); ok && other != c.key {
			return fmt.Errorf("gives %v the unique value %d, which %v has", c.key, c.v.n, other)
		}
	}
	out := tagged{change: c, tag: tag}
	if c.op == writeset.OpAdd {
		out = tagged{change{key: c.key, op: writeset.OpUpdate, prev: c.prev, v: value{n: cur.v.n + c.v.n}},
			cur.tag ^ mix(tag), cur.root}
	}
	t.net(out)
	return nil
}

// net records a change of an ordered transaction. Several may share one database transaction: keep them apart.
func (t *tx) net(c tagged) {
	for i := range t.changes {
		if o := &t.changes[i]; o.key == c.key {
			t.changes = append(t.changes[:i:i], t.changes[i+1:]...)
			c.op = combine(o.op, c.op)
			if c.op == 0 {
				return
			}
			break
		}
	}
	t.changes = append(t.changes, c)
}

// combine gives the net effect of two operations on one row; zero is none.
func combine(a, b writeset.Op) writeset.Op {
	switch {
	case a == writeset.OpInsert && b == writeset.OpDelete:
		return 0
	case a == writeset.OpInsert:
		return writeset.OpInsert
	case a == writeset.OpDelete:
		return writeset.OpReplace
	case a == writeset.OpReplace && b == writeset.OpUpdate:
		return writeset.OpReplace
	}
	return b
}

// findUnique looks for the latest holder of a unique value.
func (t *tx) findUnique(n int64) (rowKey, bool) {
	for id := range rowsOf[tUnique] {
		k := rowKey{tUnique, id}
		if v := t.latest(k); !v.gone && v.v.n == n {
			return k, true
		}
	}
	return rowKey{}, false
}

// hasChild says whether the latest state has a child of the parent.
func (t *tx) hasChild(parent uint32) bool {
	for id := range rowsOf[tChild] {
		if v := t.latest(rowKey{tChild, id}); !v.gone && v.v.n == int64(parent) {
			return true
		}
	}
	return false
}
