// Package forced is tutti recover --force: a member goes on alone after the others, a majority, are lost for good.
//
//	Run  looks whether another member answers, makes this one the only voter of each of its logs, and marks the
//	     data directory
//
// Neighbours: ordering says what makes a log one of a single voter (Force); standing opens logs. A node that finds the
// mark (config.Forced) goes by a list of members with nobody but itself, and has the order remove the others (node).
//
// Invariants:
//
//	FO1  All of a log counts as decided: nothing that this member has on its disk is lost, and what a client was told
//	     is on the disks of a majority, perhaps on this one.
//	FO2  Nothing is changed while another member answers, or the node runs.
//	FO3  The mark comes first. What is interrupted is done again; a node that is started in between has no leader.
//	FO4  Members that were lost are refused from the first moment, by their numbers, which nobody gets again. They
//	     cannot follow: their logs may hold what this one lacks.
//
// What it does not do: find the member with the longest log, which an operator does with --dry-run at each; save what
// only others have.
package forced
