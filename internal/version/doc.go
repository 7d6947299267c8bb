// Package version says which Tutti this is.
//
// Neighbours: cmd/tutti prints it; node logs it first of all and tells it to the other members, for SHOW tutti.status.
package version
