package node

import (
	"context"
	"fmt"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/donor"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/transport"
)

// lenderOf is a tenure as the lender of its database needs it.
func lenderOf(t *tenure) *donor.Lender {
	return &donor.Lender{Log: t.node.log, Name: t.node.config.Name, Fit: t.fitToCopy, Lend: t.pg.Lend}
}

// fitToCopy says why the databases of this member are none to copy from, if they are not.
func (t *tenure) fitToCopy(first bool) error {
	if first && !t.standing.Begun() {
		return nil
	}
	if !t.ready() {
		return fmt.Errorf("%s has not begun to serve", t.node.config.Self().Name)
	}
	for _, l := range t.all() {
		if s := l.others.peers.Own().State; s != replica.Synced {
			return fmt.Errorf("database %q of %s is not synced, but %q", l.id.database, t.node.config.Self().Name, s)
		}
	}
	return nil
}

// copyAnew replaces the databases of this member, whose server is stopped, by copies of another one's. The logs stay.
func (n *Node) copyAnew(ctx context.Context, pg *instance.Instance, leader uint32) error {
	if err := pg.Stop(ctx); err != nil {
		return err
	}
	return n.borrow(ctx, pg, donor.Current, donor.Donors(n.config.Members, n.config.Member, leader), pg.Replace)
}

// copyFirst fills the data directory as clone_from says: from another member, by its name, or from a server.
func (n *Node) copyFirst(ctx context.Context, pg *instance.Instance, from string) error {
	n.log.Info("cloning the database from its donor")
	for _, m := range n.config.Members {
		if m.Name == from {
			return n.borrow(ctx, pg, donor.First, []config.Member{m}, pg.CloneFrom)
		}
	}
	err := pg.Clone(ctx, from, nil)
	n.major.Store(int32(pg.Build().Major))
	return err
}

// borrow copies the database of the first of members that lends it.
func (n *Node) borrow(ctx context.Context, pg *instance.Instance, asked string, members []config.Member,
	fill donor.Copy) error {
	defer n.waits.Store(nil)
	caller := transport.Caller{Self: n.config.Member, Cluster: n.config.Cluster, Credentials: n.credentials.Now,
		PeerName: n.nameOf}
	b := donor.Borrower{Log: n.log, Call: caller.Call, Asked: asked,
		Waits: func(what string) { n.waits.Store(&what) }}
	err := b.From(ctx, members, fill)
	n.major.Store(int32(pg.Build().Major))
	return err
}
