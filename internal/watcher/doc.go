// Package watcher is how the executor gets what it waits for: it finds the backends that hold locks which the executor,
// or a definition that goes on beside it, needs, and has their transactions lose, join the group, or end (N4).
//
// Neighbours: the executor publishes its group (package pending); the local PostgreSQL says who blocks whom; a session
// is told by its guard (package guards), and what the log decides about it is asked of the engine.
//
// Start reading at Watcher.Unblock.
//
// Invariants:
//
//	WT1  Nobody is looked for before the executor has waited for BlockedAfter, or a chore (link.Monitor) for long; and
//	     while a group goes on somebody looks again and again.
//	WT2  A session's transaction that the log does not decide on yet loses. Its backend ends only if it does not let
//	     go for long.
//	WT3  A transaction that the log decides on is withdrawn, joins the group, or is left alone (engine.Unblock). Its
//	     backend ends only if the group could never end otherwise.
//	WT4  The member's own work gives way to itself without anybody losing: large transactions that are executed while
//	     they come in, detachments, an index that is built CONCURRENTLY. The executor and its definer never end each
//	     other.
//	WT5  A backend that is no session of this member's is ended, but not before it was in the way for a while. A
//	     session of another database that its order does not decide on yet loses, as in WT2.
//	WT6  Who is in the way of somebody who is in the way is dealt with only if that one does not let go.
//	WT7  Who rebuilds a catalog (VACUUM FULL, CLUSTER, REINDEX) is not cancelled in the middle of it if that does not
//	     take long: a session in which PostgreSQL has rolled back a VACUUM FULL of pg_class may find the files of
//	     that class no longer.
package watcher
