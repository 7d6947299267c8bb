// Package apply turns certified writesets into set-based SQL. It is pure: the executor runs
// the operations, in order, in one database transaction, on a session with SessionSettings.
//
// Neighbours: capture made the row images, certify let the writesets through, database executes
// the operations and checks their row counts.
//
// Invariants:
//
//	A1  Executing Plan(w1, …, wn) leaves the database as executing w1, …, wn one by one would.
//	A2  An operation's SQL depends on the table and the kind alone, so it can be prepared once;
//	    all values travel in one array parameter.
//	A3  Order per table: truncation, deletes, updates, inserts. Only a Loose operation can meet a unique
//	    value that is about to go; in the Form Apart there is none.
//	    Without key, a delete that may mean a row inserted before it in the batch begins anew. So does what follows a
//	    blind change of the same row, or comes before it.
//	A4  Every row of an operation must be found: fewer or more affected rows than
//	    Operation.Rows means that the databases differ.
//	    Those of blind transactions need not be there: Operation.Missed tells, at every member the same.
//	A5  Equal identity means the same row. Two rows of one table whose 64-bit identities
//	    collide (odds 2^-64 per pair) inside one batch would be merged wrongly.
//	A6  In a table without key exactly as many rows with an image go as were deleted with it;
//	    which of them does not matter, because they are equal.
//	A7  A row that is there before and after a writeset keeps its place, or its table is locked: a
//	    statement that waits for it goes on with its new version. So does one whose key
//	    changed, however often in the batch, if its deletion and insertion follow each other and an update can set its
//	    columns; where another row has one of its keys, or had it, the batch is executed one by one.
//
// What it does not do: execute, certify, decide which writesets may share a batch with local
// transactions, apply schema changes (a batch must not span one).
package apply
