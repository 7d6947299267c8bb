// Package witness runs a member without a database: it votes and keeps the log of every database's order, so that of
// two members with a database either may be lost.
//
// Neighbours: the other members talk to it as to each other (transport, standing); core.Keeper is an order without an
// engine, and ordering makes it a witness's (O12). What a member reads of its own database, who the members are and
// which databases there are, it asks the others for (standing.AskList).
//
// Start reading at Witness.Run.
//
// Invariants:
//
//	W1  It has a log of each order in which it is asked to vote, made when the first word about it comes, and noted
//	    before it votes in it.
//	W2  A log goes when all members with a database have said that there is no such database any more: one that is
//	    away may need it, and one that errs is not believed alone.
//	W3  If it has lost its logs it is readmitted, as any member is (package bootstrap).
//	W4  It ends when something fails, and when it was removed and the others go on without it.
//
// What it does not do: lead, serve clients, decide who votes.
package witness
