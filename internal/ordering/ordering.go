package ordering

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Storage is where raft reads its own log: raftlog in production, memory in the simulator.
type Storage = raft.Storage

// Entry and HardState are raft's persistent values, opaque to everybody but the log.
type (
	Entry     = pb.Entry
	HardState = pb.HardState
)

// Options configures one member's endpoint.
type Options struct {
	Member  uint32
	Storage Storage
	// Start is the index of the last entry whose effects the owner has: delivery begins behind it.
	// Storage holds it, or is compacted up to it. Zero: behind what is compacted.
	Start uint64
	// Conf is the configuration behind entry Start; nil: that of Storage.
	Conf *ConfState
	// ElectionTicks without a leader start an election; HeartbeatTicks between heartbeats.
	// Zero means 10 and 1.
	ElectionTicks, HeartbeatTicks int
	// MessageBytesMax bounds one append message, InflightBytesMax what is under way to one
	// member, UncommittedBytesMax what a leader accepts beyond the committed log (more is
	// dropped and proposed again later). Zero means 1, 16 and 64 MiB.
	MessageBytesMax, InflightBytesMax, UncommittedBytesMax uint64
	// Weigh says how much an entry counts for Gather; nil: every one counts 1.
	Weigh func(data []byte) int
	// Author says which member has proposed an entry, zero if nobody knows; nil: nobody ever does. See O7.
	Author func(data []byte) uint32
	// Alone has what one voter decides alone wait until others have it as well; see O10.
	Alone bool
	// Witness: this member only keeps the log; see O12.
	Witness bool
	// Logger receives raft's own messages; nil discards them.
	Logger raft.Logger
}

// Message is a frame for another member.
type Message struct {
	To   uint32
	Data []byte
	// For, if it is not nil, are those that are to have Data from To, which may be among them (O11): it is for Relayed.
	For []uint32
}

// Delivered is one entry whose place in the order is final.
type Delivered struct {
	Index, Term uint64
	Data        []byte
	Conf        *ConfState // the configuration from here on, of an entry that changes it and has no data; else nil
}

// Ready is what the owner must carry out, in the order of the fields.
type Ready struct {
	Early     []Message  // may be sent before persisting
	Begins    *Begins    // the log of a witness begins anew behind this; before all else
	HardState *HardState // nil when unchanged
	Entries   []*Entry   // to be appended, replacing any conflicting suffix
	Sync      bool       // the append must be on disk before going on
	// Configured says what holds behind changes of the configuration that are decided. It must be on disk with Entries.
	Configured []Configured
	Late       []Message // only after persisting
	Delivered  []Delivered
}

// View is who leads. Leader is zero when unknown.
type View struct {
	Leader uint32
	Term   uint64
}

// Order is one member's endpoint.
type Order struct {
	member     uint32
	storage    Storage
	node       *raft.RawNode
	view       View
	ready      raft.Ready
	feed       feed
	lost       *Lost
	next       succession
	claims     claims
	changes    changes
	alone      alone
	witnesses  witnesses
	relays     relays
	ticks      uint64
	heard      map[uint32]uint64      // by member: the tick at which it last answered in a term that is this one's
	leads      uint64                 // the tick since which this member leads, or has not been away itself
	began      uint64                 // the tick of the last Ready
	readmitted map[uint32]readmission // by member, see Readmit

	// at a leader: proposals wait while others are on their way to a majority, so that one
	// write and one frame serve all that gathered; and until they are enough
	held proposals
	last uint64 // index of the newest entry seen in a Ready
}

// proposals are those that wait.
type proposals struct {
	list     []*Entry
	bytes    int
	bytesMax int
	weigh    func([]byte) int
	weight   int // of all
	enough   int
	stepped  bool // one was taken since the last Ready
}

