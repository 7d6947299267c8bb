// Package databases carries out what is ordered about whole databases, and keeps what is left of dropped ones.
//
// The main database lists the others in tutti.database, under the ordinal at which each was created, or a number that
// is none if the cluster began with it (standing.FirstGroup). Each has a replica with an order of its own; a dropped
// one leaves its log, which other members may still need (package core, Retired).
//
// Neighbours: node's executor calls Carry for a definition of the main database, node starts and ends replicas as it
// says, and gives Retired what other members say about orders that are no longer here.
//
// Start reading at Carry and Retired.
//
// Invariants:
//
//	DB1  What a definition does to PostgreSQL cannot be in one transaction with the list. So the list says before
//	     what is begun (Creating, Dropping), and after it, with the progress row, what is done. Broken off in
//	     between, it is carried out again: a database that is half made is made anew.
//	DB2  A database has no replica while it is dropped or renamed. Its replica is started when the list says that it
//	     is open.
//	DB3  What PostgreSQL refuses alike at every member is the definition's result, and the progress goes on. What only
//	     this member cannot do is an error; who is connected is waited for.
//	DB4  The log of a dropped database is kept until every member has carried out its end, and then the list forgets
//	     the database, too.
//	DB5  Who votes at first on the order of a database that is created is said by the main order, up to its creation:
//	     by who votes there and by the list of members of that place. Nobody votes who is not on it.
package databases
