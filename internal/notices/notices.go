package notices

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/wire"
)

// Options are a replica, as its notifications need it.
type Options struct {
	Log           *slog.Logger
	ConnString    string
	Conn          *pgx.Conn // the executor's
	Ignored       []uint32  // backends of the executor's: what they notify, the others have
	Self          uint32
	Incarnation   uint64
	QueueBytesMax int // of what waits to be told
	Waits         *metrics.Waits

	// Order puts an item into the order; false if the replica ends.
	Order  func(ctx context.Context, kind engine.Kind, payload []byte) bool
	Opened <-chan struct{} // closed when the replica serves sessions
	Ending func() bool
	// Lacking names the members that are alive and have not carried out the order up to an ordinal.
	Lacking func(ordinal uint64) []string
	// Lagging reports whether all of these are heard nonetheless.
	Lagging func(ordinal uint64) bool
}

// Notices are the notifications of one replica: which sessions listen to what, what they notify, and what they are
// told.
type Notices struct {
	o         Options
	channels  channels
	outbox    outbox
	listener  *listener
	publisher *publisher
	counts    *metrics.Notify
}

// listenWait is how long a LISTEN waits for the members that are not known to have heard of it, listenMost for those
// that are busy: something comes of them.
var listenWait, listenMost = 2 * time.Second, metrics.Most(flow.WaitListen)

// listenInterval is between two looks at whether something comes of them.
const listenInterval = 100 * time.Millisecond

// New makes them for a replica that is not opened yet.
func New(self uint32, channelsMax, queueBytesMax int, counts *metrics.Notify) *Notices {
	n := &Notices{counts: counts}
	n.channels.init(self, channelsMax)
	n.outbox.init(queueBytesMax, counts)
	return n
}

// Open connects to the local PostgreSQL. If it fails, Close is to be called all the same.
func (n *Notices) Open(ctx context.Context, o Options) (err error) {
	n.o = o
	if n.publisher, err = newPublisher(ctx, &n.o, n.counts); err != nil {
		return err
	}
	ignored := map[uint32]bool{n.publisher.conn.PgConn().PID(): true}
	for _, pid := range o.Ignored {
		ignored[pid] = true
	}
	n.listener, err = newListener(ctx, &n.o, &n.channels, &n.outbox, ignored)
	return err
}

// Close ends the connections, if there are any.
func (n *Notices) Close() {
	if n.publisher != nil {
		n.publisher.close()
	}
	if n.listener != nil {
		n.listener.close()
	}
}

// Set changes the limits.
func (n *Notices) Set(channelsMax, queueBytesMax int) {
	n.channels.set(channelsMax)
	n.outbox.set(queueBytesMax)
}

// Begin is called when the order is carried out up to the replica's fence.
func (n *Notices) Begin(ordinal uint64) { n.channels.begin(ordinal) }

// Wake makes sessions that wait look again.
func (n *Notices) Wake() { n.channels.wake() }

// Count is the number of channels that sessions of this member listen to.
func (n *Notices) Count() int { return n.channels.count() }

// Replace notes that a session listens to other channels than before.
func (n *Notices) Replace(before, now []string) { n.channels.replace(before, now) }

// QueueBytes is how much waits to be ordered.
func (n *Notices) QueueBytes() int { return n.outbox.size() }

// Settled reports whether nothing waits to be ordered, or has been proposed and is not carried out here.
func (n *Notices) Settled() bool { return n.outbox.size() == 0 && len(n.outbox.under) == 0 }

// CatchUp returns when all has been heard that was committed before, if anybody elsewhere listens.
func (n *Notices) CatchUp(ctx context.Context) error {
	if !n.channels.away() {
		return nil
	}
	return n.listener.catchUp(ctx)
}

// Hear is the goroutine that hears what local sessions notify.
func (n *Notices) Hear(ctx context.Context) error { return n.listener.run(ctx) }

// Publish is the goroutine that tells local sessions what was notified elsewhere.
func (n *Notices) Publish(ctx context.Context) error { return n.publisher.run(ctx) }

// opened waits until the replica serves sessions. False if ctx ends before.
func (n *Notices) opened(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-n.o.Opened:
		return true
	}
}

