// Package engine is one member's replicated state machine: ordering, certification and
// the apply schedule as ONE deterministic machine without IO, clock or goroutines.
//
// Neighbours: node (or the simulator) feeds it ticks, member messages, submitted
// transactions and finished groups, and carries out what Ready returns. It uses ordering
// for the log, certify for verdicts and writeset for the value they share.
//
// It has three rooms, each a value with its own fields, and Engine, which hands on between them:
//
//	submissions  submit.go, batch.go, window.go, ownkeys.go, held.go, commits.go: this member's own transactions
//	schedule     schedule.go, underway.go, kept.go: groups on their way into the database
//	replicated   replicated.go, parts.go, advisory.go, serial.go, checkpoint.go: what the log says
//
// What they share: item.go (the codec of what is ordered), submission.go and own.go (what is handed in), ready.go
// (what is handed out), unblock.go, group.go, position.go (what the database holds), shun.go, groupcommit.go (how
// much waits for more), keys.go.
//
// To add a kind of item: item.go, what it decides to replicated.go, whether it is a group of its own to ready.go
// (alone), whether it waits for own transactions to submission.go (passes); node carries it out
// (executor.executeAlone). It may be ordered only at a level of the cluster at which all members understand it (package
// bootstrap): a member of a build that does not know it ends there (E19).
//
// Submissions read the schedule and the replicated state, the schedule reads the replicated state, and that
// reads nothing.
//
// Life of a submission:
//
//	Submit → waiting (conflicts with an own transaction under way)
//	       → pending → batch proposed → delivered, gets its ordinal
//	       → verdict: abort  → Ready.Aborted at once
//	                 commit → queued → part of a Group → GroupDone
//
// Invariants, each with where it is kept:
//
//	E1  Ordinals are gap-free and equal at all members: one per delivered item, committed
//	    or not. Duplicate and out-of-sequence batches take none. (replicated.place)
//	E2  Per member, batches are taken in the order of their numbers within an incarnation, and
//	    incarnations only grow; so each submission is ordered at most once. One that has lost may be handed in again
//	    under its sequence. (replicated.accept)
//	E3  A verdict is a function of the log alone. Whether the origin still waits for it,
//	    or its backend died, changes only who applies the rows. (replicated.verdict)
//	E4  Groups are disjoint, consecutive, and one at a time: the next is issued after GroupDone. Applied
//	    is the last ordinal of the last finished group. (schedule.next, schedule.finish)
//	E5  A transaction is submitted with a base taken after its own member's conflicting
//	    predecessors are in the database (certify C2). (submissions.admit, ownKeys.clear)
//	E6  An entry the database already holds is certified again but not applied. (Position.holds)
//	E7  No group holds an item to apply that has seen one of the group's local ones. If a local commit fails after
//	    all, its rows are applied in its place, and nothing that builds on them can have overtaken it. (schedule.cut)
//	E8  A READ COMMITTED transaction that lost its row locks before it was proposed (its backend died, unnoticed)
//	    loses: it has not seen what others' transactions did to its rows beyond Held, nor own ones that collected
//	    after it did (Order). So it is with the rows that one with a snapshot makes, and refers to: these PostgreSQL
//	    compares with the newest data. Names that its definitions have searched for it does not lock, and has seen
//	    those of its base. (submissions.base, submissions.lockBase)
//	E9  What is delivered and not issued stays below QueueBytesMax, one delivery excepted. Pausing
//	    delivery delays verdicts and changes none. (schedule.weigh)
//	E10 A Checkpoint is a function of the log up to its index, and the log behind it alone decides what follows. An
//	    engine starts from one only if everything up to its ordinal is in the database for good; the log is compacted
//	    only up to one from which it can start. (replicated.checkpoint, replicated.restore, Checkpoint.Fit)
//	E11 Who holds which advisory lock is a function of the log (package locks). A transaction commits only if the
//	    locks that its session held were not taken from its member before it. (replicated.lockItem,
//	    replicated.unlocked)
//	E12 What a SERIALIZABLE transaction has read is compared from a later base on only if no other member has run such
//	    transactions since its snapshot, and all who have written to that meanwhile were of this life and committed by
//	    their own sessions, before any such transaction that was ordered later. (submissions.readBase,
//	    replicated.alone)
//	E13 Of a member's payloads one at a time is on its way in parts; the item of its transaction ends it, with its
//	    rest. Items of that member's other transactions may come between, but no definition does, and what conflicts
//	    with it waits (E5). Its base is taken with its end, so what has passed it is before it in every respect.
//	    (submissions.eachDue, own.passes, source.ends)
//	E14 A transaction that conflicts with what is delivered when it is under way loses, wherever it will be in the
//	    order: what is remembered of a winner is forgotten only for a floor below which everything loses.
//	    (submissions.foretell)
//	E15 What a transaction adds to (writeset.OpAdd) it has not locked. It loses unless nobody has changed that
//	    otherwise since its origin knew the rows (Submission.AddBases), and unless that was at most certify.AddedMax
//	    ordinals before. (submissions.checkAdded)
//	E16 A blind transaction (writeset.OpSet) is applied by everybody's executor, its own member's too, and covered by
//	    the position's Ordinal there. It is never in a group with a local transaction that has changed one of its rows
//	    before it. (Position.holds, underway.meets)
//	E17 What a member proposes that does not get the log any more is left out, and what it had ends there: parts of a
//	    payload, SERIALIZABLE transactions. Its advisory locks end with its lease. (replicated.configure, accept)
//	E18 What the database holds is ordered before anything else of this life. A member that alone gets the log, whose
//	    end was lost, has its first fence take the ordinals that are missing, so that nothing new has one of them;
//	    where others get it, it ends. (again)
//	E19 What this build does not understand, an item, a version of a codec, has no verdict here. Nothing behind it is
//	    handed out, no group that holds it is issued, and no checkpoint holds it. (Unread, replicated.notUnderstood)
//
// What it does not do: IO, retries of aborted transactions, knowledge of SQL.
package engine
