// Package certify decides, from the log alone, whether a transaction commits.
//
// Neighbours: engine feeds it every ordered transaction in order; writeset supplies keys. It is a pure function of
// that sequence: same log, same verdicts, on every member.
//
// Invariants:
//
//	C1  A transaction commits only if no key it holds was taken in a conflicting mode by a committed transaction with
//	    an ordinal in (base, ordinal).
//	C2  Nothing exempts a member from conflicts with itself: the engine makes a transaction wait for its own member's
//	    conflicting predecessors and takes its base afterwards.
//	C3  The index is bounded by KeysMax; what it forgot it treats as a conflict (Conflict.Reason TooOld), never as
//	    agreement.
//	C4  A definition (DDL) conflicts with every transaction whose base precedes it and that has one of its keys. If
//	    they are not known, or were looked up before an earlier definition that may have changed them, it is a
//	    barrier: it conflicts with every transaction whose base precedes it.
//
//	C5  A Checkpoint holds all that later verdicts depend on: what was restored from it decides as what it was taken
//	    of, and gives the same bytes at every later ordinal.
//
//	C6  A writeset of more rows than half of KeysMax is remembered by its tables, so that it does not drive out the
//	    others (C3): who wrote to one of them unseen loses. Every writer holds the key of the table, and nobody can
//	    have referenced a row that came, so nothing that C1 forbids is let through.
//
//	C7  Who adds to rows (writeset.OpAdd) does not conflict with others who do, but with whoever else has changed
//	    them; and it is ordered within AddedMax ordinals of its base, or loses.
//
//	C8  Who changes rows blindly (writeset.OpSet) does so where it is in the order, whatever was there before, and so
//	    conflicts with nobody by these rows; but whoever comes later conflicts with it, as with an update.
//
// Conflicts are one matrix, which TestMatrix compares with Certify. A line is what a first transaction has done to a
// row, a column what a second one does to it that has not seen that; x: the second one loses. Both have written to
// other rows of other tables besides. rekey changes a unique value, refer is a foreign key's, read looks for the row
// by its key, scan reads its whole table, add is OpAdd, set and drop are blind, truncate empties the table. What a
// transaction requires follows from the columns: insert to delete, lock, share, and who reads, that the row is
// unchanged since their base; add that nobody has done anything but add to it; refer that it exists with its keys;
// set and drop nothing.
//
//	         insert update rekey delete lock share add set drop refer read scan truncate
//	insert   x      x      x     x      x    x     x   .   .    x     x    x    x
//	update   x      x      x     x      x    x     x   .   .    .     x    x    x
//	rekey    x      x      x     x      x    x     x   .   .    x     x    x    x
//	delete   x      x      x     x      x    x     x   .   .    x     x    x    x
//	lock     x      x      x     x      x    x     x   .   .    .     x    x    x
//	share    x      x      x     x      x    .     x   .   .    .     .    x    x
//	add      x      x      x     x      x    x     .   .   .    .     x    x    x
//	set      x      x      x     x      x    x     x   .   .    .     x    x    x
//	drop     x      x      x     x      x    x     x   .   .    x     x    x    x
//	refer    .      .      x     x      .    .     .   .   .    .     .    .    .
//	read     .      .      .     .      .    .     .   .   .    .     .    .    .
//	scan     .      .      .     .      .    .     .   .   .    .     .    .    .
//	truncate x      x      x     x      x    x     x   x   x    .     x    x    x
//
// The rule is SI-Rep's global validation (Lin et al., section 4.3) with PostgreSQL's three row lock strengths in
// place of plain writes, so that a foreign key reference does not collide with an update of the parent's other
// columns.
//
// What it does not do: wait, apply, know sessions or time.
package certify
