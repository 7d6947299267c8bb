// Package chaos tests a real cluster under real faults: node processes of this binary, each
// with its own PostgreSQL, clients at all of them, a random fault every few seconds. At the
// end it heals everything, compares the copies, judges what the clients saw, and prints a
// verdict.
//
// Neighbours: cmd/tutti calls Run; test/cluster runs a short form. The nodes run "tutti node", join and are removed by
// "tutti join" and "tutti member remove", and are disturbed from outside: by signals, by file systems, by network
// namespaces, and by the file that package fault reads. Histories of lists are judged by check.
//
// One concern per file: options, cluster and node (processes), network and namespace (links),
// disk (small file systems), schedule (which faults), strike (how they are made), roster, join and remove (who is a
// member), client, crew and the workloads (transfer, list, claim, serial, large, steps, tally, hit), history (what
// clients saw), collect and judge (is it right), gap (how long nobody could commit), sample (leaks), verdict.
//
// Invariants:
//
//	K1  The same seed, size and list of faults draw the same schedule. Which node leads, and so
//	    which one a fault "of the leader" hits, is the cluster's own.
//	K2  A transaction is acknowledged, certainly failed, or unknown. Acknowledged ones are
//	    there exactly once on every node, failed ones nowhere, unknown ones either everywhere
//	    or nowhere. Nodes are the members in the end; what one has acknowledged that was removed is at all of them.
//	K3  The judge needs the recorded history only, so a kept one can be judged again, and the
//	    judge is tested by spoiling one.
//	K4  Nothing it starts outlives it, however it ends: children die with it, and network
//	    namespaces have no name and end with their last process. A mounted file system is the
//	    exception after SIGKILL; Clean removes it.
//
// What it does not do: faults of hardware, of clocks, or of more than one machine.
package chaos
