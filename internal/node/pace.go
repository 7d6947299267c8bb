package node

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A large transaction leaves its member no faster than the others execute it ahead of its turn (forerunner). So
// little of it is left to do when it has its place in the order, for which everything behind it must wait; what is small
// passes it meanwhile. Members that are not synced, that do not execute it or have come to a stand do not
// count, nor does a minority that is slower than the rest for longer than flow_minority_percent allows.
const (
	paceTick  = 50 * time.Millisecond  // how often it is looked at when nobody reports
	paceStuck = 3 * time.Second        // without progress a member does not count
	paceGrace = 500 * time.Millisecond // for which a minority may hold up the rest in any case
)

// paces are the large transactions of this member that are on their way.
type paces struct {
	mu sync.Mutex
	of map[uint64]*pace // by sequence
}

// pace is one of them. Its fields are paces' mu's.
type pace struct {
	size    int       // of the payload
	ahead   int       // bytes that may be on their way
	front   int       // bytes that may have left
	began   time.Time // when its first part left, about
	looked  time.Time
	held    time.Duration // by a minority alone
	members map[uint32]progress
	news    chan struct{} // somebody has reported
}

// progress is how far a member has executed it.
type progress struct {
	bytes int
	since time.Time // when it came so far
	over  bool      // it will not execute it ahead of its turn
}

// pace begins to pace a submission, if it is large enough for forerunners. letGo is due whenever a channel is ready.
func (l *life) pace(s *engine.Submission) (tick <-chan time.Time, news <-chan struct{}, stop func()) {
	if len(s.Payload) <= l.config.Limits.GroupBytes {
		return nil, nil, func() {}
	}
	p := &l.paces
	x := newPace(len(s.Payload), l.config.Limits.GroupBytes, time.Now())
	s.Front = x.front
	p.mu.Lock()
	if p.of == nil {
		p.of = map[uint64]*pace{}
	}
	p.of[s.Seq] = x
	p.mu.Unlock()
	t := time.NewTicker(paceTick)
	return t.C, x.news, func() {
		t.Stop()
		p.mu.Lock()
		delete(p.of, s.Seq)
		p.mu.Unlock()
	}
}

func newPace(size, ahead int, now time.Time) *pace {
	return &pace{size: size, ahead: ahead, front: min(size, ahead), began: now, looked: now, members: map[uint32]progress{}, news: make(chan struct{}, 1)}
}

// letGo lets more of a large transaction leave, if it is time.
func (l *life) letGo(seq uint64) {
	var synced []uint32
	for _, m := range l.config.Members {
		if s, alive := l.peers.get(m.Member); m.Member != l.config.Member && alive && s.State == stateSynced {
			synced = append(synced, m.Member)
		}
	}
	p, now := &l.paces, time.Now()
	l.core.do(func(e *engine.Engine) { // if it has stopped, the session is told
		p.mu.Lock()
		defer p.mu.Unlock()
		switch x := p.of[seq]; {
		case x == nil: // decided meanwhile
		case e.Sent(seq) == 0:
			x.began, x.looked = now, now
		default:
			e.Pace(seq, x.next(synced, len(l.config.Members), l.settled().Limits.FlowMinorityPercent, now))
		}
	})
}

// heard takes a frame of a forerunner.
func (p *paces) heard(from uint32, incarnation uint64, body []byte) {
	r := writeset.NewReader(body)
	of, seq, bytes, over := r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Byte()
	if r.Done() != nil || of != incarnation || bytes > 1<<40 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.of[seq]
	if x == nil {
		return
	}
	m := x.members[from]
	if int(bytes) != m.bytes {
		m.bytes, m.since = int(bytes), time.Now()
	}
	m.over = over != 0
	x.members[from] = m
	select {
	case x.news <- struct{}{}:
	default:
	}
}

// appendFront makes such a frame.
func appendFront(dst []byte, incarnation, seq uint64, bytes int, over bool) []byte {
	for _, v := range []uint64{incarnation, seq, uint64(bytes)} {
		dst = binary.AppendUvarint(dst, v)
	}
	if over {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// next says how many bytes may leave by now. Members are the others that are synced, of voters in all.
func (x *pace) next(members []uint32, voters, minorityPercent int, now time.Time) int {
	var done []int // of those that count, most first
	for _, m := range members {
		at := x.members[m]
		if at.since.Before(x.began) {
			at.since = x.began
		}
		if at.over || at.bytes < x.front && now.Sub(at.since) > paceStuck {
			continue
		}
		done = append(done, at.bytes)
	}
	slices.SortFunc(done, func(a, b int) int { return b - a })
	passed := now.Sub(x.looked)
	x.looked = now
	most := voters / 2 // that make a majority with this one
	switch {
	case len(done) == 0:
		x.front = x.size
		return x.front
	case len(done) > most && most > 0:
		slowest, majority := done[len(done)-1], done[most-1]
		if majority >= min(x.front, x.size) && slowest < majority {
			x.held += passed // it would go on
		}
		others := now.Sub(x.began) - x.held
		if percent := time.Duration(max(minorityPercent, 0)); percent == 0 || x.held > paceGrace && x.held > others*percent/(100-min(percent, 99)) {
			done = done[:most]
		}
	}
	x.front = min(x.size, done[len(done)-1]+x.ahead)
	return x.front
}
