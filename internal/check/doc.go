// Package check judges histories of transactions. It knows nothing of the engine, and must
// not: it decides from what clients saw (and, for WhiteBox, from the ordinals they were
// told) whether the isolation levels kept their promises.
//
// Neighbours: sim, the bench harness and the outside test suites record histories and call
// it. It imports nothing of ours and does no IO.
//
// Two judges:
//
//   - WhiteBox: every transaction names the ordinal its snapshot saw and its own. Linear,
//     sound and complete, but a lying snapshot ordinal hides faults.
//   - ListAppend: clients append unique values to lists and read them; what they saw gives
//     the version order, and cycles of dependencies are anomalies (Adya, Liskov, O'Neil;
//     Kingsbury's Elle).
//
// Invariants:
//
//	J1  A judge never reports an anomaly that a correct run could show: what it cannot know
//	    (unknown outcomes, unread values) it leaves out.
//	J2  Snapshot promises no G0, G1, lost update, G-single or G-nonadjacent; Serializable no
//	    cycle at all; ReadCommitted no G0 and no G1. In mixed histories anti-dependencies
//	    count only for readers whose level fixes what they read.
//	    At every level a session, which is one connection to one node, sees its own commits
//	    and never reads backwards.
//	J3  The same history gives the same report.
//	J4  100,000 transactions are judged within seconds, also when much is wrong: every check is
//	    linear but for the naming of cycles, which is bounded.
//
// What it does not do: predicates, and values that are overwritten rather than appended.
package check
