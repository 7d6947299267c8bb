// Package donor gives a member a copy of another one's database, through the members' own port: at its first start, if
// the configuration names the donor, and by itself when the others no longer keep the part of the log that it lacks.
//
// Neighbours: node has a Borrower fill the data directory while no server runs there, and lets a Lender judge the calls
// that come; transport carries the call, instance copies (Clone, Replace, Lend).
//
// Invariants:
//
//	DO1  Lent is only a database that is synced and not halted, in all databases; or one in whose order nobody
//	     leads: who asks may be needed for that. To a member that starts for the first time it may also be one that
//	     no order has touched yet: its cluster begins with it. Nobody who has a database gets that for it.
//	DO2  A member borrows from who does not lead, if it can: a backup is work.
//	DO3  The database that was there stays until the copy is complete and durable. The log stays in any case, with
//	     votes and terms: nothing of it is undone.
//	DO4  Borrowing goes on until somebody lends, or it cannot succeed on this machine; why not is told. What has
//	     failed half way, or was of no use, is done again after longer and longer rests. A donor from which nothing
//	     comes any more is given up, and asked last from then on.
//	DO5  While a copy is taken, and until its member has begun from it, the others keep the log behind it
//	     (replica.Loan).
//
// What it does not do: decide when a copy is needed (ordering, node), or where the order goes on behind it
// (core.Retention, from the copy's checkpoint).
package donor
