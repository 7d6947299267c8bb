package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/lead"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/version"
)

const (
	gossipInterval = 300 * time.Millisecond
	// deafAfter is the silence of a member after which this one no longer counts it as heard.
	deafAfter   = time.Second
	silentAfter = 3 * time.Second
	// A member that has come nearer to the end of the order than this has caught up.
	caughtUpItems = 2000
	caughtUpBytes = 16 << 20
)

// status is what members tell each other.
type status struct {
	replica.Status
	statusDetails
}

// statusDetails are of a status what no member decides by, but people read.
type statusDetails struct {
	// Differs is what its audits have found, of the main database in all databases.
	Differs []audit.Difference `json:"differs,omitempty"`
	// Version is what runs there.
	Version string `json:"version"`
	// Halted says where it is halted, if it is.
	Halted *halted `json:"halted,omitempty"`
}

// peersOptions are what a replica's gossip needs of it.
type peersOptions struct {
	Config  *config.Config
	Log     *slog.Logger
	Metrics *metrics.Database
	// Own is what this member knows of itself, Details the rest of what it tells.
	Own     func() replica.Own
	Details func() statusDetails
	Send    func(to uint32, status []byte) bool
	// Dismissed reports whether there is nobody left to lead, because all members end the database.
	Dismissed func() bool
}

// peers is what a replica knows of the other members, and tells them. Safe for concurrent use.
type peers struct {
	o       peersOptions
	began   time.Time
	members []uint32 // all, in the order of the configuration

	mu      sync.Mutex
	table   *replica.Table
	details map[uint32]statusDetails // what they have told last

	rule *lead.Rule // the core's
}

func (p *peers) init(o peersOptions) {
	p.o, p.began, p.details, p.rule = o, time.Now(), map[uint32]statusDetails{}, lead.New(lead.Options{})
	for _, m := range o.Config.Members {
		p.members = append(p.members, m.Member)
	}
	p.table = replica.NewTable(replica.Options{Self: o.Config.Member, Members: p.members, Deaf: int64(deafAfter),
		Silent: int64(silentAfter), NearItems: caughtUpItems, NearBytes: caughtUpBytes})
}

// now is the table's time.
func (p *peers) now() int64 { return int64(time.Since(p.began)) }

// young reports whether this member may not have heard of all others yet.
func (p *peers) young() bool { return p.now() < int64(silentAfter) }

// with calls f with the table and the time.
func (p *peers) with(f func(t *replica.Table, now int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.table, p.now())
}

// hear takes what a member tells.
func (p *peers) hear(from uint32, body []byte) error {
	var s status
	if err := json.Unmarshal(body, &s); err != nil {
		return err
	}
	own := p.o.Own()
	p.put(from, s, own.Ordinal, own.Volume)
	return nil
}

func (p *peers) put(from uint32, s status, ordinal, volume uint64) {
	p.with(func(t *replica.Table, now int64) {
		if t.Hear(now, from, s.Status, ordinal, volume) {
			p.details[from] = s.statusDetails
		}
	})
}

// forget takes a member for dead until it is heard of again.
func (p *peers) forget(member uint32) {
	p.with(func(t *replica.Table, _ int64) { t.Forget(member) })
}

// get is what another member has told last, and whether it is alive.
func (p *peers) get(member uint32) (s status, alive bool) {
	p.with(func(t *replica.Table, now int64) {
		s.Status, alive = t.Of(now, member)
		s.statusDetails = p.details[member]
	})
	return s, alive
}

// of is a member's status, this one's own included, and whether it is alive.
func (p *peers) of(member uint32) (status, bool) {
	if member == p.o.Config.Member {
		return p.own(), true
	}
	return p.get(member)
}

// own is what this member tells.
func (p *peers) own() (s status) {
	own := p.o.Own()
	s.statusDetails = p.o.Details()
	p.with(func(t *replica.Table, now int64) { s.Status = t.Tell(now, own) })
	return s
}

// synced lists the other members that are alive and synced.
func (p *peers) synced() (members []uint32) {
	p.with(func(t *replica.Table, now int64) { members = t.Synced(now) })
	return members
}

// caughtUp reports whether this member was near the end of the order once.
func (p *peers) caughtUp() (is bool) {
	p.with(func(t *replica.Table, _ int64) { is = t.CaughtUp() })
	return is
}

// lastHeard is when a member was last heard of; otherwise if it never was.
func (p *peers) lastHeard(member uint32, otherwise time.Time) (at time.Time) {
	p.with(func(t *replica.Table, _ int64) {
		if n, ok := t.LastHeard(member); ok {
			otherwise = p.began.Add(time.Duration(n))
		}
	})
	return otherwise
}

// allApplied is up to where all members have applied the order, as far as is known.
func (p *peers) allApplied() (ordinal uint64) {
	own := p.o.Own().Applied
	p.with(func(t *replica.Table, _ int64) { ordinal = t.AllApplied(own) })
	return ordinal
}

// clients is how many sessions the members have that are alive.
func (p *peers) clients() (n int) {
	own := p.o.Own().Clients
	p.with(func(t *replica.Table, now int64) { n = t.Clients(now, own) })
	return n
}

// end is the end of the order as the other members have told it.
func (p *peers) end() (end replica.End) {
	p.with(func(t *replica.Table, now int64) { end = t.End(now) })
	return end
}

// lacking names the members that are alive and have not carried out the order up to an ordinal.
func (p *peers) lacking(ordinal uint64) (names []string) {
	p.with(func(t *replica.Table, now int64) {
		for _, m := range t.Lacking(now, ordinal, p.young()) {
			names = append(names, p.o.Config.Name(m))
		}
	})
	return names
}

