package node

import (
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/lead"
)

// deafAfter is the silence of a member after which this one no longer counts it as heard.
const deafAfter = time.Second

// hears lists the members that were heard of lately.
func (p *peers) hears() (members []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for m, t := range p.seen { // order-free: sorted below
		if time.Since(t) < deafAfter {
			members = append(members, m)
		}
	}
	slices.Sort(members)
	return members
}

// links is how many of the members heard lately hear this one.
func (p *peers) links(self uint32) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for m, s := range p.last { // order-free: counted
		if time.Since(p.seen[m]) < deafAfter && slices.Contains(s.Hears, self) {
			n++
		}
	}
	return n
}

// standing is what the rule about the lead is asked with.
func (l *life) standing(e *engine.Engine) lead.Input {
	self := l.config.Member
	in, hears := lead.Input{Self: self, Leads: e.View().Leader == self, Halted: l.halted.Load() != nil}, l.peers.hears()
	for _, m := range l.config.Members {
		s, _ := l.statusOf(m.Member)
		in.Members = append(in.Members, lead.Member{ID: m.Member, Links: s.Links, Wrote: e.Wrote(m.Member),
			Fit: slices.Contains(hears, m.Member) && slices.Contains(s.Hears, self) && s.State == stateSynced &&
				s.lag.items <= caughtUpItems})
	}
	return in
}

// lead has the rule look at the situation, and hands the lead of the order over if it says so. It runs on the core's
// goroutine, once in a gossipInterval.
func (l *life) lead(e *engine.Engine) {
	if to, why := l.rule.Next(l.standing(e)); to != 0 {
		l.handOver(e, to, why.String())
	}
}

// leave hands the lead over because this life ends, and says to whom; zero if there is nobody, or this member does not
// lead. Where all members end the lives of a database nobody would take it, and the definition that does so would wait
// for that.
func (l *life) leave(e *engine.Engine) uint32 {
	if l.dismissed.Load() {
		return 0
	}
	to := lead.Heir(l.standing(e))
	if to != 0 {
		l.handOver(e, to, "this member stops")
	}
	return to
}

func (l *life) handOver(e *engine.Engine, to uint32, why string) {
	l.log.Info("the lead of the order is handed over", "member", l.name(to), "because", why)
	l.metrics.Member.Handed.Add(1)
	e.HandOver(to)
}

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
	heir := c.leave(c.engine)
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
			if !c.reaches(heir) {
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