// Announce is the goroutine that tells the order what this member's sessions listen to, one
// announcement at a time; what changes meanwhile gathers.
func (n *Notices) Announce(ctx context.Context) error {
	if !n.opened(ctx) {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.channels.due:
		}
		add, remove := n.channels.difference()
		if len(add)+len(remove) == 0 {
			continue
		}
		if !n.o.Order(ctx, engine.KindListen, encodeChannels(add, remove)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.channels.announced:
		}
		n.channels.kick()
	}
}

// Forward is the goroutine that puts local notifications into the order.
func (n *Notices) Forward(ctx context.Context) error {
	if !n.opened(ctx) {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.outbox.filled:
		}
		for {
			select {
			case <-ctx.Done():
				return nil
			case n.outbox.under <- struct{}{}:
			}
			payload := n.outbox.take()
			if payload == nil {
				<-n.outbox.under
				break
			}
			if !n.o.Order(ctx, engine.KindNotify, payload) {
				return nil
			}
		}
	}
}

// Listen carries out a listen item: from now on this member passes on what is notified on the channels
// that were added. Settled is to tell the engine; only then its member, which may be waiting, is told by what Listen
// returns.
func (n *Notices) Listen(ctx context.Context, t engine.Task) (carried func(), err error) {
	member := t.Item.ID.Member
	add, remove, err := decodeChannels(t.Item.Payload)
	if err != nil {
		return nil, &failure.Fatal{Err: err}
	}
	if err := keepChannels(ctx, n.o.Conn.PgConn(), member, add, remove); err != nil {
		return nil, err
	}
	if err := n.listener.change(ctx, member, add, remove); err != nil {
		return nil, err
	}
	return func() {
		if member == n.o.Self && t.Item.ID.Incarnation == n.o.Incarnation {
			n.channels.carried(t.Ordinal, add)
		}
	}, nil
}

// Notified carries out the notify items of a group, when everything in it is in the database. The
// origin's own sessions were told by PostgreSQL. Before the replica is ready there are no sessions.
func (n *Notices) Notified(ctx context.Context, tasks []engine.Task, ready bool) error {
	for i := range tasks {
		t := &tasks[i]
		switch {
		case t.Own && t.Item.ID.Incarnation == n.o.Incarnation:
			<-n.outbox.under
		case t.Own || !ready:
		default:
			all, err := decodeNotifications(t.Item.Payload)
			if err != nil {
				return &failure.Fatal{Err: err}
			}
			if err := n.publisher.put(ctx, all, n.channels.heard); err != nil {
				return err
			}
		}
	}
	return nil
}

// MayListen refuses channels that would be too many for this member.
func (n *Notices) MayListen(channels []string, max int) *wire.SQLError {
	if !n.channels.full(channels) {
		return nil
	}
	return wire.Errorf(wire.CodeProgramLimit, "the sessions of this member listen to %d channels already (channels)",
		max).
		WithHint("Use fewer channels and tell the difference in the payload, or raise the limit.")
}

// Await makes the cluster know to what a session listens, which has listened to the channels before until now. The
// error is a warning: some members do not know of it yet.
func (n *Notices) Await(before, now []string) *wire.SQLError {
	fresh := slices.DeleteFunc(slices.Clone(now), func(x string) bool { return slices.Contains(before, x) })
	n.channels.replace(before, now)
	known := func(since uint64) bool { return len(n.o.Lacking(since)) == 0 || n.o.Ending() }
	wait := n.o.Waits.Begin(flow.WaitListen)
	since, ok := n.channels.await(fresh, listenWait, known)
	for most := listenMost - listenWait; !ok && since > 0 && most > 0 && n.o.Lagging(since); most -= listenInterval {
		since, ok = n.channels.await(fresh, listenInterval, known)
	}
	wait.End()
	if ok {
		return nil
	}
	w := wire.Errorf(wire.CodeWarning, "notifications of other nodes may not arrive yet")
	w.Severity, w.SeverityUnlocalized = wire.SeverityWarning, wire.SeverityWarning
	if since == 0 {
		return w.WithDetail("The cluster does not know of this LISTEN yet.").WithHint(
			"Is a majority of the members up? See SHOW tutti.status.")
	}
	return w.WithDetail("Of this LISTEN do not know yet: %s.", strings.Join(n.o.Lacking(since), ", ")).
		WithHint("They will when they have caught up. See SHOW tutti.status.")
}
