package engine

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/quorum"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Engine is one member's machine: the order, what is derived of it (log), this member's own submissions (own), and
// what is on its way into the database (queue). Arrows between the three go from own to queue to log. Not safe for
// concurrent use.
type Engine struct {
	o           Options
	order       *ordering.Order
	log         replicated
	queue       schedule
	own         submissions
	groupCommit groupCommit // not replicated
	voting      Voting
	readmits    map[uint32]readmission // by member
}

// New starts a machine at what the log storage holds. It certifies again what follows the checkpoint.
func New(o Options) (*Engine, error) {
	o.defaults()
	o.Order.Member, o.Order.Weigh, o.Order.Author, o.Order.Alone = o.Member, weigh, Proposer, o.Copies == 1
	if o.Position.Member == 0 {
		o.Position.Member = o.Member
	}
	if c := o.Checkpoint; c != nil {
		if p := &o.Position; min(p.Ordinal, p.Floor) < c.Ordinal {
			return nil, fmt.Errorf("engine: the checkpoint is of ordinal %d, the database holds others' items up "+
				"to %d "+
				"and own ones up to %d", c.Ordinal, p.Ordinal, p.Floor)
		}
		o.Order.Start, o.Order.Conf = c.Index, c.conf
	}
	order, err := ordering.New(o.Order)
	if err != nil {
		return nil, err
	}
	e := &Engine{o: o, order: order, log: newReplicated(&o), groupCommit: newGroupCommit(),
		readmits: map[uint32]readmission{}}
	e.voting = Voting{o: &e.o, order: order, rule: quorum.New(o.GoneTicks, o.Copies)}
	e.voting.rule.SlowAfter(o.SlowTicks)
	e.own = newSubmissions(&e.o)
	e.own.log, e.own.queue, e.own.order = &e.log, &e.queue, order
	e.queue = schedule{o: &e.o, log: &e.log, pause: order.Pause, busy: func() bool { return len(e.own.owns) > 0 }}
	restore(e, o.Checkpoint)
	e.o.Checkpoint = nil // it would be kept
	return e, nil
}

// restore makes c, if it is one, the state of an engine that is new. Everything up to its ordinal is in the database.
func restore(e *Engine, c *Checkpoint) {
	if c != nil {
		e.log.restore(c, e.o.Certify)
	}
	e.queue.start()
}

// Tick advances time by one unit and repeats proposals that seem lost.
func (e *Engine) Tick() {
	e.order.Tick()
	e.voting.tick()
	e.groupCommit.tick()
	e.gather()
	e.own.window.tick(e.o.ResubmitTicks)
	if len(e.own.window.inflight) > 0 {
		e.own.propose()
	}
}

// Step takes a frame another member's engine sent.
func (e *Engine) Step(from uint32, data []byte) error { return e.order.Step(from, data) }

// Held reports whether proposals wait for others, so that one serves them all: own submissions for more of them or
// for the last own batch, or at a leader anybody's (ordering.Order).
func (e *Engine) Held() bool { return e.order.Held() || e.own.waits() }

// Release lets go what Held speaks of. The owner calls it when a short while has passed, so
// that a long way to the majority delays nobody by another round trip.
func (e *Engine) Release() {
	if e.own.waits() {
		e.own.makeBatch()
	}
	e.own.propose()
	e.order.Release()
}

// Unreachable says that a frame to member was dropped.
func (e *Engine) Unreachable(member uint32) { e.order.Unreachable(member) }

// Reached says that there is a new connection to a member. If it leads, what is under way to it is proposed again,
// because frames of the connection before may be lost.
func (e *Engine) Reached(member uint32) {
	if e.own.view.Leader == member {
		e.own.window.repeat()
		e.own.propose()
	}
}

// View returns who leads.
func (e *Engine) View() ordering.View { return e.order.View() }

// Lost is not nil once the leader no longer keeps what this member needs next; see ordering.Lost.
func (e *Engine) Lost() *ordering.Lost { return e.order.Lost() }

// Applied is the last ordinal whose group is finished; snapshots taken between groups see
// exactly the transactions up to it.
func (e *Engine) Applied() uint64 { return e.queue.applied }

// Ordinal is the last ordinal delivered.
func (e *Engine) Ordinal() uint64 { return e.log.ordinal }

// Wrote is how many transactions of a member were ordered in this life, decided one way or the other.
func (e *Engine) Wrote(member uint32) uint64 { return e.log.wrote[member] }

// HandOver gives the lead of the order to another member, if this one has it; see ordering.Order. What is under way is
// proposed again at the new leader.
func (e *Engine) HandOver(to uint32) { e.order.HandOver(to) }

// Gone says that a member has ended, as far as can be told; see ordering.Order.
func (e *Engine) Gone(member uint32) { e.order.Gone(member) }

// HasReady reports whether Ready has work.
func (e *Engine) HasReady() bool {
	return Unread(e) == nil && (e.order.HasReady() || len(e.own.aborted) > 0 || len(e.log.events) > 0 ||
		len(e.log.fronts) > 0 || e.queue.due())
}

