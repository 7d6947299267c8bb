// Package membership keeps the list of the cluster's members, and what holds for the whole cluster, and carries out
// what is ordered about them.
//
// A cluster begins with the members of the configuration. From the first change on the list is a table of the main
// database, tutti.member, and the configuration only says where to look for the others before that is read. Who votes
// is another matter: each database's leader has the order's configuration follow the list (packages quorum, engine).
//
// Neighbours: node's executor calls Carry for a definition of the main database, and tells the rest of the node of the
// list that comes of it; Read gives a node its list when it starts.
//
// Start reading at change.next.
//
// Invariants:
//
//	MB1  The list is a function of the main database's order: the first change brings the list of the configuration
//	     with it, as its member had it. It is changed in one transaction with the progress row.
//	MB2  A number is that of one member for ever. A machine may change (MovesMember): whoever comes under a number
//	     that was used has no log, and is readmitted as who has lost his (package bootstrap).
//	MB3  With whom the cluster began stays known: they vote at first in each order of which nothing else is said.
//	MB4  What is refused is refused alike at all members, by the tables alone, and the progress goes on. What a member
//	     has heard of others decides only what it orders (node).
//	MB5  The list always has a member that has a database and is to vote.
package membership
