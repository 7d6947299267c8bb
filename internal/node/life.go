package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/advisory"
	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/deferred"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/executor"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/meetings"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/notices"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/pending"
	"github.com/tuttidb/tutti/internal/plancache"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/raftlog"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/show"
	"github.com/tuttidb/tutti/internal/snapshots"
	"github.com/tuttidb/tutti/internal/speakers"
	"github.com/tuttidb/tutti/internal/standing"
	"github.com/tuttidb/tutti/internal/stopping"
	"github.com/tuttidb/tutti/internal/watcher"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// life is one incarnation of a member in the order of one database, from reading disk and database to the first
// failure.
type life struct {
	node   *Node
	tenure *tenure
	config *config.Config
	log    *slog.Logger
	id     identity
	course *course

	order     order
	db        local
	submitted submitted
	flow      held
	others    others

	metrics   metrics.Database
	sessions  *guards.Sessions
	rows      *deferred.Rows
	plans     plancache.Cache
	audit     *audit.Audit
	shows     *show.Replica
	words     outcome.Words
	trials    trials
	notices   *notices.Notices
	advisory  *advisory.Locks
	snapshots *snapshots.Serial
	grants    *grants.Grants
	meetings  *meetings.Meetings
}

// identity is which replica it is.
type identity struct {
	group       uint64 // the database's number
	database    string
	logDir      string
	incarnation uint64
}

// order is what a replica has of its database's order.
type order struct {
	disk      *raftlog.Log
	core      *core.Core
	retention *core.Retention
	position  engine.Position // at which it began
	seq       atomic.Uint64   // of its items
	fence     uint64          // sequence of its first one
	paces     replay.Paces
}

// local is what a replica has of the local PostgreSQL, and who carries out there what is ordered.
type local struct {
	connString string
	applier    *replay.Applier
	streaming  *replay.Streaming
	jobs       *replay.Jobs
	detaches   *replay.Detaches
	monitor    *link.Monitor
	speakers   *speakers.Pool
	collector  collect.Collector
	tables     atomic.Pointer[catalog.Tables]
}

// submitted is what its sessions have handed to the order, and who sees to it that it comes through.
type submitted struct {
	waiters     *pending.Waiters
	patience    pending.Patience
	definitions pending.Definitions
	running     running
	watcher     *watcher.Watcher
}

// held is by what its sessions, and its executor, are held back.
type held struct {
	gate     *admission.Gate
	throttle *admission.Throttle
	rests    rests
	turns    *admission.Turns
}

// others is what is known of the replicas at the other members, and of the distance to them.
type others struct {
	peers  *peers.Peers
	age    peers.ReadAge // of what is read here
	volume volume
}

// volume is what is ordered and applied, in bytes (engine.Volume), as of the last gossip.
type volume struct{ ordered, applied atomic.Uint64 }

// trials are what is tried before it is ordered: here, and by other members.
type trials struct {
	receiver *replay.Receiver
	dryRuns  *replay.DryRuns
}

// running is the group that the executor carries out, and by which backends.
type running struct {
	*pending.Group
	backends replay.Backends
}

// patienceOf is a replica as those who wait for the order need it; its core is there.
func patienceOf(l *life) pending.Patience {
	return pending.Patience{
		Now: l.others.peers.Now, Waiters: l.submitted.waiters, Metrics: &l.metrics, TxID: l.txid, Done: l.course.done,
		Do:   func(f func(pending.Order)) { l.order.core.Do(func(e *engine.Engine) { f(e) }) },
		Call: func(f func(pending.Order)) { l.order.core.Call(func(e *engine.Engine) { f(e) }) },
		Most: func() time.Duration {
			return time.Duration(max(l.settled().Limits.CommitTimeoutMs, 0)) * time.Millisecond
		},
	}
}

// errConverted ends the first life of a cloned member: its database is now its own.
var errConverted = errors.New("node: the cloned database is now this member's own")

// newLife makes a life of a database, which is not opened yet.
func newLife(t *tenure, group uint64, database string) *life {
	c := t.node.config
	l := &life{
		node: t.node, tenure: t, config: c, log: t.node.log, course: newCourse(),
		id: identity{group: group, database: database, logDir: standing.LogDir(c, group)},
	}
	if group != mainGroup {
		l.log = l.log.With("database", database)
	}
	l.sessions = guards.NewSessions(c.Limits.Sessions)
	l.others.peers = peers.New(peersOf(l))
	l.flow.throttle = admission.NewThrottle(throttleOf(l))
	l.flow.rests = restsOf(l)
	l.flow.turns = admission.NewTurns(l.settled().Limits.TurnsPercent, &l.metrics.Flow, &l.metrics.Waits)
	l.rows = deferred.New(deferredOf(l))
	l.notices = notices.New(c.Member, l.settled().Limits.Channels, l.settled().Limits.NotifyQueue, &l.metrics.Notify)
	l.flow.gate, l.db.speakers = admission.NewGate(), speakers.NewPool()
	l.submitted.waiters, l.submitted.running.Group = pending.NewWaiters(), pending.NewGroup()
	l.snapshots, l.meetings = snapshots.New(snapshotsOf(l)), meetings.New(meetingsOf(l))
	return l
}

