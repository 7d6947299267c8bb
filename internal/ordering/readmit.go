package ordering

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// termsAhead is by how much a term that is begun for a member without its log is greater than any in which that member
// may have voted: a candidate that others have not heard of is a few terms ahead of them at most (PreVote).
const termsAhead = 1 << 20

// readmission is what a leader does for a member that has lost its log.
type readmission struct {
	asked uint64 // names the question
	above uint64 // the term that is given up for it
	upTo  uint64 // what is decided when an entry of the next term is
}

// Readmit answers a member that has lost its log, and asks under a number of its own in which term it may vote again:
// true with that term, once this member leads in it, and an entry of it is decided and handed out. Until then it is to
// ask again, of whoever leads; the first time, this member gives up its term for one far ahead. See O8.
func (o *Order) Readmit(member uint32, asked uint64) (term uint64, ok bool) {
	st := o.node.BasicStatus()
	if st.RaftState != raft.StateLeader {
		return 0, false
	}
	term = st.HardState.GetTerm()
	if v := o.readmitted[member]; v.asked != asked || term <= v.above {
		o.readmitted[member] = readmission{asked: asked, above: term}
		if planted == "readmitted-at-once" {
			return term, true
		}
		renew(o, term+termsAhead)
		return 0, false
	}
	of, err := o.storage.Term(st.HardState.GetCommit())
	if decided := err == nil && of == term; !decided && planted != "readmitted-undecided" {
		return 0, false
	}
	if v := o.readmitted[member]; v.upTo == 0 {
		v.upTo = st.HardState.GetCommit()
		o.readmitted[member] = v
	}
	return term, o.feed.given >= o.readmitted[member].upTo
}

// begins reports whether this member leads in the term which it has begun for one that has lost its log.
func begins(o *Order, member uint32) bool {
	v, is := o.readmitted[member]
	return is && o.node.BasicStatus().HardState.GetTerm() == v.above+termsAhead+1
}

// renew has this member, which leads, go on as a follower of nobody in a later term and stand for election at once. The
// others need not wait for its end, as after HandOver.
func renew(o *Order, term uint64) {
	self := proto.Uint64(uint64(o.member))
	for _, kind := range []pb.MessageType{pb.MsgAppResp, pb.MsgTimeoutNow} {
		// Neither can fail: they are from a voter, and to it.
		_ = o.node.Step(&pb.Message{Type: kind.Enum(), From: self, To: self, Term: proto.Uint64(term)})
	}
}
