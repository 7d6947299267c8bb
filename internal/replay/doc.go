// Package replay carries out at the local PostgreSQL what the order says: the rows of other members' transactions,
// their definitions, and large transactions while they come in. It also tries, before a transaction is ordered, whether
// others could store what it has written.
//
//	applier    the executor's connection: rows of a group with the progress, in one database transaction
//	define     one definition with its origin's role and settings; steps: a transaction with definitions and rows
//	jobs       a definition that goes on beside what is ordered after it
//	streaming  a large transaction of another member, executed while it comes in; pace: how fast it leaves its member
//	sift       blind transactions whose rows were not there, found one by one
//	receive    values and rows that others might not take, tried here first
//
// Neighbours: node's executor calls it, one group at a time; apply makes the statements, catalog knows the tables,
// failure says what to try again.
//
// Invariants:
//
//	RP1  Rows, marks and the progress travel in one database transaction (N2 of node). What fails leaves nothing
//	    behind.
//	RP2  What streaming apply has executed is committed in its turn alone, with the progress, and only if no
//	    definition was
//	     carried out since it began (N8 of node).
//	RP3  A statement changes exactly as many rows as expected; any other count is damage (failure.Fatal).
//	RP4  What is tried before it is ordered (Receiver) is taken back in any case.
//
// What it does not do: decide what is applied and when (engine, node), or who gives way to it (node).
package replay
