package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/locks"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/writeset"
)

// replicated is what members derive from the log, and nothing else: the state that a Checkpoint holds (E10). Its
// methods take items in the order of the log. What they tell this member (events, fronts) decides nothing.
type replicated struct {
	member      uint32 // this one, and its incarnation: for what is told
	incarnation uint64

	ordinal uint64
	volume  uint64 // bytes of the items' payloads
	cert    *certify.Certifier
	sources map[uint32]source
	locks   *locks.Table
	expired map[uint32]uint64   // ordinal at which a member's locks were last taken from it
	serial  map[uint32]span     // when members have run SERIALIZABLE transactions
	conf    *ordering.ConfState // who votes; nil: as at the log's beginning
	voters  []uint32            // of conf

	// Functions of the log since the start of the engine, not of all of it, and so not in a Checkpoint.
	wrote map[uint32]uint64 // see Engine.Wrote
	shuns map[uint64]uint64 // see Engine.Shuns

	unread error // see Unread
	events []Lock
	fronts []Front
	room   func(bytes int) []byte // for payloads, see Options.Room
}

// source is what is known of a member's proposals: the last batch taken, and the parts of a
// large payload that came so far.
type source struct {
	incarnation, number uint64
	parts               []byte
	id                  writeset.TxID // whose front parts is; zero if not known, as from an old checkpoint
}

func newReplicated(o *Options) replicated {
	return replicated{
		member: o.Member, incarnation: o.Incarnation, cert: certify.New(o.Certify), sources: map[uint32]source{},
		room: o.Room, locks: locks.New(), expired: map[uint32]uint64{}, serial: map[uint32]span{},
		wrote: map[uint32]uint64{}, shuns: map[uint64]uint64{},
	}
}

// mine reports whether something is of this life.
func (r *replicated) mine(member uint32, incarnation uint64) bool {
	return member == r.member && incarnation == r.incarnation
}

// id names a transaction of this life.
func (r *replicated) id(seq uint64) writeset.TxID {
	return writeset.TxID{Member: r.member, Incarnation: r.incarnation, Seq: seq}
}

// accept takes a batch if it is its member's next one (E2), and begins a new life of the member with the first batch
// of it.
func (r *replicated) accept(b *batch) (s source, ok bool) {
	s = r.sources[b.Member]
	switch {
	case !ordering.In(r.conf, b.Member) && (planted != "removed-refused-by-itself" || b.Member == r.member) &&
		planted != "removed-goes-on":
		return s, false
	case b.Incarnation == s.incarnation && b.Number == s.number+1:
	case b.Incarnation > s.incarnation && b.Number == 1:
	case planted == "duplicates-accepted":
	case planted == "gaps-accepted" && b.Incarnation == s.incarnation && b.Number > s.number:
	default:
		return s, false
	}
	if b.Incarnation != s.incarnation {
		r.dropParts(&s) // what an earlier life left unfinished was never submitted whole
		r.tell(r.ordinal, r.locks.Begun(b.Member, b.Incarnation))
		r.endSerial(b.Member)
	}
	s.incarnation, s.number = b.Incarnation, b.Number
	return s, true
}

// configure notes who votes from here on; nil: as at the log's beginning. Of who gets the log no longer nothing more
// comes, and what it had is over (E17), but for advisory locks: its sessions do not know yet that they have lost them.
func (r *replicated) configure(c *ordering.ConfState) {
	r.conf, r.voters = c, ordering.VotersOf(c)
	for _, m := range slices.Sorted(maps.Keys(r.sources)) { // order-free: sorted
		if ordering.In(c, m) {
			continue
		}
		s := r.sources[m]
		r.dropParts(&s)
		r.sources[m] = s
		r.endSerial(m)
		if planted == "removed-unlocks-at-once" {
			r.expired[m] = r.ordinal
			r.tell(r.ordinal, r.locks.Expire(m))
		}
	}
}

// place gives an item its ordinal (E1).
func (r *replicated) place(it *Item) Task {
	r.ordinal++
	t := Task{Ordinal: r.ordinal, Item: *it, Own: it.ID.Member == r.member, before: r.volume,
		Voters: r.voters}
	r.volume += uint64(len(it.Payload))
	return t
}

// note takes an item that decides nothing about rows and has no place in a group. It is one of this life's
// submissions if own.
func (r *replicated) note(it *Item, own bool) {
	if own && it.Kind != KindShun {
		r.events = append(r.events, Lock{Ordinal: r.ordinal, Seq: it.ID.Seq})
	}
	switch it.Kind {
	case KindLock:
		r.lockItem(it)
	case KindSerial:
		r.serialItem(it)
	case KindShun:
		r.shunItem(it)
	}
}

// verdict decides on the item that has just got its ordinal (E3). Its writeset is known if it is of an own submission
// w.
func (r *replicated) verdict(it *Item, w *own) (*writeset.Writeset, certify.Verdict) {
	switch it.Kind {
	case KindCertified:
		r.wrote[it.ID.Member]++
		return r.certify(it, w)
	case KindStatement:
		ws, err := writeset.Decode(it.Payload)
		if err != nil || it.Base >= r.ordinal {
			r.notUnderstood(err)
			return ws, certify.Verdict{Reason: certify.Malformed}
		}
		t := certify.Transaction{ID: it.ID, Base: it.Base, SharedBase: it.SharedBase, Writeset: ws}
		return ws, r.cert.Define(r.ordinal, t)
	}
	return nil, certify.Verdict{}
}

// certify gives the verdict on a transaction.
func (r *replicated) certify(it *Item, w *own) (*writeset.Writeset, certify.Verdict) {
	ws, err := w.decode(it)
	switch {
	case err != nil || max(it.Base, it.ReadBase, it.LockBase) >= r.ordinal:
		r.notUnderstood(err)
		return ws, certify.Verdict{Reason: certify.Malformed}
	case r.unlocked(it):
		return ws, certify.Verdict{Reason: certify.LocksLost}
	case it.ReadBase > 0 && !r.alone(it.ID.Member, it.Base):
		return ws, certify.Verdict{Reason: certify.NotAlone}
	}
	v := r.cert.Certify(r.ordinal, it.transaction(ws))
	if v.Commit() && ws.Barrier {
		r.cert.SetBarrier(r.ordinal, it.ID)
	}
	return ws, v
}

// notUnderstood notes that what has just got its ordinal is of a newer release, if that is why it cannot be read:
// others carry it out.
func (r *replicated) notUnderstood(err error) {
	if errors.Is(err, writeset.ErrUnknown) {
		r.unread = fmt.Errorf("entry %d of the order cannot be understood: %w", r.ordinal, err)
	}
}

// transaction is what certification is asked about an item.
func (it *Item) transaction(ws *writeset.Writeset) certify.Transaction {
	return certify.Transaction{
		ID: it.ID, Base: it.Base, SharedBase: it.SharedBase, ReadBase: it.ReadBase, LockBase: it.LockBase, Writeset: ws,
	}
}

// toBlind reports whether a transaction has lost to a blind one.
func (r *replicated) toBlind(v certify.Verdict) bool {
	return v.Reason == certify.KeyConflict && r.cert.Blind(v.WinnerOrdinal)
}
