package raftlog

import (
	"fmt"
	"io"
	"log"
	"path/filepath"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// node is raft over one log, as far as a cluster of one member needs it.
type node struct {
	*raft.RawNode
	log     *Log
	applied []string
	at      uint64
}

func startNode(t *testing.T, o Options) *node {
	t.Helper()
	l := mustOpen(t, o, quickDisk())
	rn, err := raft.NewRawNode(&raft.Config{
		ID: testID.Member, ElectionTick: 3, HeartbeatTick: 1, Storage: l, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 16,
		PreVote: true, CheckQuorum: true, Logger: &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)},
	})
	must(t, err)
	n := &node{RawNode: rn, log: l}
	for range 20 {
		n.Tick()
		n.drain(t)
	}
	if n.Status().RaftState != raft.StateLeader {
		t.Fatalf("a cluster of one has no leader: %v", n.Status())
	}
	return n
}

// drain does what node does with every Ready.
func (n *node) drain(t *testing.T) {
	t.Helper()
	for n.HasReady() {
		rd := n.Ready()
		must(t, n.log.Append(rd.HardState, rd.Entries, rd.MustSync))
		for _, e := range rd.CommittedEntries {
			n.at = e.GetIndex()
			if e.GetType() == pb.EntryConfChangeV2 {
				var cc pb.ConfChangeV2
				must(t, proto.Unmarshal(e.GetData(), &cc))
				must(t, n.log.SetConfState(e.GetIndex(), n.ApplyConfChange(&cc)))
			} else if len(e.GetData()) > 0 {
				n.applied = append(n.applied, string(e.GetData()))
			}
		}
		n.Advance(rd)
	}
}

// TestRaftRunsOnTheLog restarts and compacts a real raft member over its log.
func TestRaftRunsOnTheLog(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 2048, CacheBytes: 500}
	must(t, create(o, Identity{Cluster: "c1", Member: testID.Member, Voters: []uint64{testID.Member}}, quickDisk()))
	var want []string
	bytes := int64(0)
	for round := range 6 {
		n := startNode(t, o)
		if fmt.Sprint(n.applied) != fmt.Sprint(want) {
			t.Fatalf("round %d replayed %q, want %q", round, n.applied, want)
		}
		for i := range 30 {
			text := fmt.Sprintf("round %d proposal %d", round, i)
			must(t, n.Propose([]byte(text)))
			want = append(want, text)
			if i == 10 {
				learner := &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{
					{Type: new(pb.ConfChangeAddLearnerNode), NodeId: new(uint64(100 + round))}}}
				must(t, n.ProposeConfChange(learner))
			}
			n.drain(t)
		}
		if n.log.Bytes() <= bytes {
			t.Fatalf("round %d: %d bytes after %d", round, n.log.Bytes(), bytes)
		}
		if bytes = n.log.Bytes(); round == 3 {
			must(t, n.log.Compact(n.at))
			if n.log.Bytes() >= bytes/2 {
				t.Fatalf("compaction left %d of %d bytes", n.log.Bytes(), bytes)
			}
			want, bytes = nil, n.log.Bytes()
		}
		must(t, n.log.Close())
	}
	l := mustOpen(t, o, quickDisk())
	if _, cs, _ := l.InitialState(); len(cs.GetVoters()) != 1 || len(cs.GetLearners()) != 4 {
		t.Fatalf("the configuration after compaction is %v", cs)
	}
	must(t, l.Close())
}
