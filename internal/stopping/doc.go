// Package stopping is how a node ends: by whom it is told to, what it does for its clients until then, and in which
// order.
//
// A node that is told to stop goes through this, and says 57P01 to every client that it had:
//
//	drain  New clients are refused with 57P03. The lead of every order is handed over. Sessions end as soon as no
//	       transaction is open in them: idle ones at once, others behind the answer to their COMMIT, ROLLBACK or
//	       statement.
//	now    After drain_timeout, or when it is told so, the sessions that are left are ended wherever they are. Where
//	       the log decides on a COMMIT, the session waits for that, for a while; then its client is told that the
//	       outcome is unknown (40003).
//	stay   If the others cannot go on without this one, which votes alone, and one of them is about to take its place,
//	       that is waited for, until drain_timeout is over.
//	end    The lives end, then PostgreSQL is stopped.
//
// Neighbours: node runs it, and is the House whose clients leave.
//
// Start reading at Stops.Run.
//
// Invariants:
//
//	ST1  New clients are refused before anybody is told to leave, and nobody is told to leave before the lead is
//	     handed over.
//	ST2  Nobody is ended whose transaction may end by itself within drain_timeout, unless the node is told to hurry.
//	ST3  The end waits for a COMMIT that the log decides on for DecideMax at most, and for who does not take his last
//	     words no longer than these may take.
//	ST4  Whatever the clients did, what they have left behind is settled, and the node ends.
//	ST5  A signal only ever hurries the end on: it is never taken back.
//	ST6  A node whose vote the others need stays until they have it, no longer than drain_timeout, and not if it is
//	     told to hurry.
package stopping
