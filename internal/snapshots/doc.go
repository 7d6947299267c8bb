// Package snapshots is how the sessions of a replica take snapshots: as a prefix of the order, as one that PostgreSQL
// finds safe, and in SERIALIZABLE transactions, of which the order knows that this member runs some (decision 0034).
//
// Neighbours: it is session.Snapshots of every session; the executor closes the gate (package admission), the engine
// says whether a transaction may be vouched for, and package guards ends who must lose.
//
// Start reading at Session.EnterSnapshot and Session.SerialAlone.
//
// Invariants:
//
//	SN1  A snapshot that promises a prefix is taken while the gate is open, and no group begins before it is taken.
//	SN2  A wait for a safe snapshot holds no group up: it is broken off, and begins again behind the group.
//	SN3  A SERIALIZABLE transaction begins only while the order knows that this member runs some, and everything up to
//	     there is applied. The order is told that there are none only when none was open for a while.
//	SN4  While a transaction is alone, no other SERIALIZABLE one of this member has its backend do anything. One at
//	     most is alone, or wants to be, and one that would not win by it never is.
//	SN5  If the rows of a transaction that was alone come from the log, the database has forgotten who had read what
//	     they change: whatever SERIALIZABLE is open loses before anybody goes on.
package snapshots