// New starts an endpoint from what Storage holds. Errors come from Storage or a
// contradictory configuration.
func New(o Options) (*Order, error) {
	def := func(v *uint64, d uint64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.MessageBytesMax, 1<<20)
	def(&o.InflightBytesMax, 16<<20)
	def(&o.UncommittedBytesMax, 64<<20)
	if o.ElectionTicks == 0 {
		o.ElectionTicks = 10
	}
	if o.HeartbeatTicks == 0 {
		o.HeartbeatTicks = 3
	}
	if o.Logger == nil {
		o.Logger = quiet{}
	}
	if o.Weigh == nil {
		o.Weigh = func([]byte) int { return 1 }
	}
	start, err := startAt(&o)
	if err != nil {
		return nil, err
	}
	_, conf, err := o.Storage.InitialState()
	if err != nil {
		return nil, fmt.Errorf("ordering: start member %d: %w", o.Member, err)
	}
	last, err := o.Storage.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("ordering: start member %d: %w", o.Member, err)
	}
	node, err := raft.NewRawNode(&raft.Config{
		ID:                        uint64(o.Member),
		Applied:                   start,
		ElectionTick:              o.ElectionTicks,
		HeartbeatTick:             o.HeartbeatTicks,
		Storage:                   o.Storage,
		MaxSizePerMsg:             o.MessageBytesMax,
		MaxCommittedSizePerReady:  o.MessageBytesMax,
		MaxUncommittedEntriesSize: o.UncommittedBytesMax,
		MaxInflightMsgs:           256,
		MaxInflightBytes:          o.InflightBytesMax,
		CheckQuorum:               true,
		PreVote:                   true,
		StepDownOnRemoval:         true,
		Logger:                    o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("ordering: start member %d: %w", o.Member, err)
	}
	return &Order{member: o.Member, storage: o.Storage, node: node, feed: newFeed(o.Storage, start, o.MessageBytesMax),
		held:   proposals{bytesMax: int(min(o.UncommittedBytesMax, 4<<20)), weigh: o.Weigh},
		claims: newClaims(o.Author, o.Member, conf), changes: changes{state: conf, unread: last},
		alone: alone{waits: o.Alone}, witnesses: witnesses{self: o.Witness},
		heard: map[uint32]uint64{}, readmitted: map[uint32]readmission{}}, nil
}

// Tick advances time by one unit.
func (o *Order) Tick() {
	o.node.Tick()
	o.ticks++
	o.relays.look(o)
	o.stand()
	o.witnesses.yield(o)
}

// ErrMessage is wrapped by Step's errors: the bytes were not a message for this member.
var ErrMessage = errors.New("ordering: bad message")

// Step takes a frame another member sent. Stale messages are ignored without error.
func (o *Order) Step(from uint32, data []byte) error {
	m := &pb.Message{}
	if err := proto.Unmarshal(data, m); err != nil {
		return fmt.Errorf("%w from member %d: %v", ErrMessage, from, err)
	}
	return o.step(from, m)
}

func (o *Order) step(from uint32, m *pb.Message) error {
	if err := believe(o.member, from, m); err != nil {
		return err
	}
	if answers := m.GetType() == pb.MsgAppResp || m.GetType() == pb.MsgHeartbeatResp; answers &&
		m.GetTerm() == o.node.BasicStatus().HardState.GetTerm() {
		o.heard[from] = o.ticks
	}
	if m.GetType() == pb.MsgSnap && !o.witnesses.self && o.witnesses.says(o, m) {
		return nil
	}
	if m.GetType() == pb.MsgProp && o.mustHold() {
		o.held.hold(m.Entries) // or drop (O3)
		return nil
	}
	if err := o.node.Step(m); err != nil && !errors.Is(err, raft.ErrProposalDropped) &&
		!errors.Is(err, raft.ErrStepPeerNotFound) {
		return fmt.Errorf("%w from member %d: %v", ErrMessage, from, err)
	}
	if m.GetType() == pb.MsgAppResp && o.view.Leader != o.member {
		o.claimed(from, m)
	}
	return nil
}

// believe refuses a message that no member would send to this one.
func believe(to, from uint32, m *pb.Message) error {
	if m.GetFrom() != uint64(from) && m.GetType() != pb.MsgProp || m.GetTo() != uint64(to) || m.Type == nil ||
		raft.IsLocalMsg(m.GetType()) {
		return fmt.Errorf("%w from member %d: %s for %d said to be from %d", ErrMessage, from, m.GetType(), m.GetTo(),
			m.GetFrom())
	}
	for _, e := range m.Entries {
		if e == nil || m.GetType() == pb.MsgProp && e.GetType() != pb.EntryNormal {
			return fmt.Errorf("%w from member %d: unexpected entry", ErrMessage, from)
		}
	}
	return nil
}

