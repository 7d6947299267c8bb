package engine

import (
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/locks"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Mark is the newest transaction recorded in one marker slot of the local database.
type Mark struct {
	Incarnation uint64
	Seq         uint64
}

// Position is what the local database says it holds when the engine starts.
type Position struct {
	// Member is whose database it is: another's for a fresh clone, until all its marks are
	// overtaken. Zero means this member.
	Member uint32
	// Ordinal: every item of another member, and every statement and blind transaction, up to it is applied.
	Ordinal uint64
	// Floor: own items up to it are applied whatever the marks say.
	Floor uint64
	// Marks per slot: an own item is applied if its slot's mark is not older than it.
	Marks map[uint32]Mark
}

// holds reports whether the database has the item already (E6).
func (p *Position) holds(ordinal uint64, it *Item, blind bool) bool {
	if planted == "position-one-off" && p.Ordinal > 0 && ordinal == p.Ordinal+1 {
		return true
	}
	if it.ID.Member != p.Member || it.Kind != KindCertified || blind && planted != "blind-marked" {
		return ordinal <= p.Ordinal
	}
	m, ok := p.Marks[it.Slot]
	return ordinal <= p.Floor || ok && (m.Incarnation > it.ID.Incarnation || m.Incarnation == it.ID.Incarnation && m.Seq >= it.ID.Seq)
}

// Options configures one member's engine.
type Options struct {
	Member      uint32
	Incarnation uint64 // larger than that of any earlier life of the member
	Order       ordering.Options
	Certify     certify.Options
	Position    Position
	// Checkpoint is where to start: the log is taken in from behind it, and what is before may be
	// compacted. The database must hold everything up to its ordinal, and Position say so.
	// Nil: from the beginning of the log.
	Checkpoint *Checkpoint
	// GroupItemsMax and GroupBytesMax bound one group; zero means 512 items, 4 MiB.
	GroupItemsMax, GroupBytesMax int
	// BatchItemsMax and BatchBytesMax bound one proposal (a larger payload travels in
	// parts); zero means 512 items, 512 KiB.
	BatchItemsMax, BatchBytesMax int
	// BatchesInflightMax bounds own proposals under way. What comes meanwhile gathers, until
	// it fills a batch, or is enough (GatherShare), or Release.
	// Zero means 4.
	BatchesInflightMax int
	// ResubmitTicks without a delivery, at most, propose everything under way again: first after some times what a
	// delivery took of late, then at intervals that grow to half of ResubmitTicks, or to that time if it is longer. Zero means 20.
	ResubmitTicks int
	// PendingMax bounds submissions not yet ordered. Zero means 65536.
	PendingMax int
	// QueueBytesMax bounds what is delivered and waits for a group: payloads and 1 KiB for each
	// item. One delivery may exceed it. When it is reached, the order is no longer taken in
	// until a group is issued; verdicts on own submissions wait as well. Zero means 64 MiB.
	QueueBytesMax int
	// GatherShare and GatherPart: where processors are scarce (Scarce), proposals gather at a leader until they hold as many
	// transactions as one in GatherShare of the sessions that write regularly, or as were ordered in one GatherPart of a tick,
	// whichever is less. Zero means 1, all of them, and 4. Own submissions gather for the own part of that many.
	GatherShare, GatherPart int
	// KeptSilence and KeptAfter: groups are kept back (Kept) where no item of this member's is among the last KeptSilence
	// ordinals, and if the group before had KeptAfter tasks. Zero means 256 and 3.
	KeptSilence, KeptAfter int
	// KeptItemsMax and KeptBytesMax, as QueueBytesMax counts, bound what is kept back. Zero, and what is more, means 64 items and 128 KiB.
	KeptItemsMax, KeptBytesMax int
}

func (o *Options) defaults() {
	for _, d := range []struct {
		v *int
		d int
	}{{&o.GroupItemsMax, 512}, {&o.GroupBytesMax, 4 << 20}, {&o.BatchItemsMax, 512}, {&o.BatchBytesMax, 512 << 10},
		{&o.BatchesInflightMax, 4}, {&o.ResubmitTicks, 20}, {&o.PendingMax, 65536}, {&o.QueueBytesMax, 64 << 20},
		{&o.GatherShare, 1}, {&o.GatherPart, 4}, {&o.KeptSilence, 256}, {&o.KeptAfter, 3},
		{&o.KeptItemsMax, keptItemsMax}, {&o.KeptBytesMax, keptBytesMax}} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	o.KeptItemsMax, o.KeptBytesMax = min(o.KeptItemsMax, keptItemsMax), min(o.KeptBytesMax, keptBytesMax, o.QueueBytesMax/4)
}

// Submission is an own transaction handed to the order.
type Submission struct {
	Kind Kind
	Seq  uint64 // unique within the incarnation; grows per slot
	Slot uint32
	// Snapshot is true when the transaction reads from one snapshot, taken when Applied was
	// Base. Otherwise (READ COMMITTED) the engine takes the base itself when it proposes,
	// which is exact while the transaction holds its row locks (E8); Base then says what was
	// applied before its first statement and becomes the shared base.
	Snapshot bool
	Base     uint64
	// For READ COMMITTED: when its rows were collected the transaction certainly held its row
	// locks. Held is up to where others' transactions were applied then, at least. Order grows from
	// an own transaction's collect step to that of another which got a lock when it committed.
	Held, Order uint64
	Since       uint64 // see Item.Since
	// AddBases says of each row that it adds to, in their order, that everything up to it was visible when it was found out what the row holds.
	AddBases []uint64
	// Serial: it ran SERIALIZABLE. Vouched: the local database has not refused it, and none of its other SERIALIZABLE
	// transactions does anything until it has committed (decision 0034).
	Serial, Vouched bool
	Writeset        *writeset.Writeset // KindCertified
	Payload         []byte             // the encoded writeset, notifications, channels or request
	Decoded         bool               // Writeset is what writeset.Decode has made of Payload
	Keys            *Keys              // of a large Writeset, so that it need not be gone through here; or nil
	Front           int                // of a payload that travels in parts: how many bytes may leave before Pace; 0: all
}

// Task is one item of a group.
type Task struct {
	Ordinal  uint64
	Item     Item
	Writeset *writeset.Writeset // KindCertified, KindStatement
	// Local is true when the transaction is open at this member and its owner must commit
	// it; otherwise its rows must be applied, and if Mark, its marker row written with them.
	Local bool
	Mark  bool
	Own   bool // of this member

	before uint64 // volume of the order up to it
}

// alone reports whether the task makes a group of its own: all that is neither a set of rows nor
// notifications.
func (t *Task) alone() bool {
	return t.Item.Kind != KindNotify && (t.Item.Kind != KindCertified || len(t.Writeset.Steps) > 0)
}

// Group is a run of delivered, certified items, to be made visible together.
type Group struct {
	First, Last uint64 // ordinals, aborted ones included
	Tasks       []Task // only committed items the database does not hold, in order

	volume uint64 // of the order up to Last
}

// Aborted tells the origin that a submission lost; its session may be gone (Orphan).
type Aborted struct {
	Seq     uint64
	Verdict certify.Verdict
	Orphan  bool
	Blind   bool // it has lost to a blind transaction
}

// Ready is what the owner must carry out, in the order of the fields; see ordering.Ready.
type Ready struct {
	ordering.Ready
	Aborted []Aborted
	Locks   []Lock
	Fronts  []Front
	Group   *Group // nil, or the next group; answer with GroupDone
}

// Front is what has come of another member's writeset that travels in parts. Nothing is decided by it.
type Front struct {
	ID    writeset.TxID
	Bytes []byte // so far; they do not change
	Total int    // how many it will be; a hint
	State FrontState
}

// FrontState says how far a Front is.
type FrontState uint8

const (
	Coming  FrontState = iota // more will follow
	Whole                     // Bytes is all, and it is certified: a task of the group with it follows, unless the database holds it
	Dropped                   // it will not be committed
)

// own is the state of one own submission.
type own struct {
	Submission
	ordinal uint64          // zero until delivered
	orphan  bool            // its session is gone: apply the rows like a remote item
	blind   bool            // its rows are applied like a remote item's, whatever its session does
	sent    int             // bytes of the payload that left in parts
	gone    bool            // all of it is in batches, or it is lost
	added   uint64          // see Added; zero until then
	stale   certify.Verdict // what checkAdded has said when its item was made

	proposed certify.Transaction // as it is in its batch; its Writeset is nil before that
}

// source is what is known of a member's proposals: the last batch taken, and the parts of a
// large payload that came so far.
type source struct {
	incarnation, number uint64
	parts               []byte
	id                  writeset.TxID // of the payload that parts is the front of; zero if that is not known, as from an old checkpoint
}

const (
	resubmitTicksMin = 4 // a machine that is busy delivers late, too
	resubmitTimes    = 4
)

// Engine is one member's machine. Not safe for concurrent use.
type Engine struct {
	o     Options
	order *ordering.Order
	cert  *certify.Certifier

	// the replicated state: functions of the log
	ordinal uint64
	volume  uint64 // bytes of the items' payloads
	sources map[uint32]source
	locks   *locks.Table
	expired map[uint32]uint64 // ordinal at which a member's locks were last taken from it
	serial  map[uint32]span   // when members have run SERIALIZABLE transactions

	wrote map[uint32]uint64 // see Wrote; not replicated
	shuns map[uint64]uint64 // see Shuns; not replicated
	crowd crowd             // not replicated
	// ownEnough is for how many own submissions a batch waits.
	ownEnough int
	scarce    bool // see Scarce

	// delivered, not yet issued as a group
	queue      []Task
	queueBytes int    // see Options.QueueBytesMax
	fills      uint64 // how often it was reached
	queueFirst uint64 // first ordinal not covered by an issued group
	running    *Group
	groups     uint64 // how many were issued
	tasks      int    // of the last one
	issue      bool   // see Issue
	spoke      uint64 // the last item of this member's
	applied    uint64
	appliedVol uint64 // volume at applied

	// own submissions
	owns     map[uint64]*own // by sequence
	waiting  []*own          // in submission order
	pending  []*own          // clear to be proposed
	locked   map[uint64]lockCount
	large    []*own // those with Keys, which are not in locked
	sending  *own   // whose front has left in parts, and whose end has not; it is pending
	inflight []*proposal
	number   uint64 // of the last batch made
	idle     int    // ticks since something of ours was delivered
	again    int    // idle at which what is under way is proposed again; zero if that is still to be reckoned
	usual    int    // ticks that a delivery takes
	view     ordering.View
	early    []Task // committed ahead of their group, until Applied passes them
	commits  commits

	aborted []Aborted
	events  []Lock
	fronts  []Front
}

// proposal is a batch under way; sent is false while nobody took it.
type proposal struct {
	number uint64
	data   []byte
	sent   bool
	part   bool // there is a part of a large payload in it
}

// New starts a machine at what the log storage holds. It certifies again what follows the checkpoint.
func New(o Options) (*Engine, error) {
	o.defaults()
	o.Order.Member, o.Order.Weigh, o.Order.Author = o.Member, weigh, proposer
	if o.Position.Member == 0 {
		o.Position.Member = o.Member
	}
	if c := o.Checkpoint; c != nil {
		if p := &o.Position; min(p.Ordinal, p.Floor) < c.Ordinal {
			return nil, fmt.Errorf("engine: the checkpoint is of ordinal %d, the database holds others' items up to %d and own ones up to %d", c.Ordinal, p.Ordinal, p.Floor)
		}
		o.Order.Start = c.Index
	}
	order, err := ordering.New(o.Order)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		o: o, order: order, cert: certify.New(o.Certify),
		sources: map[uint32]source{}, queueFirst: 1, locks: locks.New(), expired: map[uint32]uint64{}, serial: map[uint32]span{}, wrote: map[uint32]uint64{}, shuns: map[uint64]uint64{}, crowd: newCrowd(),
		owns: map[uint64]*own{}, locked: map[uint64]lockCount{}, usual: o.ResubmitTicks,
	}
	if o.Checkpoint != nil {
		e.restore(o.Checkpoint)
	}
	e.o.Checkpoint = nil // it would be kept
	return e, nil
}

