// Package halt is what happens where an entry of the order cannot be carried out at this member, however often it is
// tried: which entry, table and row it was, and what operators and clients are told.
//
// Neighbours: the executor fails with an entry and halts (node); package failure says whether trying again may help;
// package peers tells the other members.
//
// Start reading at Describe.
//
// Invariants:
//
//	HA1  What cannot be carried out ends the life, as any failure does (N5). The next one comes to the entry before it
//	     serves anybody, tries it once more, and halts if that is in vain.
//	HA2  Nothing behind the entry is carried out, and no client served. The position in the database stays before the
//	     entry: what comes before it in its group is carried out one by one, each with its progress.
//	HA3  Log, votes and messages go on: the others have their majority. None of them waits for this member, as none
//	     waits for one that has just started.
//	HA4  What stands in the way of a meeting, because it is halted, halts who waits there.
//	HA5  To find out which row it was changes nothing.
//
// What may go by itself (a disk that is full, a connection that is lost) is tried again, for ever.
package halt