// run lives an opened life. It returns when ctx ends, with its cause unless that is no failure, or at the first
// failure, which ends ctx.
func (l *life) run(ctx context.Context, cancel context.CancelCauseFunc) error {
	defer cancel(nil)
	var wg sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	run("log", func(ctx context.Context) error {
		err := l.order.core.Run(ctx)
		if lost := core.ExplainLost(err, l.config); lost != nil || err == nil {
			return lost
		}
		return &failure.Fatal{Err: err}
	})
	run("executor", executor.New(executorOf(l)).Run)
	run("watcher", l.submitted.watcher.Run)
	run("streaming", l.db.streaming.Run)
	run("gossip", l.gossip)
	run("cleaner", l.clean)
	run("listener", l.notices.Hear)
	run("publisher", l.notices.Publish)
	run("forwarder", l.notices.Forward)
	run("announcer", l.notices.Announce)
	run("nudger", l.sessions.Nudge)
	run("tenants", l.advisory.WatchTenants)
	run("lease", l.advisory.RenewLease)
	run("blocked", l.advisory.TellBlocked)
	run("retention", func(ctx context.Context) error { return l.order.retention.Run(ctx, l.order.core) })
	run("serial", l.snapshots.Run)
	run("locks", l.grants.Renew)
	run("audit", l.audit.Run)
	l.order.core.Do(func(e *engine.Engine) {
		e.Submit(engine.Submission{Kind: engine.KindFence, Seq: l.order.fence})
	})
	<-ctx.Done()
	close(l.course.done)
	l.flow.gate.Wake()
	l.snapshots.Wake()
	l.notices.Wake()
	l.db.jobs.Wake()
	stop := l.sessions.EndAll(l.errEnds())
	wg.Wait()
	l.sessions.Wait()
	stop()
	l.advisory.Wait()
	l.trials.dryRuns.Close()
	l.trials.receiver.Close()
	l.grants.End()
	l.course.background.Wait()
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, l.close())
}

// errEnds is why the sessions of a life end that ends.
func (l *life) errEnds() *wire.SQLError {
	switch {
	case l.node.stops.Refuses():
		return stopping.Shutdown()
	case l.course.dismissed.Load():
		return wire.Fatalf(wire.CodeAdminShutdown, "terminating connection due to administrator command")
	}
	return wire.Fatalf(wire.CodeAdminShutdown, "terminating connection: this member restarts").
		WithHint("Connect again, or to another member.")
}

// open brings up log, database connections and engine.
func (l *life) open(ctx context.Context) (err error) {
	l.course.context = ctx
	l.advisory = advisory.New(advisoryOf(l))
	pg := l.tenure.pg
	conn := l.tenure.connString(l.id.database)
	l.db.connString = conn
	if err := l.openDisk(ctx, conn); err != nil {
		return err
	}
	l.log.Info("opened the log", "direct_writes", l.order.disk.Direct())
	for _, r := range l.order.disk.Repairs() {
		l.log.Warn("repaired the log's torn end", "repair", fmt.Sprint(r))
	}
	var saved []byte
	if l.order.position, saved, err = standing.PrepareDatabase(ctx, conn, l.config, !pg.CleanShutdownBefore(),
		func() (*bootstrap.Record, error) { return l.begins(ctx) }, l.tenure.standing.Copies); err != nil {
		return err
	}
	if l.db.applier, err = replay.NewApplier(ctx, conn, l.config, l.log.Warn); err != nil {
		return err
	}
	l.db.applier.Alone = l.rows.Quiet
	l.db.applier.Begun.Store(l.order.position.Ordinal) // what the progress row says
	l.meetings.Through(l.order.position.Ordinal)
	l.db.applier.Passed.Ending(l.order.position.Ordinal, 1)
	l.db.applier.Passed.Ended(true)
	openReplay(l, conn)
	l.order.retention = core.NewRetention(retentionOf(l))
	from, err := l.order.retention.StartAt(saved, &l.order.position)
	if err != nil {
		return err
	}
	if l.db.collector, err = collect.New(ctx, l.db.applier.Conn, l.db.tables.Load,
		l.config.Limits.WritesetBytes); err != nil {
		return err
	}
	if l.db.monitor, err = link.NewMonitor(ctx, conn, l.log); err != nil {
		return err
	}
	l.db.jobs = replay.NewJobs(jobsOf(l))
	l.db.detaches = replay.NewDetaches(l.db.jobs)
	l.db.tables.Store(l.db.applier.Tables)
	l.submitted.running.backends.Busy.Store(l.db.applier.Conn.PID())
	if err := l.advisory.Open(ctx, conn); err != nil {
		return err
	}
	if err := l.notices.Open(ctx, noticesOf(l)); err != nil {
		return err
	}
	e, err := engine.New(engineOf(l, from))
	if err != nil {
		return &failure.Fatal{Err: err}
	}
	l.audit = audit.New(auditOf(l))
	l.grants = grants.New(grantsOf(l))
	l.trials.dryRuns = replay.NewDryRuns(dryRunsOf(l))
	l.order.fence = l.order.seq.Add(1)
	l.order.core = core.New(coreOf(l, e))
	l.submitted.patience, l.words = patienceOf(l), wordsOf(l)
	l.shows, l.submitted.watcher = showOf(l), watcher.New(watcherOf(l))
	return nil
}

