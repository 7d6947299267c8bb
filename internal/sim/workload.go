package sim

import "github.com/tuttidb/tutti/internal/writeset"

type verb uint8

const (
	verbRead verb = iota
	verbAppend
	verbAdd
	verbInsert
	verbDelete
	verbTouch // update a column that is no key
	verbReplace
	verbLock  // SELECT … FOR UPDATE without a change
	verbShare // SELECT … FOR SHARE without a change
	verbHide  // SELECT … FOR UPDATE where nobody sees it, in a sub-select or a function: its row is no key
	verbLater // verbAdd that is made when the transaction commits, if something is known of the row
)

type stepResult uint8

const (
	stepDone stepResult = iota
	stepWaits
	stepFailed
)

// statementOf is one SQL statement of a script; n is the amount, unique value, parent or
// appended value.
type statementOf struct {
	verb verb
	key  rowKey
	n    int64
}

// newScript draws the next transaction.
func (w *world) newScript() *attempt {
	w.tags++
	a := &attempt{tag: w.tags, repeat: w.rnd.chance(w.swarm.repeatPerMille)}
	if w.goBlind(a) {
		return a
	}
	r, skew := w.rnd, w.swarm.skew
	add := func(v verb, t table, id uint32, n int64) {
		for _, s := range a.script {
			if s.key == (rowKey{t, id}) && t != tList {
				return
			}
		}
		a.script = append(a.script, statementOf{v, rowKey{t, id}, n})
	}
	row := func(t table) uint32 { return uint32(r.skewed(int(rowsOf[t]), skew)) }
	switch w.swarm.pick(r) {
	case workTransfer:
		from := row(tAccount)
		to := (from + 1 + uint32(r.intn(int(rowsOf[tAccount])-1))) % rowsOf[tAccount]
		n := r.between(1, 20)
		add(verbAdd, tAccount, from, -n)
		add(verbAdd, tAccount, to, n)
	case workTotal:
		for id := range rowsOf[tAccount] {
			add(verbRead, tAccount, id, 0)
		}
	case workList:
		if r.chance(200) { // long forks show only to those who look at much
			for id := range rowsOf[tList] {
				add(verbRead, tList, id, 0)
			}
			break
		}
		for range 1 + r.intn(4) {
			if r.chance(500) {
				add(verbRead, tList, row(tList), 0)
			} else {
				w.values++
				add(verbAppend, tList, row(tList), int64(w.values))
			}
		}
	case workUnique:
		for range 1 + r.intn(2) {
			add([]verb{verbInsert, verbInsert, verbDelete, verbReplace}[r.intn(4)], tUnique, row(tUnique), r.between(0, uniqueValues-1))
		}
	case workFamily:
		switch p := row(tParent); r.intn(8) {
		case 0, 1, 2:
			add(verbInsert, tChild, row(tChild), int64(p))
		case 3, 4:
			add(verbDelete, tChild, row(tChild), 0)
		case 5:
			add(verbDelete, tParent, p, 0)
		case 6:
			add(verbInsert, tParent, p, 0)
		default:
			add(verbTouch, tParent, p, 0)
		}
		for range r.intn(3) { // time for others between the statement and the commit
			add(verbRead, tList, row(tList), 0)
		}
	case workStatement:
		a.define, a.repeat = &definition{tag: a.tag, link: r.chance(300), all: r.chance(200)}, false
		return a
	}
	w.besides(a, add, row)
	w.counters(a, add, row)
	return a
}

// besides adds a look for a row that may not be there, if the transaction is SERIALIZABLE, and a lock.
func (w *world) besides(a *attempt, add func(v verb, t table, id uint32, n int64), row func(table) uint32) {
	r := w.rnd
	if a.strict = w.swarm.strictPerMille > 0 && a.repeat && r.chance(w.swarm.strictPerMille); a.strict {
		t := []table{tAccount, tUnique, tParent, tChild}[r.intn(4)]
		add(verbRead, t, row(t), 0)
		a.shuffleLast(r)
	}
	if r.chance(w.swarm.lockPerMille) {
		t := []table{tAccount, tList, tParent}[r.intn(3)]
		add([]verb{verbLock, verbShare, verbHide}[r.intn(3)], t, row(t), 0)
		a.shuffleLast(r)
	}
}

// counters adds statements that count, or takes them alone. Where transactions are blind, counters come and go more
// often.
func (w *world) counters(a *attempt, add func(v verb, t table, id uint32, n int64), row func(table) uint32) {
	r := w.rnd
	often, later := max(w.swarm.addPerMille, w.swarm.blindPerMille), 9
	if often == 0 || !r.chance(often) {
		return
	}
	if w.swarm.blindPerMille > 0 {
		later = 2
	}
	if r.chance(500) {
		a.script = nil
	}
	for range 1 + r.intn(3) {
		v := []verb{verbAdd, verbInsert, verbDelete, verbRead, verbLater}[min(r.intn(4+later), 4)]
		add(v, tCounter, row(tCounter), r.between(-9, 9))
	}
}

