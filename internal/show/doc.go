// Package show is what a member tells people in SQL of itself: SHOW tutti.*, and the file behind the views
// tutti.metrics and tutti.conflicts.
//
// Neighbours: it is session.Status of every session of a replica; the admin port lists the members by Replica.Status.
// What parts of a replica show of themselves they answer themselves, and are named as Part.
//
// Start reading at Replica.Show.
//
// Invariants:
//
//	SH1  An answer has the columns that were announced for it, in every row.
//	SH2  Every limit that an operator can reach has a row: its bound, its level now, and how often it was reached.
//	     What is unknown, or has no bound, is empty and never zero.
//	SH3  The file is written when a number has changed, and again after it could not be written.
//	SH4  Nothing here waits for another member.
package show
