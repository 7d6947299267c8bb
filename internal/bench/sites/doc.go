// Package sites measures what a COMMIT waits for where every member is at a site of its own, as "tutti bench sites"
// does: seven nodes on this machine, whose frames are held back for as long as they would travel.
//
// Neighbours: cmd/tutti calls it, demo runs the nodes, fault holds their frames back, lead says what the protocol needs
// at least.
//
// The way of the data: tree → ways between all sites → a file of faults for each node; sessions at all sites
// → medians → Report → text and JSON.
//
// Invariants:
//
//	BS1  A figure is printed beside what the protocol needs at that member with that leader. If another one leads at
//	     the end of a measurement than at its beginning, it is made again.
//	BS2  All sites write in turn, so that the measurement does not move the lead.
//
// What it does not do: emulate lost packets, little bandwidth, or ways that differ in both directions.
package sites
