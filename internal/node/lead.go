package node

import (
	"time"

	"github.com/tuttidb/tutti/internal/engine"
)

// gone tells every database's order that a member has ended. Nobody waits for it from then on.
func (t *tenure) gone(member uint32) {
	t.words.gone(member)
	for _, l := range t.all() {
		l.peers.forget(member)
		l.notices.Wake()
		l.core.do(func(e *engine.Engine) { e.Gone(member) })
	}
}

// reached tells every database's order that there is a new connection to a member.
func (t *tenure) reached(member uint32) {
	for _, l := range t.all() {
		l.core.do(func(e *engine.Engine) { e.Reached(member) })
	}
}

// reaches reports whether there is a connection to a member.
func (l *life) reaches(member uint32) bool { return l.tenure.transport.Stats()[member].Connected }

const (
	leaveMax  = 500 * time.Millisecond // for another to lead; others elect one in about a second
	leavePoll = 10 * time.Millisecond
)

// depart hands the lead over, and goes on until another member has it, or cannot have it.
func (c *core) depart() error {
	heir := c.o.leave(c.engine)
	if heir == 0 {
		return nil
	}
	late, poll := time.NewTimer(leaveMax), time.NewTicker(leavePoll)
	defer late.Stop()
	defer poll.Stop()
	for self := c.leader.Load(); ; c.drainInputs() {
		c.drainReady()
		if now := c.leader.Load(); now != 0 && now != self {
			return nil
		}
		select {
		case <-late.C:
			return nil
		case <-poll.C:
			if !c.o.reaches(heir) {
				return nil
			}
		case m := <-c.inbox:
			c.step(m)
		case f := <-c.ops:
			f(c.engine)
		case err := <-c.written:
			if err != nil {
				return err
			}
			c.finish()
		}
	}
}
