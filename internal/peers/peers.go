package peers

import (
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/lead"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/replica"
)

// Interval is between two words of a member, SilentAfter the silence after which it counts as gone.
const (
	Interval    = 300 * time.Millisecond
	SilentAfter = 3 * time.Second
)

const (
	// deafAfter is the silence of a member after which this one no longer counts it as heard.
	deafAfter = time.Second
	// A member that has come nearer to the end of the order than this has caught up.
	caughtUpItems = 2000
	caughtUpBytes = 16 << 20
	// gainMin is by how much less time commits must take for the lead to be moved for that.
	gainMin = 2 * time.Millisecond
)

// Status is what members tell each other.
type Status struct {
	replica.Status
	Details
}

// Details are of a status what no member decides by, but people read.
type Details struct {
	// Differs is what its audits have found, of the main database in all databases.
	Differs []audit.Difference `json:"differs,omitempty"`
	// Version is what runs there.
	Version string `json:"version"`
	// Halted says where it is halted, if it is.
	Halted *Halt `json:"halted,omitempty"`
}

// Options are what the gossip of a replica needs of it.
type Options struct {
	Config  *config.Config
	Log     *slog.Logger
	Metrics *metrics.Database
	// Own is what this member knows of itself, Details the rest of what it tells.
	Own     func() replica.Own
	Details func() Details
	Send    func(to uint32, status []byte) bool
	// Voters are who votes, nobody if that is not known; Flow are the limits of flow control.
	Voters func() []uint32
	Flow   func() flow.Options
	// Dismissed reports whether there is nobody left to lead, because all members end the database.
	Dismissed func() bool
}

// Peers is what a replica knows of the other members, and tells them. Safe for concurrent use.
type Peers struct {
	o     Options
	began time.Time

	mu      sync.Mutex
	members []uint32 // all, in the order of the configuration
	table   *replica.Table
	details map[uint32]Details // what they have told last

	// The core's:
	rule *lead.Rule
	slow map[uint32]time.Time // who is far too slow, since when
}

// New makes one that has heard of nobody yet.
func New(o Options) *Peers {
	p := &Peers{o: o, began: time.Now(), details: map[uint32]Details{},
		rule: lead.New(lead.Options{GainMin: int64(gainMin)})}
	p.members = Numbers(o.Config.All())
	p.table = replica.NewTable(replica.Options{Self: o.Config.Member, Members: p.members, Deaf: int64(deafAfter),
		Silent: int64(SilentAfter), NearItems: caughtUpItems, NearBytes: caughtUpBytes})
	return p
}

// Numbers are those of members.
func Numbers(members []config.Member) (list []uint32) {
	for _, m := range members {
		list = append(list, m.Member)
	}
	return list
}

// Become has these be the members from now on.
func (p *Peers) Become(members []config.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = Numbers(members)
	p.table.Become(p.members)
}

// All are the members' numbers, in the order of the configuration. The list must not be changed.
func (p *Peers) All() []uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.members
}

// Now is the table's time.
func (p *Peers) Now() int64 { return int64(time.Since(p.began)) }

// young reports whether others may be alive of whom this member has heard nothing yet.
func (p *Peers) young() bool { return p.Now() < int64(SilentAfter) }

// Unheard reports whether a member may be alive although this one has heard nothing of it yet.
func (p *Peers) Unheard(member uint32) (is bool) {
	p.with(func(t *replica.Table, _ int64) { is = p.young() && t.Unheard(member) })
	return is
}

// with calls f with the table and the time.
func (p *Peers) with(f func(t *replica.Table, now int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.table, p.Now())
}

// Hear takes what a member tells.
func (p *Peers) Hear(from uint32, body []byte) error {
	var s Status
	if err := json.Unmarshal(body, &s); err != nil {
		return err
	}
	own := p.o.Own()
	p.put(from, s, own.Ordinal, own.Volume)
	return nil
}

