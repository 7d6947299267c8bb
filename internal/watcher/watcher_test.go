package watcher

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/pending"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

const (
	executor  = 1
	definer   = 2
	streaming = 3
	curtain   = 4
	detaching = 5
	chores    = 6
	stranger  = 90
	own       = 50 // a session of this member
	elsewhere = 60 // one of another database
)

// database is one in which the test says who blocks whom.
type database struct {
	blockers         map[uint32][]uint32
	ended, cancelled []uint32
	rebuilds         []uint32
	fails            error
	looked           chan uint32
	chore            time.Duration
	late             chan struct{}
}

func (d *database) Rebuilds(_ context.Context, backend uint32) (bool, error) {
	return slices.Contains(d.rebuilds, backend), nil
}
func (d *database) Chore() (uint32, time.Duration) { return chores, d.chore }
func (d *database) Late() <-chan struct{}          { return d.late }

func (d *database) Blockers(_ context.Context, backend uint32) ([]uint32, error) {
	select {
	case d.looked <- backend:
	default:
	}
	pids := slices.Clone(d.blockers[backend])
	for i := 0; i < len(pids); i++ {
		for _, pid := range d.blockers[pids[i]] {
			if !slices.Contains(pids, pid) && pid != backend {
				pids = append(pids, pid)
			}
		}
	}
	return pids, d.fails
}

func (d *database) FirstBlockers(ctx context.Context, backend uint32) ([]uint32, error) {
	pids, err := d.Blockers(ctx, backend)
	return pids[:len(d.blockers[backend])], err
}

func (d *database) Terminate(_ context.Context, backend uint32) error {
	d.ended = append(d.ended, backend)
	return nil
}
func (d *database) Cancel(_ *slog.Logger, backend uint32) { d.cancelled = append(d.cancelled, backend) }

// watched is a replica with one session.
type watched struct {
	*Watcher
	d         *database
	guard     *guards.Guard
	other     *guards.Guard // of the other database's session
	waiters   *pending.Waiters
	group     *pending.Group
	job       *replay.Job
	gaveWay   int
	counted   int
	forgotten int
	way       engine.Way // what the engine says
}

func watch(t *testing.T) *watched {
	d := &database{blockers: map[uint32][]uint32{}, looked: make(chan uint32, 1), late: make(chan struct{}, 1)}
	x := &watched{d: d,
		waiters: pending.NewWaiters(), group: pending.NewGroup()}
	client, other := net.Pipe()
	t.Cleanup(func() { client.Close(); other.Close() })
	x.guard = guards.New(guards.Options{PID: own, Client: client, Backend: client, Cancel: func() {}, Wake: func() {}})
	x.other = guards.New(guards.Options{PID: elsewhere, Client: client, Backend: client, Cancel: func() {},
		Wake: func() {}})
	backends := &replay.Backends{}
	backends.Busy.Store(executor)
	backends.Curtain.Store(curtain)
	x.Watcher = New(Options{
		Log: slog.New(slog.DiscardHandler), Monitor: x.d, Group: x.group, Waiters: x.waiters, Backends: backends,
		Words:   &outcome.Words{Name: func(uint32) string { return "b" }},
		Blocked: func() { x.counted++ },
		Session: func(pid uint32) *guards.Guard {
			if pid == own {
				return x.guard
			}
			return nil
		},
		Elsewhere: func(pid uint32) *guards.Guard {
			if pid == elsewhere {
				return x.other
			}
			return nil
		},
		Definition: func() *replay.Job { return x.job },
		Executor:   func() uint32 { return executor }, Definer: func() uint32 { return definer },
		Streaming: func() uint32 { return streaming }, GiveWay: func() { x.gaveWay++ },
		BreakOff: func(pid uint32) bool { return pid == detaching },
		Engine: func(f func(func(uint64, bool) (engine.Way, engine.Task))) {
			f(func(uint64, bool) (engine.Way, engine.Task) { return x.way, engine.Task{Ordinal: 11} })
		},
		Forget: func(*writeset.Writeset) { x.forgotten++ },
	})
	return x
}

// unblock has backends block the executor for so long.
func (x *watched) unblock(t *testing.T, blocked time.Duration, pids ...uint32) bool {
	t.Helper()
	x.d.blockers[executor] = pids
	any, err := x.Unblock(context.Background(), executor, blocked, nil)
	if err != nil {
		t.Fatal(err)
	}
	return any
}

