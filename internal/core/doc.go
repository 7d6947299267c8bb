// Package core runs the engine of one database at one member: one goroutine gives it what comes in, and carries out
// what it wants.
//
// Neighbours: node makes a core in each life and carries out the groups (Groups); engine says what is to be done;
// raftlog is the disk; replica decides how much of the log is kept (Retention), standing stores checkpoints in the
// database. What the core tells of and asks for is in Options, as functions, which must not wait.
//
// Start reading at Core.Run, and drainReady for what happens to what the engine wants.
//
// Invariants:
//
//	K1  Messages that vouch for the log leave only after the log is on disk.
//	K2  A checkpoint is stored in the local database once everything up to its ordinal is applied there, with a
//	    commit that is on disk; so whatever that database loses in a crash, it has all that its checkpoint stands for.
//	    The log is compacted up to that entry and no further.
//	K3  Only the core's goroutine touches the engine; others have it call them (Do, Call). Who waits for it waits
//	    for its end as well.
//	K4  One write of the log is under way at a time. Meanwhile the engine takes what comes in, so the next write
//	    serves all of it.
//	K5  A full inbox drops a frame, as raft sends again. Nothing else is dropped.
//	K6  A failed write of the log ends the core, and is said to have, also if raft panics about it first.
//	K7  A tick stands for 50 ms that have passed, however many are counted together, and a process that stood still
//	    has not waited: elections, and what is proposed again, are reckoned by ticks.
//
// An order goes on without an engine where there is no database (Keeper): that of a dropped one, and at a witness.
package core