// Ready returns the next work; Advance must be called once it is carried out (the group
// may still be running).
func (e *Engine) Ready() Ready {
	rd := Ready{Ready: e.order.Ready()}
	for _, d := range rd.Delivered {
		if Unread(e) != nil {
			return rd
		}
		if d.Conf != nil {
			e.log.configure(d.Conf)
			continue
		}
		e.deliver(d.Index, d.Data)
	}
	if Unread(e) != nil {
		return rd
	}
	e.own.led(e.order.View())
	e.own.propose()
	if rd.Group = e.queue.next(); rd.Group != nil && len(rd.Group.Tasks) == 0 {
		e.GroupDone() // nothing but what changes nothing: the applied ordinal moves without a group
		rd.Group = nil
	}
	rd.Aborted, e.own.aborted = e.own.aborted, nil
	rd.Locks, e.log.events = e.log.events, nil
	rd.Fronts, e.log.fronts = e.log.fronts, nil
	return rd
}

// Unread is not nil once this member has come to what it does not understand. Nothing of that, or behind it, is handed
// out: it must end, and go on with another build (E19).
func Unread(e *Engine) error {
	if err := e.order.Unread(); err != nil {
		return fmt.Errorf("%w: %w", err, writeset.ErrUnknown)
	}
	return e.log.unread
}

// Advance says the last Ready was carried out.
func (e *Engine) Advance() { e.order.Advance() }

// deliver takes one log entry in order (E1, E2).
func (e *Engine) deliver(index uint64, data []byte) {
	b, err := decodeBatch(data)
	if err != nil {
		e.log.unread = fmt.Errorf("entry %d of the log cannot be understood: %w", index, err)
		return
	}
	s, ok := e.log.accept(b)
	if !ok {
		return
	}
	e.groupCommit.begins = true
	for i := range b.Items {
		it := &b.Items[i]
		switch w := e.own.of(it); {
		case it.Kind == KindPart:
			e.log.takePart(&s, it, w)
		case s.ends(it):
			it.Payload = s.join(it, w)
			e.log.whole(it, e.deliverItem(it, w))
			s.parts, s.id = nil, writeset.TxID{}
		default:
			e.deliverItem(it, w)
		}
	}
	e.log.sources[b.Member] = s
	if e.log.mine(b.Member, b.Incarnation) && !e.own.window.arrived(b.Number) {
		panic(fmt.Sprintf("engine: own batch %d delivered, which is not the oldest under way", b.Number))
	}
}

// deliverItem gives an item its ordinal and its verdict, and reports whether it is to be carried out. It is of the own
// submission w, if that is not nil.
func (e *Engine) deliverItem(it *Item, w *own) bool {
	t := e.log.place(it)
	if t.Own {
		e.queue.spoke = t.Ordinal
	}
	if it.Kind.noted() {
		if w != nil {
			e.own.noted(w, t.Ordinal)
		}
		e.log.note(it, w != nil)
		return false
	}
	var v certify.Verdict
	t.Writeset, v = e.log.verdict(it, w)
	if it.Kind == KindCertified {
		e.groupCommit.add(it, !v.Commit())
	}
	if !v.Commit() {
		if w != nil {
			e.own.abort(w, v)
		}
		return false
	}
	return e.schedule(&t, w)
}

// schedule puts a task whose item commits into the queue, unless the database has it already.
func (e *Engine) schedule(t *Task, w *own) bool {
	certified, blind := t.Item.Kind == KindCertified, t.Writeset != nil && t.Writeset.Blind()
	if w != nil {
		w.ordinal = t.Ordinal
		t.Local = certified && !w.orphan && !w.blind
	}
	t.Mark = certified && t.Item.ID.Member == e.o.Position.Member && !t.Local && !blind
	if e.o.Position.holds(t.Ordinal, &t.Item, blind) {
		if w != nil && !again(e, t, w) {
			panic(fmt.Sprintf("engine: transaction %s is in the database before its delivery", t.Item.ID))
		}
		return false
	}
	e.queue.add(*t)
	return true
}

// again has an own fence be ordered once more, and reports whether it is: what the database holds goes further than a
// log whose end was lost, and nobody else gets that log (E18).
func again(e *Engine, t *Task, w *own) bool {
	if w.Kind != KindFence || w.sent > 0 || t.Ordinal > e.o.Position.Ordinal || len(e.order.Readers()) > 1 {
		return false
	}
	w.ordinal, w.gone = 0, false
	e.own.pending = append(e.own.pending, w)
	return true
}

// readmission is up to where a member is to have applied the order before it answers one that has lost its log.
type readmission struct{ asked, ordinal uint64 }

// Readmit answers a member that has lost its log; see ordering.Order. What was decided before this member led is
// applied here then, so it knows of each database that has an order of its own.
func Readmit(e *Engine, member uint32, asked uint64) (term uint64, ok bool) {
	if term, ok = e.order.Readmit(member, asked); !ok {
		return term, false
	}
	if e.readmits[member].asked != asked {
		e.readmits[member] = readmission{asked, e.log.ordinal}
	}
	return term, e.queue.applied >= e.readmits[member].ordinal
}