// TestChain: who only blocks a blocker does not lose before that one had time to let go (WT6).
func TestChain(t *testing.T) {
	x := watch(t)
	x.guard.Enter(session.PhaseRunning)
	x.d.blockers[stranger] = []uint32{own}
	if !x.unblock(t, chainAfter-1, stranger) || x.guard.Lost() != nil {
		t.Error("who blocks a blocker has lost at once")
	}
	if x.unblock(t, chainAfter, stranger); x.guard.Lost() == nil {
		t.Error("who blocks a blocker that does not let go has not lost")
	}
}

// TestRebuilds: who rebuilds a catalog does not lose for a while (WT7), but he does if his client is waited for.
func TestRebuilds(t *testing.T) {
	x := watch(t)
	x.d.rebuilds = []uint32{own, stranger}
	x.guard.Enter(session.PhaseRunning)
	if !x.unblock(t, stubbornAfter, own) || x.guard.Lost() != nil {
		t.Error("who rebuilds a catalog has lost at once")
	}
	x.stubborn = 0
	if x.unblock(t, 1, own); x.guard.Lost() == nil {
		t.Error("who rebuilds a catalog for ever has not lost")
	}
	x = watch(t)
	x.d.rebuilds = []uint32{own, stranger}
	x.guard.Enter(session.PhaseWaiting)
	if x.unblock(t, 1, own, stranger); x.guard.Lost() == nil {
		t.Error("who has a catalog locked, and does nothing, has not lost")
	}
	if x.unblock(t, strangerAfter+1, stranger); len(x.d.ended) != 1 {
		t.Error("who is no session of this member's is not ended")
	}
}

// TestLoses: a session's transaction in the way loses, which is counted once; its backend ends only if it does not let
// go for long (WT2).
func TestLoses(t *testing.T) {
	x := watch(t)
	x.guard.Enter(session.PhaseWaiting)
	if x.unblock(t, time.Hour) || x.guard.Lost() != nil {
		t.Error("it loses without being in the way")
	}
	for range 2 {
		if !x.unblock(t, time.Hour, own) || len(x.d.ended) > 0 {
			t.Fatalf("backends %v are ended", x.d.ended)
		}
	}
	if e := x.guard.Lost(); e == nil || e.Code != wire.CodeSerializationFailure || x.counted != 1 {
		t.Errorf("it is told %v, and %d are counted", e, x.counted)
	}
	x.stubborn = 0
	time.Sleep(time.Millisecond)
	if x.unblock(t, 0, own); !slices.Equal(x.d.ended, []uint32{own}) {
		t.Errorf("one that does not let go: ended are %v", x.d.ended)
	}
}

// TestLogDecides: what the log decides about is withdrawn, joins the group or stays, as the engine says, and ends only
// if it says so (WT3).
func TestLogDecides(t *testing.T) {
	for name, c := range map[string]struct {
		way            engine.Way
		told           bool
		retry, commits bool
		ends           bool
	}{
		"withdrawn": {way: engine.Withdrawn, told: true, retry: true},
		"joins":     {way: engine.Joins, told: true, commits: true},
		"foretold":  {way: engine.Foretold},
		"stays":     {way: engine.Stays},
		"ends":      {way: engine.Ends, ends: true},
	} {
		x := watch(t)
		x.way = c.way
		x.guard.Enter(session.PhaseSubmitted)
		x.guard.Submitted(7)
		w := x.waiters.Add(x.guard, session.Submission{Seq: 7, Writeset: &writeset.Writeset{}})
		x.group.Begin([]engine.Task{{Ordinal: 9}}, nil)
		x.unblock(t, time.Hour, own)
		if told := len(w.Decision) > 0; told != c.told || len(x.d.ended) > 0 != c.ends || x.guard.Lost() != nil {
			t.Errorf("%s: told %v, ended %v, lost %v", name, told, x.d.ended, x.guard.Lost())
			continue
		}
		if !c.told {
			continue
		}
		d, ordinal := <-w.Decision, uint64(9)
		if c.commits {
			ordinal = 11
		}
		if d.Retry != c.retry || d.Commit != c.commits || w.Ordinal != ordinal || x.forgotten > 0 != c.commits {
			t.Errorf("%s: it is told %+v at %d, and rows are forgotten %d times", name, d, w.Ordinal, x.forgotten)
		}
	}
	x := watch(t)
	x.guard.Enter(session.PhaseSubmitted) // has submitted nothing yet
	if x.unblock(t, time.Hour, own); len(x.d.ended) > 0 {
		t.Error("one is ended of which the engine knows nothing")
	}
}

