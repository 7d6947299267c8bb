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
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/deferred"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/guards"
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
	"github.com/tuttidb/tutti/internal/watcher"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// life is one incarnation of a member in the order of one database, from reading disk and database to the first
// failure.
type life struct {
	node        *Node
	tenure      *tenure
	group       uint64 // the database's number
	database    string
	logDir      string
	meets       meets
	course      *course
	config      *config.Config
	log         *slog.Logger
	incarnation uint64
	collector   collect.Collector
	seq         atomic.Uint64
	fence       uint64 // sequence of this life's first item

	disk      *raftlog.Log
	core      *core.Core
	applier   *replay.Applier
	streaming *replay.Streaming
	paces     replay.Paces
	monitor   *link.Monitor
	speakers  *speakers.Pool
	position  engine.Position

	connString string // of the local database
	retention  *core.Retention
	patience   pending.Patience
	words      outcome.Words
	metrics    metrics.Database
	age        peers.ReadAge // of what is read here

	gate        *admission.Gate
	waiters     *pending.Waiters
	definitions pending.Definitions
	sessions    *guards.Sessions
	peers       *peers.Peers
	throttle    *admission.Throttle
	rests       rests
	turns       *admission.Turns
	rows        *deferred.Rows
	plans       plancache.Cache
	audit       *audit.Audit
	shows       *show.Replica
	trials      trials
	notices     *notices.Notices
	advisory    *advisory.Locks
	snapshots   *snapshots.Serial
	tables      atomic.Pointer[catalog.Tables]

	volume volume

	running running
	watcher *watcher.Watcher

	jobs     *replay.Jobs
	detaches *replay.Detaches
	grants   *grants.Grants
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
	orders   [][2]uint64 // the executor's: of those that have added to rows the sequence and the order
}

// patienceOf is a replica as those who wait for the order need it; its core is there.
func patienceOf(l *life) pending.Patience {
	return pending.Patience{
		Now: l.peers.Now, Waiters: l.waiters, Metrics: &l.metrics, TxID: l.txid, Done: l.course.done,
		Do:   func(f func(pending.Order)) { l.core.Do(func(e *engine.Engine) { f(e) }) },
		Call: func(f func(pending.Order)) { l.core.Call(func(e *engine.Engine) { f(e) }) },
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
		node: t.node, tenure: t, group: group, database: database, config: c, log: t.node.log,
		logDir: standing.LogDir(c, group),
		course: newCourse(), gate: admission.NewGate(), speakers: speakers.NewPool(),
		waiters: pending.NewWaiters(),
	}
	if group != mainGroup {
		l.log = l.log.With("database", database)
	}
	l.sessions = guards.NewSessions(c.Limits.Sessions)
	l.peers = peers.New(peersOf(l))
	l.throttle = admission.NewThrottle(throttleOf(l))
	l.rests = restsOf(l)
	l.turns = admission.NewTurns(l.settled().Limits.TurnsPercent, &l.metrics.Flow, &l.metrics.Waits)
	l.rows = deferred.New(deferredOf(l))
	l.notices = notices.New(c.Member, l.settled().Limits.Channels, l.settled().Limits.NotifyQueue, &l.metrics.Notify)
	l.running.Group = pending.NewGroup()
	l.snapshots = snapshots.New(snapshotsOf(l))
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
		if err := l.core.Run(ctx); err != nil {
			return &failure.Fatal{Err: core.ExplainLost(err, l.config)}
		}
		return nil
	})
	run("executor", l.runExecutor)
	run("watcher", l.watcher.Run)
	run("streaming", l.streaming.Run)
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
	run("retention", func(ctx context.Context) error { return l.retention.Run(ctx, l.core) })
	run("serial", l.snapshots.Run)
	run("locks", l.grants.Locks.Renew)
	run("audit", l.audit.Run)
	l.core.Do(func(e *engine.Engine) {
		e.Submit(engine.Submission{Kind: engine.KindFence, Seq: l.fence})
	})
	<-ctx.Done()
	close(l.course.done)
	l.gate.Wake()
	l.snapshots.Wake()
	l.notices.Wake()
	l.jobs.Wake()
	stop := l.sessions.EndAll(l.errEnds())
	wg.Wait()
	l.sessions.Wait()
	stop()
	l.advisory.Wait()
	l.trials.dryRuns.Close()
	l.trials.receiver.Close()
	l.grants.Locks.End()
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
	case l.node.stops.refuses.Load():
		return errShutdown()
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
	conn := pg.ConnString("postgres", l.database) + link.OwnOptions
	l.connString = conn
	if err := l.openDisk(ctx, conn); err != nil {
		return err
	}
	l.log.Info("opened the log", "direct_writes", l.disk.Direct())
	for _, r := range l.disk.Repairs() {
		l.log.Warn("repaired the log's torn end", "repair", fmt.Sprint(r))
	}
	var saved []byte
	if l.position, saved, err = standing.PrepareDatabase(ctx, conn, l.config, !pg.CleanShutdownBefore(),
		func() error { return l.begins(ctx, conn) }); err != nil {
		return err
	}
	if l.applier, err = replay.NewApplier(ctx, conn, l.config, l.log.Warn); err != nil {
		return err
	}
	l.applier.Alone = l.rows.Quiet
	l.applier.Begun.Store(l.position.Ordinal) // what the progress row says
	l.meets.through.Store(l.position.Ordinal)
	l.applier.Passed.Ending(l.position.Ordinal, 1)
	l.applier.Passed.Ended(true)
	openReplay(l, conn)
	l.retention = core.NewRetention(retentionOf(l))
	from, err := l.retention.StartAt(saved, &l.position)
	if err != nil {
		return &failure.Fatal{Err: err}
	}
	if l.collector, err = collect.New(ctx, l.applier.Conn, l.tables.Load, l.config.Limits.WritesetBytes); err != nil {
		return err
	}
	if l.monitor, err = link.NewMonitor(ctx, conn); err != nil {
		return err
	}
	l.jobs = replay.NewJobs(jobsOf(l))
	l.detaches = replay.NewDetaches(l.jobs)
	l.tables.Store(l.applier.Tables)
	l.running.backends.Busy.Store(l.applier.Conn.PID())
	if err := l.advisory.Open(ctx, conn); err != nil {
		return err
	}
	if err := l.notices.Open(ctx, noticesOf(l)); err != nil {
		return err
	}
	e, err := engine.New(engine.Options{
		Member: l.config.Member, Incarnation: l.incarnation, Position: l.position, Checkpoint: from,
		Order:         ordering.Options{Storage: l.disk},
		Certify:       certify.Options{KeysMax: l.config.Limits.CertifyKeys},
		GroupItemsMax: l.config.Limits.GroupItems, GroupBytesMax: l.config.Limits.GroupBytes,
		BatchItemsMax: l.config.Limits.BatchItems, BatchBytesMax: l.config.Limits.BatchBytes,
		PendingMax: l.config.Limits.PendingItems, QueueBytesMax: l.config.Limits.ApplyQueueBytes,
		KeptItemsMax: flow.Kept(l.config.Limits.FlowLag), KeptBytesMax: flow.Kept(l.config.Limits.FlowLagBytes),
	})
	if err != nil {
		return &failure.Fatal{Err: err}
	}
	l.audit = audit.New(auditOf(l))
	l.grants = grants.New(grantsOf(l))
	l.trials.dryRuns = replay.NewDryRuns(dryRunsOf(l))
	l.fence = l.seq.Add(1)
	l.core = core.New(coreOf(l, e))
	l.patience, l.words = patienceOf(l), wordsOf(l)
	l.shows, l.watcher = showOf(l), watcher.New(watcherOf(l))
	return nil
}

