package replica

import (
	"slices"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/lead"
)

// Options of a Table.
type Options struct {
	// Self is the member that has the table, Members are all, in the order of the configuration.
	Self    uint32
	Members []uint32 // at first, see Become
	// Deaf is the silence of a member after which it no longer counts as heard, for the choice of a leader; Silent
	// is that after which it is no longer alive.
	Deaf, Silent int64
	// A member that has come nearer to the end of the order than NearItems and NearBytes has caught up.
	NearItems, NearBytes uint64
}

// Table is what a member knows of the others. Not safe for concurrent use.
type Table struct {
	o        Options
	rows     []row // of the other members
	end      End   // the furthest that anybody has told
	caughtUp bool  // this member has been near the end of the order once
	slow     []slow

	incarnation uint64 // this member's, as it told it last
	leader      uint32 // likewise
}

// row is what is known of one member.
type row struct {
	member uint32
	status Status
	heard  bool  // it was, since it is in the table
	up     bool  // it has not ended since it was heard last
	at     int64 // when it was heard last
	rounds rounds
}

// NewTable makes a table of members of which nothing was heard yet.
func NewTable(o Options) *Table {
	t := &Table{o: o}
	for _, m := range o.Members {
		if m != o.Self {
			t.rows = append(t.rows, row{member: m})
		}
	}
	return t
}

// Become has these be the members from now on, in the order of the configuration. Nothing is known of who was none.
func (t *Table) Become(members []uint32) {
	var rows []row
	for _, m := range members {
		if r := t.row(m); r != nil {
			rows = append(rows, *r)
		} else if m != t.o.Self {
			rows = append(rows, row{member: m})
		}
	}
	t.o.Members, t.rows = members, rows
}

// row finds a member's; nil if it is none, or this one.
func (t *Table) row(member uint32) *row {
	for i := range t.rows {
		if t.rows[i].member == member {
			return &t.rows[i]
		}
	}
	return nil
}

// within reports whether the member was heard less than so long ago, and has not ended since.
func (r *row) within(now, long int64) bool {
	return r.up && (now-r.at < long || planted == "silent-is-alive")
}

// Hear takes what a member has told; false if that counts no more (RE2). Ordinal and volume are what this member knows
// of the order.
func (t *Table) Hear(now int64, member uint32, s Status, ordinal, volume uint64) bool {
	r := t.row(member)
	if r == nil || s.Incarnation < r.status.Incarnation && s.Incarnation > 0 && planted != "earlier-life-counts" {
		return false
	}
	s.Lag = s.behind(ordinal, volume)
	if planted == "restart-keeps-acks" {
		s.Applied = max(s.Applied, r.status.Applied)
	}
	r.status, r.at, r.heard, r.up = s, now, true, true
	t.measure(now, r, &s)
	if member == t.leader && s.Leader == member {
		t.told(now, s.Slow)
	}
	t.end.Ordinal, t.end.Volume = max(t.end.Ordinal, s.Ordinal), max(t.end.Volume, s.Volume)
	return true
}

// Forget takes a member for ended until it is heard again.
func (t *Table) Forget(member uint32) {
	if r := t.row(member); r != nil {
		r.up = false
	}
}

// Readmitted takes a member that has lost its disk for one that has applied nothing, until it is heard again: it comes
// back with the database of another one, which may not have come as far as it had.
func (t *Table) Readmitted(member uint32) {
	if r := t.row(member); r != nil {
		r.status.Applied = 0
	}
}

// Of is what a member has told last, and whether it is alive (RE1).
func (t *Table) Of(now int64, member uint32) (s Status, alive bool) {
	r := t.row(member)
	if r == nil {
		return Status{}, false
	}
	return r.status, r.within(now, t.o.Silent)
}

// LastHeard is when a member was heard last; false if it never was, or has ended since.
func (t *Table) LastHeard(member uint32) (at int64, ok bool) {
	if r := t.row(member); r != nil && r.up {
		return r.at, true
	}
	return 0, false
}

// Hears lists the members that were heard lately, in ascending order.
func (t *Table) Hears(now int64) (members []uint32) {
	for i := range t.rows {
		if t.rows[i].within(now, t.o.Deaf) {
			members = append(members, t.rows[i].member)
		}
	}
	slices.Sort(members)
	return members
}

// links is how many of the members heard lately hear this one.
func (t *Table) links(now int64) (n int) {
	for i := range t.rows {
		if r := &t.rows[i]; r.within(now, t.o.Deaf) && slices.Contains(r.status.Hears, t.o.Self) {
			n++
		}
	}
	return n
}

// Synced lists the other members that are alive and synced, and not far too slow, in ascending order.
func (t *Table) Synced(now int64) (members []uint32) {
	for i := range t.rows {
		if r := &t.rows[i]; r.status.State == Synced && r.within(now, t.o.Silent) && !t.isSlow(r.member) {
			members = append(members, r.member)
		}
	}
	slices.Sort(members)
	return members
}

// Stopping lists the other members that have told last that they stop, in ascending order.
func (t *Table) Stopping() (members []uint32) {
	for i := range t.rows {
		if r := &t.rows[i]; r.status.State == Stopping {
			members = append(members, r.member)
		}
	}
	slices.Sort(members)
	return members
}

// End is the end of the order as the other members have told it.
type End struct {
	Ordinal, Volume uint64
	Serve           bool // one of them that is alive has clients
}

// End is the furthest that any other member has told. It holds when that one is silent: what was delivered once has its
// place.
func (t *Table) End(now int64) End {
	e := t.end
	for i := range t.rows {
		r := &t.rows[i]
		e.Serve = e.Serve || r.status.Clients > 0 && r.within(now, t.o.Silent)
	}
	return e
}

