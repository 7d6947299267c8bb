// Package replacement decides what comes next when a new member takes the place of another one.
//
// Neighbours: admin asks a cluster how it is, and has it carry out what Next says; the simulator does the same with
// its own. What becomes of a cluster without a member is reckoned by package quorum.
//
// Invariants:
//
//	R1  Each step is a function of what the cluster shows, so a replacement may be run again after anything.
//	R2  The old member is removed only once the new one has all and who votes is settled without the old one. One that
//	    cannot be reached for long is removed first, if the others go on without it.
//
// What it does not do: know time, or ask anybody.
package replacement
