package node

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/membership"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// readMembers takes the list of members from the local database, if the order has changed it.
func (t *tenure) readMembers(ctx context.Context) error {
	c := t.node.config
	r, err := membership.Read(ctx, t.connString(c.Database))
	if err != nil {
		return err
	}
	if err := c.ReadLost(); err != nil {
		return &failure.Config{Err: err}
	}
	if err := membership.TakeRecord(ctx, t.connString(c.Database), c, !t.node.served); err != nil {
		return err
	}
	if c.Becomes(r); r == nil {
		return nil
	}
	t.node.log.Info("the members are those of the order, not of the configuration", "members",
		config.NamesOf(r.Members), "ordinal", r.Ordinal)
	return nil
}

// superuser is the role that each data directory has.
const superuser = "postgres"

// loses has the order remove members that are lost, if there are any on the list.
func loses(t *tenure) {
	c := t.node.config
	if !c.Losing() || !c.IsMember(c.Member) || t.ctx.Err() != nil || !t.removing.CompareAndSwap(false, true) {
		return
	}
	t.node.log.Warn("this member goes on without others that are lost, as an operator has said", "members",
		config.NamesOf(c.All()))
	lost := membership.Lost{Config: c, Log: t.node.log, ConnString: t.connString(c.Database), Ready: t.ready,
		Order: func(m semantics.Membership) *wire.SQLError {
			l := t.life(mainGroup)
			if l == nil {
				return errNotReady()
			}
			return l.define(session.Definition{Base: l.complete(), Began: t.began(),
				Extent:   &writeset.Writeset{Barrier: true},
				Settings: []session.Setting{{Name: session.RoleSetting, Value: superuser}},
				Cluster:  semantics.Cluster{Membership: m}}, nil).Err
		}}
	t.running.Go(func() {
		lost.Run(t.ctx)
		t.removing.Store(false)
		loses(t) // the list may have changed meanwhile
	})
}

// mayChangeMembers refuses, where a statement comes from, what it may not do to the list of members.
func (t *tenure) mayChangeMembers(m semantics.Membership) *wire.SQLError {
	return membership.MayChange(t.node.config, m.Does, t.standing.Understand)
}

// began is the list of members as it was configured; nil once the order has changed it.
func (t *tenure) began() (list []session.FirstMember) {
	if r := t.node.config.Roster(); r != nil && r.Ordinal > 0 {
		return nil
	}
	for _, m := range t.node.config.Members {
		list = append(list, session.FirstMember{Number: m.Member, Name: m.Name, Address: m.Address, Clients: m.Clients})
	}
	return list
}

// changeMembers carries out what a definition does to the list of members, or to what holds for all of them.
func (l *life) changeMembers(ctx context.Context, last uint64, t engine.Task, d session.Definition) (session.Result,
	error) {
	l.db.applier.Begun.Store(last)
	o := membership.Options{Config: l.config, Conn: l.db.applier.Pgx, Note: l.db.applier.Note,
		NoteProgress: l.db.applier.NoteProgress, Raised: l.tenure.transport.Renew}
	if d.Record.Does != semantics.NoRecord {
		return membership.CarryRecord(ctx, o, l.log, last, t.Ordinal, d)
	}
	r, result, err := membership.Carry(ctx, o, last, t.Ordinal, d)
	if r != nil {
		l.tenure.become(r)
	}
	return result, err
}

// become has everybody go by another list of members.
func (t *tenure) become(r *config.Roster) {
	c := t.node.config
	was := c.IsMember(c.Member)
	c.Becomes(r)
	loses(t)
	t.node.log.Info("the list of members has changed", "members", config.NamesOf(r.Members), "ordinal", r.Ordinal)
	for _, l := range t.all() {
		l.others.peers.Become(r.Members)
	}
	t.connect()
	if was && !c.IsMember(c.Member) {
		t.running.Go(t.retire)
	}
}

// connect has this member talk to all others, and to those that get some order's log yet.
func (t *tenure) connect() {
	t.connects.Lock() // an older list must not come behind a newer one
	defer t.connects.Unlock()
	var readers [][]uint32
	for _, l := range t.all() {
		readers = append(readers, l.order.core.Readers())
	}
	addresses := membership.Addresses(t.node.config, readers...)
	if !maps.Equal(addresses, t.addresses) {
		t.addresses = addresses
		t.transport.SetPeers(addresses)
	}
}

// members lists them for the order of a life's database, with those that stop, once all members give a vote away that
// know of it.
func (l *life) members() engine.List {
	list := membership.Listed(l.config)
	if !l.tenure.standing.Understand(bootstrap.Roles) {
		return list
	}
	if list.Stops = l.others.peers.Stopping(); l.node.stops.Refuses() && l.succeeded() {
		list.Stops = append(list.Stops, l.config.Member)
	}
	return list
}

// sites are the members that are at one site; nil as long as not all understand what is passed on to them.
func sites(t *tenure) [][]uint32 {
	if !t.standing.Understand(bootstrap.Relays) {
		return nil
	}
	return t.node.config.Sites()
}

// retire ends the node of a member that was removed, once the others go on without it. The connections to them are
// open.
func (t *tenure) retire() {
	t.node.log.Warn("this member was removed from the cluster; it ends when the others go on without it")
	if !membership.AwaitLeave(t.ctx, func() (s membership.Seen) {
		s.Runs = t.ready()
		for _, l := range t.all() {
			readers := l.order.core.Readers()
			s.Runs = s.Runs && len(readers) > 0
			s.Gets = s.Gets || slices.Contains(readers, t.node.config.Member)
		}
		s.Refuse, s.Connected = t.transport.Known(t.node.config.IsMember)
		return s
	}) {
		return
	}
	t.node.removed.Store(true)
	t.node.stops.Drain()
}

// errRemoved is why a node ends whose member was removed.
func (n *Node) errRemoved() error {
	if !n.removed.Load() {
		return nil
	}
	return &failure.Config{Err: fmt.Errorf("%s was removed from the cluster, which goes on without it. If its machine "+
		"is to come back, add it again, as another member with an empty data directory", n.config.Self().Name)}
}