// haltedAt says where a member's database is halted, if it is; nil also if nothing is heard of it.
func (p *peers) haltedAt(member uint32) *halted {
	if member == p.o.Config.Member {
		return p.o.Details().Halted
	}
	if s, alive := p.get(member); alive {
		return s.Halted
	}
	return nil
}

// tell tells a member this one's state. A frame that is lost is followed by another.
func (p *peers) tell(to uint32) error {
	data, err := json.Marshal(p.own())
	if err == nil {
		p.o.Send(to, data)
	}
	return err
}

// tellAll tells all others.
func (p *peers) tellAll() error {
	for _, m := range p.o.Config.Members {
		if m.Member == p.o.Config.Member {
			continue
		}
		if err := p.tell(m.Member); err != nil {
			return err
		}
	}
	return nil
}

// leads is what the rule about the lead is asked with.
func (p *peers) leads(e *engine.Engine) (in lead.Input) {
	own, leads := p.own(), e.View().Leader == p.o.Config.Member
	p.with(func(t *replica.Table, now int64) { in = t.Lead(now, own.Status, leads, e.Wrote) })
	return in
}

// lead has the rule look at the situation, and hands the lead of the order over if it says so. It runs on the core's
// goroutine, once in a gossipInterval.
func (p *peers) lead(e *engine.Engine) {
	if to, why := p.rule.Next(p.leads(e)); to != 0 {
		p.handOver(e, to, why.String())
	}
}

// leave hands the lead over because this replica ends, and says to whom; zero if there is nobody, or this member does
// not lead. Where all members end a database nobody would take it, and the definition that does so would wait for that.
func (p *peers) leave(e *engine.Engine) uint32 {
	if p.o.Dismissed() {
		return 0
	}
	to := lead.Heir(p.leads(e))
	if to != 0 {
		p.handOver(e, to, "this member stops")
	}
	return to
}

func (p *peers) handOver(e *engine.Engine, to uint32, why string) {
	p.o.Log.Info("the lead of the order is handed over", "member", p.o.Config.Name(to), "because", why)
	p.o.Metrics.Member.Handed.Add(1)
	e.HandOver(to)
}

// flow is what the rule about slow members is asked with, but for the latency.
func (p *peers) flow() (in flow.Input) {
	own := p.own()
	p.with(func(t *replica.Table, now int64) { in = t.Flow(now, own.Status) })
	return in
}

// peersOf is a replica as its gossip needs it.
func peersOf(l *life) peersOptions {
	return peersOptions{
		Config: l.config, Log: l.log, Metrics: &l.metrics,
		Own: func() replica.Own {
			o := replica.Own{Serves: l.ready.Load(), Stopping: l.node.stops.refuses.Load(),
				Halted: l.halted.Load() != nil, Incarnation: l.incarnation, Leader: l.core.Leader(),
				Ordinal: l.core.Ordinal(), Applied: l.core.Applied(), Volume: l.volume.Load(),
				VolumeApplied: l.volumeApplied.Load(), Clients: l.sessions.taken()}
			o.DelayMicros, o.Because = l.throttle.Delays()
			return o
		},
		Details: func() statusDetails {
			return statusDetails{Differs: l.differences(), Version: version.String(), Halted: l.halted.Load()}
		},
		Send:      func(to uint32, status []byte) bool { return l.sendFrame(to, frameStatus, status) },
		Dismissed: l.dismissed.Load,
	}
}

// gossip is the goroutine that tells the other members this one's state.
func (l *life) gossip(ctx context.Context) error {
	for process.Sleep(ctx, gossipInterval) {
		l.core.Do(func(e *engine.Engine) {
			f := e.Figures()
			l.volume.Store(f.Ordered)
			l.volumeApplied.Store(f.Applied)
			l.peers.lead(e)
		})
		l.throttle.Regulate(l.peers.flow())
		l.age.note(time.Since(l.began), max(l.peers.end().Ordinal, l.core.Ordinal()), l.tenure.words.reach(l).Led)
		if l.group == mainGroup {
			if err := l.tenure.layToRest(ctx); err != nil {
				return err
			}
		}
		if err := l.peers.tellAll(); err != nil {
			return err
		}
	}
	return nil
}

var statusColumns = []string{"member", "address", "role", "state", "ordinal", "applied", "lag", "throttle_ms",
	"because_of", "reason", "differs", "version"}

// showStatus answers SHOW tutti.status, one row per member.
func showStatus(l *life) session.Result {
	r := session.Result{Tag: "SHOW", Columns: statusColumns}
	leader := l.core.Leader()
	differs := l.differing()
	for _, m := range l.config.Members {
		s, alive := l.peers.of(m.Member)
		role := "follower"
		if m.Member == leader {
			role = "leader"
		}
		if !alive {
			r.Rows = append(r.Rows, []string{m.Name, m.Clients, role, "unreachable", "", "", "", "", "", "",
				differs[m.Member], ""})
			continue
		}
		lag := l.core.Ordinal() - min(l.core.Ordinal(), s.Applied)
		because := ""
		if s.Because != 0 {
			because = l.name(s.Because)
		}
		why := ""
		if s.Halted != nil {
			why = s.Halted.text()
		}
		r.Rows = append(r.Rows, []string{m.Name, m.Clients, role, string(s.State),
			strconv.FormatUint(s.Ordinal, 10), strconv.FormatUint(s.Applied, 10), fmt.Sprint(lag),
			admission.Millis(s.DelayMicros), because, why, differs[m.Member], s.Version})
	}
	return r
}
