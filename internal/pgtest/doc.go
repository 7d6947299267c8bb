// Package pgtest gives tests a real PostgreSQL server in a fraction of a second.
//
// Neighbours: instance runs the server, embedded finds the binaries, every IO package's tests
// use this one. It is imported by tests only.
//
// Invariants:
//
//	P1  Everything Start makes (processes, files) ends with the test; what Shared makes, with Main.
//	P2  Two servers share nothing but the binaries and the system identifier.
//	P3  No fixed ports or directories: servers listen on unix sockets in their own directories, and on a free port if
//	    asked (TCP).
//	P4  Works as root (the server runs as another user) and as an ordinary user.
//
// initdb runs once per binaries and format; its result is kept in the cache directory of
// embedded and copied for each server.
//
// What it does not do: durability, unless asked (Durable): the default server runs with
// fsync off, which a SIGKILL survives and a power failure would not, and where Linux has a file system in
// memory (/dev/shm) with enough room, its files are there, unless TMPDIR says where else.
package pgtest
