package sim

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
)

// disk is a member's raft log: a journal of writes of which a crash keeps what was synced
// and some of the rest, in order.
type disk struct {
	voters  []uint64
	journal []write
	synced  int // writes that a sync covered; they survive any crash, but for
	dropped int // the first write that a failed sync left readable and clean; -1: none
	full    bool
	view    *raft.MemoryStorage
	base    uint64 // compacted up to this entry
	begins  uint64 // behind this entry, since it was restarted
	most    uint64 // the last entry there ever was
	confs   []ordering.Configured

	empty bool // there is no log, see mayBegin
	notes bootstrap.Notes
}

type write struct {
	state   *ordering.HardState
	entries []*ordering.Entry
	compact uint64               // up to this entry; zero: no
	restart *pb.SnapshotMetadata // the log begins anew behind it
	confs   []ordering.Configured
}

func newDisk(members int) *disk {
	d := &disk{dropped: -1}
	for i := 1; i <= members; i++ {
		d.voters = append(d.voters, uint64(i))
	}
	d.reload()
	return d
}

// reload rebuilds what is readable from the journal.
func (d *disk) reload() {
	d.view, d.confs = raft.NewMemoryStorage(), nil
	d.show(write{restart: d.at(0, 0, nil)})
	for _, w := range d.journal {
		d.show(w)
	}
}

func (d *disk) show(w write) {
	if w.restart != nil {
		must(d.view.ApplySnapshot(&pb.Snapshot{Metadata: w.restart}))
		d.base, d.begins = w.restart.GetIndex(), w.restart.GetIndex()
		if d.confs = nil; d.base > 0 {
			d.confs = []ordering.Configured{{Index: d.base, State: w.restart.GetConfState()}}
			d.follow(w.restart)
		}
	}
	if w.compact > 0 {
		_, err := d.view.CreateSnapshot(w.compact, d.at(0, 0, d.conf(w.compact)).ConfState, nil)
		must(err)
		must(d.view.Compact(w.compact))
		d.base = w.compact
	}
	must(d.view.Append(w.entries))
	d.confs = append(d.confs, w.confs...)
	if n := len(w.entries); n > 0 {
		d.most = max(d.most, w.entries[n-1].GetIndex())
	}
	if w.state != nil {
		must(d.view.SetHardState(w.state))
	}
}

// follow has the hard state be no older than where the log begins, as raftlog does.
func (d *disk) follow(at *pb.SnapshotMetadata) {
	hs, _, err := d.view.InitialState()
	must(err)
	term, vote := hs.GetTerm(), hs.GetVote()
	if at.GetTerm() > term {
		term, vote = at.GetTerm(), 0
	}
	must(d.view.SetHardState(&pb.HardState{Term: &term, Vote: &vote, Commit: new(max(hs.GetCommit(), at.GetIndex()))}))
}

// append writes without syncing.
func (d *disk) append(state *ordering.HardState, entries []*ordering.Entry, confs ...ordering.Configured) {
	for _, w := range []write{{state: state, entries: entries}, {confs: confs}} {
		if w.state != nil || len(w.entries)+len(w.confs) > 0 {
			d.journal = append(d.journal, w)
			d.show(w)
		}
	}
}

// compact forgets the entries up to index; it is durable when it returns, and so is all before.
func (d *disk) compact(index uint64) { d.durable(write{compact: index}) }

// restart begins the log anew behind a checkpoint, where a configuration holds.
func (d *disk) restart(c *engine.Checkpoint, conf *ordering.ConfState) {
	d.durable(write{restart: d.at(c.Index, c.Term, conf)})
}

func (d *disk) durable(w write) {
	d.journal = append(d.journal, w)
	d.show(w)
	d.sync(len(d.journal))
}

// sync makes the first n writes durable.
func (d *disk) sync(n int) { d.synced = max(d.synced, n) }

// syncFails is a sync of the first n writes that fails: what was not durable can still be read,
// but no further sync writes it.
func (d *disk) syncFails(n int) {
	if d.synced < n && d.dropped < 0 {
		d.dropped = d.synced
	}
}

// open is what raftlog does at the start of a life: what is read becomes durable (L2), also
// what a failed sync has dropped, because it is written again (L4).
func (d *disk) open(planted string) {
	if planted != "open-trusts-the-cache" {
		d.dropped = -1
	}
	if planted != "open-does-not-sync" {
		d.sync(len(d.journal))
	}
}

// crash loses a random unsynced suffix, perhaps tearing the last write that is kept:
// entries are written before the state.
func (d *disk) crash(r *random) {
	sure, most := d.synced, len(d.journal)
	if d.dropped >= 0 {
		sure, most = min(sure, d.dropped), d.dropped
	}
	keep := sure + r.intn(most-sure+1)
	if keep < len(d.journal) {
		if torn := d.journal[keep]; len(torn.entries) > 1 && r.chance(500) {
			d.journal[keep] = write{entries: torn.entries[:1+r.intn(len(torn.entries)-1)]}
			keep++
		}
	}
	d.journal = d.journal[:keep:keep]
	d.synced, d.dropped = keep, -1
	d.reload()
}

func must(err error) {
	if err != nil {
		panic("sim: " + err.Error())
	}
}
