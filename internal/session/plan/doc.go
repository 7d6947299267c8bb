// Package plan chooses how a statement is carried out, from what is known of it, of its session and of its block.
//
// Neighbours: session collects the facts, asks, and does what is chosen. The package knows nothing of sessions.
//
// A plan is a Kind. Rows are in the order of preference: the first one whose facts all hold wins. A row is for one
// shape of statements. Where the shape fits and another fact does not hold, the plan says so (Because), so that an
// operator learns why a better way was refused.
//
// Invariants:
//
//	P1  Choose is a function of its arguments: the same facts give the same plan.
//	P2  Every statement has a plan: the last row needs nothing.
//	P3  Because is a fact that does not hold, of the first row whose shape fits and that was neither chosen nor
//	    tried.
//
// What it does not do: find out facts, or anything that may fail. What a plan needs besides (that its row is there,
// that the values can be read) is found out by the session when it carries the plan out; if it cannot, it goes on
// with the next one (tried).
package plan
