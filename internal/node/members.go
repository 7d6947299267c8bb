package node

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/version"
)

// Kinds of frames between members: the first byte. Then comes the number of the database, as a uvarint.
const (
	frameRaft   = 'R'
	frameStatus = 'S'
	frameCheck  = 'C'

	frameRehearse  = 'T' // see replay.DryRuns
	frameRehearsed = 'U'

	frameFront = 'F' // see streaming.report

	frameHold = 'H' // see holds
	frameHeld = 'I'
)

func (l *life) sendFrame(to uint32, kind byte, data []byte) bool {
	return l.tenure.send(to, kind, l.group, data)
}

func (t *tenure) send(to uint32, kind byte, group uint64, data []byte) bool {
	frame := make([]byte, 1, len(data)+1+binary.MaxVarintLen64)
	frame[0] = kind
	return t.transport.Send(to, append(binary.AppendUvarint(frame, group), data...))
}

// receive takes a frame of another member from the transport, and gives it to the life of the database it is about.
func (t *tenure) receive(from uint32, frame []byte) {
	if len(frame) == 0 {
		return
	}
	group, n := binary.Uvarint(frame[1:])
	if n <= 0 {
		t.node.log.Warn("a member sent a frame that names no database", "member", from)
		return
	}
	t.words.heard(from)
	kind, body := frame[0], frame[1+n:]
	if l := t.life(group); l != nil {
		l.receiveFrame(from, kind, body)
	} else if g := t.ghost(group); g != nil && kind == frameRaft {
		g.receive(from, body)
	} // else it is not there yet, or any more
}

// receiveFrame takes a frame of another member's life of this database.
func (l *life) receiveFrame(from uint32, kind byte, body []byte) {
	switch kind {
	case frameRaft:
		l.core.receive(from, body)
	case frameStatus:
		var s status
		if err := json.Unmarshal(body, &s); err != nil {
			l.log.Warn("a member's status cannot be read", "member", from, "error", err)
			return
		}
		s.lag = s.behind(l.core.ordinal.Load(), l.volume.Load())
		l.peers.put(from, s)
		l.notices.Wake()
		l.regulate()
	case frameCheck:
		l.audit.Receive(from, body)
	case frameFront:
		l.paces.Heard(from, l.incarnation, body)
	case frameRehearse:
		l.trials.dryRuns.TryFor(from, body)
	case frameRehearsed:
		l.trials.dryRuns.Outcome(body)
	case frameHold:
		l.holdFor(from, body)
	case frameHeld:
		l.holdGiven(from, body)
	default:
		l.log.Warn("a member sent a frame of unknown kind", "member", from, "kind", kind)
	}
}

// States of a member.
const (
	stateJoining    = "joining" // its database lacks what was committed before its start
	stateNoLeader   = "no leader"
	stateCatchingUp = "catching up" // it serves, but has never been near the end of the order yet
	stateSynced     = "synced"
	stateStopping   = "stopping" // it sends its clients away, and does not want to lead
	stateHalted     = "halted"   // it cannot carry an entry out, see halt.go
)

// status is what members tell each other.
type status struct {
	State   string `json:"state"`
	Ordinal uint64 `json:"ordinal"`
	Applied uint64 `json:"applied"`
	Leader  uint32 `json:"leader"`
	// Volume and VolumeApplied are bytes, see engine.Volume.
	Volume        uint64 `json:"volume"`
	VolumeApplied uint64 `json:"volume_applied"`
	// DelayMicros is how much its own transactions are slowed, because of member Because.
	DelayMicros int64  `json:"delay_micros"`
	Because     uint32 `json:"because"`
	// Clients are its sessions in this database.
	Clients int `json:"clients"`
	// Hears are the members it has heard of lately, Links how many of them hear it as well.
	Hears []uint32 `json:"hears"`
	Links int      `json:"links"`
	// Differs is what its audits have found, of the main database in all databases.
	Differs []audit.Difference `json:"differs,omitempty"`
	// Version is what runs there.
	Version string `json:"version"`

	// Halted says where it is halted, if it is.
	Halted *halted `json:"halted,omitempty"`

	lag lag // not sent: reckoned where it arrives
}

// lag is what is ordered and not applied at a member.
type lag struct{ items, bytes uint64 }

// behind is how far s is behind what others, or s itself, know of the order.
func (s *status) behind(ordinal, volume uint64) lag {
	return lag{items: max(ordinal, s.Ordinal, s.Applied) - s.Applied,
		bytes: max(volume, s.Volume, s.VolumeApplied) - s.VolumeApplied}
}

type peers struct {
	mu   sync.Mutex
	last map[uint32]status
	seen map[uint32]time.Time
}

func (p *peers) init() { p.last, p.seen = map[uint32]status{}, map[uint32]time.Time{} }

func (p *peers) put(member uint32, s status) {
	p.mu.Lock()
	p.last[member], p.seen[member] = s, time.Now()
	p.mu.Unlock()
}

// forget takes a member for dead until it is heard of again.
func (p *peers) forget(member uint32) {
	p.mu.Lock()
	delete(p.seen, member)
	p.mu.Unlock()
}

