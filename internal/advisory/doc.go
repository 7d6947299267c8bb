// Package advisory carries advisory locks over the members: it answers the functions that take them at this member's
// PostgreSQL, and asks the cluster.
//
//	locks    what one replica does: its sessions, its lease, who waits for whom
//	session  what one session has of advisory locks, whichever of its processes have taken them
//	asker    answers one process that asks; its goroutine carries out one command at a time
//
// Neighbours: locks decides from the order who holds what; session passes on what the functions ask; the Keeper of
// database/link holds the answers that they read; node gives the replica, and tells what the engine says.
//
// Invariants:
//
//	AL1  A function is told that it has a lock when the grant, and everything ordered before it, is applied here.
//	AL2  A session whose locks the cluster may give to others is ended before that: this member counts half a lease
//	    from
//	     the last item of which it knows that it was ordered, the others count a whole one.
//	AL3  What a session does not hold at PostgreSQL any more is given back in the order.
//	AL4  Of one lock a session has one request under way at most.
//
// What it does not do: find deadlocks (locks), or decide who is dead (the order: Expire).
package advisory
