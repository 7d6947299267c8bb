// Package adopt makes a PostgreSQL data directory that was there before Tutti the one with which a cluster begins:
// tutti adopt.
//
//	adopt   the command: finds the directory, surveys it, carries the adoption out; or surveys a server that runs
//	survey  what of its databases a cluster cannot have, or has otherwise: one query each
//
// Neighbours: instance copies or moves the directory and marks it (Adopt), and runs a server on it for the survey
// (Visit); bootstrap has members that have nothing copy what is marked.
//
// Invariants:
//
//	AD1  Nothing is changed before all of the survey is known, and nothing at all if something would be lost. What the
//	     survey's own server writes is what any start and stop of a server writes.
//	AD2  A directory on which a server runs, or was not shut down cleanly, is left alone.
//	AD3  The directory is adopted as a whole or not: the mark comes last.
//
// What it does not do: upgrade to another major version, or change anything in a database so that it can be adopted.
package adopt
