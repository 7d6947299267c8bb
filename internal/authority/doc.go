// Package authority issues certificates to members (member_tls) where Tutti sets a whole cluster up by itself.
//
// Neighbours: demo and chaos give every node a certificate of it, and so do the tests of whole clusters. An operator's
// certificates come from the operator's own authority.
//
// Invariants:
//
//	A1  The authority's key is in memory only: with the value it is gone.
//	A2  Keys are written with mode 0600, and every file as a whole or not at all.
package authority
