package replay

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A large transaction leaves its member no faster than the others execute it ahead of its turn (Streaming). So
// little of it is left to do when it has its place in the order, for which everything behind it must wait; what is
// small passes it meanwhile. Members that are not synced, that do not execute it or have come to a stand do not count,
// nor does a minority that is slower than the rest for longer than flow_minority_percent allows.
const (
	paceTick  = 50 * time.Millisecond  // how often it is looked at when nobody reports
	paceStuck = 3 * time.Second        // without progress a member does not count
	paceGrace = 500 * time.Millisecond // for which a minority may hold up the rest in any case
)

// Paces are the large transactions of this member that are on their way.
type Paces struct {
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

// Begin begins to pace a submission, if it is large enough for streaming apply, of which ahead bytes may be on their
// way. letGo is due whenever a channel is ready.
func (p *Paces) Begin(s *engine.Submission, ahead int) (tick <-chan time.Time, news <-chan struct{}, stop func()) {
	if len(s.Payload) <= ahead {
		return nil, nil, func() {}
	}
	x := newPace(len(s.Payload), ahead, time.Now())
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
	return &pace{size: size, ahead: ahead, front: min(size, ahead), began: now, looked: now,
		members: map[uint32]progress{}, news: make(chan struct{}, 1)}
}

// LetGo says how much of a large transaction the engine may let leave by now, if some: members are the others that are
// synced, of voters in all.
func (p *Paces) LetGo(e *engine.Engine, seq uint64, synced []uint32, voters, minorityPercent int) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch x := p.of[seq]; {
	case x == nil: // decided meanwhile
	case e.Sent(seq) == 0:
		x.began, x.looked = now, now
	default:
		e.Pace(seq, x.next(synced, voters, minorityPercent, now))
	}
}

// Heard takes a frame of streaming apply elsewhere.
func (p *Paces) Heard(from uint32, incarnation uint64, body []byte) {
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
		if percent := time.Duration(max(minorityPercent, 0)); percent == 0 ||
			x.held > paceGrace && x.held > others*percent/(100-min(percent, 99)) {
			done = done[:most]
		}
	}
	x.front = min(x.size, done[len(done)-1]+x.ahead)
	return x.front
}