func (p *Peers) put(from uint32, s Status, ordinal, volume uint64) {
	p.with(func(t *replica.Table, now int64) {
		if t.Hear(now, from, s.Status, ordinal, volume) {
			p.details[from] = s.Details
		}
	})
}

// Forget takes a member for dead until it is heard of again.
func (p *Peers) Forget(member uint32) {
	p.with(func(t *replica.Table, _ int64) { t.Forget(member) })
}

// Readmitted takes a member that has lost its disk for one that has applied nothing, until it is heard of again.
func (p *Peers) Readmitted(member uint32) {
	p.with(func(t *replica.Table, _ int64) { t.Readmitted(member) })
}

// Get is what another member has told last, and whether it is alive.
func (p *Peers) Get(member uint32) (s Status, alive bool) {
	p.with(func(t *replica.Table, now int64) {
		s.Status, alive = t.Of(now, member)
		s.Details = p.details[member]
	})
	return s, alive
}

// Of is a member's Status, this one's own included, and whether it is alive.
func (p *Peers) Of(member uint32) (Status, bool) {
	if member == p.o.Config.Member {
		return p.Own(), true
	}
	return p.Get(member)
}

// Version is what runs at a member, by what it has told; empty if it cannot be heard.
func (p *Peers) Version(member uint32) string {
	if s, alive := p.Of(member); alive {
		return s.Version
	}
	return ""
}

// Own is what this member tells.
func (p *Peers) Own() (s Status) {
	own := p.o.Own()
	s.Details = p.o.Details()
	p.with(func(t *replica.Table, now int64) { s.Status = t.Tell(now, own) })
	return s
}

// Synced lists the other members that are alive and synced.
func (p *Peers) Synced() (members []uint32) {
	p.with(func(t *replica.Table, now int64) { members = t.Synced(now) })
	return members
}

// Stopping lists the other members that have said last that they stop, whether they have or not.
func (p *Peers) Stopping() (members []uint32) {
	p.with(func(t *replica.Table, _ int64) { members = t.Stopping() })
	return members
}

// CaughtUp reports whether this member was near the end of the order once.
func (p *Peers) CaughtUp() (is bool) {
	p.with(func(t *replica.Table, _ int64) { is = t.CaughtUp() })
	return is
}

// LastHeard is when a member was last heard of; otherwise if it never was.
func (p *Peers) LastHeard(member uint32, otherwise time.Time) (at time.Time) {
	p.with(func(t *replica.Table, _ int64) {
		if n, ok := t.LastHeard(member); ok {
			otherwise = p.began.Add(time.Duration(n))
		}
	})
	return otherwise
}

// AllApplied is up to where all members have applied the order, as far as is known.
func (p *Peers) AllApplied() (ordinal uint64) {
	own := p.o.Own().Applied
	p.with(func(t *replica.Table, _ int64) { ordinal = t.AllApplied(own) })
	return ordinal
}

// Clients is how many sessions the members have that are alive.
func (p *Peers) Clients() (n int) {
	own := p.o.Own().Clients
	p.with(func(t *replica.Table, now int64) { n = t.Clients(now, own) })
	return n
}

// End is the end of the order as the other members have told it.
func (p *Peers) End() (end replica.End) {
	p.with(func(t *replica.Table, now int64) { end = t.End(now) })
	return end
}

// Lent is the entry of the log behind which all is kept for members that copy a database; false if none does.
func (p *Peers) Lent() (entry uint64, is bool) {
	own := p.o.Own().Lent
	p.with(func(t *replica.Table, now int64) { entry, is = t.Lent(now, own) })
	return entry, is
}

// Copies is of whom a member copies the database now; zero: of nobody.
func (p *Peers) Copies(member uint32) (from uint32) {
	own := p.o.Own().Lent
	p.with(func(t *replica.Table, now int64) { from = t.Copies(now, member, own) })
	return from
}

