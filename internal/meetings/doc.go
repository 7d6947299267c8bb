// Package meetings is how a definition of what all databases of a member share gets its place in the order of each.
//
// Databases have orders of their own. A definition of what all of them share, of a role for instance, is ordered in the
// main database; but whether it works may depend on the others, and what comes later in theirs on it. So it meets them.
// Every member asks for the meeting when the definition is due there, so one that fails holds nobody up. What asks is a
// definition that changes no table: who has changed the schema, and has not seen it, loses. The number of a meeting is
// the definition's ordinal.
//
// Neighbours: the executor of the main database calls Hold before it carries such a definition out, and those of the
// others Attend when they come to what has asked.
//
// Start reading at Meetings.Hold.
//
// Invariants:
//
//	M1  The definition runs at a member when every other database there has come to the meeting: to the first item of
//	    its order that names this one or a later one.
//	M2  A database that has come goes on when the main database's definition has run at its member.
//	M3  So the definition has the same place in every order at all members. Meetings cannot wait for each other in a
//	    circle: the main database comes to them in the order of their numbers.
//	M4  Who waits for a database that is halted halts, too (HA4 of halt).
package meetings
