// Package admin asks a running cluster about itself, over the client port of any node, and has it change who its
// members are.
//
// Neighbours: cmd/tutti calls it; node answers SHOW tutti.status and the like, and CALL tutti.add_member,
// tutti.finish_upgrade and the like.
// What would become of a cluster is reckoned by package quorum. It changes nothing else.
package admin
