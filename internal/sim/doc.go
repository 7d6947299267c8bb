// Package sim runs a whole cluster from one seed: the production engine (with its ordering and certifier) and the
// production row cache at every member, production sessions (package session) for some of the clients, and production
// schema locks and turns (package grants, with schemalock and intent) in some of the runs. Around them are a simulated
// network, disk, clock, database, and clients. One goroutine runs at a time: what waits is a coroutine, which hands
// over where it waits (coroutine.go).
//
// Neighbours: engine, rowcache, session, grants and admission are what is tested; check judges the histories. Where
// members come and go, membership, replacement and bootstrap decide. cmd/tutti calls Main. Everything else here is a
// model: member plays internal/node, database plays PostgreSQL.
//
// There are two kinds of clients. A caller (caller.go) sends frames to a production session (served.go, host.go), whose
// backend (backend.go, owned.go, statement.go) plays a PostgreSQL process, and whose collector (collector.go,
// rewritten.go) plays internal/collect. A client (client.go) has a model of a session (session.go), and does what
// callers do not: foreign keys, unique values, row locks, definitions. Production sessions have no definitions,
// channels, advisory locks, procedures or sequences here (hostOf). In a third of the runs there are definers as well
// (definers.go): clients that define tables in a block, or lock them for all members. All sessions of such a run pass
// schema locks, and definitions take turns, in threads of their own (thread.go) by a clock that runs ten times as fast
// as a node's.
//
// Bugs that are planted in production code and in models, and must be found, are listed in planted_on_test.go.
//
// What the model takes seriously:
//
//   - network: delay, loss, duplication, reordering, partitions in four shapes
//   - disk: a crash loses an unsynced suffix of the raft log, perhaps tears a write
//   - database: row versions, row locks in PostgreSQL's strengths with waiting and deadlocks,
//     READ COMMITTED re-reads and REPEATABLE READ failures, unique and foreign keys; commits
//     become visible in another order than logged, and a crash loses a suffix of the log
//   - faults: node, database and machine crashes, backends that die at any moment; a member's disk that
//     is lost (lostdisk.go)
//
// Invariants of a run, each checked while it happens or at its end:
//
//	S1  Every member's groups show the same transaction at the same ordinal.
//	S2  Each ordered change replaces exactly the row version its origin saw (no lost
//	    update), keeps unique values unique and children with their parents. A blind one makes the same of its row at every
//	    member, or finds none at any, and that is what its session is told.
//	S3  No transaction is ordered twice; what was acknowledged is ordered; what failed is not.
//	S4  Whenever a group is done and there are no holes, the database is the prefix of the
//	    order up to Applied, whatever was lost and applied again before.
//	S5  Histories satisfy check's judges: snapshots are prefixes, list-append has no anomaly.
//	S6  After the faults end every member commits again, and all become equal.
//	S7  What a member notifies is heard at every other member that serves, in order and once, and not before
//	    what it speaks of is in the database there. It is passed on if a session of another member listens whose
//	    LISTEN is applied here; when all is quiet, all know who listens, and nobody else.
//	S9  What a node knows of rows (package rowcache) is so: a row that is known to be there is, when a group is done; a
//	    row that was not found is not tried blindly again for a while; and a value that was found between groups is the row's.
//	S10 What a member takes another to have applied is applied there, if it has heard of that one's present
//	    life. Nobody is alive to a member that has heard nothing of it for long. What it takes all to have
//	    applied, each has told, those that are away as well.
//	S11 No session gives up its wait for the log before its patience is over, or when what it waits for is
//	    decided. None waits for longer, unless its transaction still leaves, or may be decided.
//	S12 A member is lost only if it lacks more of the log than is kept for it.
//	S13 A member is good for writes only while it has heard lately of a majority; good for reads with a bound only
//	    while it is, as far as it has heard, no further behind.
//	S14 What a caller was told of a transaction is what the order has made of it, statement by statement, and what it
//	    was shown of its own changes is what they were. It is told of no error that may not be (told.go).
//	S15 A member lets no transaction pass that has written to a table of a schema lock which it has granted, until
//	    that is over and applied, or nothing was heard of it for long, or the transaction has waited for long. It grants
//	    one when what it let pass before is decided. A session that has one has seen what the others had ordered when
//	    they granted it; no session of another member has one of the same table, as far as either was granted by the
//	    other's present life. When all is quiet, nothing blocks anybody.
//	S16 Sessions of a member that define something do so one after the other, and have seen what was ordered; nobody
//	    goes on without his turn when nothing is faulty, nor because the one whose turn it is waits for him.
//	S17 A member slows its clients (package admission's throttle) by no more than it may, and because of nobody of whom
//	    it has heard nothing for long; it slows them by all of that while a majority lags far behind, as far as it has
//	    heard; not because of a member that is far too slow while a majority of those who vote is within the limit. No
//	    session is slowed for longer than that at once. When all is applied nobody is slowed.
//	S18 All members have the same configuration, who votes, behind an entry of the log, whatever they start from. A
//	    majority of those who vote, once it is healed, commits (S6).
//	S19 Who decides alone (voting.go, where one copy is enough) is given nothing that another member lacks which has
//	    what was given before, unless that was silent for long; and no other one what its disk lacks.
//	S20 Where members come and go by the order (joins.go): all have the same list of members behind an ordinal. Each
//	    two configurations that follow each other have a member in common of any majorities. A number has one vote in
//	    a term. Who comes to vote has a log, and who begins to serve has all that was acknowledged before it started.
//	    As many vote as make the copies wanted a majority; who is replaced while it is there does not vote any more
//	    when it is removed. Of who was dropped nothing is ordered that began afterwards. What an operator has begun
//	    ends when all are well.
//	S8  No two sessions are inside a conflicting advisory lock at once, as far as their clients can know, and all
//	    members know the same of locks. A session that is gone keeps nobody out for ever.
//
// Rules for internal/node that the model obeys and runs without which fail:
//
//	N1  Before the Position is read, every backend of an earlier life has ended.
//	N2  No session works before a fence of the new incarnation is applied: until then items
//	    of the earlier life may still come, and reused slots would hide them.
//	N3  Within an incarnation a slot is not used again after its session was orphaned.
//	N4  Early commits are awaited before the running group is done.
//	N5  A clone of another member's database serves no session. Once a fence of the new
//	    incarnation is applied, one transaction clears the marks, sets the floor to the
//	    fence's ordinal and takes the database over; then the engine starts anew, because
//	    Position.Member holds for its whole life.
//	N6  The gate for prefix snapshots may open in Ready itself, which passes aborted ordinals
//	    without a group; whoever waits must be asked again after every Ready.
//	N7  When a certified local transaction turns out not to be committed, its rows are
//	    applied with their mark before its group is done (engine E7 makes that safe).
//	N8  While the engine's queue is full, a submitted transaction that blocks the applier is ended like
//	    one whose backend died: its verdict waits behind what it blocks.
//
//	N9  A checkpoint is stored once everything up to its ordinal is in the database. It is durable only
//	    together with all that, and before a life can read it: who starts from it lets the log before it go.
//	N10 The log is compacted up to a checkpoint that is durable, no further.
//	N11 A member that is Lost ends. A clone's checkpoint that lies beyond its log restarts the log.
//
//	N12 A session's locks are its own while the member's last item that was ordered had been proposed less than
//	    half a lease ago. The others propose to expire it a whole lease after they took in what came last.
//
//	N13 Up to where a blind transaction's member knows definitions (its base) is noted before its writeset is made. It has no mark: it is
//	    in the database if the progress record says so.
//
// What it does not do: definers, one copy and witnesses beside members that come and go by the order.
package sim
