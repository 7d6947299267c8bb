package witness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/credentials"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/fault"
	"github.com/tuttidb/tutti/internal/membership"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/standing"
	"github.com/tuttidb/tutti/internal/stopping"
	"github.com/tuttidb/tutti/internal/transport"
	"github.com/tuttidb/tutti/internal/version"
)

// Witness is a member's process.
type Witness struct {
	config      *config.Config
	log         *slog.Logger
	faults      *fault.Faults // nil in production
	credentials *credentials.Credentials
	stops       *stopping.Stops

	ctx       context.Context
	fail      context.CancelCauseFunc
	standing  *standing.Standing
	transport *transport.Transport
	running   sync.WaitGroup

	coming atomic.Bool // a log is being made

	news chan struct{} // capacity 1: who votes has changed, and so perhaps who is a member

	mu     sync.Mutex
	orders map[uint64]*order // by the database's number
}

const (
	// askEvery is how often it is asked who the members are, and which databases there are.
	askEvery = 5 * time.Second
	// askAgain is between two tries to hear of a database that is new.
	askAgain = 300 * time.Millisecond
	// unknownMost is for how long all others that answer may not know it, before it ends.
	unknownMost = 10 * time.Second
	// waitLogEvery is how often it is said for whom it waits to make its log.
	waitLogEvery = 10 * time.Second
)

// New makes one of a validated configuration.
func New(c *config.Config, log *slog.Logger) *Witness {
	log = log.With("node", c.Self().Name)
	return &Witness{config: c, log: log, credentials: credentials.New(c, log),
		stops: stopping.New(), news: make(chan struct{}, 1),
		orders: map[uint64]*order{}}
}

// Obey does what the process's signals say, from now on (stopping.Stops.Obey). There are no clients to wait for.
func (w *Witness) Obey() {
	w.stops.Obey(w.log, func() { _ = w.credentials.Load() }) // it says so itself
}

// errAsks is that its log is lost: it asks the others with what it may begin another.
var errAsks = errors.New("the log is lost")