// Propose offers data for the order. False means it was certainly not taken (no leader is
// known, or too much is under way); true promises nothing (O3).
func (o *Order) Propose(data []byte) bool {
	if o.mustHold() {
		return o.held.hold([]*Entry{{Data: data}})
	}
	o.held.stepped = true
	return o.node.Propose(data) == nil
}

// mustHold reports whether this member leads, and proposals are under way or have to gather.
func (o *Order) mustHold() bool {
	st := o.node.BasicStatus()
	return st.RaftState == raft.StateLeader && (o.held.stepped || len(o.held.list) > 0 || o.held.enough > 1 ||
		o.last > st.HardState.GetCommit())
}

// hold keeps proposals back; false if too much is kept already.
func (p *proposals) hold(entries []*Entry) bool {
	for _, e := range entries {
		if p.bytes += len(e.GetData()); p.bytes > p.bytesMax {
			p.bytes -= len(e.GetData())
			return false
		}
		p.list = append(p.list, e)
		p.weight += p.weigh(e.GetData())
	}
	return true
}

// Gather has a leader keep proposals back until they weigh enough, or Release.
func (o *Order) Gather(enough int) { o.held.enough = enough }

// Held reports whether proposals are kept back. Release lets them go, in whatever state the
// others are: the owner calls it after a short while, so that a long way to the majority
// delays nobody by another round trip.
func (o *Order) Held() bool { return len(o.held.list) > 0 }

// Release lets go what Held speaks of.
func (o *Order) Release() {
	if len(o.held.list) == 0 {
		return
	}
	m := &pb.Message{Type: pb.MsgProp.Enum(), From: proto.Uint64(uint64(o.member)), Entries: o.held.list}
	o.held.list, o.held.bytes, o.held.weight, o.held.stepped = nil, 0, 0, true
	// What is dropped now is proposed again by its member (O3).
	_ = o.node.Step(m)
}

// View returns who leads now.
func (o *Order) View() View { return o.view }

// HasReady reports whether Ready has work.
func (o *Order) HasReady() bool {
	o.feed.limit = o.limit()
	return o.node.HasReady() || o.free() || o.feed.due()
}

// free reports whether held proposals may go.
func (o *Order) free() bool {
	if len(o.held.list) == 0 {
		return false
	}
	st := o.node.BasicStatus()
	return st.RaftState != raft.StateLeader || !o.held.stepped && o.last <= st.HardState.GetCommit() &&
		o.held.weight >= o.held.enough
}

// Ready returns the next work; Advance must be called before the next Ready.
func (o *Order) Ready() Ready {
	if o.free() {
		o.Release()
	}
	o.ready, o.held.stepped, o.began = o.node.Ready(), false, o.ticks
	begins := o.witnesses.anew(o)
	if n := len(o.ready.Entries); n > 0 {
		o.last = o.ready.Entries[n-1].GetIndex()
	}
	configured := o.reconfigure(o.ready.Entries, o.ready.CommittedEntries)
	st := o.node.BasicStatus()
	if st.Lead == uint64(o.member) && o.view.Leader != o.member {
		o.leads = o.ticks
	}
	if view := (View{Leader: uint32(st.Lead), Term: st.HardState.GetTerm()}); view != o.view {
		o.view, o.alone.forgo = view, nil
	}
	o.feed.limit = o.limit()
	r := Ready{Begins: begins, Entries: o.ready.Entries, Sync: o.ready.MustSync || len(configured) > 0,
		Configured: configured}
	if !raft.IsEmptyHardState(o.ready.HardState) {
		r.HardState = o.ready.HardState
	}
	leading := st.RaftState == raft.StateLeader
	o.relays.shared = o.relays.shared[:0]
	for i, m := range o.ready.Messages {
		if overtaken(m, o.ready.Messages[i+1:]) || answersFound(m) || o.relays.joins(m, r.Early, o.ticks) {
			continue
		}
		m = o.witnesses.introduced(o, m)
		data, err := proto.Marshal(m)
		if err != nil {
			panic(fmt.Sprintf("ordering: marshal %s: %v", m.GetType(), err))
		}
		out := Message{To: uint32(m.GetTo()), Data: data}
		if leading && m.GetType() == pb.MsgApp || m.GetType() == pb.MsgProp {
			r.Early = o.relays.early(m, out, r.Early)
		} else {
			r.Late = append(r.Late, out)
		}
	}
	r.Late = append(r.Late, o.claim(&o.ready, o.view.Term, o.view.Leader)...)
	r.Delivered = o.handOut(o.feed.take(o.ready.CommittedEntries))
	return r
}

