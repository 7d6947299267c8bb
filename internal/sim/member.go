package sim

import (
	"fmt"
	"maps"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/replica"
)

// member is one node and its database: what internal/node does, around the real engine.
type member struct {
	w    *world
	id   uint32
	disk *disk
	db   *database

	up          bool
	paused      bool
	held        []func() // what waits for the end of the pause
	still       int64    // its clock stands still until then
	away        bool     // down until it is mended
	loss        loss     // of its disk, or of what it needs of the log
	shaky       bool     // will lose power soon after its next start
	incarnation uint64   // survives crashes, grows at every start
	engine      *engine.Engine

	// one life of the node
	keeps     replica.Retention
	pumping   pumping
	halted    bool // it has come to an item that it cannot carry out, see halt
	open      bool // sessions may work: everything older is applied
	fence     uint64
	seq       uint64
	slots     uint32
	sessions  []*modelSession
	submitted map[uint64]submitter
	group     *running
	listens   listening
	begun     uint64 // ordinal up to which rows are being, or are, applied
	gate      gate
	knows     knowledge
	tenancy   tenancy
	peers     *peers
}

// start begins a life of the node from what disk and database hold. Backends of an
// earlier life are ended before the position is read.
func (m *member) start() {
	if m.up || m.w.truth.voting.joins.stays(m) {
		return
	}
	if m.db.paused {
		m.db.held = append(m.db.held, m.start) // it cannot be restarted
		return
	}
	if m.disk.full {
		m.startLater(m.w.rnd.between(1000, 50_000))
		return
	}
	if !m.mayBegin() {
		return
	}
	m.loss.copying++ // what was being copied is given up
	if m.db.dead {
		m.db = m.db.recover()
	}
	if m.w.o.Planted != "backends-survive" {
		m.db.disconnect()
	}
	m.disk.open(m.w.o.Planted)
	m.incarnation++
	known := m.incarnation
	if m.w.o.Planted == "incarnation-reused" {
		known = 1
	}
	if m.w.o.Planted == "start-panics" && m.incarnation > 1 {
		panic("planted")
	}
	p := m.position()
	m.w.say("%v: starts at ordinal %d, floor %d, %d marks of member %d", m, p.Ordinal, p.Floor, len(p.Marks), p.Member)
	m.begun = p.Ordinal
	if s := m.db.saved; s != nil {
		p.Ordinal, p.Floor = max(p.Ordinal, s.ordinal), max(p.Floor, s.ordinal)
	}
	from, ok := m.checkpointToStart()
	if !ok {
		m.reclone()
		return
	}
	s := &m.w.swarm
	e, err := engine.New(engine.Options{
		Member: m.id, Incarnation: known, Position: p, Checkpoint: from, GoneTicks: m.w.truth.voting.goneTicks,
		Copies: m.w.truth.voting.copies, SlowTicks: slowTicks,
		Order:         ordering.Options{Storage: m.disk.view},
		Certify:       certify.Options{KeysMax: s.keysMax},
		GroupItemsMax: s.groupItems, BatchItemsMax: s.batchItems, BatchBytesMax: s.batchBytes, BatchesInflightMax: s.batchesInflight,
		ResubmitTicks: s.resubmitTicks, PendingMax: s.pendingMax, QueueBytesMax: s.queueBytes, GatherShare: s.gatherShare, GatherPart: s.gatherPart, KeptItemsMax: s.keptItems(), KeptSilence: s.keptSilence, KeptAfter: s.keptAfter,
	})
	must(err)
	m.engine, m.up = e, true
	if m.keeps = (replica.Retention{}); from != nil {
		m.keeps = replica.NewRetention(from.Index)
	}
	m.pumping, m.halted, m.group, m.gate = pumping{}, false, nil, gate{}
	m.seq, m.slots, m.listens = 1, 0, beginListening(m)
	m.sessions, m.submitted, m.knows, m.peers = nil, map[uint64]submitter{}, newKnowledge(m), newPeers(m)
	m.fence, m.open = m.seq, m.w.o.Planted == "no-fence"
	if !e.Submit(engine.Submission{Kind: engine.KindFence, Seq: m.fence}) {
		panic("sim: the fence of a new life was refused")
	}
	m.tick(m.incarnation)
	m.checkpoints()
	m.peers.gossip()
	m.beginLocks()
	m.w.definers.starts(m)
	m.aftershock()
}

// position is what the database says it holds.
func (m *member) position() engine.Position {
	p := engine.Position{Member: m.db.member, Ordinal: m.db.progress, Floor: m.db.floor, Marks: maps.Clone(m.db.marks)}
	switch m.w.o.Planted {
	case "progress-forgotten":
		p.Ordinal = 0
	case "marks-ignored":
		p.Marks = nil
	case "floor-ignored":
		p.Floor = 0
	case "clone-taken-for-own":
		p.Member = m.id
	}
	return p
}

// stop ends a life of the node. Unsynced log writes are lost if power is.
func (m *member) stop(power bool) {
	m.missed()
	m.w.definers.ends(m)
	m.up, m.paused, m.held = false, false, nil
	m.w.stats.Fills += int(m.engine.Figures().Fills)
	sessions := m.sessions
	m.sessions = nil
	for _, s := range sessions {
		s.lost()
	}
	for _, s := range m.w.callers.of(m) {
		s.cut()
	}
	if power {
		m.disk.crash(m.w.rnd)
	}
}

func (m *member) tick(life uint64) {
	if m.w.o.Planted == "ticks-stop" && !m.w.faulty {
		return
	}
	d := m.w.swarm.tick
	if m.w.faulty {
		d += m.w.rnd.between(-d/8, d/8) // clocks drift
	}
	m.w.after(d*m.w.swarm.clockRate[m.id-1]/1000, m.in(func() {
		if m.w.now >= m.still || !m.w.faulty {
			m.engine.Strain(m.w.swarm.scarce, m.w.swarm.stuck)
			m.w.truth.voting.look(m)
			engine.Sites(m.engine, m.w.net.sites)
			m.engine.Tick()
			m.w.truth.voting.ticked(m)
			m.wake()
		}
		m.tick(life)
	}))
}

// snapshot calls f as soon as the database shows exactly a prefix of the order. A database that is paused answers later, and may show more by then.
func (m *member) snapshot(f func()) {
	var begin func()
	begin = m.inDatabase(func() {
		if gateOpen(m) {
			f()
			return
		}
		m.gate.waiting = append(m.gate.waiting, m.in(begin))
	})
	begin()
	if m.w.o.Planted == "gate-times-out" {
		m.w.after(20_000, m.in(f))
	}
}

func (m *member) openGate() {
	m.w.definers.moved(m)
	if m.group != nil || m.gate.closing != nil || m.engine.Holes() {
		return
	}
	for g := &m.gate; len(g.waiting) > 0; {
		f := g.waiting[0]
		g.waiting = g.waiting[1:]
		f()
	}
}

// slowness is the factor by which something takes longer here than elsewhere.
func (m *member) slowness(factor int64) int64 {
	if m.w.faulty && m.w.swarm.slowMember == m.id {
		return factor
	}
	return 1
}

func (m *member) String() string { return fmt.Sprintf("member %d.%d", m.id, m.incarnation) }
