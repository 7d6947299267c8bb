// Package proto is what a client is told and when: frames of its backend that are passed on, held back until it is
// certain that their statement need not run again, or kept for the next ReadyForQuery.
//
// Neighbours: session reads the backend and says when a statement begins, runs again and ends. The package writes to
// the client's buffer, reads nothing, and knows no SQL.
//
// Invariants:
//
//	P1  While results are held back, the client is told of a statement only what another run of it repeats, or
//	    announces again: such frames are told once.
//	P2  What was told cannot be taken back: as soon as a result was (Spilled), the statement cannot run again.
//	P3  Frames keep their order, but for a NOTICE: it may leave before what announces results, with that ahead of it.
//	P4  What PostgreSQL tells just before ReadyForQuery is told there; a notification only where no block is open.
package proto
