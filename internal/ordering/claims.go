package ordering

import (
	"bytes"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// claims let a follower find by itself that its entries are decided (O7), without the way back from the leader. A claim
// is what raft's answer to an append says, MsgAppResp; it goes to the author of an entry as well, who is no leader and
// for whose raft it means nothing.
type claims struct {
	author   func(data []byte) uint32
	member   uint32
	voters   []uint64
	majority int
	joint    bool             // two configurations count, so nobody finds anything
	all      bool             // followers' claims are needed as well: the leader and the author are not a majority
	others   map[uint32]claim // by member
	own      claim
	next     claim // becomes own when the Ready that has it is carried out
}

// claim says that the log up to index is on its member's disk, and is that of the leader of term.
type claim struct{ term, index uint64 }

// newer gives what is known by two claims of a member.
func (c claim) newer(d claim) claim {
	if d.term > c.term || d.term == c.term && d.index > c.index {
		return d
	}
	return c
}

// found is the context of the heartbeat by which raft is told what was found. The answer to it is sent to nobody.
var found = []byte("found")

func newClaims(author func([]byte) uint32, member uint32, conf *ConfState) claims {
	c := claims{author: author, member: member, others: map[uint32]claim{}}
	c.count(conf)
	return c
}

// count makes conf the configuration by which claims count.
func (c *claims) count(conf *ConfState) {
	if planted == "claims-of-old-configuration" && c.majority > 0 {
		return
	}
	c.voters = conf.GetVoters()
	c.majority = len(c.voters)/2 + 1
	c.all = c.majority > 2
	c.joint = len(conf.GetVotersOutgoing()) > 0
	if planted == "claims-of-learners" {
		c.voters = slices.Concat(c.voters, conf.GetLearners())
	}
	for m := range c.others { // order-free: each for itself
		if !slices.Contains(c.voters, uint64(m)) {
			delete(c.others, m)
		}
	}
}

// authors lists those of entries, but not the members without.
func (c *claims) authors(entries []*pb.Entry, without ...uint32) (out []uint32) {
	if c.author == nil {
		return nil
	}
	for _, e := range entries {
		if e.GetType() != pb.EntryNormal || len(e.Data) == 0 {
			continue
		}
		if a := c.author(e.Data); slices.Contains(c.voters, uint64(a)) && !slices.Contains(without, a) &&
			!slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// claim gives the claims that become true when ready, which is taken in term with a leader, has been carried out; own
// ones wait for Advance.
func (o *Order) claim(ready *raft.Ready, term uint64, leader uint32) (out []Message) {
	c := &o.claims
	var to []uint32
	if n := len(ready.Entries); leader == o.member && n > 0 {
		c.next = claim{term, ready.Entries[n-1].GetIndex()}
		to = c.authors(ready.Entries, o.member)
	}
	for _, m := range ready.Messages {
		if m.GetType() == pb.MsgAppResp && !m.GetReject() {
			c.next = c.next.newer(claim{m.GetTerm(), m.GetIndex()})
			if c.all && c.next.index > o.feed.known {
				to = c.authors(ready.Entries, o.member, leader)
			}
		}
	}
	for _, a := range to {
		data, err := proto.Marshal(&pb.Message{Type: pb.MsgAppResp.Enum(), From: proto.Uint64(uint64(o.member)),
			To:   proto.Uint64(uint64(a)),
			Term: proto.Uint64(c.next.term), Index: proto.Uint64(c.next.index)})
		if err != nil {
			panic("ordering: marshal a claim: " + err.Error())
		}
		out = append(out, Message{To: a, Data: data})
	}
	return out
}

// claimed notes another member's claim.
func (o *Order) claimed(from uint32, m *pb.Message) {
	if m.GetReject() || !slices.Contains(o.claims.voters, uint64(from)) {
		return
	}
	o.claims.others[from] = o.claims.others[from].newer(claim{m.GetTerm(), m.GetIndex()})
	o.find()
}

// find tells raft what is decided, if claims say more than raft knows. The rule is the leader's own (Ongaro and
// Ousterhout, In Search of an Understandable Consensus Algorithm, 5.4.2): a majority has the entry, and it is of the
// current term.
func (o *Order) find() {
	c, st := &o.claims, o.node.BasicStatus()
	term := st.HardState.GetTerm()
	if st.RaftState != raft.StateFollower || st.Lead == raft.None || c.own.term != term && planted != "old-claims" ||
		c.joint || !slices.Contains(c.voters, uint64(c.member)) {
		return
	}
	have := []uint64{c.own.index}
	for _, other := range c.others { // order-free: they are sorted
		if other.term == term || planted == "old-claims" {
			have = append(have, other.index)
		}
	}
	if len(have) < c.majority {
		return
	}
	slices.Sort(have)
	index := min(have[len(have)-c.majority], c.own.index, o.changes.bound(o.feed.known))
	if index <= st.HardState.GetCommit() {
		return
	}
	if of, err := o.storage.Term(index); err != nil || of != term && planted != "old-claims" {
		return
	}
	// It cannot fail: it is of the term's leader, and of what is in the log.
	_ = o.node.Step(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: proto.Uint64(st.Lead),
		To: proto.Uint64(uint64(o.member)), Term: proto.Uint64(term),
		Commit: proto.Uint64(index), Context: found})
}

// answersFound reports whether a frame is the answer to what find has told.
func answersFound(m *pb.Message) bool {
	return m.GetType() == pb.MsgHeartbeatResp && bytes.Equal(m.GetContext(), found)
}