// Tick advances time by one unit and repeats proposals that seem lost.
func (e *Engine) Tick() {
	e.order.Tick()
	e.crowd.tick()
	e.gather()
	if len(e.inflight) == 0 {
		e.idle, e.again = 0, 0
		return
	}
	e.idle++
	patience := e.o.ResubmitTicks
	if !slices.ContainsFunc(e.inflight, func(p *proposal) bool { return p.part }) { // that may take a while
		patience = min(max(resubmitTicksMin, resubmitTimes*e.usual), patience)
	}
	if e.again == 0 {
		e.again = patience
	}
	if e.idle >= e.again {
		e.again = e.idle + min(e.idle, max(patience, e.o.ResubmitTicks/2))
		for _, p := range e.inflight {
			p.sent = false
		}
	}
	e.propose()
}

// progress notes that something of ours was delivered. Estimates of how long that takes rise at once and fall slowly, so that a way that has
// become long is not taken for loss again and again.
func (e *Engine) progress() {
	e.usual = max(e.idle, e.usual-(e.usual-e.idle+7)/8)
	e.idle, e.again = 0, 0
}

// Step takes a frame another member's engine sent.
func (e *Engine) Step(from uint32, data []byte) error { return e.order.Step(from, data) }

// Held reports whether proposals wait for others, so that one serves them all: own submissions for more of them or for the last
// own batch, or at a leader anybody's (ordering.Order).
func (e *Engine) Held() bool {
	return e.order.Held() || e.window()
}

