package advisory

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/locks"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// Replica is a replica as its advisory locks need it.
type Replica struct {
	Log     *slog.Logger
	Context context.Context // ends with the replica
	Self    uint32
	Lease   time.Duration
	Waits   *metrics.Waits
	Name    func(member uint32) string

	Seq     func() uint64 // the next sequence
	Order   func(ctx context.Context, s engine.Submission) bool
	Engine  func(f func(*engine.Engine)) bool // runs f with the engine, and waits for that
	Applied func() uint64
	Await   func(done func() bool) // until done is true; looks again whenever a group has ended
	Wake    func()                 // has it look again

	Opened   <-chan struct{} // closed when the replica serves sessions
	Done     <-chan struct{} // closed when it ends
	Ending   func() bool
	Patience func() (over <-chan time.Time, stop func()) // without a majority
	TimedOut func()                                      // that is over

	EndBackend func(pid uint32)
}

// Locks is what one replica does about advisory locks: who of its sessions has some, and until when (replica.Lease).
type Locks struct {
	o      Replica
	began  time.Time
	keeper *link.Keeper
	wg     sync.WaitGroup // of the sessions' goroutines

	mu       sync.Mutex
	sessions map[uint64]*Session      // by number
	ordered  map[uint64]chan struct{} // by sequence of what was submitted; closed when it has its place
	lease    replica.Lease            // of the locks that this member's sessions have
}

// New makes it for a replica that is about to be opened.
func New(o Replica) *Locks {
	return &Locks{o: o, began: time.Now(), lease: replica.NewLease(int64(o.Lease)), sessions: map[uint64]*Session{},
		ordered: map[uint64]chan struct{}{}}
}

// now is the lease's time.
func (a *Locks) now() int64 { return int64(time.Since(a.began)) }

// Open connects to the local PostgreSQL.
func (a *Locks) Open(ctx context.Context, connString string) (err error) {
	a.keeper, err = link.NewKeeper(ctx, connString)
	return err
}

// Close ends the connection, if there is one.
func (a *Locks) Close() {
	if a.keeper != nil {
		a.keeper.Close()
	}
}

// Wait returns when no session's goroutine is left. Its replica is over.
func (a *Locks) Wait() { a.wg.Wait() }

// Begin makes the part in advisory locks of a session with this backend and client, which may be closed.
func (a *Locks) Begin(pid uint32, client io.Closer) *Session {
	x := &Session{l: a, pid: pid, client: client, number: a.o.Seq()<<pidBits | uint64(pid),
		askers: map[uint32]*asker{}, held: map[locks.Lock]uint64{}, under: map[locks.Lock]*asker{}}
	a.mu.Lock()
	a.sessions[x.number] = x
	a.mu.Unlock()
	x.own()
	return x
}

// Place is closed when what is about to be submitted with this sequence has its place in the order.
func (a *Locks) Place(seq uint64) <-chan struct{} {
	c := make(chan struct{})
	a.mu.Lock()
	a.ordered[seq] = c
	a.mu.Unlock()
	return c
}

// Tell takes what the engine says; it is called by the core and does not wait.
func (a *Locks) Tell(events []engine.Lock) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range events {
		if e.Seq == 0 {
			if x := a.sessions[e.Event.Session.Number]; x != nil {
				x.note(e)
			}
			continue
		}
		if c := a.ordered[e.Seq]; c != nil {
			delete(a.ordered, e.Seq)
			close(c)
		}
	}
}

// extend notes that something was ordered that was proposed after began.
func (a *Locks) extend(began time.Time) {
	a.extends(func(l *replica.Lease) { l.Ordered(int64(began.Sub(a.began))) })
}

func (a *Locks) extends(how func(l *replica.Lease)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	how(&a.lease)
	for _, x := range a.sessions {
		x.poke() // it may have waited for that
	}
}

// over reports whether the locks are the sessions' no more, or have not been for a time.
func (a *Locks) over(since time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease.Over(a.now(), int64(since))
}

// renews reports whether the lease is to be renewed now.
func (a *Locks) renews(needed bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease.Renews(a.now(), needed)
}

// all lists the sessions that deal with advisory locks.
func (a *Locks) all() []*Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.sessions))
}

// Settled reports whether no session deals with advisory locks any more, and all that was asked has its place in the
// order.
func (a *Locks) Settled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.sessions)+len(a.ordered) == 0
}

// tenants lists those of them that hold some, or ask for one.
func (a *Locks) tenants() []*Session {
	return slices.DeleteFunc(a.all(), func(x *Session) bool { return !x.asks() && x.Since() == 0 })
}

// submit puts a request about locks into the order. ordered is closed when it has its place there.
func (a *Locks) submit(r *locks.Request) (seq uint64, ordered <-chan struct{}) {
	seq = a.o.Seq()
	ordered = a.Place(seq)
	a.o.Order(a.o.Context, engine.Submission{Kind: engine.KindLock, Seq: seq, Payload: r.Append(nil)})
	return seq, ordered
}

// withdraw takes a request back that was not proposed.
func (a *Locks) withdraw(seq uint64) (back bool) {
	a.o.Engine(func(e *engine.Engine) { back = e.Withdraw(seq) })
	if back {
		a.mu.Lock()
		delete(a.ordered, seq)
		a.mu.Unlock()
	}
	return back
}

// RenewLease is the goroutine that lets the others hear of this node while its sessions hold locks, and
// ends those sessions if they do not.
func (a *Locks) RenewLease(ctx context.Context) error {
	var under <-chan struct{} // the renewal under way
	for process.Rest(ctx, a.o.Lease/20) {
		tenants := a.tenants()
		for _, x := range tenants {
			if a.over(0) && x.Since() > 0 {
				x.lose()
			}
		}
		select {
		case <-under:
			a.extends((*replica.Lease).Renewed)
			under = nil
		default:
		}
		if a.renews(len(tenants) > 0) {
			_, under = a.submit(&locks.Request{Action: locks.Renew})
		}
	}
	return nil
}