// TestOwnWork: the member's own work gives way to itself, and the executor and its definer end nobody of each other
// (WT4).
func TestOwnWork(t *testing.T) {
	x := watch(t)
	x.guard.Enter(session.PhaseWaiting)
	if !x.unblock(t, time.Hour, definer, curtain, executor, detaching, 0) || len(x.d.ended) != 1 || x.d.ended[0] != 0 {
		t.Errorf("ended are %v", x.d.ended)
	}
	x.d.ended = nil
	if x.unblock(t, time.Hour, own, streaming); x.gaveWay != 1 || !slices.Equal(x.d.cancelled, []uint32{streaming}) {
		t.Errorf("streaming gave way %d times, cancelled are %v", x.gaveWay, x.d.cancelled)
	}
	x.job = &replay.Job{Definition: &session.Definition{}}
	x.job.Definition.Index.Name = "i"
	x.d.cancelled = nil
	if x.unblock(t, time.Hour, own, definer); !slices.Equal(x.d.cancelled, []uint32{definer}) {
		t.Errorf("an index is built, and cancelled are %v", x.d.cancelled)
	}
	for _, c := range []struct {
		behind []uint32 // whom the session waits for that the index waits for
		want   []uint32 // who is cancelled
	}{{nil, nil}, {[]uint32{stranger}, nil}, {[]uint32{definer}, []uint32{definer}}} {
		x.d.cancelled, x.d.blockers = nil, map[uint32][]uint32{definer: {own}, own: c.behind}
		if _, err := x.look(context.Background()); err != nil || !slices.Equal(x.d.cancelled, c.want) {
			t.Errorf("an index waits for a session that waits for %v: cancelled are %v (%v)", c.behind,
				x.d.cancelled, err)
		}
	}
	if x.guard.Lost() != nil || len(x.d.ended) > 0 {
		t.Errorf("own work gives way, and a session has lost %v, ended are %v", x.guard.Lost(), x.d.ended)
	}
}

// TestStranger: a backend that is no session of this member's is ended, but not at once (WT5).
func TestStranger(t *testing.T) {
	x := watch(t)
	if x.unblock(t, strangerAfter, stranger); len(x.d.ended) > 0 {
		t.Error("it is ended at once")
	}
	if x.unblock(t, strangerAfter+1, stranger); !slices.Equal(x.d.ended, []uint32{stranger}) {
		t.Errorf("ended are %v", x.d.ended)
	}
}

// TestElsewhere: a session of another database loses, and is ended only if it does not let go, or if its order decides
// on it, and then not at once (WT5).
func TestElsewhere(t *testing.T) {
	x := watch(t)
	x.other.Enter(session.PhaseWaiting)
	if x.unblock(t, time.Hour, elsewhere); len(x.d.ended) > 0 || x.other.Lost() == nil {
		t.Errorf("ended are %v, and it is told %v", x.d.ended, x.other.Lost())
	}
	x.stubborn = 0
	time.Sleep(time.Millisecond)
	if x.unblock(t, time.Hour, elsewhere); !slices.Equal(x.d.ended, []uint32{elsewhere}) {
		t.Errorf("one that does not let go: ended are %v", x.d.ended)
	}
	x = watch(t)
	x.other.Enter(session.PhaseSubmitted)
	if x.unblock(t, strangerAfter, elsewhere); len(x.d.ended) > 0 || x.other.Lost() != nil {
		t.Errorf("submitted: ended are %v at once, and it is told %v", x.d.ended, x.other.Lost())
	}
	if x.unblock(t, strangerAfter+1, elsewhere); !slices.Equal(x.d.ended, []uint32{elsewhere}) {
		t.Errorf("submitted: ended are %v", x.d.ended)
	}
}