// Release lets go what Held speaks of. The owner calls it when a short while has passed, so
// that a long way to the majority delays nobody by another round trip.
func (e *Engine) Release() {
	if e.window() {
		e.makeBatch()
	}
	e.propose()
	e.order.Release()
}

// Unreachable says that a frame to member was dropped.
func (e *Engine) Unreachable(member uint32) { e.order.Unreachable(member) }

// Reached says that there is a new connection to a member. If it leads, what is under way to it is proposed again, because frames
// of the connection before may be lost.
func (e *Engine) Reached(member uint32) {
	if e.view.Leader != member {
		return
	}
	for _, p := range e.inflight {
		p.sent = false
	}
	e.propose()
}

// View returns who leads.
func (e *Engine) View() ordering.View { return e.order.View() }

// Lost is not nil once the leader no longer keeps what this member needs next; see ordering.Lost.
func (e *Engine) Lost() *ordering.Lost { return e.order.Lost() }

// Applied is the last ordinal whose group is finished; snapshots taken between groups see
// exactly the transactions up to it.
func (e *Engine) Applied() uint64 { return e.applied }

// Ordinal is the last ordinal delivered.
func (e *Engine) Ordinal() uint64 { return e.ordinal }

// Volume is how many bytes of payload the items up to Ordinal have, and those up to Applied;
// like ordinals both are equal at all members.
func (e *Engine) Volume() (ordered, applied uint64) { return e.volume, e.appliedVol }

