// Package embedded finds the PostgreSQL binaries a managed member runs: those of a given
// directory, those installed on this machine, or else a pinned build that is downloaded once.
//
// Neighbours: instance runs what Find returns, config supplies the Options. The archive is
// unpacked by untar.
//
// Invariants:
//
//	E1  Nothing that was downloaded is unpacked, and nothing unpacked is used, before its
//	    SHA-256 equals the one in this source, whatever server it came from.
//	E2  A build directory in the cache is complete: it appears by one rename.
//	E3  Concurrent processes download a build once; the others wait for it.
//	E4  A Build holds initdb, pg_ctl and postgres of MinMajor or later, and postgres has been
//	    run once to learn its version.
//	E5  An explicitly given directory is used or refused, never replaced by another.
//
// What it does not do: start servers, upgrade data directories, delete old builds from the
// cache.
package embedded
