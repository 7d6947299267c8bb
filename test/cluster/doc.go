// Package cluster runs whole clusters of real node processes, each with a real PostgreSQL,
// and tests what a client, an operator or an enemy of theirs would see.
//
// Neighbours: cmd/tutti is built once per test process and started as "tutti node"; embedded
// and instance find PostgreSQL's binaries and sockets. Nothing here reaches into a node: the
// tests speak the client port, the member port, signals and files only.
//
// Invariants:
//
//	T1  Every process a cluster starts, PostgreSQL's included, has ended when its test has;
//	    one that has not is ended by its id, and fails the test.
//	T2  No fixed port or directory. Ports lie below the range the kernel takes for outgoing
//	    connections, so that a node that is restarted finds its own free.
//	T3  An unknown outcome counts as either; an acknowledged row must be there exactly once,
//	    and one whose commit certainly failed must not be.
//
// TUTTI_TEST_SECONDS is the time each load test runs under load; the default is short.
//
// What it does not do: simulate (internal/sim), or judge one package alone.
package cluster
