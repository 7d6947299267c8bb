// Package admin asks a running cluster about itself, over the client port of any node.
//
// Neighbours: cmd/tutti calls it; node answers SHOW tutti.status and SHOW tutti.checksums, and carries out CALLs.
// What it changes any client could.
package admin