// engineOf is a replica as its engine needs it, which starts from a checkpoint.
func engineOf(l *life, from *engine.Checkpoint) engine.Options {
	return engine.Options{
		Member: l.config.Member, Incarnation: l.id.incarnation, Position: l.order.position, Checkpoint: from,
		Order: ordering.Options{Storage: l.order.disk}, GoneTicks: core.Ticks(l.config.Expel()),
		Copies: l.config.Copies(), Certify: certify.Options{KeysMax: l.config.Limits.CertifyKeys},
		Room:          l.node.files.Room,
		GroupItemsMax: l.config.Limits.GroupItems, GroupBytesMax: l.config.Limits.GroupBytes,
		BatchItemsMax: l.config.Limits.BatchItems, BatchBytesMax: l.config.Limits.BatchBytes,
		PendingMax: l.config.Limits.PendingItems, QueueBytesMax: l.config.Limits.ApplyQueueBytes,
		KeptItemsMax: flow.Kept(l.config.Limits.FlowLag), KeptBytesMax: flow.Kept(l.config.Limits.FlowLagBytes),
	}
}

// coreOf is a replica as its core needs it.
func coreOf(l *life, e *engine.Engine) core.Options {
	return core.Options{
		Log: l.log, Metrics: &l.metrics, Engine: e, Disk: l.order.disk,
		Configures: func() bool { return l.tenure.standing.Understand(bootstrap.Configurations) },
		Rule:       func() (int, int) { return l.config.Copies(), core.Ticks(l.config.Expel()) },
		Members:    l.members,
		Member:     l.config.Member, Sites: func() [][]uint32 { return sites(l.tenure) },
		Send:    func(to uint32, data []byte) bool { return l.sendFrame(to, frameRaft, data) },
		Relay:   func(to uint32, frame []byte) bool { return l.sendFrame(to, frameRelay, frame) },
		Relayed: func(to uint32, frame []byte) bool { return l.sendFrame(to, frameRelayed, frame) },
		Aborted: l.aborted, Locked: l.advisory.Tell, Fronts: l.db.streaming.Tell, Moved: l.flow.gate.Moved,
		Leave: l.others.peers.Leave, Reaches: l.reaches,
		Survey: func() (bool, []uint32) { return l.node.processors.Scarce(), l.sessions.Stuck(time.Now()) },
	}
}

// retentionOf is a replica as the retention of its log needs it.
func retentionOf(l *life) core.RetentionOptions {
	return core.RetentionOptions{Config: l.config, Log: l.log, Metrics: &l.metrics, Disk: l.order.disk,
		ConnString: l.db.connString, Keep: func() int64 { return l.settled().Limits.LogRetention },
		Ready: l.course.ready.Load, Lent: l.others.peers.Lent,
		Slow: func() bool { return l.others.peers.IsSlow() && l.reach().Spare() && l.course.halted.Load() == nil }}
}

// openReplay makes what carries out large transactions while they come in, and tries what leaves.
func openReplay(l *life, conn string) {
	l.db.streaming = replay.NewStreaming(replay.StreamingOptions{
		ConnString: conn, Config: l.config, Log: l.log, Ready: l.course.ready.Load, Tables: l.db.tables.Load,
		Report: func(to uint32, front []byte) { l.sendFrame(to, frameFront, front) },
	})
	l.trials.receiver = replay.NewReceiver(conn, &l.metrics.Waits, func() *wire.SQLError {
		if l.course.ending() {
			return outcome.Ending()
		}
		return nil
	})
}

func (l *life) close() error {
	var errs []error
	if l.db.applier != nil {
		l.db.applier.Close()
	}
	if l.db.streaming != nil {
		l.db.streaming.Close()
	}
	if l.db.monitor != nil {
		l.db.monitor.Close()
	}
	if l.advisory != nil {
		l.advisory.Close()
	}
	if l.audit != nil {
		l.audit.Close()
	}
	l.db.speakers.Close()
	l.notices.Close()
	if l.order.disk != nil {
		errs = append(errs, l.order.disk.Close())
	}
	return errors.Join(errs...)
}

// clean empties capture tables that are no longer in use.
func (l *life) clean(ctx context.Context) error {
	for process.Rest(ctx, cleanInterval) {
		if err := l.db.monitor.Clean(ctx); err != nil {
			return err
		}
	}
	return nil
}

const cleanInterval = 3 * time.Second

func (l *life) txid(seq uint64) writeset.TxID {
	return writeset.TxID{Member: l.config.Member, Incarnation: l.id.incarnation, Seq: seq}
}

// name is a member's name for messages.
func (l *life) name(member uint32) string { return l.config.Name(member) }
