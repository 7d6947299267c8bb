// Package replay carries out at the local PostgreSQL what the order says: the rows of other members' transactions,
// their definitions, and large transactions while they come in. It also tries, before a transaction is ordered, whether
// others could store what it has written.
//
//	applier    the executor's connection: rows of a group with the progress, in one database transaction
//	define     one definition with its origin's role and settings; steps: a transaction with definitions and rows
//	jobs       a definition that may go on beside what is ordered after it, as its definer sees it
//	beside     the same as the executor sees it; longs: as sessions do; curtain: hides what it changes
//	detach     a partition that is detached CONCURRENTLY, in two definitions
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
//	RP5  L1 to L4 of beside.go: what goes on beside the order is noted with the progress; nothing that is ordered
//	    behind it and touches its tables comes before it, and who has not seen it loses. D1 and D2 of detach.go.
//
// What it does not do: decide what is applied and when (engine, node), or who gives way to it (node).
package replay