// handOut gives entries that are decided as the owner takes them.
func (o *Order) handOut(entries []*pb.Entry) (list []Delivered) {
	for _, e := range entries {
		d := Delivered{Index: e.GetIndex(), Term: e.GetTerm(), Data: e.Data}
		if e.GetType() != pb.EntryNormal {
			d.Data, d.Conf = nil, o.changes.behind(d.Index)
		}
		if len(d.Data) > 0 || d.Conf != nil {
			list = append(list, d)
		}
	}
	return list
}

// overtaken reports whether a frame only tells what is committed, as a later one to the same
// member does as well: when a majority answers, both the news and what was held are sent.
func overtaken(m *pb.Message, later []*pb.Message) bool {
	if m.GetType() != pb.MsgApp || len(m.Entries) > 0 {
		return false
	}
	for _, l := range later {
		if l.GetType() == pb.MsgApp && l.GetTo() == m.GetTo() && l.GetTerm() == m.GetTerm() &&
			l.GetCommit() >= m.GetCommit() &&
			l.GetIndex() == m.GetIndex() && len(l.Entries) > 0 {
			return true
		}
	}
	return false
}

// Advance says the last Ready was carried out.
func (o *Order) Advance() {
	o.node.Advance(o.ready)
	o.feed.advance()
	if o.ticks-o.began > awayTicks { // nobody could answer it
		o.leads, o.alone.forgo = o.ticks, nil
	}
	o.claims.own = o.claims.own.newer(o.claims.next)
	o.find()
	for _, m := range o.ready.Messages {
		if m.GetType() == pb.MsgSnap {
			// It was a notice, nothing is transferred; later the member may have caught up.
			o.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		}
	}
}

// Pause stops delivery, or lets it go on. The order goes on meanwhile; what it decides waits in
// Storage. It does not touch what Ready gave already.
func (o *Order) Pause(paused bool) { o.feed.paused = paused }

// awayTicks is how long carrying out a Ready may take, some heartbeats, before what is known of the others is too old.
const awayTicks = 10

// Behind is the number of entries that are decided, and could be delivered, and are not.
func (o *Order) Behind() uint64 {
	return max(min(o.feed.known, o.limit()), o.feed.given) - o.feed.given
}

// Stored returns the last entry handed out. False if it is not certainly in Storage before the next
// Advance, or if there is none.
func (o *Order) Stored() (index, term uint64, ok bool) {
	if o.feed.given == 0 || o.feed.given > o.feed.readable {
		return 0, 0, false
	}
	term, err := o.storage.Term(o.feed.given)
	return o.feed.given, term, err == nil
}

// HandOver gives the lead to another member, once that has all entries. Until it leads, and at most an election's
// timeout, proposals are dropped (O3). It does nothing at a member that does not lead.
func (o *Order) HandOver(to uint32) {
	if o.node.BasicStatus().RaftState == raft.StateLeader {
		o.node.TransferLeader(uint64(to))
	}
}

// Unreachable says a frame to member was dropped, so that raft sends more carefully.
func (o *Order) Unreachable(member uint32) {
	o.node.ReportUnreachable(uint64(member))
	o.relays.fails(member, o.ticks)
}

// quiet discards raft's log but keeps its panics.
type quiet struct{}

func (quiet) Debug(...any)            {}
func (quiet) Debugf(string, ...any)   {}
func (quiet) Error(...any)            {}
func (quiet) Errorf(string, ...any)   {}
func (quiet) Info(...any)             {}
func (quiet) Infof(string, ...any)    {}
func (quiet) Warning(...any)          {}
func (quiet) Warningf(string, ...any) {}
func (quiet) Fatal(v ...any)          { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(f string, v ...any) {
	panic(fmt.Sprintf(f, v...))
}
func (quiet) Panic(v ...any) { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(f string, v ...any) {
	panic(fmt.Sprintf(f, v...))
}