const (
	gossipInterval = 300 * time.Millisecond
	silentAfter    = 3 * time.Second
)

// synced lists the other members that are alive and synced.
func (p *peers) synced(self uint32) (members []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for m, s := range p.last { // order-free: sorted below
		if m != self && s.State == stateSynced && time.Since(p.seen[m]) < silentAfter {
			members = append(members, m)
		}
	}
	slices.Sort(members)
	return members
}

func (p *peers) get(member uint32) (status, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[member], time.Since(p.seen[member]) < silentAfter
}

// lastHeard is when a member was last heard of; otherwise if it never was.
func (p *peers) lastHeard(member uint32, otherwise time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.seen[member]; ok {
		return at
	}
	return otherwise
}

// applied is how far a member's database was when it was last heard of; zero if it was not.
func (p *peers) applied(member uint32) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[member].Applied
}

// furthest is the end of the order as the members that are alive know it, and whether one of them has clients.
func (p *peers) furthest() (ordinal, volume uint64, serve bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for m, s := range p.last {
		if time.Since(p.seen[m]) < silentAfter {
			ordinal, volume, serve = max(ordinal, s.Ordinal), max(volume, s.Volume), serve || s.Clients > 0
		}
	}
	return ordinal, volume, serve
}

// statusOf is a member's status, this one's own included, and whether it is alive.
func (l *life) statusOf(member uint32) (status, bool) {
	if member == l.config.Member {
		return l.ownStatus(), true
	}
	return l.peers.get(member)
}

func (l *life) ownStatus() status {
	s := status{State: stateJoining, Ordinal: l.core.ordinal.Load(), Applied: l.core.applied.Load(),
		Leader: l.core.leader.Load(),
		Volume: l.volume.Load(), VolumeApplied: l.volumeApplied.Load(),
		DelayMicros: l.throttle.delay.Load(), Because: l.throttle.because.Load(), Clients: l.sessions.taken(),
		Hears: l.peers.hears(), Links: l.peers.links(l.config.Member), Differs: l.differences(),
		Version: version.String()}
	ordinal, volume, _ := l.peers.furthest()
	s.lag = s.behind(ordinal, volume)
	s.Halted = l.halted.Load()
	switch {
	case s.Halted != nil:
		s.State = stateHalted
	case !l.ready.Load():
	case l.node.stops.refuses.Load():
		s.State = stateStopping
	case s.Leader == 0:
		s.State = stateNoLeader
	case l.caughtUp.Load() || s.lag.items <= caughtUpItems && s.lag.bytes <= caughtUpBytes:
		l.caughtUp.Store(true)
		s.State = stateSynced
	default:
		s.State = stateCatchingUp
	}
	return s
}

// A member that has come nearer to the end of the order than this has caught up.
const (
	caughtUpItems = 2000
	caughtUpBytes = 16 << 20
)

func (l *life) gossip(ctx context.Context) error {
	for process.Sleep(ctx, gossipInterval) {
		l.core.do(func(e *engine.Engine) {
			f := e.Figures()
			l.volume.Store(f.Ordered)
			l.volumeApplied.Store(f.Applied)
			l.lead(e)
		})
		l.regulate()
		ordinal, _, _ := l.peers.furthest()
		_, led := reachable(l)
		l.age.note(time.Since(l.began), max(ordinal, l.core.ordinal.Load()), led)
		if l.group == mainGroup {
			if err := l.tenure.layToRest(ctx); err != nil {
				return err
			}
		}
		for _, m := range l.config.Members {
			if m.Member != l.config.Member {
				if err := l.sendStatus(m.Member); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// sendStatus tells a member this one's state. A frame that is lost is followed by another.
func (l *life) sendStatus(to uint32) error {
	data, err := json.Marshal(l.ownStatus())
	if err == nil {
		l.sendFrame(to, frameStatus, data)
	}
	return err
}

var statusColumns = []string{"member", "address", "role", "state", "ordinal", "applied", "lag", "throttle_ms",
	"because_of", "reason", "differs", "version"}

// showStatus answers SHOW tutti.status, one row per member.
func (l *life) showStatus() session.Result {
	r := session.Result{Tag: "SHOW", Columns: statusColumns}
	leader := l.core.leader.Load()
	differs := l.differing()
	for _, m := range l.config.Members {
		s, alive := l.statusOf(m.Member)
		role := "follower"
		if m.Member == leader {
			role = "leader"
		}
		if !alive {
			r.Rows = append(r.Rows, []string{m.Name, m.Clients, role, "unreachable", "", "", "", "", "", "",
				differs[m.Member], ""})
			continue
		}
		lag := l.core.ordinal.Load() - min(l.core.ordinal.Load(), s.Applied)
		because := ""
		if s.Because != 0 {
			because = l.name(s.Because)
		}
		why := ""
		if s.Halted != nil {
			why = s.Halted.text()
		}
		r.Rows = append(r.Rows, []string{m.Name, m.Clients, role, s.State,
			strconv.FormatUint(s.Ordinal, 10), strconv.FormatUint(s.Applied, 10), fmt.Sprint(lag),
			millis(s.DelayMicros), because, why, differs[m.Member], s.Version})
	}
	return r
}
