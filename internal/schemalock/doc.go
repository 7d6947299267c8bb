// Package schemalock says which schema locks a member has asked the others for, which of theirs it has granted, and
// which of its own transactions these block.
//
// A transaction that changes the schema runs at its member first, and loses to everything that others write to its
// tables meanwhile. So before it comes to a definition it has them hold back what they would write there (decision
// 0044). LOCK TABLE does the same.
//
// Neighbours: grants carries requests and answers between members, has sessions wait, and orders what passes.
//
// Time is in nanoseconds, and later than zero. A session goes by any value that can be compared.
//
// Invariants:
//
//	SL1  A member that has granted a lock lets no transaction of its own that has written to one of the tables pass
//	    until the lock is over, and what it was for is applied here (H1 of grants).
//	SL2  It grants one when all such that it let pass before are decided (H2 of grants).
//	SL3  Of two members that ask each other the one that has asked first comes first, by Lamport's clock, and who has
//	    a lock comes before who wants one.
//	SL4  Nobody is blocked for ever: a blocked transaction passes after a while, a lock of which nothing is heard is
//	    over, and one who has waited, or lost, passes before a lock that was asked for later.
//	SL5 Turns at rows (InTurn, decision 0104) are given in the order of Lamport's clock, each as it was asked for, and
//	    whatever somebody has already. So nobody waits in a circle who wants them in one order.
//
// What it does not do: decide what commits. No member's verdicts depend on it; what is lost is gone on without.
package schemalock
