package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/donor"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/standing"
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
	if t.life(mainGroup) == nil {
		return t.notBegun()
	}
	for _, l := range t.all() {
		s := l.others.peers.Own()
		if !donor.Fits(&s.Status, l.order.position.Member == t.node.config.Member) {
			return fmt.Errorf("database %q of %s is not synced, but %q", l.id.database, t.node.config.Self().Name,
				s.State)
		}
	}
	return nil
}

func (t *tenure) notBegun() error {
	return fmt.Errorf("%s has not begun to serve", t.node.config.Self().Name)
}

// renewMost is how long a lender waits for a checkpoint of what is ordered now, so that as little as can be of the log
// is needed behind the copy.
const renewMost = 10 * time.Second

// lends lends the databases to a member, and has the log kept for it.
func (t *tenure) lends(ctx context.Context, to uint32, lend func()) {
	lent := map[uint64]donor.Lent{}
	for _, l := range t.all() {
		s, _ := l.others.peers.Get(to)
		lent[l.id.group] = donor.Lent{Entry: l.order.retention.Saved(), Before: s.Incarnation}
	}
	t.loans.Begin(to, lent)
	defer func() { t.loans.End(to, time.Now()) }()
	within, cancel := context.WithTimeout(ctx, renewMost)
	defer cancel()
	for _, l := range t.all() {
		if _, is := lent[l.id.group]; is && l.course.ready.Load() {
			l.order.retention.Renew(within)
			t.loans.Moved(to, l.id.group, l.order.retention.Saved())
		}
	}
	lend()
}

// lent is what others copy of this database, and have not begun from yet.
func (l *life) lent() []replica.Loan {
	return l.tenure.loans.Of(l.id.group, time.Now(), func(member uint32, before uint64) bool {
		s, alive := l.others.peers.Get(member)
		return alive && s.State == replica.Synced && s.Incarnation > before
	})
}

// adoptMost is how long a database that is this member's own now waits for the others.
const (
	adoptMost = 5 * time.Second
	adoptPoll = 10 * time.Millisecond
)

// awaitAdoptions waits until all databases that came as copies are this member's own, so that it begins anew once and
// not for each of them. One that is held up does not hold up the others for long.
func (t *tenure) awaitAdoptions(ctx context.Context) {
	foreign := func(l *life) bool {
		return l.order.position.Member != t.node.config.Member && !l.course.adopted.Load()
	}
	for began := time.Now(); slices.ContainsFunc(t.all(), foreign) && time.Since(began) < adoptMost; {
		if !process.Sleep(ctx, adoptPoll) {
			return
		}
	}
}

// logLostError is that this member had a log, and has none.
type logLostError struct{ why string }

func (e *logLostError) Error() string { return e.why }

// copyError is that this member has nothing, and the cluster begins with the database of another one.
type copyError struct {
	from uint32 // zero: anybody
	why  string
}

func (e *copyError) Error() string { return e.why }

// called judges a call of another member.
func (t *tenure) called(from uint32, asked string) (func(context.Context, net.Conn), error) {
	if answer, is := t.standing.Lists(asked, listed(t)); is {
		if !t.ready() {
			return nil, t.notBegun()
		}
		return answer, nil
	}
	if answer, is := t.standing.Answers(from, asked, t.readmit); is {
		switch {
		case t.hears(from):
			return nil, fmt.Errorf("%s is here already: another node runs under its number, or it has just ended",
				t.node.config.Name(from))
		case !t.ready():
			return nil, t.notBegun()
		}
		return answer, nil
	}
	answer, err := lenderOf(t).Called(from, asked)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, conn net.Conn) {
		t.lends(ctx, from, func() { answer(ctx, conn) })
	}, nil
}

