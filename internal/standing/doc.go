// Package standing is what a member is and has when it starts: its logs, what its database holds and up to where, and
// what it and the other members know of each other.
//
//	standing  the handshakes of one tenure: facts of all members, and notes of them in the main database's log
//	contents  what a database holds that belongs to no log yet
//	database  installs what Tutti needs in a database, and reads its position
//	log       where the logs are, and the checkpoints in the databases
//
// Neighbours: bootstrap decides, node's tenure asks and carries out, transport brings the facts of others.
//
// Invariants:
//
//	ST1  What is heard of another member is on disk before this one talks to it (bootstrap).
//	ST2  A member that had a log makes none anew, under the same number and in any database: its votes are in it. One
//	     that has lost all of them begins others in terms in which it is readmitted (bootstrap, B6), in all
//	     databases that it may have voted in.
//	ST3  A database that belongs to another cluster is left alone.
//	ST4  A checkpoint is on disk when it counts as stored, with all that was committed before (K2 of core).
//
// What it does not do: decide who may begin (bootstrap), or open connections to other members.
package standing