// Pending is the number of own submissions that are not in a proposal yet.
func (e *Engine) Pending() int { return len(e.waiting) + len(e.pending) }

// Keys is the number of key occurrences certification remembers.
func (e *Engine) Keys() int { return e.cert.Keys() }

// Batches is the number of batches made of own submissions.
func (e *Engine) Batches() uint64 { return e.number }

// Wrote is how many transactions of a member were ordered in this life, decided one way or the other.
func (e *Engine) Wrote(member uint32) uint64 { return e.wrote[member] }

// HandOver gives the lead of the order to another member, if this one has it; see ordering.Order. What is under way is
// proposed again at the new leader.
func (e *Engine) HandOver(to uint32) { e.order.HandOver(to) }

// Gone says that a member has ended, as far as can be told; see ordering.Order.
func (e *Engine) Gone(member uint32) { e.order.Gone(member) }

// HasReady reports whether Ready has work.
func (e *Engine) HasReady() bool {
	return e.order.HasReady() || len(e.aborted) > 0 || len(e.events) > 0 || len(e.fronts) > 0 || e.due()
}

// Ready returns the next work; Advance must be called once it is carried out (the group
// may still be running).
func (e *Engine) Ready() Ready {
	rd := Ready{Ready: e.order.Ready()}
	for _, d := range rd.Delivered {
		e.deliver(d.Index, d.Data)
	}
	if v := e.order.View(); v != e.view {
		e.view = v
		for _, p := range e.inflight {
			p.sent = false
		}
	}
	e.propose()
	rd.Group = e.nextGroup()
	rd.Aborted, e.aborted = e.aborted, nil
	rd.Locks, e.events = e.events, nil
	rd.Fronts, e.fronts = e.fronts, nil
	return rd
}

// Advance says the last Ready was carried out.
func (e *Engine) Advance() { e.order.Advance() }