// readmit says in which term this member readmits one that has lost its log, in each database (ordering).
func (t *tenure) readmit(member uint32, question uint64) map[uint64]uint64 {
	if t.hears(member) {
		return nil // it came after it had been looked for
	}
	terms := map[uint64]uint64{}
	ask := func(l *life) {
		if _, asked := terms[l.id.group]; asked {
			return
		}
		terms[l.id.group] = 0
		got := make(chan uint64, 1)
		l.order.core.Call(func(e *engine.Engine) {
			if term, ok := engine.Readmit(e, member, question); ok {
				got <- term
			}
		})
		select {
		case terms[l.id.group] = <-got:
		default:
		}
	}
	if main := t.life(mainGroup); main != nil {
		main.others.peers.Readmitted(member)
		ask(main) // who answers for it has all databases of which it knows, from then on
	}
	for _, l := range t.all() {
		ask(l)
	}
	return terms
}

// hears reports whether there is a connection with another member.
func (t *tenure) hears(member uint32) bool {
	s := t.transport.Stats()[member]
	return s.Connected || s.Incoming
}

// mends does something about how a tenure ended, where this member can: it copies another one's database, and begins
// its log again. False if there is nothing that it could do.
func (n *Node) mends(ctx context.Context, pg *instance.Instance, ended error) (is bool, err error) {
	var behind *core.LostError
	var unfit *core.UnfitError
	var without *logLostError
	var empty *copyError
	switch {
	case ctx.Err() != nil:
		return false, nil
	case errors.As(ended, &behind):
		n.log.Warn("this member takes a copy of another one's database", "why", ended)
		return true, n.copyAnew(ctx, pg, behind.Leader)
	case errors.As(ended, &unfit):
		n.log.Warn("the copy of another member's database ends before this member's log begins; it takes another one",
			"why", ended)
		return true, n.copyAnew(ctx, pg, 0)
	case errors.As(ended, &empty):
		n.log.Info("this member has nothing yet, and takes a copy of another one's database", "why", ended)
		if err := pg.Stop(ctx); err != nil {
			return true, err
		}
		if empty.from == 0 {
			return true, n.borrow(ctx, pg, donor.Current, donor.Donors(n.config.All(), n.config.Member, 0), pg.Replace)
		}
		from := slices.DeleteFunc(slices.Clone(n.config.All()), func(m config.Member) bool {
			return m.Member != empty.from
		})
		return true, n.borrow(ctx, pg, donor.First, from, pg.Replace)
	case errors.As(ended, &without):
		n.log.Warn("this member begins its log again, and takes a copy of another one's database", "why", ended)
		defer n.waits.Store(nil)
		again, err := standing.AskAgain(ctx, n.config, n.log, n.caller().Call,
			func(why string) { n.waits.Store(&why) })
		if err == nil {
			err = n.copyAnew(ctx, pg, 0)
		}
		if err == nil {
			err = standing.CreateLogAgain(n.config, n.faults, again)
		}
		return true, err
	}
	return false, nil
}

// copyAnew replaces the databases of this member, whose server is stopped, by copies of another one's. The logs stay.
func (n *Node) copyAnew(ctx context.Context, pg *instance.Instance, leader uint32) error {
	if err := pg.Stop(ctx); err != nil {
		return err
	}
	if rest := n.copied.Next(time.Now()); rest > 0 {
		why := fmt.Sprintf("another copy of a database is needed so soon after the last one, and is taken in %s", rest)
		n.log.Warn("rests before another copy", "rest", rest)
		n.waits.Store(&why)
		if !process.Sleep(ctx, rest) {
			return context.Cause(ctx)
		}
	}
	defer func() { n.copied.Took(time.Now()) }()
	return n.borrow(ctx, pg, donor.Current, donor.Donors(n.config.All(), n.config.Member, leader), pg.Replace)
}

// copyFirst fills the data directory as clone_from says: from another member, by its name, or from a server.
func (n *Node) copyFirst(ctx context.Context, pg *instance.Instance, from string) error {
	n.log.Info("cloning the database from its donor")
	for _, m := range n.config.All() {
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
	b := donor.Borrower{Log: n.log, Call: n.caller().Call, Asked: asked,
		Waits: func(what string) { n.waits.Store(&what) }}
	err := b.From(ctx, members, fill)
	n.major.Store(int32(pg.Build().Major))
	return err
}

// caller makes this member's calls.
func (n *Node) caller() transport.Caller {
	return transport.Caller{Self: n.config.Member, Cluster: n.config.Cluster, Credentials: n.credentials.Now,
		PeerName: n.nameOf}
}
