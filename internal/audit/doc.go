// Package audit compares the members' copies of the tables: all at one ordinal on request (SHOW tutti.checksums), and
// by itself part by part while this member leads the order.
//
//	check  the request: it is ordered, and every member adds its tables up at that ordinal
//	wait   who is waited for, and for how long
//	audit  the member that leads walks all tables; what it finds is kept by table
//
// Neighbours: node orders the checks and hands them over when their place has come; contents of a first database are
// added up by the same statements (Sums).
//
// Invariants:
//
//	AU1  What is compared was read at one ordinal: the snapshot is taken between two groups.
//	AU2  The executor waits for the snapshot alone, never for the reading.
//	AU3  Who does not answer is not said to differ, and one that is halted or silent is not waited for.
//	AU4  A table is said to be equal again only after all of it was compared by all members.
//
// What it does not do: mend a copy.
package audit
