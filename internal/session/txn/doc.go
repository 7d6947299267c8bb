// Package txn is the state of one client's transaction as a declared machine: which block the client is in, how far the
// backend's transaction is, and why it is lost if it is.
//
// Neighbours: session asks it before each statement and tells it what has happened. The package sends and reads
// nothing.
//
//	Idle      no block; the backend has no transaction
//	Buffering a block has begun; the backend does not know of it, or has ended a part of it
//	Blind     what was put off is with the order; the backend has no part in it
//	Opening   BEGIN was sent, its answer is unread
//	Untouched it was opened ahead of the first statement, and nothing has run in it
//	Open      statements run; each has a snapshot of its own, or the one is yet to be taken
//	Snapshot  its one snapshot is taken
//	Collected what it has written was collected; it cannot write until it is opened again
//	Submitted the log decides
//	Committing the log has decided; the backend commits
//	Failed    the block has failed, and so has the backend's transaction, which stays for its savepoints
//	Lost      the block has failed, and the backend has no transaction any more
//	Doomed    the backend's transaction was rolled back under the client, who is yet to be told
//	Retrying  it is done again from its first statement, see session's redo
//
// A statement outside of a block has the same states from Opening on, with no block around it.
//
// Invariants:
//
//	X1  A state changes only as the table of moves allows. What breaks it panics where Strict is set (tests, the
//	    simulator); otherwise it is kept, see Broken, and the session ends when its step is over: a transaction that
//	    the log has decided is still committed.
//	X2  Open is true exactly while the backend may have a transaction of ours.
//	X3  What was collected does not outlive the state Collected: every other statement, and every failure, leaves it.
//	X4  A reason to roll back (Reason) is kept until the client was told or the transaction has ended.
//
// What it does not do: decide what a statement is, how it runs, or what the client is told.
package txn
