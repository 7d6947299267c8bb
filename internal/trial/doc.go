// Package trial says why a transaction of a session's is not handed to the order: other members could not store its
// rows, or could not carry it out, as far as that can be told before it is ordered.
//
// Neighbours: node asks it for each submission; catalog knows the tables, replay tries values here and has another
// member try the whole transaction; a session's turn among those that define something is of package grants.
//
// Start reading at Refused.
//
// Invariants:
//
//	TR1  What no other member could read is refused. Behind definitions the tables may be others than those the rows
//	     were written to, so there it is refused only if another member has refused the transaction, too.
//	TR2  Another member tries what has definitions, what stores rows by code of clients, and what names objects that
//	     only this member may have. Nothing else is held up by that.
//	TR3  A transaction with definitions takes its turn before it is ordered. What another member could not do because
//	     of what was ordered meanwhile is tried once more in that turn, and so is what it could do if others have
//	     defined something since it was asked.
//	TR4  What another member has refused while it was ahead is told as a conflict if the transaction loses to what
//	     that member has seen, and is tried again then.
//	TR5  While it is tried, the client may cancel it, and it may lose. A member that does not answer refuses nothing.
package trial