// WatchTenants is the goroutine that proposes to take a member's locks away of which nothing was heard for a
// lease. If something was ordered meanwhile, nothing happens.
func (a *Locks) WatchTenants(ctx context.Context) error {
	watch := replica.NewWatch(a.o.Self, int64(a.o.Lease))
	for process.Rest(ctx, a.o.Lease/10) {
		var tenants []replica.Tenant
		a.o.Engine(func(e *engine.Engine) {
			for _, t := range e.Advisory().Tenants() {
				tenants = append(tenants, replica.Tenant(t))
			}
		})
		for _, t := range watch.Look(a.now(), tenants) {
			a.o.Log.Warn("the advisory locks of a member are released, because nothing is heard of it", "member",
				t.Member)
			a.submit(&locks.Request{Action: locks.Expire, Member: t.Member, Incarnation: t.Incarnation,
				Number: t.Number})
		}
	}
	return nil
}

// blockedLocksInterval is how often the others are told who waits here for whom, as PostgreSQL looks for
// deadlocks after one second.
const blockedLocksInterval = time.Second

// waitEdge is a backend that waits at this PostgreSQL for another one.
type waitEdge struct {
	waiter, process uint32 // the process is the waiter itself or a parallel worker of its
	since           string
	blocker         uint32
}

// TellBlocked is the goroutine that tells the order which sessions wait at this PostgreSQL for others that
// hold advisory locks or wait for them, so that circles over several nodes are found. A wait counts if it was seen the
// last time, too: many a circle is opened by PostgreSQL itself. It is told again and again: the order forgets it when
// another process of the session's takes a lock.
func (a *Locks) TellBlocked(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.o.Opened:
	}
	told, last := false, map[waitEdge]bool{}
	for process.Rest(ctx, blockedLocksInterval) {
		numbers := map[uint32]uint64{}
		for _, x := range a.all() {
			numbers[x.pid] = x.number
		}
		if len(numbers) < 2 && !told {
			clear(last)
			continue
		}
		r, err := a.keeper.Exec(ctx, capture.BlockedSQL)
		if err != nil {
			return err
		}
		now := map[waitEdge]bool{}
		blockers := map[uint32][]uint32{}
		for _, row := range r[0].Rows {
			e, err := readWaitEdge(row)
			if err != nil {
				return err
			}
			if now[e] = true; last[e] {
				blockers[e.waiter] = append(blockers[e.waiter], e.blocker)
			}
		}
		last = now
		edges := lockEdges(blockers, numbers)
		if told || len(edges) > 0 {
			a.submit(&locks.Request{Action: locks.Blocked, Edges: edges})
		}
		told = len(edges) > 0
	}
	return nil
}

func readWaitEdge(row [][]byte) (e waitEdge, err error) {
	for i, p := range []*uint32{&e.waiter, &e.process, nil, &e.blocker} {
		if p == nil {
			e.since = string(row[i])
			continue
		}
		n, err := strconv.ParseUint(string(row[i]), 10, 32)
		if err != nil {
			return e, fmt.Errorf("advisory: keeper: who waits: %w", err)
		}
		*p = uint32(n)
	}
	return e, nil
}

// lockEdges says who of the sessions, named by their backends, waits for which other of them, over any others.
func lockEdges(blockers map[uint32][]uint32, numbers map[uint32]uint64) (out []locks.Edge) {
	for pid, number := range numbers {
		seen, todo := map[uint32]bool{pid: true}, blockers[pid]
		for len(todo) > 0 {
			b := todo[0]
			todo = todo[1:]
			if seen[b] {
				continue
			}
			seen[b] = true
			if n, ok := numbers[b]; ok {
				out = append(out, locks.Edge{Waiter: number, Blocker: n})
			}
			todo = append(todo, blockers[b]...)
		}
	}
	slices.SortFunc(out, func(a, b locks.Edge) int {
		return cmp.Or(cmp.Compare(a.Waiter, b.Waiter), cmp.Compare(a.Blocker, b.Blocker))
	})
	return out
}

// ErrLocksLost ends a session whose locks the others may give to somebody else.
func ErrLocksLost() *wire.SQLError {
	return wire.Fatalf(wire.CodeAdminShutdown, "terminating connection: its advisory locks are lost, because this "+
		"node has no contact with a majority of the cluster").
		WithHint("Connect again, or to another node, and take the locks anew.")
}

var Columns = []string{"node", "pid", "lock", "mode", "granted"}

// Show answers SHOW tutti.locks.
func (a *Locks) Show() session.Result {
	r := session.Result{Tag: "SHOW", Columns: Columns}
	var list []locks.Held
	a.o.Engine(func(e *engine.Engine) { list = e.Advisory().Locks() })
	for _, h := range list {
		k := h.Lock.Key
		text := strconv.FormatInt(int64(uint64(k.Class)<<32|uint64(k.Object)), 10)
		if k.Form == 2 {
			text = strconv.Itoa(int(int32(k.Class))) + ", " + strconv.Itoa(int(int32(k.Object)))
		}
		mode := "exclusive"
		if h.Lock.Mode == locks.Shared {
			mode = "shared"
		}
		r.Rows = append(r.Rows, []string{a.o.Name(h.Session.Member),
			strconv.FormatUint(uint64(pidOf(h.Session.Number)), 10), text, mode, strconv.FormatBool(h.Granted)})
	}
	return r
}
