// Package notices carries LISTEN and NOTIFY over the members: which sessions listen to what, what they notify, and what
// they are told of it.
//
//	channels   who listens to what; the members' sets are replicated, and kept in tutti.listening
//	listener   hears what local sessions notify on channels to which other members' sessions listen
//	outbox     holds that until it is put into the order
//	publisher  tells local sessions what other members' sessions notified
//
// Neighbours: node runs its goroutines and hands it the listen and notify items of the order when everything before
// them is in the database.
//
// Invariants:
//
//	NT1  A notification is told to local sessions once everything ordered before it is applied; those of this member's
//	     own sessions never (PostgreSQL does).
//	NT2  A member's set of channels changes in the order alone: an announcement is carried out before anything ordered
//	     after it.
//	NT3  The listener never waits for the order, for which the executor waits.
//	NT4  What does not fit a queue is dropped and counted before it is ordered, not waited for; behind that it is
//	    waited for.
//
// What it does not do: decide when a session is told that it listens (session).
package notices
