// Package join is tutti init and tutti join: the directory and the configuration of a node that begins a cluster of
// one, or that is added to a cluster.
//
// What all nodes of a cluster have in common is a directory of the first one's: the secret, the authority that signs
// their certificates, and the settings that must be equal. Whoever has a copy of it can have a node join.
//
// Neighbours: cmd/tutti calls Init and Join; authority makes certificates; the cluster is asked over the port of its
// clients, where package membership's CALL tutti.add_member is carried out.
//
// Start reading at Join.
//
// Invariants:
//
//	J1  Nothing that is there is overwritten: a directory with a configuration is refused.
//	J2  Join may be run again after it has failed: a member that has been added with the same addresses is taken for
//	    it.
//	J3  What is secret is readable by its owner only.
//
// What it does not do: start nodes.
package join