// Run goes on until it is told to stop, or ctx ends, and then returns nil; an error is why it ended otherwise.
func (w *Witness) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var stopped sync.WaitGroup
	defer stopped.Wait()
	defer cancel()
	stopped.Go(func() {
		defer cancel()
		w.stops.Run(ctx, w.log, func() time.Duration { return 0 }, func() stopping.House { return nil })
	})
	w.log.Info("a witness starts", "version", version.Long(), "cluster", w.config.Cluster, "member", w.config.Member)
	if err := w.credentials.Begin(); err != nil {
		return &failure.Config{Err: err}
	}
	if err := os.MkdirAll(w.config.DataDir, 0o755); err != nil {
		return &failure.Config{Err: err}
	}
	if err := config.ReadRoster(w.config); err != nil {
		return &failure.Config{Err: err}
	}
	stopped.Go(func() { w.credentials.Watch(ctx) })
	if w.faults = fault.FromEnvironment(w.log); w.faults != nil {
		stopped.Go(func() { w.faults.Watch(ctx) })
	}
	err := w.hold(ctx)
	if errors.Is(err, errAsks) {
		if err = w.again(ctx); err == nil {
			err = w.hold(ctx)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// again makes the main database's log in the place of one that was lost.
func (w *Witness) again(ctx context.Context) error {
	w.log.Warn("this member has lost its log, and begins another one")
	c := w.caller()
	again, err := standing.AskAgain(ctx, w.config, w.log, c.Call, func(string) {})
	if err != nil {
		return err
	}
	return standing.CreateLogAgain(w.config, w.faults, again)
}

// hold opens what there is, and goes on until ctx ends or something fails.
func (w *Witness) hold(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.ctx, w.fail, w.transport = ctx, cancel, nil
	w.standing = standing.New(w.config, w.config.Name, cancel)
	w.standing.Found(&bootstrap.Contents{})
	err := w.begin(ctx)
	if err == nil {
		w.running.Go(func() { w.follow(ctx) })
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	cancel(err)
	if w.transport != nil { // nothing comes any more that begins something
		err = errors.Join(err, w.transport.Close())
	}
	w.running.Wait()
	return err
}

// begin opens the logs, and makes the main database's if there is none.
func (w *Witness) begin(ctx context.Context) error {
	dir := standing.LogDir(w.config, standing.MainGroup)
	_, err := os.Stat(dir)
	made := errors.Is(err, os.ErrNotExist)
	if err != nil && !made {
		return err
	}
	if made {
		if err := w.make(ctx, dir); err != nil {
			return err
		}
	}
	logs, err := w.openAll(dir)
	switch {
	case err != nil:
	case made:
		w.transport.Renew()
	default:
		err = w.connect()
	}
	for _, l := range logs { // what they send goes by the connections
		if err == nil {
			err = w.run(l.group, l.disk)
		} else {
			err = errors.Join(err, l.disk.Close())
		}
	}
	return err
}

// make makes the main database's log when the others say that it may.
func (w *Witness) make(ctx context.Context, dir string) error {
	if err := w.connect(); err != nil {
		return err
	}
	if err := w.await(ctx); err != nil {
		return err
	}
	return w.standing.CreateMainLog(dir, w.faults)
}

// await waits until the others have said that this member is one, and that they know of no log of it.
func (w *Witness) await(ctx context.Context) error {
	var said string
	var since time.Time
	for {
		w.meet() // it may have heard of a newer list of members
		d := w.standing.Decide()
		switch d.Do {
		case bootstrap.Create:
			return nil
		case bootstrap.Ask:
			return fmt.Errorf("%w: %s", errAsks, d.Why)
		case bootstrap.Refuse:
			return &failure.Fatal{Err: errors.New(d.Why)}
		}
		if d.Why != said || time.Since(since) > waitLogEvery {
			w.log.Info("waits to make its log", "why", d.Why)
			said, since = d.Why, time.Now()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.standing.News():
		case <-time.After(waitLogEvery):
			w.transport.Renew() // others may say something else by now
		}
	}
}

// connect opens the connections to the other members.
func (w *Witness) connect() error {
	c := w.config
	ln, err := net.Listen("tcp", c.MemberListen)
	if err != nil {
		return &failure.Config{Err: fmt.Errorf("member port %s cannot be opened: %w", c.MemberListen, err)}
	}
	w.transport, err = transport.New(transport.Options{
		Self: c.Member, Cluster: c.Cluster, Listener: ln, Peers: membership.Addresses(c),
		Credentials: w.credentials.Now, PeerName: w.nameOf, QueueBytesMax: c.Limits.MemberQueue,
		Handler: w.receive, Gone: w.gone,
		Facts: w.standing.Facts, Judge: w.standing.Judge, Called: w.called,
		Fault: w.faults.Links(), Logger: w.log,
	})
	if err != nil {
		return &failure.Fatal{Err: errors.Join(err, ln.Close())}
	}
	return nil
}

func (w *Witness) nameOf(member uint32) string {
	m, _ := w.config.Find(member)
	return m.Name
}

// caller makes this member's calls.
func (w *Witness) caller() transport.Caller {
	return transport.Caller{Self: w.config.Member, Cluster: w.config.Cluster, Credentials: w.credentials.Now,
		PeerName: w.nameOf}
}

// called answers another member that has lost its log. A witness readmits nobody, as it does not lead, and speaks for
// no database: the leader of the main order names all that there are.
func (w *Witness) called(from uint32, asked string) (func(context.Context, net.Conn), error) {
	none := func(uint32, uint64) map[uint64]uint64 { return map[uint64]uint64{} }
	answer, is := w.standing.Answers(from, asked, none)
	s := w.transport.Stats()[from]
	switch {
	case !is:
		return nil, errors.New("it is a witness, and has nothing to lend")
	case s.Connected || s.Incoming:
		return nil, fmt.Errorf("%s is here already: another node runs under its number, or it has just ended",
			w.config.Name(from))
	case !w.standing.Begun():
		return nil, errors.New("it has no log itself")
	}
	return answer, nil
}

// follow asks who the members are and which databases there are, as long as this member is one.
func (w *Witness) follow(ctx context.Context) {
	for known := time.Now(); ; {
		said := w.ask(ctx)
		err := config.KeepRoster(w.config)
		if w.meet(); err == nil {
			err = w.drop(said)
		}
		if err != nil {
			w.fail(err)
			return
		}
		refuse, connected := w.transport.Known(w.config.IsMember)
		switch {
		case !w.config.IsMember(w.config.Member):
			w.leave(ctx)
			return
		case refuse == 0 || connected > 0:
			known = time.Now()
		case time.Since(known) > unknownMost:
			w.fail(fmt.Errorf("the other members do not know %s: it was removed from the cluster, or its number "+
				"or its address is another one's", w.config.Self().Name))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-w.news:
		case <-time.After(askEvery):
		}
	}
}

// hurry has it ask at once.
func (w *Witness) hurry() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// ask asks all members with a database; nil for who does not answer.
func (w *Witness) ask(ctx context.Context) (said []*standing.Listed) {
	var all sync.WaitGroup
	members := w.config.All()
	said = make([]*standing.Listed, len(members))
	for i, m := range members {
		all.Go(func() {
			l, err := standing.AskList(ctx, m, w.caller().Call)
			if err != nil {
				w.log.Debug("who the members are is not known anew", "error", err)
			}
			said[i] = l
		})
	}
	all.Wait()
	for _, l := range said {
		if l != nil {
			l.Learn(w.config)
		}
	}
	return said
}

// meet has this member talk to those who are members now, and to those that get some order's log yet.
func (w *Witness) meet() {
	var readers [][]uint32
	witnesses := numbers(w.config.Witnesses())
	for _, o := range w.all() { // order-free: each for itself
		readers = append(readers, o.keeper.Readers())
		o.keeper.Do(func(x *ordering.Order) { x.Witnesses(witnesses) })
	}
	w.transport.SetPeers(membership.Addresses(w.config, readers...))
}

func numbers(members []config.Member) (list []uint32) {
	for _, m := range members {
		list = append(list, m.Member)
	}
	return list
}

// leave ends a member that was removed, once the others go on without it.
func (w *Witness) leave(ctx context.Context) {
	w.log.Warn("this member was removed from the cluster; it ends when the others go on without it")
	if !membership.AwaitLeave(ctx, func() (s membership.Seen) {
		s.Runs = true
		for _, o := range w.all() { // order-free: any of them
			s.Gets = s.Gets || slices.Contains(o.keeper.Readers(), w.config.Member)
		}
		s.Refuse, s.Connected = w.transport.Known(w.config.IsMember)
		return s
	}) {
		return
	}
	w.fail(&failure.Config{Err: fmt.Errorf("%s was removed from the cluster, which goes on without it. If its machine "+
		"is to come back, add it again, as another member with an empty data directory", w.config.Self().Name)})
}
