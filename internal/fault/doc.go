// Package fault lets a test disturb a running member from outside: its links to other members
// and its log's disk. It is off, and costs nothing, unless the environment variable of
// Variable names a file when the process starts.
//
// Neighbours: node asks it for the hooks of transport and raftlog; chaos writes the file.
//
// Invariants:
//
//	F1  Without the variable there are no hooks at all.
//	F2  A missing file means no faults; one that cannot be read leaves the faults as they were,
//	    and says so in the log. Every change is a line in the log.
//
// What it does not do: faults that need no help from the process (signals, networks, full disks).
package fault
