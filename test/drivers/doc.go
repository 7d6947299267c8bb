// Package drivers runs the test suites of drivers and of object-relational mappers twice,
// against one plain PostgreSQL and through Tutti at one node of a cluster of three, and
// compares what became of each test.
//
// Neighbours: test/cluster runs the cluster, pgtest the plain server. The suites are fetched
// with the ordinary clients of their registries when asked for; nothing of them is here.
//
// Invariants:
//
//	D1  Both arms get the same: programs, settings, database, role, environment, tests.
//	D2  A suite that does not end is ended at its limit; what it had not run counts as missing.
//	D3  A difference counts as accepted only if a line of accepted/SUITE.txt names the test and
//	    both outcomes; a line that is not needed any more fails the run as well.
//	    Where anything is not accepted, both arms run again, and a test counts only if it differs
//	    the same way in both runs: many suites have tests that depend on time.
//	D4  Nothing is fetched unless TUTTI_DRIVERS asks for a suite, and nothing of a suite is
//	    written into the repository.
//
// TestSuite runs when TUTTI_DRIVERS names suites, separated by commas, or is "all"; the tests
// of its parts run always.
package drivers
