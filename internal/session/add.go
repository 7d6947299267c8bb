package session

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A direct UPDATE that does nothing but add to a row which the node knows (Host.Known) is answered at once, and carried
// out when the transaction commits, after the order has decided: until then nobody waits for the row, and transactions
// that add to it do not conflict (decision 0056). So it is in READ COMMITTED blocks, and as long as nothing comes
// behind it that could see the row, or do something in the protection of its lock: only more of the kind, and direct
// INSERTs. Before everything else it is carried out as what it is.

// later is what a transaction has yet to do, and what it has found in some rows.
type later struct {
	off    bool // something was carried out in vain: it is not as it was known
	next   bool // and the next transaction, which may be the same again, does without as well
	adds   []addLater
	found  map[uint32]int // rows, by tables' OIDs
	before uint64         // ordinal that was applied before the request that runs

	unseen  []unseenLater
	bytes   int      // of what they are
	base    uint64   // see Host.Unseen
	catalog any      // that there was when it began
	began   Began    // the transaction, if that is known
	all     bool     // the client has been shown what rows hold, of whatever rows
	read    []string // names of tables of which it has been shown some
	spent   int64    // milliseconds that its statements took
	looked  []uint64 // identities of rows at which it has glanced
	strange bool     // behind the last direct statement something was run that may have changed who the session is
	// the client has seen what it may rely on: what was put off is not run any more, but the transaction is done again
	relied bool
	wrote  bool // the transaction has run something that does not just read
}

// postponed is a statement that was answered.
type postponed struct {
	form *form
	how  Rewritten
	bind []byte
}

// addLater is one that adds to a row.
type addLater struct {
	postponed
	what     Adds
	row      Counted
	addition writeset.Addition
	relies   bool // what it changed is certified as seen (S8)
}

// laterMax bounds them.
const laterMax = 64

// pending reports whether something was put off.
func (l *later) pending() bool { return len(l.adds)+len(l.unseen) > 0 }

// end forgets a transaction, but not that it was carried out in vain: it may be done again.
func (l *later) end() {
	clear(l.found)
	clear(l.unseen)
	*l = later{off: l.off, next: l.next, found: l.found, unseen: l.unseen[:0], looked: l.looked[:0], read: l.read[:0]}
}

// forget is end behind a block.
func (l *later) forget() {
	if planted != "deferred-outlives-rollback" {
		l.end()
	}
}

// delta is plan.Delta: it reports whether a request of a block was answered, and will be carried out at COMMIT.
func (b *buffer) delta(r *request, rep *reply) (bool, error) {
	l := &b.later
	p := &r.way.direct.parts[0]
	what, ok := p.form.how.Adds(p.bind)
	if !ok || l.found[what.Table] > 0 {
		return false, nil
	}
	if !p.kept {
		p.bind, p.kept = slices.Clone(p.bind), true
	}
	l.before = b.host.Applied()
	// whether the session may do it is not certain, or on which table
	if p.form.who == "" || p.form.who != b.direct.who || p.form.shape != what.Shape {
		return false, nil
	}
	relies := l.has(what.Name)
	if relies && !b.bears(r, p.form) {
		return false, nil
	}
	row, ok := b.host.Known(what)
	if !ok || slices.ContainsFunc(l.adds, func(a addLater) bool { return a.row.Identity == row.Identity }) {
		return false, nil
	}
	addition, ok := p.form.how.Delta(row, what.By)
	if !ok {
		return false, nil
	}
	l.adds = append(l.adds, addLater{postponed{p.form, p.form.how, p.bind}, what, row, addition, relies})
	l.relied = l.relied || relies
	rep.status = wire.TxActive
	return true, b.answerAlone(r, rep, "UPDATE 1")
}

// bears reports whether the block can be done again, and not too often, for an addition that its client may rely on.
func (b *buffer) bears(r *request, f *form) bool {
	return !b.later.strange && !b.dear() && (b.retry.busy || b.retry.redoable(r)) && !f.passes()
}

