package node

import (
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/lead"
)

// deafAfter is how long nothing must have come of a member for this one to say that it does not hear it.
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

// lead has the rule look at the situation, and hands the lead of the order over if it says so. It runs on the core's goroutine,
// once in a gossipInterval.
func (l *life) lead(e *engine.Engine) {
	self := l.config.Member
	in := lead.Input{Self: self, Leads: e.View().Leader == self}
	for _, m := range l.config.Members {
		s, alive := l.statusOf(m.Member)
		in.Members = append(in.Members, lead.Member{ID: m.Member, Links: s.Links, Wrote: e.Wrote(m.Member),
			Fit: alive && s.State == stateSynced && slices.Contains(s.Hears, self) && slices.Contains(l.peers.hears(), m.Member) && s.lag.items <= caughtUpItems})
	}
	to, why := l.rule.Next(in)
	if to == 0 {
		return
	}
	l.log.Info("the lead of the order is handed over", "member", l.name(to), "because", why.String())
	l.core.counters.handed.Add(1)
	e.HandOver(to)
}
