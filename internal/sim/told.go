package sim

import (
	"slices"
	"strconv"
	"strings"
)

// told is what a client of a production session was told in a transaction. At the end of the run it is compared with
// what the order made of it: the judge knows nothing of how the session came to its answers.
type told struct {
	effects []effect
	seen    []sighted // of rows that it had changed
	read    []rowKey
	asked   int      // statements that showed it rows
	looked  int      // how often its session's backend has looked for what they show
	pending []effect // of the statements whose answer is yet to come
	saves   []toldSave

	seq    uint64 // its place in the order; zero: none
	landed []landing
}

// effect is what a statement was told to have done to a row.
type effect struct {
	verb    dataVerb
	key     rowKey
	n       int64
	ordinal uint64 // up to where the order was known to anybody when it was told
	relies  bool   // the client had read the row in its READ COMMITTED block before
}

// sighted is a row as a client saw it behind so many effects.
type sighted struct {
	after int
	key   rowKey
	gone  bool
	shown string
}

// toldSave is what ROLLBACK TO goes back to.
type toldSave struct{ effects, seen, ops int }

// landing is what the order has made of a row.
type landing struct {
	key           rowKey
	before, after version
	wrote         uint64 // the ordinal of who had changed it last
}

// saved reports whether there is a savepoint.
func (t *told) saved() bool { return len(t.saves) > 0 }

// sends notes a statement that is about to be sent.
func (t *told) sends(x *call) {
	t.pending = nil
	for _, y := range x.all() {
		if y.kind == callData && y.verb >= dataAdd {
			t.pending = append(t.pending, effect{verb: y.verb, key: y.key, n: y.n})
		}
	}
}

// hears notes the answer to a statement.
func (t *told) hears(c *caller, x *call) {
	pending := t.pending
	t.pending = nil
	if x.kind == callData && (x.verb == dataScan || x.verb == dataRead) {
		t.asked++
	}
	switch {
	case x.kind == callSave:
		t.saves = append(t.saves, toldSave{len(t.effects), len(t.seen), len(c.a.ops)})
	case x.kind == callBack:
		s := t.saves[len(t.saves)-1]
		t.effects, t.seen, c.a.ops = t.effects[:s.effects], t.seen[:s.seen], c.a.ops[:s.ops]
	case x.kind != callData:
	case x.verb == dataScan:
		for _, row := range c.rows {
			id, err := strconv.Atoi(row[0])
			must(err)
			t.reads(c.a, rowKey{x.key.t, uint32(id)}, row[1:])
		}
	case x.verb == dataRead && len(c.rows) == 0:
		t.reads(c.a, x.key, nil)
	case x.verb == dataRead:
		t.reads(c.a, x.key, c.rows[0])
	default:
		for i, y := range x.all() {
			t.does(c, &y, &pending[i], c.tags[i])
		}
		if strings.HasSuffix(x.sql, returningN) && len(c.rows) == 1 {
			t.seen = append(t.seen, sighted{after: len(t.effects), key: x.key, shown: c.rows[0][0]})
		} else if len(c.rows) > 0 {
			c.w.violation("%q has shown %q", x.sql, c.rows)
		}
	}
}

// does notes what a write was told to have done.
func (t *told) does(c *caller, x *call, e *effect, tag string) {
	word := map[dataVerb]string{dataInsert: "INSERT 0", dataDelete: "DELETE"}[x.verb]
	if word == "" {
		word = "UPDATE"
	}
	switch tag {
	case word + " 0":
		return
	case word + " 1":
	default:
		c.w.violation("%q has done %q", x.sql, tag)
	}
	e.ordinal = max(uint64(len(c.w.truth.order))-1, c.w.callers.early)
	e.relies = slices.Contains(t.read, x.key) && !c.a.repeat && (x.verb == dataSet || x.verb == dataDelete)
	t.effects = append(t.effects, *e)
	if x.verb == dataAppend {
		c.a.ops = append(c.a.ops, listOp{key: x.key.id, value: uint64(x.n)})
	}
}

// reads notes a row that the client was shown: its value, and its version; nil if there was none.
func (t *told) reads(a *attempt, k rowKey, row []string) {
	t.read = append(t.read, k)
	own := slices.ContainsFunc(t.effects, func(e effect) bool { return e.key == k })
	if k.t == tList {
		op := listOp{key: k.id}
		if row != nil {
			for _, v := range strings.Fields(row[0]) {
				n, err := strconv.ParseUint(v, 10, 64)
				must(err)
				op.list = append(op.list, n)
			}
		}
		a.ops = append(a.ops, op)
	}
	s := sighted{after: len(t.effects), key: k, gone: row == nil}
	r := observed{key: k}
	if row != nil {
		s.shown = row[0]
		tag, err := strconv.ParseUint(row[1], 10, 64)
		must(err)
		r.tag = tag
		if k.t != tList {
			n, err := strconv.ParseInt(row[0], 10, 64)
			must(err)
			r.n = n
		}
	}
	if own {
		t.seen = append(t.seen, s)
		return
	}
	a.reads = append(a.reads, r)
}

