// Package forced is what is done with the logs of a node that does not run. With tutti recover --force a member goes
// on alone after the others, a majority, are lost for good; tutti log export prints what only another one has.
//
//	Run     looks whether another member answers, notes that the others are lost, and makes this one the only voter
//	        of each of its logs
//	Export  prints what logs commit behind the place where another member's part from them
//
// Neighbours: ordering says what makes a log one of a single voter (Force); standing opens logs. A node leaves those
// that are lost out of every list (config.Lost), and has the order remove them (membership.Lost).
//
// Invariants:
//
//	FO1  All of a log counts as decided: nothing that this member has on its disk is lost, and what a client was told
//	     is on the disks of a majority, perhaps on this one.
//	FO2  Nothing is changed while another member answers, or cannot be asked, or while the node runs.
//	FO3  What the others are comes first. What is interrupted is done again; in between a database whose log is as
//	     before has no leader.
//	FO4  Members that were lost are refused from the first moment, by their numbers, which nobody gets again. They
//	     cannot follow: their logs may hold what this one lacks.
//	FO5  A database that is further than its log, of which a power cut has taken more, stays as it is: what is ordered
//	     next comes behind it (engine, E18).
//
//	FO6  Export changes nothing of a log or a database.
//
// What it does not do: find the member with the longest log, which an operator does without --force at each; carry out
// anywhere what only others have.
package forced
