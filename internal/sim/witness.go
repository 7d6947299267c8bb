package sim

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/quorum"
)

// In some runs there is a witness beside the members: what core.Keeper does at one, around the real order. It crashes,
// is cut off, and drops its log, as members do. Who votes does not change in these runs, and no disk is lost.

// witnessOneIn is in how many runs there is one.
const witnessOneIn = 5

// witnessBugs show only there.
var witnessBugs = []string{"witness-keeps-the-lead", "witness-acknowledges-early", "witness-begins-in-memory",
	"witness-told-of-undecided"}

// witness is one, with a source of chance of its own.
type witness struct {
	w     *world
	id    uint32
	disk  *disk
	rnd   *random
	up    bool
	life  uint64
	order *ordering.Order
	awake bool
	busy  bool
	gone  bool // down until all is to be well
	cut   map[uint32]bool
}

// newWitness draws whether there is one.
func newWitness(w *world) *witness {
	rnd := newRandom(mix(w.seed ^ 0x317e55))
	if !slices.Contains(witnessBugs, w.o.Planted) && (!w.apart("") || rnd.intn(witnessOneIn) > 0) ||
		w.swarm.members < 2 {
		return nil
	}
	if rnd.chance(500) && w.o.Members == 0 {
		w.swarm.members = 2
	}
	w.stats.Members.Witnesses++
	return &witness{w: w, id: uint32(w.swarm.members + 1), rnd: rnd, cut: map[uint32]bool{}}
}

// voters are how many vote at the beginning.
func voters(w *world) int {
	if w.truth.voting.witness != nil {
		return w.swarm.members + 1
	}
	return w.swarm.members
}

// begin starts it, and has faults come to it.
func (k *witness) begin() {
	if k == nil {
		return
	}
	k.disk = newDisk(voters(k.w))
	k.start()
	k.trouble()
	k.compact()
}

func (k *witness) start() {
	if k.up || k.gone {
		return
	}
	k.disk.open("")
	o, err := ordering.New(ordering.Options{Member: k.id, Storage: k.disk.view, Witness: true})
	must(err)
	o.Witnesses([]uint32{k.id})
	k.order, k.up, k.awake, k.busy = o, true, false, false
	k.life++
	k.w.say("%v: starts", k)
	k.tick()
}

// stop ends a life of it; what is not durable may be lost.
func (k *witness) stop() {
	if !k.up {
		return
	}
	k.w.say("%v: crashes", k)
	k.up = false
	k.disk.crash(k.rnd)
	for _, m := range k.w.members {
		k.w.after(k.rnd.between(100, 30_000), m.in(func() {
			if !k.up {
				m.engine.Gone(k.id)
				m.wake()
			}
		}))
	}
}

// in is f if this life still goes on then.
func (k *witness) in(f func()) func() {
	life := k.life
	return func() {
		if k.up && k.life == life {
			f()
		}
	}
}

func (k *witness) tick() {
	k.w.after(k.w.swarm.tick+k.rnd.between(0, 100), k.in(func() {
		k.order.Tick()
		k.order.Release()
		if k.order.View().Leader == k.id {
			k.w.stats.Members.Witnessed++
		}
		k.wake()
		k.tick()
	}))
}

// trouble crashes it, or cuts it off from a member, now and then.
func (k *witness) trouble() {
	k.w.after(k.rnd.between(20_000, 400_000), func() {
		if !k.w.faulty {
			return
		}
		if k.rnd.chance(500) {
			k.stop()
			k.w.after(k.rnd.between(100, 300_000), k.start)
		} else {
			m := k.w.members[k.rnd.intn(len(k.w.members))].id
			k.cut[m] = !k.cut[m]
		}
		k.trouble()
	})
}

// compact drops what is decided of its log but for the newest entries.
func (k *witness) compact() {
	k.w.after(k.rnd.between(1000, 100_000), func() {
		if !k.w.faulty {
			return
		}
		if k.up && !k.busy {
			decided, _, stored := k.order.Stored()
			if to := min(decided, k.disk.Surplus(k.w.swarm.kept())); stored && to > k.disk.base {
				k.w.say("%v: compacts its log up to entry %d", k, to)
				k.disk.compact(to)
			}
		}
		k.compact()
	})
}

// heal has the members that are healed, given as indexes, the first ones first, get the witness, or not, and says how
// many of them commit then. What the witness has dropped, and nobody of them has, they would have to copy: those that
// lack it come last.
func (k *witness) heal(order []int) int {
	n := voters(k.w)
	if k.gone = k.rnd.chance(300); k.gone {
		k.stop()
		return n/2 + 1
	}
	k.well()
	slices.SortStableFunc(order, func(a, b int) int { return k.lacks(k.w.members[a]) - k.lacks(k.w.members[b]) })
	if k.lacks(k.w.members[order[n/2-1]]) > 0 {
		return len(order)
	}
	return n / 2
}

// lacks is 1 for a member that needs what the witness has dropped.
func (k *witness) lacks(m *member) int {
	own, err := k.disk.view.Term(k.disk.base)
	must(err)
	if term, err := m.disk.view.Term(k.disk.base); err == nil && term != own || errors.Is(err, raft.ErrUnavailable) ||
		m.lacks() > 0 {
		return 1
	}
	return 0
}

