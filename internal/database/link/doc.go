// Package link makes Tutti's own connections to the local PostgreSQL, and keeps two of them: the Monitor, which looks
// at backends and does chores, and the Keeper, which looks at advisory locks and holds some for sessions.
//
// Neighbours: node opens them for each life of a database; replay looks through the Monitor at who blocks it.
//
// Invariants:
//
//	K1  The search path of these connections is pg_catalog alone: no name of a user's schema is found instead.
//	K2  A question about a backend never waits for a lock of that backend's, and not for long for one on a catalog;
//	    nor does a chore keep it waiting.
//	K3  Who keeps a chore waiting can be found: Late, Chore.
//
// What it does not do: decide what happens to a backend that is in the way (node).
package link