// lands notes what the order makes of an attempt's rows. before is the state before it, which tr has changed.
func (cs *callers) lands(try *attempt, ordinal uint64, before *database, tr *tx) {
	for i := range tr.changes {
		k := tr.changes[i].key
		if try != nil && try.of != nil {
			t := try.of.told
			t.landed = append(t.landed, landing{k, before.at(k, before.visible), tr.latest(k), cs.wrote[k]})
		}
		cs.wrote[k] = ordinal
	}
	if try == nil || try.of == nil {
		return
	}
	a := try.of
	if a.told.seq != 0 {
		cs.w.violation("the transaction of the client with tag %d was ordered twice, at %d and %d", a.tag, a.told.seq,
			ordinal)
	}
	a.told.seq, a.tag, a.id, a.base, a.changes, a.adds = ordinal, try.tag, try.id, try.base, try.changes, try.adds
	a.unseen, a.shape, a.orphan = try.unseen, try.shape, try.orphan
}

// state is a row of the model, as effects change it.
type state struct {
	gone bool
	value
}

// does is the row behind an effect; false if that cannot have been.
func (s *state) does(e *effect) bool {
	if s.gone != (e.verb == dataInsert) {
		return false
	}
	switch e.verb {
	case dataInsert:
		*s = state{value: value{n: e.n}}
	case dataDelete:
		*s = state{gone: true}
	case dataSet:
		s.n = e.n
	case dataAdd:
		s.n += e.n
	case dataAppend:
		s.list = append(slices.Clone(s.list), uint64(e.n))
	}
	return true
}

// judgeTold checks that what clients were told is what the order has made of their transactions.
func (cs *callers) judgeTold() {
	for _, a := range cs.w.history {
		t := a.told
		if t == nil {
			continue
		}
		switch {
		case t.seq != 0:
			cs.judgeLanded(a)
		case a.outcome == outcomeOK && changesSomething(t.effects):
			cs.w.violation("the client with tag %d was told that it has committed, and is not in the order", a.tag)
		}
	}
}

// changesSomething reports whether effects are more than rows that were made and deleted again.
func changesSomething(effects []effect) bool {
	made := map[rowKey]int{}
	for _, e := range effects {
		switch {
		case e.verb == dataInsert:
			made[e.key]++
		case made[e.key] == 0:
			return true
		case e.verb == dataDelete:
			made[e.key]--
		}
	}
	for _, n := range made { // order-free: each is looked at
		if n > 0 {
			return true
		}
	}
	return false
}

// judgeLanded checks a transaction that is in the order. A statement whose answer never came may have found its row or
// not: at READ COMMITTED the row may have come between it and the next one.
func (cs *callers) judgeLanded(a *attempt) {
	w, t := cs.w, a.told
	var untold []effect
	if a.outcome == outcomeUnknown {
		untold = t.pending
	}
	if a.outcome == outcomeFail {
		w.violation("the client with tag %d was told that it has failed, and is at ordinal %d", a.tag, t.seq)
	}
	for i := range t.landed {
		l := &t.landed[i]
		s := state{l.before.gone, l.before.v}
		own := slices.DeleteFunc(slices.Clone(untold), func(e effect) bool { return e.key != l.key })
		if some := cs.judgeRow(a, l, &s); !some && len(own) == 0 || !s.comes(&l.after, own) {
			w.violation("ordinal %d: %v is %v for the client with tag %d, and %v in the order", t.seq, l.key, s, a.tag,
				l.after)
		}
	}
	for _, e := range slices.Concat(t.effects, untold) {
		if !slices.ContainsFunc(t.landed, func(l landing) bool { return l.key == e.key }) && e.key.t != tCounter {
			w.violation("ordinal %d: the client with tag %d was told that it has changed %v, which it has not", t.seq,
				a.tag, e.key)
		}
	}
}

// comes reports whether some of these effects, in their order, make a version of this state.
func (s state) comes(to *version, effects []effect) bool {
	if len(effects) == 0 {
		return s.is(to)
	}
	next := s
	return s.comes(to, effects[1:]) || next.does(&effects[0]) && next.comes(to, effects[1:])
}

// is reports whether a version is of this state.
func (s *state) is(v *version) bool {
	return s.gone == v.gone && (s.gone || s.n == v.v.n && slices.Equal(s.list, v.v.list))
}

// judgeRow has what a client was told change a row, and checks what the client saw of it in between. It reports whether
// it was told of any change.
func (cs *callers) judgeRow(a *attempt, l *landing, s *state) (some bool) {
	t := a.told
	for i := range t.effects {
		e := &t.effects[i]
		cs.judgeSeen(a, l, s, i)
		if e.key != l.key {
			continue
		}
		// done again, with what it has read, it is as if it had been slower
		if !some && e.relies && l.wrote > e.ordinal && t.looked <= t.asked && a.tries < 2 {
			cs.w.violation("ordinal %d: the client with tag %d had read %v and was told that it has changed it when %d "+
				"was the last ordinal; that of ordinal %d is overwritten", t.seq, a.tag, l.key, e.ordinal, l.wrote)
		}
		if some = true; !s.does(e) {
			cs.w.violation("ordinal %d: the client with tag %d was told of a change of %v that cannot have been", t.seq,
				a.tag, l.key)
		}
	}
	cs.judgeSeen(a, l, s, len(t.effects))
	return some
}

// judgeSeen checks what the client saw of a row of its own behind so many effects.
func (cs *callers) judgeSeen(a *attempt, l *landing, s *state, after int) {
	for _, x := range a.told.seen {
		if x.after != after || x.key != l.key {
			continue
		}
		v := version{v: s.value}
		if x.gone != s.gone || !s.gone && x.shown != string(v.shows(l.key.t)[0]) {
			cs.w.violation("ordinal %d: the client with tag %d has seen %q of %v, which it had made %v", a.told.seq,
				a.tag, x.shown, l.key, *s)
		}
	}
}