// cutOff has it hear nothing of members, given as indexes: who is not to be needed must not decide with it.
func (k *witness) cutOff(members []int) {
	if k == nil {
		return
	}
	for _, i := range members {
		k.cut[uint32(i+1)] = true
	}
}

// well ends all its faults.
func (k *witness) well() {
	if k == nil {
		return
	}
	k.gone = false
	clear(k.cut)
	k.start()
}

// wake puts a pump on the agenda.
func (k *witness) wake() {
	if k.awake || k.busy {
		return
	}
	k.awake = true
	k.w.after(k.rnd.between(5, 40), k.in(func() {
		k.awake = false
		k.pump()
	}))
}

// pump carries out one Ready. It may crash between any two steps.
func (k *witness) pump() {
	if k.busy || !k.order.HasReady() {
		return
	}
	k.busy = true
	rd := k.order.Ready()
	k.send(rd.Early)
	if b := rd.Begins; b != nil {
		k.w.say("%v: its log begins anew behind entry %d", k, b.Index)
		k.w.stats.Members.Began++
		k.restart(b)
	}
	if k.dies() {
		return
	}
	k.disk.append(rd.HardState, rd.Entries, rd.Configured...)
	if !rd.Sync {
		k.finish(rd)
		return
	}
	if k.w.o.Planted == "witness-acknowledges-early" {
		k.send(rd.Late)
		rd.Late = nil
	}
	n := len(k.disk.journal)
	k.w.after(k.rnd.between(k.w.swarm.syncMin, k.w.swarm.syncMax), k.in(func() {
		k.disk.sync(n)
		k.finish(rd)
	}))
}

// restart has its log begin anew.
func (k *witness) restart(b *ordering.Begins) {
	w := write{restart: &pb.SnapshotMetadata{Index: &b.Index, Term: &b.Term, ConfState: b.State}}
	if k.w.o.Planted == "witness-begins-in-memory" {
		k.disk.journal = append(k.disk.journal, w)
		k.disk.show(w)
		return
	}
	k.disk.durable(w)
}

func (k *witness) finish(rd ordering.Ready) {
	if k.dies() {
		return
	}
	k.send(rd.Late)
	k.order.Advance()
	k.busy = false
	k.wake()
}

// dies says whether it crashes at this step.
func (k *witness) dies() bool {
	if !k.w.faulty || !k.rnd.chance(5) {
		return false
	}
	k.stop()
	k.w.after(k.rnd.between(100, 300_000), k.start)
	return true
}

// send carries frames to members, perhaps.
func (k *witness) send(list []ordering.Message) {
	for _, f := range list {
		to := k.w.members[f.To-1]
		if !k.carries(to) {
			k.order.Unreachable(f.To)
			continue
		}
		k.w.after(k.delay(), to.in(func() {
			if k.cut[to.id] || to.paused {
				return
			}
			must(to.engine.Step(k.id, f.Data))
			to.peers.words.Heard(k.w.now, k.id)
			to.peers.witnessed = k.w.now
			to.wake()
		}))
	}
}

// take carries a frame of a member to it, perhaps.
func (k *witness) take(from *member, data []byte) {
	if !k.up || !k.carries(from) {
		return
	}
	k.w.after(k.delay(), k.in(func() {
		if !k.cut[from.id] {
			must(k.order.Step(from.id, data))
			k.wake()
		}
	}))
}

// carries reports whether a frame of a member, or to it, is not lost at once.
func (k *witness) carries(m *member) bool {
	return m.up && !k.cut[m.id] && !(k.w.faulty && k.rnd.chance(k.w.swarm.lossPerMille))
}

// delay is how long a frame is on its way: they overtake each other.
func (k *witness) delay() int64 { return k.rnd.between(k.w.swarm.delayMin, k.w.swarm.delayMax) }

// misses has it find out soon that a member has ended, as a rule.
func (k *witness) misses(m *member) {
	if k == nil || !k.up || k.rnd.chance(300) {
		return
	}
	k.w.after(k.rnd.between(100, 30_000), k.in(func() {
		if !m.up {
			k.order.Gone(m.id)
			k.wake()
		}
	}))
}

// diskOf is that of a member or the witness.
func diskOf(w *world, id uint32) *disk {
	if k := w.truth.voting.witness; k != nil && id == k.id {
		return k.disk
	}
	return w.members[id-1].disk
}

// leads reports whether it leads, as far as a member knows.
func (k *witness) leads(m *member) bool { return k != nil && m.engine.View().Leader == k.id }

// listed is a list of the members with the witness, if there is one.
func (k *witness) listed(list engine.List) engine.List {
	if k == nil {
		return list
	}
	for _, m := range k.w.members {
		list.Members = append(list.Members, engine.Listed{Member: m.id})
	}
	list.Members = append(list.Members, engine.Listed{Member: k.id, Role: quorum.Role{Witness: true}})
	return list
}

func (k *witness) String() string { return fmt.Sprintf("witness %d.%d", k.id, k.life) }
