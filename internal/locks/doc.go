// Package locks decides from the log alone who holds which advisory lock in the cluster.
//
// Neighbours: engine feeds it every lock item in the order of the log, at every member; node
// makes the requests and carries the events out for its own sessions.
//
// A lock is granted if it conflicts with nobody who holds it and nobody who waits for it; otherwise the
// session waits behind them, in the order of the log, as in PostgreSQL's lock manager
// (src/backend/storage/lmgr/proc.c). The processes of a session, its backend and parallel workers, are
// one here, as PostgreSQL's lock groups are: they never conflict, and may wait for several locks at once.
//
// Invariants:
//
//	L1  What Apply does and returns is a function of the requests before it.
//	L2  No two sessions hold conflicting modes of one key.
//	L3  Whoever waits has a reason: a holder or somebody before him in the queue conflicts with him.
//	    What goes away lets in whom nothing keeps any more, in the order of the queue.
//	L4  No circle of sessions waits for each other. Who would close one is told so, and does not wait. What
//	    members tell may be over, so a circle with some of that in it is opened when more is told, not before.
//	L5  A session that is gone holds nothing and waits for nothing: one that has left, all of a member's
//	    earlier incarnations once a new one is heard of, and all of a member that has expired.
//
// What it does not do: count how often a session has taken a lock (its PostgreSQL does), time, IO.
package locks