// Clients is how many sessions the members have that are alive; own are this one's.
func (t *Table) Clients(now int64, own int) int {
	for i := range t.rows {
		if r := &t.rows[i]; r.within(now, t.o.Silent) {
			own += r.status.Clients
		}
	}
	return own
}

// Unheard reports whether nothing was ever heard of a member.
func (t *Table) Unheard(member uint32) bool {
	r := t.row(member)
	return r != nil && !r.heard
}

// Lacking lists the other members that are alive and have not applied the order up to an ordinal. While the table is
// young, nobody is taken for dead of whom nothing was ever heard. A member that is halted serves nobody, and is not
// waited for.
func (t *Table) Lacking(now int64, ordinal uint64, young bool) (members []uint32) {
	for i := range t.rows {
		r := &t.rows[i]
		alive := young && !r.heard || r.within(now, t.o.Silent)
		if alive && r.status.Applied < ordinal && r.status.State != Halted {
			members = append(members, r.member)
		}
	}
	return members
}

// AllApplied is up to where all members have applied the order, alive or not, as far as is known (RE9). What only a
// member needs that has not come so far can go.
func (t *Table) AllApplied(own uint64) uint64 {
	for i := range t.rows {
		if r := &t.rows[i]; r.up || planted != "silent-not-awaited" {
			own = min(own, r.status.Applied)
		}
	}
	return own
}

// Lent is the entry of the log behind which all is kept for those that copy a database, this member's own loans
// included; false if nobody does (RE11). What was lent by who is gone is not waited for.
func (t *Table) Lent(now int64, own []Loan) (entry uint64, is bool) {
	look := func(list []Loan) {
		for _, l := range list {
			if !is || l.Entry < entry {
				entry, is = l.Entry, true
			}
		}
	}
	look(own)
	for i := range t.rows {
		if r := &t.rows[i]; r.within(now, t.o.Silent) {
			look(r.status.Lent)
		}
	}
	return entry, is
}

// Copies is the member of whom another one copies the database now; zero: it copies nobody's, as far as is known.
func (t *Table) Copies(now int64, member uint32, own []Loan) (from uint32) {
	open := func(l Loan) bool { return l.Member == member && l.Open }
	if slices.ContainsFunc(own, open) {
		return t.o.Self
	}
	for i := range t.rows {
		if r := &t.rows[i]; r.within(now, t.o.Silent) && slices.ContainsFunc(r.status.Lent, open) {
			return r.member
		}
	}
	return 0
}

// Tell is what this member tells the others of itself.
func (t *Table) Tell(now int64, o Own) Status {
	s := Status{Incarnation: o.Incarnation, Ordinal: o.Ordinal, Applied: o.Applied, Leader: o.Leader,
		Volume: o.Volume, VolumeApplied: o.VolumeApplied, DelayMicros: o.DelayMicros, Because: o.Because,
		Clients: o.Clients, Hears: t.Hears(now), Links: t.links(now), Lent: o.Lent, At: now, Ways: t.tellWays(now)}
	if t.incarnation, t.leader = o.Incarnation, o.Leader; o.Leader == t.o.Self {
		s.Slow = t.Slow(now)
	}
	end := t.End(now)
	s.Lag = s.behind(end.Ordinal, end.Volume)
	near := t.caughtUp || s.Lag.Items <= t.o.NearItems && s.Lag.Bytes <= t.o.NearBytes
	if s.State = o.state(near); s.State == Synced {
		t.caughtUp = true
	}
	return s
}

// CaughtUp reports whether this member was synced once.
func (t *Table) CaughtUp() bool { return t.caughtUp }

// each calls f for all members in the order of the configuration, with what they have told last; own for this one.
func (t *Table) each(now int64, own *Status, f func(member uint32, s *Status, alive bool)) {
	for _, m := range t.o.Members {
		if m == t.o.Self {
			f(m, own, true)
			continue
		}
		r := t.row(m)
		f(m, &r.status, r.within(now, t.o.Silent))
	}
}

// Lead is the situation that the rule about the lead is asked with. Leads: this member leads. Votes says who can, wrote
// how many transactions of a member were ordered.
func (t *Table) Lead(now int64, own Status, leads bool, votes func(member uint32) bool,
	wrote func(member uint32) uint64,
) lead.Input {
	self := t.o.Self
	in := lead.Input{Self: self, Leads: leads, Halted: own.State == Halted, Ways: t.ways(now, &own)}
	t.each(now, &own, func(m uint32, s *Status, _ bool) {
		fit := slices.Contains(own.Hears, m) && slices.Contains(s.Hears, self) && s.State == Synced &&
			s.Lag.Items <= t.o.NearItems && votes(m)
		in.Members = append(in.Members, lead.Member{ID: m, Links: s.Links, Wrote: wrote(m), Fit: fit})
		in.Votes = append(in.Votes, votes(m))
	})
	return in
}

// Flow is the situation that the rule about slow members is asked with, but for the latency. Voters are who votes;
// none: that is not known.
func (t *Table) Flow(now int64, own Status, voters []uint32) flow.Input {
	var in flow.Input
	t.each(now, &own, func(m uint32, s *Status, alive bool) {
		votes := len(voters) == 0 || slices.Contains(voters, m)
		if votes {
			in.Voters++
		}
		if (alive || planted == "gone-slow-writers") && s.State == Synced {
			in.Synced = append(in.Synced, flow.Member{ID: m, Lag: s.Lag.Items, LagBytes: s.Lag.Bytes, Votes: votes,
				Slow: t.isSlow(m) && planted != "slow-waited-for"})
		}
	})
	return in
}
