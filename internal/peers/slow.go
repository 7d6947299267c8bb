package peers

import (
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/replica"
)

// paces has the rule about who votes look at how fast the members are, notes who is far too slow, and says so in the
// log: here, if this member has found it as the leader, and at the member itself.
func (p *Peers) paces(e *engine.Engine) {
	own := p.Own()
	found, decides := engine.VotingOf(e).Slow()
	var list []replica.Slow
	p.with(func(t *replica.Table, now int64) {
		if decides {
			t.Found(now, found)
		}
		engine.VotingOf(e).Paces(t.Paces(now, own.Status, p.o.Flow()))
		list = t.Slow(now)
	})
	was := p.slow
	p.slow = map[uint32]time.Time{}
	for _, s := range list {
		at, is := was[s.Member]
		if delete(was, s.Member); !is {
			at = time.Now().Add(-time.Duration(s.For))
			p.saySlow(s.Member, decides, own)
		}
		p.slow[s.Member] = at
	}
	for m, at := range was { // order-free: each for itself
		if self := m == p.o.Config.Member; self || decides {
			p.o.Log.Info("a member is no longer too slow: it votes again where it is to, and writers wait for it again",
				"member", p.o.Config.Name(m), "after", time.Since(at).Round(time.Second).String())
		}
	}
	_, self := p.slow[p.o.Config.Member]
	p.o.Metrics.Member.Slow.Is(self)
}

// saySlow tells that a member was found to be far too slow.
func (p *Peers) saySlow(member uint32, found bool, own Status) {
	s := own
	if member != p.o.Config.Member {
		s, _ = p.Get(member)
	}
	switch {
	case found:
		p.o.Metrics.Member.FoundSlow.Add(1)
		p.o.Log.Warn("a member is far too slow: it stops voting where enough others can, and writers no longer wait "+
			"for it. When it has caught up and kept up for a while, it votes again", "member", p.o.Config.Name(member),
			"lag", s.Lag.Items, "bytes", s.Lag.Bytes)
	case member == p.o.Config.Member:
		p.o.Log.Warn("this member is far too slow, as the leader has found: it stops voting where enough others can, "+
			"writers at the others no longer wait for it, and /ready sends clients away. Find out what slows its "+
			"PostgreSQL, its processors or its disks", "leader", p.o.Config.Name(own.Leader), "lag", s.Lag.Items,
			"bytes", s.Lag.Bytes)
	}
}

// Slow says since when members are far too slow, as far as this one knows.
func (p *Peers) Slow() map[uint32]time.Time {
	since := map[uint32]time.Time{}
	p.with(func(t *replica.Table, now int64) {
		for _, s := range t.Slow(now) {
			since[s.Member] = time.Now().Add(-time.Duration(s.For)).Round(time.Second)
		}
	})
	return since
}

// IsSlow reports whether this member is far too slow.
func (p *Peers) IsSlow() bool {
	_, is := p.Slow()[p.o.Config.Member]
	return is
}
