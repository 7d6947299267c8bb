package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/clients"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/databases"
	"github.com/tuttidb/tutti/internal/donor"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/membership"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/raftlog"
	"github.com/tuttidb/tutti/internal/standing"
	"github.com/tuttidb/tutti/internal/transport"
)

// tenure is the time from a start of the database server to the first failure of anything. Every database has a life
// in it, with an order of its own; all of them share the connections to the other members.
type tenure struct {
	node      *Node
	pg        *instance.Instance
	ctx       context.Context
	fail      context.CancelCauseFunc
	transport *transport.Transport
	standing  *standing.Standing
	disk      *raftlog.Log         // the main database's; nil once its life has it
	made      bool                 // the log, in this tenure
	clients   atomic.Int64         // sessions, and those being admitted
	come      chan struct{}        // capacity 1: the first of them has come
	origins   *clients.SessionFile // of sessions
	larges    *admission.Larges
	words     *peers.Words
	running   sync.WaitGroup
	looking   chan struct{} // has an element while somebody looks for a database that is not known, see await

	retired *databases.Retired
	loans   donor.Loans

	mu    sync.Mutex
	lives map[uint64]*life // by the database's number

	removing  atomic.Bool // members that are lost
	connects  sync.Mutex
	addresses map[uint32]string // of the members with which this one talks
}

// mainGroup is the number of the configured database. Its order has the definitions of what all databases share.
const mainGroup = standing.MainGroup

// hold runs one tenure. It returns when ctx ends (nil) or at the first failure.
func (n *Node) hold(ctx context.Context, pg *instance.Instance) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &tenure{node: n, pg: pg, ctx: ctx, fail: cancel, lives: map[uint64]*life{},
		larges:  admission.NewLarges(n.config.Limits.LargeTransactions, &n.metrics.Process.Clients.LargeWaited),
		looking: make(chan struct{}, 1), come: make(chan struct{}, 1), words: peers.NewWords(n.config.SequenceStep)}
	t.retired = databases.NewRetired(retiredOf(t))
	t.standing = standing.New(n.config, n.config.Name, cancel)
	err := t.readMembers(ctx)
	if err != nil {
		return err
	}
	if t.origins, err = clients.OpenSessionFile(pg, n.config.Limits.Sessions, n.log); err != nil {
		return err
	}
	defer t.origins.Close()
	t.running.Go(func() { fileOf(t).Keep(ctx) })
	err = t.appear(ctx)
	n.waits.Store(nil)
	if err == nil {
		err = t.begin(ctx)
	}
	if err != nil {
		cancel(err)
	} else {
		n.served = true
		n.setTenure(t)
		loses(t)
	}
	select {
	case <-ctx.Done():
	case err := <-pg.Exited():
		cancel(fmt.Errorf("PostgreSQL ended: %w", errors.Join(err, errDatabaseGone)))
	}
	n.setTenure(nil)
	t.running.Wait()
	if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, t.close())
}

// close ends the connections to the other members, and the log that no life has taken.
func (t *tenure) close() (err error) {
	if t.transport != nil {
		err = t.transport.Close()
	}
	if t.disk != nil {
		err = errors.Join(err, t.disk.Close())
	}
	return err
}

// begin starts the lives of all databases. That of the main one, which may end others, comes last.
func (t *tenure) begin(ctx context.Context) error {
	main := newLife(t, mainGroup, t.node.config.Database)
	run, err := t.open(main)
	if err != nil {
		return err
	}
	defer run()
	if began := t.standing.Began(); began != nil && main.order.position.Ordinal == 0 {
		if err := databases.Begin(ctx, main.db.applier.Pgx, began.Databases); err != nil {
			return err
		}
	}
	list, err := databases.List(ctx, main.db.applier.Pgx)
	for _, d := range list {
		switch {
		case err != nil:
		case d.State == databases.Open && !d.Exists: // it was being renamed; the main order goes on with that
			t.node.log.Warn("the local PostgreSQL has no database of this name", "database", d.Name)
		case d.State == databases.Open:
			err = t.start(d.ID, d.Name)
		case d.State == databases.Dropped:
			err = t.retired.Add(d.ID, d.Dropped)
		}
	}
	return err
}

// start opens the life of a database and lets it run.
func (t *tenure) start(group uint64, database string) error {
	run, err := t.open(newLife(t, group, database))
	if err == nil {
		run()
	}
	return err
}

// open opens a life, which run then runs until it fails, which ends the tenure, or is stopped.
func (t *tenure) open(l *life) (run func(), err error) {
	ctx, cancel := context.WithCancelCause(t.ctx)
	l.course.stop = func() { cancel(nil) }
	if err := l.open(ctx); err != nil {
		cancel(err)
		return nil, errors.Join(err, l.close())
	}
	t.mu.Lock()
	t.lives[l.id.group] = l
	t.mu.Unlock()
	leave := t.node.metrics.Enter(l.id.database, &l.metrics, func() { measure(l) })
	return func() {
		t.running.Go(func() {
			err := l.run(ctx, cancel)
			leave()
			t.mu.Lock()
			delete(t.lives, l.id.group)
			t.mu.Unlock()
			close(l.course.ended)
			if err != nil {
				t.fail(err)
			}
		})
	}, nil
}

// end ends the life of a database, and its sessions, and waits for it.
func (t *tenure) end(group uint64) {
	if l := t.life(group); l != nil {
		l.course.dismissed.Store(true)
		l.course.stop()
		<-l.course.ended
	}
}

// life gives a database's life; nil if it has none.
func (t *tenure) life(group uint64) *life {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lives[group]
}

// named gives the life of the database of this name; nil if there is none.
func (t *tenure) named(name string) *life {
	for _, l := range t.all() {
		if l.id.database == name {
			return l
		}
	}
	return nil
}

// all lists the lives by number.
func (t *tenure) all() []*life {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*life, 0, len(t.lives))
	for _, l := range t.lives {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *life) int { return cmp.Compare(a.id.group, b.id.group) })
	return list
}

// ready reports whether it is known which databases there are.
func (t *tenure) ready() bool {
	l := t.life(mainGroup)
	return l != nil && l.course.ready.Load()
}

// openTransport opens the connections to the other members.
func (t *tenure) openTransport() error {
	c := t.node.config
	ln, err := net.Listen("tcp", c.MemberListen) // it was free, see memberPortFree
	if err != nil {
		return fmt.Errorf("member port %s cannot be opened: %w", c.MemberListen, err)
	}
	others := membership.Addresses(c)
	t.addresses = others
	t.transport, err = transport.New(transport.Options{
		Self: c.Member, Cluster: c.Cluster, Listener: ln, Peers: others, Credentials: t.node.credentials.Now,
		PeerName:      t.node.nameOf,
		QueueBytesMax: c.Limits.MemberQueue, Handler: t.receive, Gone: t.gone, Connected: t.reached,
		Facts: t.standing.Facts, Judge: t.standing.Judge, Called: t.called,
		Fault: t.node.faults.Links(), Logger: t.node.log,
	})
	if err != nil {
		return &failure.Fatal{Err: errors.Join(err, ln.Close())}
	}
	if !c.IsMember(c.Member) { // by the order, before this tenure
		t.running.Go(t.retire)
	}
	return nil
}