// deliver takes one log entry in order (E1, E2).
func (e *Engine) deliver(index uint64, data []byte) {
	b, err := decodeBatch(data)
	if err != nil {
		// Every member made its batches with this codec, and the log carries checksums.
		panic(fmt.Sprintf("engine: entry %d of the log cannot be understood: %v", index, err))
	}
	s := e.sources[b.Member]
	switch {
	case b.Incarnation == s.incarnation && b.Number == s.number+1:
	case b.Incarnation > s.incarnation && b.Number == 1:
	case planted == "duplicates-accepted":
	case planted == "gaps-accepted" && b.Incarnation == s.incarnation && b.Number > s.number:
	default:
		return
	}
	if b.Incarnation != s.incarnation {
		e.dropParts(&s) // what an earlier life left unfinished was never submitted whole
		e.tell(e.ordinal, e.locks.Begun(b.Member, b.Incarnation))
		e.endSerial(b.Member)
	}
	s.incarnation, s.number = b.Incarnation, b.Number
	for i := range b.Items {
		it := &b.Items[i]
		if it.Kind == KindPart {
			e.takePart(&s, it)
			continue
		}
		if s.parts == nil || !s.id.IsZero() && s.id != it.ID {
			e.deliverItem(it)
			continue
		}
		it.Payload = e.join(&s, it)
		e.whole(it, e.deliverItem(it))
		s.parts, s.id = nil, writeset.TxID{}
	}
	e.sources[b.Member] = s
	if b.Member == e.o.Member && b.Incarnation == e.o.Incarnation {
		if len(e.inflight) == 0 || e.inflight[0].number != b.Number {
			panic(fmt.Sprintf("engine: own batch %d delivered, which is not the oldest under way", b.Number))
		}
		e.inflight = e.inflight[1:]
		e.progress()
	}
}

// certify gives the verdict on a transaction that has just got its ordinal.
func (e *Engine) certify(it *Item) (*writeset.Writeset, certify.Verdict) {
	ws, err := e.decode(it)
	switch {
	case err != nil || max(it.Base, it.ReadBase, it.LockBase) >= e.ordinal:
		return ws, certify.Verdict{Reason: certify.Malformed}
	case e.unlocked(it):
		return ws, certify.Verdict{Reason: certify.LocksLost}
	case it.ReadBase > 0 && !e.alone(it.ID.Member, it.Base):
		return ws, certify.Verdict{Reason: certify.NotAlone}
	}
	v := e.cert.Certify(e.ordinal, certify.Transaction{ID: it.ID, Base: it.Base, SharedBase: it.SharedBase, ReadBase: it.ReadBase, LockBase: it.LockBase, Writeset: ws})
	if v.Commit() && ws.Barrier {
		e.cert.SetBarrier(e.ordinal, it.ID)
	}
	return ws, v
}

// deliverItem gives an item its ordinal and its verdict, and reports whether it is to be carried out.
func (e *Engine) deliverItem(it *Item) bool {
	e.ordinal++
	if it.ID.Member == e.o.Member {
		e.spoke = e.ordinal
	}
	before := e.volume
	e.volume += uint64(len(it.Payload))
	var ws *writeset.Writeset
	var v certify.Verdict
	switch it.Kind {
	case KindCertified:
		e.wrote[it.ID.Member]++
		e.crowd.add(it)
		if ws, v = e.certify(it); !v.Commit() {
			e.crowd.lose()
		}
	case KindStatement:
		var err error
		if ws, err = writeset.Decode(it.Payload); err != nil || it.Base >= e.ordinal {
			v = certify.Verdict{Reason: certify.Malformed}
			break
		}
		v = e.cert.Define(e.ordinal, certify.Transaction{ID: it.ID, Base: it.Base, SharedBase: it.SharedBase, Writeset: ws})
	case KindLock:
		e.lockItem(it)
		return false
	case KindSerial:
		e.serialItem(it)
		return false
	case KindShun:
		e.shunItem(it)
		return false
	}
	t := Task{Ordinal: e.ordinal, Item: *it, Writeset: ws, Own: it.ID.Member == e.o.Member, before: before}
	var w *own
	if t.Own && it.ID.Incarnation == e.o.Incarnation {
		w = e.owns[it.ID.Seq]
	}
	if !v.Commit() {
		if w != nil {
			e.abort(w, v)
		}
		return false
	}
	if w != nil {
		w.ordinal = e.ordinal
		t.Local = it.Kind == KindCertified && !w.orphan && !w.blind
	}
	blind := ws != nil && ws.Blind()
	t.Mark = it.Kind == KindCertified && it.ID.Member == e.o.Position.Member && !t.Local && !blind
	if e.o.Position.holds(e.ordinal, it, blind) {
		if w != nil {
			panic(fmt.Sprintf("engine: transaction %s is in the database before its delivery", it.ID))
		}
		return false
	}
	e.queue = append(e.queue, t)
	e.weigh(&t, 1)
	return true
}
