package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/session"
)

// Kinds of frames between members: the first byte.
const (
	frameRaft   = 'R'
	frameStatus = 'S'
	frameCheck  = 'C'
)

func (l *life) sendFrame(to uint32, kind byte, data []byte) bool {
	frame := make([]byte, 1, len(data)+1)
	frame[0] = kind
	return l.transport.Send(to, append(frame, data...))
}

// receiveFrame takes a frame from the transport.
func (l *life) receiveFrame(from uint32, frame []byte) {
	if len(frame) == 0 {
		return
	}
	switch body := frame[1:]; frame[0] {
	case frameRaft:
		l.core.receive(from, body)
	case frameStatus:
		var s status
		if err := json.Unmarshal(body, &s); err != nil {
			l.log.Warn("a member's status cannot be read", "member", from, "error", err)
			return
		}
		l.peers.put(from, s)
	case frameCheck:
		l.checkResult(from, body)
	default:
		l.log.Warn("a member sent a frame of unknown kind", "member", from, "kind", frame[0])
	}
}

// status is what members tell each other.
type status struct {
	State   string `json:"state"`
	Ordinal uint64 `json:"ordinal"`
	Applied uint64 `json:"applied"`
	Leader  uint32 `json:"leader"`
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

const (
	gossipInterval = 300 * time.Millisecond
	silentAfter    = 3 * time.Second
)

func (p *peers) get(member uint32) (status, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[member], time.Since(p.seen[member]) < silentAfter
}

func (l *life) ownStatus() status {
	s := status{State: "joining", Ordinal: l.core.ordinal.Load(), Applied: l.core.applied.Load(), Leader: l.core.leader.Load()}
	switch {
	case l.ready.Load() && s.Leader == 0:
		s.State = "no leader"
	case l.ready.Load():
		s.State = "synced"
	}
	return s
}

func (l *life) gossip(ctx context.Context) error {
	for sleep(ctx, gossipInterval) {
		data, err := json.Marshal(l.ownStatus())
		if err != nil {
			return err
		}
		for _, m := range l.config.Members {
			if m.Member != l.config.Member {
				l.sendFrame(m.Member, frameStatus, data)
			}
		}
	}
	return nil
}

var statusColumns = []string{"member", "address", "role", "state", "ordinal", "applied", "lag"}

// showStatus answers SHOW tutti.status, one row per member.
func (l *life) showStatus() session.Result {
	r := session.Result{Tag: "SHOW", Columns: statusColumns}
	leader := l.core.leader.Load()
	for _, m := range l.config.Members {
		s, alive := l.peers.get(m.Member)
		if m.Member == l.config.Member {
			s, alive = l.ownStatus(), true
		}
		role := "follower"
		if m.Member == leader {
			role = "leader"
		}
		if !alive {
			r.Rows = append(r.Rows, []string{m.Name, m.Clients, role, "unreachable", "", "", ""})
			continue
		}
		lag := l.core.ordinal.Load() - min(l.core.ordinal.Load(), s.Applied)
		r.Rows = append(r.Rows, []string{m.Name, m.Clients, role, s.State,
			strconv.FormatUint(s.Ordinal, 10), strconv.FormatUint(s.Applied, 10), fmt.Sprint(lag)})
	}
	return r
}
