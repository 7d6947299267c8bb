// Package regress runs PostgreSQL's own regression and isolation suites twice from the same
// binaries, against one plain PostgreSQL and through Tutti at one node of a cluster of three (with
// -three at each node, in three databases), and compares what the two printed, file by file.
//
// Neighbours: test/cluster runs the cluster, pgtest the plain server, embedded finds the
// binaries. The suites are taken from PostgreSQL's source at run time; nothing of it is here.
//
// Invariants:
//
//	X1  Both arms get the same: programs, settings, database, role, environment, order of files.
//	X2  Every file ends: one that does not is ended after a limit and counts as hanging, and
//	    the run goes on.
//	X3  The outputs are compared as they are. Only what differs between two runs of the same
//	    server is made equal first, and that list is in normalise.
//	X4  A difference counts as accepted only if it is exactly the one that a file in accepted/
//	    holds together with its reason.
//	X5  Nothing is downloaded unless TUTTI_REGRESS asks for a suite, and nothing of PostgreSQL's
//	    source is written into the repository.
//
// TestSuite runs when TUTTI_REGRESS names suites (regress, isolation or both, with a comma);
// the tests of its parts run always, and TestFew where the source is there already.
package regress
