// Package outcome is what a session is told of a transaction, or a definition, that did not come through, and of what
// causes a replica counts that.
//
// Neighbours: certify gives the verdicts, the executor's group is what stood in the way, and node hands what is said
// here to the session that waits. Package advisory words locks that are lost, replay a cancelled statement.
//
// Start reading at Words.Lost.
//
// Invariants:
//
//	OC1  Code 40001 is told only if nothing of the transaction is committed, and it may succeed if it is run again. It
//	     names the table, the key and the winner, as far as they are known.
//	OC2  Code 40003 is told if the log may have the transaction, and names it. It ends the session, but after a
//	     definition.
//	OC3  Codes 57P03 and 53400 are told if nothing was proposed.
//	OC4  Code 0A000 is told of what another member could not carry out, with that member's name and words.
//	OC5  A transaction that has lost is counted once, by table and cause; a table that stands for another one's locks
//	     counts as that one's.
package outcome