// shuffleLast has the last statement run at any time.
func (a *attempt) shuffleLast(r *random) {
	if last := len(a.script) - 1; last > 0 {
		at := r.intn(last + 1)
		a.script[at], a.script[last] = a.script[last], a.script[at]
	}
}

// execute runs one statement; when it waits it will be called again from the start.
func (st *statementOf) execute(s *modelSession) stepResult {
	switch st.verb {
	case verbRead:
		v := s.t.read(st.key)
		if v.gone {
			v.tag = 0
		}
		s.a.reads = append(s.a.reads, observed{st.key, v.tag, v.v.n})
		if st.key.t == tList {
			s.a.ops = append(s.a.ops, listOp{key: st.key.id, list: v.v.list})
		}
		return stepDone
	case verbInsert:
		return st.insert(s)
	case verbLater:
		if s.addLater(st) {
			return stepDone
		}
	}
	return st.change(s)
}

// take locks a key, or makes the session wait.
func (s *modelSession) take(key uint64, mode writeset.Mode) bool {
	a := s.a
	return s.t.d.lockFor(key).acquire(s.t, mode, s.m.inDatabase(func() {
		if s.a == a && s.state == sessionRunning {
			s.step()
		}
	}))
}

func (st *statementOf) insert(s *modelSession) stepResult {
	if !s.take(st.key.identity(), writeset.Exclusive) {
		return stepWaits
	}
	if !s.t.latest(st.key).gone {
		return stepFailed // 23505
	}
	switch st.key.t {
	case tUnique:
		if !s.take(uniqueKey(st.n), writeset.Exclusive) {
			return stepWaits
		}
		if _, ok := s.t.findUnique(st.n); ok {
			return stepFailed // 23505
		}
	case tChild:
		p := rowKey{tParent, uint32(st.n)}
		if !s.take(p.identity(), writeset.Shared) {
			return stepWaits
		}
		v := s.t.latest(p)
		if v.gone || s.t.repeat && (v.born > s.t.snapshot || s.t.read(p).gone) {
			return stepFailed // 23503
		}
	}
	s.noteShape()
	s.t.put(change{key: st.key, op: writeset.OpInsert, v: value{n: st.n}}, s.a.tag)
	return stepDone
}

// change runs an UPDATE, DELETE or SELECT FOR UPDATE.
func (st *statementOf) change(s *modelSession) stepResult {
	if s.t.read(st.key).gone {
		s.a.reads = append(s.a.reads, observed{key: st.key})
		return stepDone // no row matches
	}
	mode := writeset.Update
	switch st.verb {
	case verbDelete, verbReplace, verbLock, verbHide:
		mode = writeset.Exclusive
	case verbShare:
		mode = writeset.Share
	}
	if !s.take(st.key.identity(), mode) {
		return stepWaits
	}
	cur := s.t.latest(st.key)
	if s.t.repeat && cur.visible > s.t.snapshot {
		return stepFailed // 40001
	}
	if cur.gone {
		return stepDone
	}
	s.m.knows.found(s.a, st.key, cur)
	c := change{key: st.key, op: writeset.OpUpdate, prev: cur.tag, old: cur.v.n, v: cur.v}
	switch st.verb {
	case verbHide:
		return stepDone
	case verbLock, verbShare:
		l := change{key: st.key, op: writeset.OpLock, prev: cur.tag}
		if st.verb == verbShare {
			l.op = writeset.OpShare
		}
		s.t.locked = append(s.t.locked, l)
		return stepDone
	case verbAppend:
		c.v.list = append(cur.v.list[:len(cur.v.list):len(cur.v.list)], uint64(st.n))
		s.a.ops = append(s.a.ops, listOp{key: st.key.id, value: uint64(st.n)})
	case verbAdd, verbLater:
		c.v.n += st.n
	case verbTouch:
	case verbDelete:
		c.op = writeset.OpDelete
		if st.key.t == tUnique && !s.take(uniqueKey(cur.v.n), writeset.Exclusive) {
			return stepWaits
		}
		if st.key.t == tParent && s.t.hasChild(st.key.id) {
			return stepFailed // 23503
		}
	case verbReplace:
		c.op, c.v.n = writeset.OpReplace, st.n
		if st.n == cur.v.n {
			return stepDone
		}
		if !s.take(uniqueKey(cur.v.n), writeset.Exclusive) || !s.take(uniqueKey(st.n), writeset.Exclusive) {
			return stepWaits
		}
		if _, ok := s.t.findUnique(st.n); ok {
			return stepFailed // 23505
		}
	}
	s.noteShape()
	s.t.put(c, s.a.tag)
	return stepDone
}