// goesAlong reports whether a request may be run while additions are put off: it shows nothing of them, and does
// nothing that waits for their locks.
func (b *buffer) goesAlong(r *request) bool {
	switch {
	case r.prepares:
		return !b.later.relied || !r.closes && !slices.Contains(r.parses, "") // else it could not be done again
	case len(b.later.unseen) > 0, b.later.relied && !b.retry.busy && !b.retry.redoable(r):
		return false
	}
	return r.way.chosen && !slices.ContainsFunc(r.way.direct.parts, func(p directPart) bool {
		return !p.form.how.Target().Inserts || slices.ContainsFunc(b.later.adds,
			func(a addLater) bool { return a.how.Target().Table == p.form.how.Target().Table })
	})
}

// flushNow is flush of a block that goes on, and so may have its locks for long.
func (b *buffer) flushNow() error {
	for i := range b.later.unseen {
		b.host.Writing(b.later.unseen[i].what.Table.Name)
	}
	return b.flush()
}

// flush carries out now what was put off. If that comes to something else than the client was told, the transaction
// is rolled back, and doom says so.
func (b *buffer) flush() error {
	l := &b.later
	unseen := len(l.unseen) > 0
	all, forgot := b.take()
	if len(all) == 0 || !b.txn.Open() && !unseen || !b.txn.Active() {
		return nil
	}
	if l.notLater() {
		return b.abandon()
	}
	b.direct.wish = ownTxDirect
	if err := b.tx.ensureOpen(true); err != nil || b.txn.Reason() != nil {
		return err
	}
	l.wrote = true
	if forgot {
		l.off, l.next = true, true
		err := b.tx.rollbackServer()
		b.txn.Condemn(errForgotten(outdatedStatement))
		return err
	}
	return b.carryOut(all)
}

// known reports whether the session still knows how what was put off is carried out.
func (l *later) known() bool {
	return !slices.ContainsFunc(l.unseen, func(u unseenLater) bool { return u.form.how == nil })
}

// take empties the buffer. It reports whether the session has forgotten how something of it is carried out.
func (b *buffer) take() (all []postponed, forgot bool) {
	l := &b.later
	for i := range l.adds {
		all = append(all, l.adds[i].postponed)
	}
	forgot = !b.forms.current() || !l.known()
	for i := range l.unseen {
		all = append(all, l.unseen[i].postponed)
	}
	l.adds, l.unseen = nil, l.unseen[:0]
	return all, forgot
}

// carryOut carries statements out in the transaction that is open.
func (b *buffer) carryOut(all []postponed) error {
	b.direct.adjust()
	names := b.direct.appendPostponed(all)
	b.backend.out.Append(wire.AppendSync(b.backend.out.AvailableBuffer()))
	doom := b.host.Enter(PhaseRunning)
	r, rows, err := b.backend.internal(true)
	if err != nil {
		return err
	}
	parts := make([]directPart, len(all))
	for i := range all {
		parts[i] = directPart{form: all[i].form, bind: all[i].bind}
	}
	if doom == nil && r.failed == nil && len(rows) == len(all) {
		for f, name := range names { // order-free: each has its own
			f.name = name
		}
		for i := range parts {
			b.direct.keepRow(&parts[i], rows[i])
		}
		if b.txn.Reason() == nil {
			b.noteDirect(&request{way: way{chosen: true, direct: &directRun{parts: parts}}})
			return nil
		}
		doom = b.txn.Reason()
	}
	return b.inVain(doom, r)
}

// inVain rolls a transaction back of which what was put off has come to something else than the client was told.
func (b *buffer) inVain(doom *wire.SQLError, r reply) error {
	if doom == nil {
		doom = b.host.Enter(PhaseRunning)
	}
	switch {
	case doom != nil || r.failed == nil:
	case r.failed.Code != wire.CodeInsufficientPrivilege && b.forms.expired(*r.failed):
		doom = errForgotten(outdatedStatement)
	default:
		doom = failureOf(r)
	}
	if doom == nil {
		doom = errForgotten("could not serialize access due to concurrent update")
		b.later.off, b.later.next = true, true
	}
	err := b.tx.rollbackServer()
	b.txn.Condemn(doom)
	return err
}

