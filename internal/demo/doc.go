// Package demo runs a whole cluster on one machine: node processes of this same binary,
// each with its own PostgreSQL, configured, started, watched and stopped.
//
// Neighbours: cmd/tutti calls it, and bench measures a cluster it starts; the children run
// "tutti node". It configures clusters for
// playing only: clients are trusted on loopback, all members on one disk. Members talk TLS.
//
// Invariants:
//
//	D1  Every process it starts ends with it, also when it is killed itself.
//	D2  A second start on the same directory continues with the same data. While the first runs it
//	    is refused, and changes nothing.
//	D3  Nothing is removed but what it made: an ephemeral directory must be new or empty.
package demo
