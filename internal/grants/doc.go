// Package grants has the sessions of one database at one member wait for those that define something, or lock a table
// for all members:
//
//	locks  a session has the other members keep what they have written to its tables out of the order, until its
//	       transaction ends (schema locks, decision 0044); and a transaction that is about to be ordered waits for
//	       the schema locks of other members
//	rows   a block of a session waits for those of other members at rows by which blocks lose (decision 0104)
//	turns  those of a member's sessions that define something do so one after the other (decision 0075)
//
// Neighbours: node gives it what comes in, and sends what it says; package schemalock decides about locks and package
// intent about turns, with the time as an argument. A session goes by a Session, which its goroutine alone calls.
//
// Start reading at Session.Hold, Session.Pass and Turns.Define.
//
// A transaction that changes the schema runs at its member first, and loses to everything that others write to its
// tables meanwhile. So before it comes to a definition it asks for a schema lock:
//
//	H1  A member that has granted one lets no transaction of its own that has written to one of the tables be
//	    handed to the order until the lock is over.
//	H2  It grants one when all such that it let pass before are decided, and tells up to where it knows the order.
//	H3  The definition runs when that is applied at its member. Its sessions keep each other out as in PostgreSQL.
//	H4  A word that is lost is said again. Who can be heard no longer is not waited for, and what takes too long is
//	    gone on without: LOCK TABLE, and limits of the client, excepted.
//	H5  Who waits for a lock to be over stops at once when its transaction has lost, its client cancels that, or the
//	    client's limits have come. Who has lost to a lock passes before the next one.
//
// Blocks at READ COMMITTED take turns at rows that are contended: by which several have lost lately, or for which
// another member has asked.
//
//	RT1  Of sessions that ask, those of one member at a time have their turn at a row, from before the statement that
//	     names it until their transactions end.
//	RT2  Who has its turn runs the statement when all is applied at its member that was ordered for who had it before.
//	RT3  Who waits stops as in H5, and goes on without after flow.WaitRow, with the turns that it has.
//
// Two transactions with definitions that commit at the same time lose to each other, and one loses to a definition that
// is ordered before it and that it has not seen:
//
//	TU1  A transaction has intent.Own from before it is submitted until it has ended; a definition that runs at its
//	     place in the order has intent.Ordered until it has run here.
//	TU2  With its turn, a transaction waits until all is applied that is ordered, for a while.
//	TU3  Who waits stops as in H5, and goes on without its turn after flow.WaitDefiner, or if it waits in a circle:
//	     PostgreSQL has the one whose turn it is wait for a lock of somebody who waits for that turn.
//	TU4  A transaction has intent.Stays from its first write until it ends. A definition to which all lose that are
//	     open has intent.Bars until it has run here, so that they end first. One waits for the other for
//	     flow.WaitBlocks at most, and nobody waits for a transaction whose client has been silent for two seconds, or
//	     in which nothing has happened for five, unless it waits for its turn or has it; nor for one that waits in
//	     PostgreSQL for a lock of who waits for it. A statement outside of blocks that is done again if it loses is
//	     waited for for three seconds in which nothing happens, and waits for a second while a definition waits.
//	TU5  VACUUM and its like, outside of transactions, that was in the way of what is applied has intent.Maintains,
//	     intent.Bars and intent.Own while it is run again. A definition outside of blocks that runs in its session's
//	     backend has intent.Defines from before that, as it has locks on catalogs when it comes to its turn.
//
// The wait of TU4 is bounded so because circles may go through it that nobody sees: through locks in PostgreSQL of
// sessions without intents, and through schema locks, with another member's definitions that wait for transactions
// there. In a circle nothing happens.
//
// No member's decisions depend on any of it: who goes on without may lose, which certification decides.
package grants
