package ordering

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Begins is the entry behind which the log of a witness begins, when it has nothing of what was before, or lacks some.
type Begins struct {
	Index, Term uint64
	State       *ConfState // the configuration behind it
}

// witnesses are the members that only keep the log, as far as this one knows.
type witnesses struct {
	self bool // this member is one
	all  []uint32
}

// Witnesses says who they are.
func (o *Order) Witnesses(members []uint32) { o.witnesses.all = members }

// introduced is a message as it is sent. A witness that has nothing of the log, or lacks what this leader has dropped,
// is told where the log is now: it needs nothing of what was before.
func (w *witnesses) introduced(o *Order, m *pb.Message) *pb.Message {
	nothing := m.GetType() == pb.MsgApp && m.GetIndex() == 0
	if !nothing && m.GetType() != pb.MsgSnap || !slices.Contains(w.all, uint32(m.GetTo())) {
		return m
	}
	at := takenIn(o)
	if planted == "witness-told-of-undecided" {
		at.Index, at.Term = o.last, o.view.Term
	}
	if at.Index == 0 {
		return m
	}
	return &pb.Message{Type: pb.MsgSnap.Enum(), From: m.From, To: m.To, Term: m.Term, Snapshot: &pb.Snapshot{
		Metadata: &pb.SnapshotMetadata{Index: &at.Index, Term: &at.Term, ConfState: at.State}}}
}

// says takes the notice that this member lacks what a leader has dropped (lacks). Of a witness that does not count: it
// hands over to who answers, and that one may have more.
func (w *witnesses) says(o *Order, m *pb.Message) bool {
	if !slices.Contains(w.all, uint32(m.GetFrom())) {
		return lacks(o, m)
	}
	lost := o.lost
	lacking := lacks(o, m)
	o.lost = lost
	return lacking
}

// takenIn is the last entry of which raft has taken in that it is decided.
func takenIn(o *Order) Begins {
	if n := len(o.ready.CommittedEntries); n > 0 {
		e := o.ready.CommittedEntries[n-1]
		return Begins{Index: e.GetIndex(), Term: e.GetTerm(), State: o.changes.state}
	}
	term, err := o.storage.Term(o.feed.known)
	if err != nil {
		return Begins{} // it is told another time
	}
	return Begins{Index: o.feed.known, Term: term, State: o.changes.state}
}

// anew has this witness go on with a log that begins elsewhere, if the Ready says so.
func (w *witnesses) anew(o *Order) *Begins {
	if raft.IsEmptySnap(o.ready.Snapshot) {
		return nil
	}
	at := o.ready.Snapshot.GetMetadata()
	if !w.self {
		panic(fmt.Sprintf("ordering: the log begins anew behind entry %d", at.GetIndex()))
	}
	o.last = at.GetIndex()
	o.changes = changes{state: at.GetConfState()}
	o.claims.count(o.changes.state)
	limit := o.feed.limit
	o.feed = newFeed(o.storage, o.last, o.feed.bytesMax)
	o.feed.limit = limit
	return &Begins{Index: o.last, Term: at.GetTerm(), State: o.changes.state}
}

// heirTicks is for how long a member may be silent that a witness gives the lead.
const heirTicks = 10

// yield has a witness that leads give the lead to who has a database and answers: of these who lacks least (O12).
func (w *witnesses) yield(o *Order) {
	if !w.self || planted == "witness-keeps-the-lead" {
		return
	}
	var heir *Peer
	peers, _ := o.Peers()
	for i := range peers {
		p := &peers[i]
		if p.Voter && p.Member != o.member && !slices.Contains(w.all, p.Member) && p.Lag < o.last &&
			p.Silent <= heirTicks && (heir == nil || p.Lag < heir.Lag) {
			heir = p
		}
	}
	if heir != nil {
		o.HandOver(heir.Member)
	}
}

// before reports whether one member stands before this one. Witnesses come last.
func (w *witnesses) before(other, own uint32) bool {
	if witness := slices.Contains(w.all, other); witness != w.self {
		return w.self
	}
	return other < own
}