// TestLook: nobody is looked for before the executor has waited, somebody looks again and again while a group goes on,
// and a definition that goes on beside groups is looked at seldom (WT1).
func TestLook(t *testing.T) {
	x, ctx := watch(t), context.Background()
	x.guard.Enter(session.PhaseWaiting)
	look := func() time.Duration {
		t.Helper()
		wait, err := x.look(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	if wait := look(); wait != 0 {
		t.Errorf("nothing goes on, and the next look is after %s", wait)
	}
	x.d.blockers[executor], x.d.blockers[definer] = []uint32{own}, []uint32{own}
	x.group.Begin([]engine.Task{{Ordinal: 9}}, nil)
	look()
	if age, _ := x.group.Age(); age < replay.BlockedAfter && x.guard.Lost() != nil {
		t.Error("it loses at once")
	}
	time.Sleep(replay.BlockedAfter)
	if wait := look(); wait != blockedInterval || x.guard.Lost() == nil {
		t.Errorf("the next look is after %s, and it has lost: %v", wait, x.guard.Lost())
	}
	x.group.Local(0) // the group is over
	x.guard.Enter(session.PhaseIdle)
	x.guard.Enter(session.PhaseWaiting)
	free := time.Now().Add(-time.Hour)
	x.job = &replay.Job{Free: free}
	if wait := look(); wait != replay.LongInterval || x.guard.Lost() == nil || x.job.Free != free {
		t.Errorf("a definition is blocked: the next look is after %s, lost %v", wait, x.guard.Lost())
	}
	x.d.blockers[definer] = nil
	if look(); x.job.Free == free {
		t.Error("it is not known that nobody blocks it")
	}
	x.d.fails = errors.New("gone")
	if _, err := x.look(ctx); err == nil {
		t.Error("that nobody could be asked is not said")
	}
}

// TestRun: the watcher looks when a group has begun, until it is over, and ends with what it cannot find out.
// TestChore: who keeps what else is to be done waiting loses after a while, although no group goes on (WT1); whom he
// waits for does not lose with him (WT6).
func TestChore(t *testing.T) {
	x, ctx := watch(t), context.Background()
	x.guard.Enter(session.PhaseRunning)
	x.d.blockers[chores] = []uint32{own}
	for _, age := range []time.Duration{0, chainAfter} {
		x.d.chore = age
		if wait, err := x.look(ctx); wait != 0 || err != nil || x.guard.Lost() != nil {
			t.Errorf("after %s: it looks again after %s (%v), lost: %v", age, wait, err, x.guard.Lost())
		}
	}
	x.d.chore = time.Hour // but it was not blocked
	if wait, err := x.look(ctx); wait != replay.LongInterval || err != nil || x.guard.Lost() == nil {
		t.Errorf("it looks again after %s (%v), lost: %v", wait, err, x.guard.Lost())
	}
	x = watch(t)
	x.guard.Enter(session.PhaseRunning)
	x.d.blockers[chores], x.d.blockers[stranger] = []uint32{stranger}, []uint32{own}
	x.d.chore, x.free = time.Hour, time.Now()
	if _, err := x.look(ctx); err != nil || x.guard.Lost() != nil || len(x.d.ended) > 0 {
		t.Errorf("who blocks a blocker has lost at once: %v, ended %v (%v)", x.guard.Lost(), x.d.ended, err)
	}
	x.free = time.Now().Add(-2 * strangerAfter)
	if _, err := x.look(ctx); err != nil || x.guard.Lost() == nil || len(x.d.ended) != 1 {
		t.Errorf("who does not let go has not lost: %v, ended %v (%v)", x.guard.Lost(), x.d.ended, err)
	}

	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- x.Run(ctx) }()
	x.d.late <- struct{}{}
	if pid := <-x.d.looked; pid != chores {
		t.Errorf("it looks for who blocks %d", pid)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRun(t *testing.T) {
	x := watch(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- x.Run(ctx) }()
	x.group.Begin([]engine.Task{{Ordinal: 9}}, nil)
	for range 2 {
		if pid := <-x.d.looked; pid != executor {
			t.Errorf("it looks for who blocks %d", pid)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	x = watch(t)
	x.d.fails = errors.New("gone")
	go func() { ended <- x.Run(context.Background()) }()
	x.group.Begin([]engine.Task{{Ordinal: 9}}, nil)
	if err := <-ended; err != x.d.fails {
		t.Errorf("it ends with %v", err)
	}
}
