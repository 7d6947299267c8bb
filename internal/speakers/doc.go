// Package speakers is how sessions speak with transactions that their procedures commit: from outside, over
// connections of their own, while their backends wait inside of the procedure.
//
// Neighbours: package session leads a conversation by session.Procedures, of which node adds what the order has to do
// with it; package capture has the SQL that both sides of a conversation speak.
//
// Start reading at Talk.Say.
//
// Invariants:
//
//	SP1  At most Max conversations of a database go on at a time; more wait. A connection has one at a time.
//	SP2  Before a transaction is said to go on, something else holds up what it does next; so it never runs ahead of
//	     who speaks with it.
//	SP3  Leave ends a conversation however far it has come: nothing that was said is left, no backend waits, and no
//	     procedure is held up. If that cannot be said, the connection is closed, and its locks are gone with it.
//	SP4  The procedure's next transaction is held up before the one that commits may go on. With an error it is not
//	     known whether that one has committed.
//	SP5  A connection that nobody uses for Idle is closed.
package speakers
