package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/locks"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// advisory is the part of a life that deals with advisory locks: who of its sessions has some, and until when.
//
// The others take a node's locks away when they have not heard of it for a lease. It counts from when
// they heard of its last item, so not before that was proposed. The node itself counts half a lease from when
// it proposed the last item of which it knows that it was ordered, and has ended its sessions by then.
type advisory struct {
	lease   time.Duration
	context context.Context // of the life
	wg      sync.WaitGroup  // of the sessions' goroutines

	mu       sync.Mutex
	sessions map[uint64]*lockSession  // by number
	ordered  map[uint64]chan struct{} // by sequence of what was submitted; closed when it has its place
	until    time.Time                // the locks of this life are its sessions' until then
}

func (a *advisory) init(ctx context.Context, lease time.Duration) {
	a.context, a.lease, a.sessions, a.ordered = ctx, lease, map[uint64]*lockSession{}, map[uint64]chan struct{}{}
}

// tell takes what the engine says; it is called by the core and does not wait.
func (a *advisory) tell(events []engine.Lock) {
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
func (a *advisory) extend(began time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u := began.Add(a.lease / 2); u.After(a.until) {
		a.until = u
	}
	for _, x := range a.sessions {
		x.poke() // it may have waited for that
	}
}

// over reports whether the locks are the sessions' no more, or have not been for a time.
func (a *advisory) over(since time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().After(a.until.Add(since))
}

// all lists the sessions that deal with advisory locks.
func (a *advisory) all() []*lockSession {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]*lockSession, 0, len(a.sessions))
	for _, x := range a.sessions {
		out = append(out, x)
	}
	return out
}

// settled reports whether no session deals with advisory locks any more, and all that was asked has its place in the order.
func (a *advisory) settled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.sessions)+len(a.ordered) == 0
}

// tenants lists those of them that hold some, or ask for one.
func (a *advisory) tenants() []*lockSession {
	return slices.DeleteFunc(a.all(), func(x *lockSession) bool { return !x.asks() && x.since() == 0 })
}

// submitLock puts a request about locks into the order. ordered is closed when it has its place there.
func (l *life) submitLock(r *locks.Request) (seq uint64, ordered <-chan struct{}) {
	seq = l.seq.Add(1)
	c := make(chan struct{})
	l.advisory.mu.Lock()
	l.advisory.ordered[seq] = c
	l.advisory.mu.Unlock()
	l.order(l.advisory.context, engine.Submission{Kind: engine.KindLock, Seq: seq, Payload: r.Append(nil)})
	return seq, c
}

// withdrawLock takes a request back that was not proposed.
func (l *life) withdrawLock(seq uint64) (back bool) {
	l.core.call(func(e *engine.Engine) { back = e.Withdraw(seq) })
	if back {
		l.advisory.mu.Lock()
		delete(l.advisory.ordered, seq)
		l.advisory.mu.Unlock()
	}
	return back
}

// renewLease is the goroutine that lets the others hear of this node while its sessions hold locks, and
// ends those sessions if they do not.
func (l *life) renewLease(ctx context.Context) error {
	a := &l.advisory
	var under <-chan struct{} // the renewal under way
	var began time.Time
	for process.Sleep(ctx, a.lease/20) {
		tenants := a.tenants()
		if len(tenants) == 0 {
			under = nil
			continue
		}
		for _, x := range tenants {
			if a.over(0) && x.since() > 0 {
				x.lose()
			}
		}
		if under != nil {
			select {
			case <-under:
				a.extend(began)
				under = nil
			default:
				if time.Since(began) < a.lease/2 {
					continue
				}
			}
		}
		if under == nil || time.Since(began) >= a.lease/2 {
			began = time.Now()
			_, under = l.submitLock(&locks.Request{Action: locks.Renew})
		}
	}
	return nil
}

// watchTenants is the goroutine that proposes to take a member's locks away of which nothing was heard for a
// lease. If something was ordered meanwhile, nothing happens.
func (l *life) watchTenants(ctx context.Context) error {
	type sight struct {
		engine.Tenant
		at    time.Time
		under <-chan struct{}
	}
	seen := map[uint32]*sight{}
	for process.Sleep(ctx, l.advisory.lease/10) {
		var tenants []engine.Tenant
		l.core.call(func(e *engine.Engine) { tenants = e.Tenants() })
		for _, t := range tenants {
			s := seen[t.Member]
			switch {
			case t.Member == l.config.Member:
			case s == nil || s.Tenant != t:
				seen[t.Member] = &sight{Tenant: t, at: time.Now()}
			case s.under == nil && time.Since(s.at) >= l.advisory.lease:
				l.log.Warn("the advisory locks of a member are released, because nothing is heard of it", "member", t.Member)
				_, s.under = l.submitLock(&locks.Request{Action: locks.Expire, Member: t.Member, Incarnation: t.Incarnation, Number: t.Number})
			}
		}
		for m := range seen {
			if !slices.ContainsFunc(tenants, func(t engine.Tenant) bool { return t.Member == m }) {
				delete(seen, m)
			}
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

// tellBlocked is the goroutine that tells the order which sessions wait at this PostgreSQL for others that
// hold advisory locks or wait for them, so that circles over several nodes are found. A wait counts if it was seen the last
// time, too: many a circle is opened by PostgreSQL itself. It is told again and again: the order forgets it when another
// process of the session's takes a lock.
func (l *life) tellBlocked(ctx context.Context) error {
	if !l.awaitReady(ctx) {
		return nil
	}
	told, last := false, map[waitEdge]bool{}
	for process.Sleep(ctx, blockedLocksInterval) {
		numbers := map[uint32]uint64{}
		for _, x := range l.advisory.all() {
			numbers[x.g.pid] = x.number
		}
		if len(numbers) < 2 && !told {
			clear(last)
			continue
		}
		r, err := l.keeper.Exec(ctx, capture.BlockedSQL)
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
			l.submitLock(&locks.Request{Action: locks.Blocked, Edges: edges})
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
			return e, fmt.Errorf("node: keeper: who waits: %w", err)
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

// errLocksLost ends a session whose locks the others may give to somebody else.
func errLocksLost() *wire.SQLError {
	return wire.Fatalf(wire.CodeAdminShutdown, "terminating connection: its advisory locks are lost, because this node has no contact with a majority of the cluster").
		WithHint("Connect again, or to another node, and take the locks anew.")
}

var lockColumns = []string{"node", "pid", "lock", "mode", "granted"}

// showLocks answers SHOW tutti.locks.
func (l *life) showLocks() session.Result {
	r := session.Result{Tag: "SHOW", Columns: lockColumns}
	var list []locks.Held
	l.core.call(func(e *engine.Engine) { list = e.Locks() })
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
		r.Rows = append(r.Rows, []string{l.name(h.Session.Member), strconv.FormatUint(uint64(pidOf(h.Session.Number)), 10), text, mode, strconv.FormatBool(h.Granted)})
	}
	return r
}
