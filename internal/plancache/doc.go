// Package plancache is what the sessions of a replica tell each other of statements: forms that one of them has found
// out about, what it was told of their tables, and how often each plan was carried out, or refused in favour of a
// lesser one.
//
// Neighbours: it is session.Plans of every session of a database at a member, and each of them counts its plans here;
// package show lists the counts.
//
// Start reading at Cache.CachePlan.
//
// Invariants:
//
//	PC1  What is known counts as of one catalog, and as of another one if no definition in between concerned its table
//	     (session.Holds).
//	PC2  There are at most FormsMax statements, and WhoMax identities of each. A statement that is one too many ends
//	     all that was known; an identity that is one too many is not taken.
//	PC3  What was given to a session does not change afterwards.
//
// No decision about data depends on it: what a session takes from here it knows to be so of the catalog and the
// identity that it names.
package plancache
