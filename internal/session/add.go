package session

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/session/plan"
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
	catalog any      // as of which it is
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
	relies   bool // see later.relies
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

// putsOff is plan.Delta: it reports whether a request of a block was answered, and will be carried out at COMMIT.
func (s *Session) putsOff(r *request, rep *reply) (bool, error) {
	l := &s.later
	if !plan.Allows(plan.Delta, factsOf(s, r)) {
		return false, nil
	}
	p := &r.direct.parts[0]
	what, ok := p.form.how.Adds(p.bind)
	if !ok || l.found[what.Table] > 0 {
		return false, nil
	}
	if !p.kept {
		p.bind, p.kept = slices.Clone(p.bind), true
	}
	l.before = s.host.Applied()
	// whether the session may do it is not certain, or on which table
	if p.form.who == "" || p.form.who != s.direct.who || p.form.shape != what.Shape {
		return false, nil
	}
	relies := l.has(what.Name)
	// it could not be done again, or would be too often
	if relies && (l.strange || s.dear() || !s.redo.busy && !s.redoable(r) || p.form.passes()) {
		return false, nil
	}
	row, ok := s.host.Known(what)
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
	return true, s.answerAlone(r, rep, "UPDATE 1")
}

// goesAlong reports whether a request may be run while additions are put off: it shows nothing of them, and does
// nothing that waits for their locks.
func (s *Session) goesAlong(r *request) bool {
	switch {
	case r.prepares:
		return !s.later.relied || !r.closes && !slices.Contains(r.parses, "") // else it could not be done again
	case len(s.later.unseen) > 0, s.later.relied && !s.redo.busy && !s.redoable(r):
		return false
	}
	return r.chosen && !slices.ContainsFunc(r.direct.parts, func(p directPart) bool {
		return !p.form.how.Inserts() || slices.ContainsFunc(s.later.adds,
			func(a addLater) bool { return a.how.Table() == p.form.how.Table() })
	})
}

// catchUpNow is catchUp of a block that goes on, and so may have its locks for long.
func (s *Session) catchUpNow() error {
	for i := range s.later.unseen {
		s.host.Writing(s.later.unseen[i].what.Table.Name)
	}
	return s.catchUp()
}

// caughtUp is catchUpNow that does the transaction again if that must be.
func (s *Session) caughtUp() error {
	if err := s.catchUpNow(); err != nil || !s.txn.Gone() {
		return err
	}
	return s.revive()
}

// catchUp carries out now what was put off. If that comes to something else than the client was told, the transaction
// is rolled back, and doom says so.
func (s *Session) catchUp() error {
	l := &s.later
	var all []postponed
	for i := range l.adds {
		all = append(all, l.adds[i].postponed)
	}
	forgot := s.forms.catalog != s.o.Collector.Catalog() || len(l.unseen) > 0 && l.catalog != s.forms.catalog
	for i := range l.unseen {
		forgot = forgot || l.unseen[i].form.how == nil
		all = append(all, l.unseen[i].postponed)
	}
	unseen := len(l.unseen) > 0
	if l.adds, l.unseen = nil, l.unseen[:0]; len(all) == 0 || !s.txn.Open() && !unseen || !s.txn.Active() {
		return nil
	}
	if l.notLater() {
		return s.abandon()
	}
	s.direct.wish = ownTxDirect
	if err := s.tx.ensureOpen(true); err != nil || s.txn.Reason() != nil {
		return err
	}
	l.wrote = true
	if forgot {
		l.off, l.next = true, true
		err := s.tx.rollbackServer()
		s.txn.Condemn(errForgotten(outdatedStatement))
		return err
	}
	s.direct.adjust()
	names := s.direct.appendPostponed(all)
	s.backend.out.Append(wire.AppendSync(s.backend.out.AvailableBuffer()))
	doom := s.host.Enter(PhaseRunning)
	r, rows, err := s.backend.internal(true)
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
			s.direct.keepRow(&parts[i], rows[i])
		}
		if s.txn.Reason() == nil {
			s.noteDirect(&request{chosen: true, direct: &directRun{parts: parts}})
			return nil
		}
		doom = s.txn.Reason()
	}
	return s.inVain(doom, r)
}

// inVain rolls a transaction back of which what was put off has come to something else than the client was told.
func (s *Session) inVain(doom *wire.SQLError, r reply) error {
	if doom == nil {
		doom = s.host.Enter(PhaseRunning)
	}
	switch {
	case doom != nil || r.failed == nil:
	case r.failed.Code != wire.CodeInsufficientPrivilege && s.forms.expired(*r.failed):
		doom = errForgotten(outdatedStatement)
	default:
		doom = failureOf(r)
	}
	if doom == nil {
		doom = errForgotten("could not serialize access due to concurrent update")
		s.later.off, s.later.next = true, true
	}
	err := s.tx.rollbackServer()
	s.txn.Condemn(doom)
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
func (s *Session) fits() bool {
	d := &s.direct
	if !s.tx.alone() || d.now != ownTxDirect || d.bytes > largeBytes {
		return false
	}
	adds := s.later.adds
	what := make([]Adds, len(adds))
	for i := range adds {
		if what[i] = adds[i].what; adds[i].form.who != d.who {
			return false
		}
	}
	rows, ok := s.host.PutOff(what)
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
func (s *Session) noteFound(p *directPart) {
	l := &s.later
	if p.form.how == nil { // it has failed, and its form is forgotten
		return
	}
	if l.found == nil {
		l.found = map[uint32]int{}
	}
	table := p.form.how.Table()
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
		s.host.Learn(row)
	}
}

// goOn puts a request off, or carries out what was put off if that must come first. done reports that it is answered:
// with rep, or else because the transaction has lost.
func (s *Session) goOn(r *request, rep *reply) (done bool, err error) {
	age := s.forms.age
	pending := s.later.pending()
	off, err := s.defers(r, rep)
	stays := (pending || s.later.pending()) && !s.goesAlong(r)
	switch {
	case err != nil:
		return true, err
	case off:
		s.habits.reached(r)
		s.noteRedo(r, rep)
		return true, nil
	case !stays && !s.txn.Gone() && s.forms.age == age:
		return false, nil
	case !stays && !s.txn.Gone(): // its direct forms are gone
		return false, s.choose(r)
	case !s.txn.Gone():
		s.later.caught(r)
		if err := s.catchUpNow(); err != nil {
			return true, err
		}
	}
	if r.prepares {
		if err := s.revive(); err != nil || !s.txn.Gone() {
			return err != nil, err
		}
		failedToo, err := s.prepareOutside(*r, rep)
		if !failedToo {
			rep.status = wire.TxActive
		}
		return true, err
	}
	if s.txn.Gone() {
		if over, err := s.over(r); over || err != nil {
			return true, err
		}
	}
	return false, s.choose(r)
}

// defers carries a request of a block out without the backend's transaction, in the best way that there is; false if it
// has not.
func (s *Session) defers(r *request, rep *reply) (off bool, err error) {
	if r.prepares {
		return false, nil
	}
	p := plan.Plan{Kind: plan.Plain}
	for tried := plan.Kinds(0); !off && err == nil && !s.txn.Gone(); tried = tried.With(p.Kind) {
		switch p = plan.Choose(factsOf(s, r), tried); p.Kind {
		case plan.Defer:
			off, err = s.putsOffUnseen(r, rep)
		case plan.Delta:
			off, err = s.putsOff(r, rep)
		case plan.ReadThrough:
			off, err = s.glances(r, rep)
		default:
			s.o.Planned(p)
			return false, nil
		}
	}
	if off {
		s.o.Planned(p)
	}
	return off, err
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