// appendPostponed carries them out, without Sync. It gives the names of those that are prepared if all goes well, see
// foreknown.
func (d *direct) appendPostponed(all []postponed) (names map[*form]string) {
	dst := d.backend.out.AvailableBuffer()
	for i := range all {
		f := all[i].form
		name := cmp.Or(f.name, names[f])
		if name == "" {
			name = d.forms.next()
			if names == nil {
				names = map[*form]string{}
			}
			names[f] = name
			dst = wire.AppendParse(dst, name, all[i].how.SQL(), f.types)
		}
		dst = wire.AppendBindAs(dst, name, all[i].bind, 1)
		dst = wire.AppendClose(wire.AppendExecute(dst, "", 0), 'P', "")
	}
	d.backend.out.Append(dst)
	return names
}

// fits reports whether what was put off can be carried out behind the verdict: all else was direct, the backend has
// told so, and still takes it as that; and nobody has locked a row meanwhile who must be waited for.
func (b *buffer) fits() bool {
	d := b.direct
	if !b.tx.alone() || d.now != ownTxDirect || d.bytes > largeBytes {
		return false
	}
	adds := b.later.adds
	what := make([]Adds, len(adds))
	for i := range adds {
		if what[i] = adds[i].what; adds[i].form.who != d.who {
			return false
		}
	}
	rows, ok := b.host.PutOff(what)
	// more may be known by now, but who has changed the row otherwise since an addition was told must make it lose
	for i := 0; i < len(adds) && ok; i++ {
		a := &adds[i]
		if a.relies {
			continue
		}
		a.row = rows[i]
		a.addition, ok = a.how.Delta(a.row, a.what.By)
	}
	return ok
}

// takeAdds adds what was put off to a collected transaction.
func (l *later) takeAdds(c *collected) {
	if c.failed != nil || len(l.adds) == 0 {
		return
	}
	c.adds = l.adds
	// all take the rows' locks in this order
	slices.SortFunc(c.adds, func(a, b addLater) int { return cmp.Compare(a.row.Identity, b.row.Identity) })
	var additions []writeset.Addition
	for _, a := range c.adds {
		additions = append(additions, a.addition)
	}
	c.ws.AddAdditions(additions)
}

// noteFound tells the node what is to be known of a row from now on that a direct statement has found: nothing else was
// changed in its table, so that the transaction has not made it.
func (b *buffer) noteFound(p *directPart) {
	l := &b.later
	if p.form.how == nil { // it has failed, and its form is forgotten
		return
	}
	if l.found == nil {
		l.found = map[uint32]int{}
	}
	table := p.form.how.Target().Table
	l.found[table] += len(p.rows)
	if len(p.rows) != 1 || l.found[table] != 1 || !p.kept {
		return
	}
	what, ok := p.form.how.Adds(p.bind)
	if !ok {
		return
	}
	p.form.shape = what.Shape
	if row, ok := p.form.how.Counted(p.rows[0], what.By); ok {
		row.Row, row.At = what.Row, l.before
		b.host.Learn(row)
	}
}

// added gives the position of the server's WAL when all additions had their rows, which the backend has returned with
// the mark. An error is that they have found others.
func (c *collected) added(rows [][][]byte) (order uint64, err error) {
	if len(rows) != len(c.adds)+1 {
		return 0, fmt.Errorf("session: additions to %d rows have found %d", len(c.adds), len(rows)-1)
	}
	for i, a := range c.adds {
		row, err := a.how.Read(rows[i])
		if err != nil {
			return 0, err
		}
		if row.Identity() != a.row.Identity {
			return 0, fmt.Errorf("session: an addition has found the row %x instead of %x", row.Identity(),
				a.row.Identity)
		}
		order = max(order, row.Order())
	}
	return order, nil
}
