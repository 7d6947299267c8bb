// Package failure says what an error means for who meets it: whether to try again, to begin anew, to halt a database,
// or to end the process.
//
// Neighbours: node ends a life or the process by it; replay repeats, gives up or halts by it; cmd/tutti makes exit
// codes of it.
//
// Invariants:
//
//	FA1  An error that may go by itself (a full disk, a lost connection, a deadlock) is never taken for damage.
//	FA2  A process that has served clients once ends by itself only because of damage or of its configuration.
//
// What it does not do: word errors for clients (wire).
package failure
