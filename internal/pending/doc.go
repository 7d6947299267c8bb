// Package pending is what the sessions of a replica have submitted and wait for: transactions from their submission
// until their rows are in the database, definitions until they have run, and the group that the executor carries out
// with what is theirs in it.
//
// Neighbours: sessions submit and wait; the core brings what the log has decided; the executor releases a group's
// sessions, waits for their commits and tells what it has carried out; the watcher has sessions join the group.
//
// Start reading at Waiter, Waiters.Release and Group.
//
// Invariants:
//
//	PN1  A session is told one decision of its submission. What goes with the decision is set before it is told, and
//	     what goes with the outcome of the session's own COMMIT before that is.
//	PN2  A session that gives up leaves its submission behind until the log has decided, and its slot with it.
//	PN3  A wait for the order ends after commit_timeout_ms: with what was taken back, or with what is not known, and
//	     never while a large transaction still leaves.
//	PN4  Nobody is told of what another member, or another incarnation of this one, has submitted.
//	PN5  A group is there until the last of its sessions has been asked for; nobody joins it afterwards.
package pending
