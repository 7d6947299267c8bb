package executor

import (
	"context"
	"log/slog"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/deferred"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/halt"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/pending"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Options are what a replica's executor needs of it.
type Options struct {
	Log   *slog.Logger
	Waits *metrics.Waits
	// ID is the transaction of this life with a sequence; Fence is the sequence of its first fence.
	ID    func(seq uint64) writeset.TxID
	Fence uint64
	// Copied: the database came as a copy of another member's, and is not this member's own yet.
	Copied bool

	Groups  <-chan *engine.Group
	Order   Order
	Course  Course
	Gate    *admission.Gate
	Rows    *deferred.Rows
	Waiters *pending.Waiters
	Group   *pending.Group

	Database Database
	Trial    halt.Database // finds the row that cannot be applied
	Ahead    Ahead
	Jobs     Jobs
	Detaches Detaches
	Notices  Notices
	Meetings Meetings

	// Answer tells the session that waits for a definition, if it is one of this member's.
	Answer func(*engine.Task, session.Result)
	// Check compares the tables at this point of the order.
	Check func(context.Context, engine.Task) error
	// Databases carries out what a task's definition does to the list of databases.
	Databases func(ctx context.Context, last uint64, t engine.Task, d session.Definition) (session.Result, error)
	// Members carries out what one does to the list of members, or to what holds for the whole cluster.
	Members func(ctx context.Context, last uint64, t engine.Task, d session.Definition) (session.Result, error)
	// Tell tells a member how far this one is.
	Tell func(member uint32) error
	// Rest rests after a group that took so long.
	Rest func(ctx context.Context, took time.Duration)
}

// Order is the engine, as the executor tells it what it has done. False says that it has stopped.
type Order interface {
	// Done says that the group is done, what its sessions have added to rows, and opens the gate. It waits for the
	// engine if it is to.
	Done(added []Added, wait bool) bool
	// Orphan says that nobody waits for a submission any more.
	Orphan(seq uint64) bool
}

// Added is that a transaction has added to rows, in the order that the local database has given it (engine.Added).
type Added struct{ Seq, Order uint64 }

// Course is how far the replica has come.
type Course interface {
	// Serves says that everything is applied that was committed before the replica began, and Serving whether that
	// was said.
	Serves()
	Serving() bool
	// Adopted says that a copied database is this member's own now. It returns why the replica ends by that.
	Adopted(ctx context.Context) error
	// Halts says that an entry of the order cannot be carried out.
	Halts(*peers.Halt)
}

// Database is the local PostgreSQL, where groups are carried out (replay.Applier).
type Database interface {
	// Apply applies rows with the progress.
	Apply(ctx context.Context, last uint64, tasks []engine.Task) (Found, error)
	// Changed reads tables anew that a session's transaction has defined. Described passes on what is known of tables;
	// after Unlearn nothing counts that sessions have found out by that.
	Changed(ctx context.Context, ws *writeset.Writeset) error
	Described()
	Unlearn()
	// Orphaned reports whether the rows of a session whose backend is gone, or is ended now, are not there.
	Orphaned(ctx context.Context, of *guards.Guard, t engine.Task) (bool, error)
	// Adopt makes a copied database this member's own.
	Adopt(ctx context.Context, ordinal uint64) error
}

// Found is what of blind transactions was there: rows that were missed, and transactions that have changed nothing.
type Found struct {
	Missed map[*writeset.Row]bool
	Void   map[*writeset.Writeset]bool
}

// Ahead is what executes large transactions while they come in (replay.Streaming).
type Ahead interface {
	// Commit commits what was executed, if the tasks are that.
	Commit(ctx context.Context, last uint64, tasks []engine.Task) (bool, error)
	GiveWay()
	GiveWayUnless(tasks []engine.Task)
}

// Jobs are the definitions (replay.Jobs).
type Jobs interface {
	Resume(ctx context.Context) error
	Long() (over <-chan struct{}, down <-chan error)
	Task() engine.Task
	End(ctx context.Context) error
	Beside(ctx context.Context, g *engine.Group, locals func() error) error
	BuildConcurrently(ctx context.Context, last uint64, t engine.Task, d session.Definition) error
	CarryOut(ctx context.Context, last uint64, t engine.Task, d *session.Definition) (session.Result, bool, error)
	Settled()
}

// Detaches are the two steps of a partition that is detached CONCURRENTLY (replay.Detaches).
type Detaches interface {
	Begin(ctx context.Context, last uint64, t engine.Task, d session.Definition) (session.Result, bool, error)
	End(ctx context.Context, last uint64, t engine.Task, d session.Definition) (session.Result, bool, error)
}

// Notices are what sessions notify, and listen to (notices.Notices).
type Notices interface {
	Begin(ordinal uint64)
	Listen(ctx context.Context, t engine.Task) (carried func(), err error)
	Notified(ctx context.Context, notes []engine.Task, serving bool) error
}

// Meetings are those of the databases of this member (package meetings).
type Meetings interface {
	Hold(ctx context.Context, number uint64) error
	Attend(ctx context.Context, number uint64) error
}
