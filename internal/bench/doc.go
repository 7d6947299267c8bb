// Package bench compares a Tutti cluster with plain PostgreSQL and PgBouncer on this machine,
// as "tutti bench compare" does: the same loads in alternating rounds, and beside throughput
// the CPU and the fsyncs a transaction costs, and who spends them.
//
// Neighbours: cmd/tutti calls it, demo runs the cluster and keeps PgBouncer's process,
// instance runs the plain server. The loads are those of pgbench and sysbench, which are run
// as they are installed.
//
// The way of the data: Options → servers started and filled → for every load, number of
// clients and round one Run per server → Report → table and JSON.
//
// Invariants:
//
//	B1  Servers that are compared run from the same binaries with the same memory settings;
//	    a difference ends the comparison.
//	B2  Every server gets the same client processes: as many, with the same options and
//	    seeds. Only addresses differ.
//	B3  A run ends when every node has applied everything, so the CPU of applying is in it.
//	B4  What could not be measured is said, never shown as a number.
//
// What it does not do: tune anything, or judge. On a machine that others use meanwhile only
// ratios of neighbouring runs mean something, and their spread says how much.
package bench