// Lacking names the members that are alive and have not carried out the order up to an ordinal.
func (p *Peers) Lacking(ordinal uint64) (names []string) {
	p.with(func(t *replica.Table, now int64) {
		for _, m := range t.Lacking(now, ordinal, p.young()) {
			names = append(names, p.o.Config.Name(m))
		}
	})
	return names
}

// Lagging reports whether something came lately of each of the members that Lacking names.
func (p *Peers) Lagging(ordinal uint64) (all bool) {
	p.with(func(t *replica.Table, now int64) {
		all = !slices.ContainsFunc(t.Lacking(now, ordinal, p.young()), func(m uint32) bool {
			at, heard := t.LastHeard(m)
			return !heard || now-at > int64(3*Interval)
		})
	})
	return all
}

// HaltedAt says where a member's database is halted, if it is; nil also if nothing is heard of it.
func (p *Peers) HaltedAt(member uint32) *Halt {
	if member == p.o.Config.Member {
		return p.o.Details().Halted
	}
	if s, alive := p.Get(member); alive {
		return s.Halted
	}
	return nil
}

// Tell tells a member this one's state. A frame that is lost is followed by another.
func (p *Peers) Tell(to uint32) error {
	data, err := json.Marshal(p.Own())
	if err == nil {
		p.o.Send(to, data)
	}
	return err
}

// TellAll tells all others.
func (p *Peers) TellAll() error {
	data, err := json.Marshal(p.Own())
	if err != nil {
		return err
	}
	for _, m := range p.All() {
		if m != p.o.Config.Member {
			p.o.Send(m, data)
		}
	}
	return nil
}

// leads is what the rule about the lead is asked with.
func (p *Peers) leads(e *engine.Engine) (in lead.Input) {
	own, leads := p.Own(), e.View().Leader == p.o.Config.Member
	p.with(func(t *replica.Table, now int64) {
		in = t.Lead(now, own.Status, leads, engine.VotingOf(e).Votes, e.Wrote)
	})
	members := p.All()
	if slices.ContainsFunc(engine.VotingOf(e).Voters(), func(m uint32) bool { return !slices.Contains(members, m) }) {
		in.Ways = nil // nobody knows how far a witness is
	}
	for i := range in.Members { // who was demoted votes until that is decided, and gives the lead away
		m := &in.Members[i]
		_, slow := p.slow[m.ID]
		m.Fit = m.Fit && !slow && p.o.Config.MayVote(m.ID)
	}
	return in
}

// Lead has the rule look at the situation, and hands the lead of the order over if it says so. It runs on the core's
// goroutine, once in a Interval.
func (p *Peers) Lead(e *engine.Engine) {
	p.paces(e)
	if engine.VotingOf(e).First() {
		return
	}
	if to, why := p.rule.Next(p.leads(e)); to != 0 {
		p.handOver(e, to, why.String())
	}
}

// Leave hands the lead over because this replica ends, and says to whom; zero if there is nobody, or this member does
// not lead. Where all members end a database nobody would take it, and the definition that does so would wait for that.
func (p *Peers) Leave(e *engine.Engine) uint32 {
	if p.o.Dismissed() {
		return 0
	}
	to := lead.Heir(p.leads(e))
	if to != 0 {
		p.handOver(e, to, "this member stops")
	}
	return to
}

func (p *Peers) handOver(e *engine.Engine, to uint32, why string) {
	p.o.Log.Info("the lead of the order is handed over", "member", p.o.Config.Name(to), "because", why)
	p.o.Metrics.Member.Handed.Add(1)
	e.HandOver(to)
}

// Flow is what the rule about slow members is asked with, but for the latency.
func (p *Peers) Flow() (in flow.Input) {
	own := p.Own()
	p.with(func(t *replica.Table, now int64) { in = t.Flow(now, own.Status, p.o.Voters()) })
	return in
}
