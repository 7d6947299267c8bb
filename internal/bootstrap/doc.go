// Package bootstrap decides whether a member without a log may make one, and whether two members talk to each
// other at all.
//
// A member's log holds its votes. A member that has voted, lost its log and votes again can undo what a majority
// has agreed on. A new log may therefore be made only by a member of which it is certain that it never had one.
// The other members know: none of them takes a frame of a member whose log it has not noted durably before.
//
// Neighbours: node collects the facts, carries them through transport's handshake, and keeps in raftlog what is noted.
// The simulator asks Decide as well.
//
// Invariants:
//
//	B1  A member makes its log only after every other member has said that it has noted no incarnation of it.
//	B2  A member takes frames of another one only after it has noted that one's incarnation durably, or while it has
//	    no log itself; then it notes all that it has heard of when it makes its log, before its first vote.
//	B3  The incarnation that a member says is the one under which it works, and never one that was noted before by
//	    somebody as less than another. What a copy of the log begins under the same one is another life of it, with
//	    another number, and the first that was heard of counts.
//	B4  The databases with which members begin are equal. Who makes its log later compares with what those that have
//	    one began with, or has a copy that says at which ordinal of their order it is. Only a member that has nothing
//	    copies by itself, and only what an operator has adopted.
//	B5  Members whose settings must be equal and are not do not talk to each other. None of them ends by that.
//	B6  A member that has lost its log makes another one only with the answers of a majority, not counting itself,
//	    to a question that it has asked since: with a term for each database in which it is readmitted (ordering,
//	    O8), and an incarnation that nobody has heard of. A majority knows all databases in which it may have voted.
//	    Who answers does not hear it, and refuses all logs that it has had so far: one that turns out to be there
//	    must not help to decide what it is readmitted behind.
//	B7  A member that the order has added begins with a copy of the database of another one, and makes its log when
//	    all others have said that they know of none of its before.
//	B8  A level of the cluster is raised by the order, once all members have said that they understand it; from then
//	    on a member whose build does not is talked to by nobody, and ends as soon as it hears of it. What needs a
//	    level beyond Membership is ordered only if the record says that (Record).
//
// What it does not do: say who the members are (package membership).
package bootstrap
