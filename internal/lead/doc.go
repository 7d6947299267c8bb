// Package lead decides which member should lead the order: one that reaches more of the others
// than the leader does, else the one with which commits take least (ways.go), else the one at which
// nearly all that is written comes in.
//
// Neighbours: node and sim gather what members know of each other, ask Next at equal intervals,
// and have the order hand leadership over.
//
// Invariants:
//
//	L1  Only a leader decides, and only about its own place. Whatever it decides is safe: the
//	    order is raft's. It costs a moment in which nothing is ordered.
//	L2  It hands over to no member that reaches fewer others than itself. So while links and
//	    writers stay as they are, leadership comes to rest.
//	L3  A member that reaches more others than the leader comes before one that writes.
//	L4  Nothing is decided on the evidence of a moment, but who leads when the leader stops.
//	L5  Who could not take the lead is asked again ever more rarely: each try costs time in which
//	    nothing is ordered.
//	L6  Between members that reach as many others, one that writes gets the lead only if commits do not
//	    clearly take longer with it, as far as ways are known. What distance decides makes the sum of all
//	    commits' waits less each time, and writes do not take it back.
//
// What it does not do: elect, measure, know time.
package lead