// coreOf is a replica as its core needs it.
func coreOf(l *life, e *engine.Engine) core.Options {
	return core.Options{
		Log: l.log, Metrics: &l.metrics, Engine: e, Disk: l.disk,
		Send:    func(to uint32, data []byte) bool { return l.sendFrame(to, frameRaft, data) },
		Aborted: l.aborted, Locked: l.advisory.Tell, Fronts: l.streaming.Tell, Moved: l.gate.Moved,
		Leave: l.peers.Leave, Reaches: l.reaches,
		Survey: func() (bool, []uint32) { return l.node.processors.Scarce(), l.sessions.Stuck(time.Now()) },
	}
}

// retentionOf is a replica as the retention of its log needs it.
func retentionOf(l *life) core.RetentionOptions {
	return core.RetentionOptions{Config: l.config, Log: l.log, Metrics: &l.metrics, Disk: l.disk,
		ConnString: l.connString, Keep: func() int64 { return l.settled().Limits.LogRetention },
		Ready: l.course.ready.Load}
}

// openReplay makes what carries out large transactions while they come in, and tries what leaves.
func openReplay(l *life, conn string) {
	l.streaming = replay.NewStreaming(replay.StreamingOptions{
		ConnString: conn, Config: l.config, Log: l.log, Ready: l.course.ready.Load, Tables: l.tables.Load,
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
	if l.applier != nil {
		l.applier.Close()
	}
	if l.streaming != nil {
		l.streaming.Close()
	}
	if l.monitor != nil {
		l.monitor.Close()
	}
	if l.advisory != nil {
		l.advisory.Close()
	}
	if l.audit != nil {
		l.audit.Close()
	}
	l.speakers.Close()
	l.notices.Close()
	if l.disk != nil {
		errs = append(errs, l.disk.Close())
	}
	return errors.Join(errs...)
}

func (l *life) runExecutor(ctx context.Context) error {
	if err := l.jobs.Resume(ctx); err != nil {
		return l.failed(ctx, nil, err)
	}
	for {
		over, down := l.jobs.Long() // never, unless there is a long definition
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			if err := l.jobs.End(ctx); err != nil {
				return l.failed(ctx, &engine.Group{Tasks: []engine.Task{l.jobs.Task()}}, err)
			}
		case err := <-down:
			return err
		case g := <-l.core.Groups():
			began := time.Now()
			if err := l.execute(ctx, g); err != nil {
				return l.failed(ctx, g, err)
			}
			l.rests.after(ctx, time.Since(began))
		}
	}
}

// fenced is called when this life's own fence is applied: everything committed before the
// start is in the database.
func (l *life) fenced(ctx context.Context, ordinal uint64) error {
	if l.position.Member != l.config.Member {
		if err := l.applier.Adopt(ctx, ordinal, l.config.Member); err != nil {
			return err
		}
		return errConverted
	}
	l.notices.Begin(ordinal)
	l.course.serves()
	l.log.Info("ready", "ordinal", ordinal, "incarnation", l.incarnation)
	return nil
}

// clean empties capture tables that are no longer in use.
func (l *life) clean(ctx context.Context) error {
	for process.Rest(ctx, cleanInterval) {
		if err := l.monitor.Clean(ctx); err != nil {
			return err
		}
	}
	return nil
}

const cleanInterval = 3 * time.Second

func (l *life) txid(seq uint64) writeset.TxID {
	return writeset.TxID{Member: l.config.Member, Incarnation: l.incarnation, Seq: seq}
}

// name is a member's name for messages.
func (l *life) name(member uint32) string { return l.config.Name(member) }
