// Package instance runs one local PostgreSQL server for a managed member: it creates or
// clones its data directory, starts it as a child process, watches it and stops it.
//
// Neighbours: embedded says which binaries to run, node starts an Instance and connects to
// it through its unix socket, pgtest wraps it for tests.
//
// Files beside the data directory D: D.lock (held while the server runs), D.run (the socket's
// directory) or D.socketdir (where it is instead, when D.run would be too long a path),
// D.init, D.clone and D.adopt (unfinished work, removed by the next attempt), D.replaced (what a clone has taken the
// place of, see Replace), postgres.log, and postgres.log.1 and so on (what came before it).
//
// Invariants:
//
//	I1  A data directory is complete or absent: Init and Clone work beside it and rename. Replace keeps the old one
//	    until the new one is complete, durable and in its place; what is left of an interrupted one is settled first.
//	I2  At most one Instance, of all processes on this machine, uses a data directory (D.lock).
//	I3  When Start launches a server, no process of an earlier server on that data directory
//	    is alive. A running server that Tutti did not configure is never stopped.
//	I4  The server listens on the unix socket only, which only its own user and root can open;
//	    authentication there is "trust", so this is the whole access control.
//	I5  A clone carries nothing of the donor's configuration that could touch the donor's
//	    surroundings: no archive_command, no files outside the data directory.
//	I6  The server never runs as root.
//	I7  When this process dies, the server is told to shut down (Linux; elsewhere the next
//	    Start does it).
//	I8  With LogBytesMax no line of the server's log is lost, but for what is older than LogFilesMax files.
//	I9  Who is lent a server speaks to it in the replication protocol only.
//	I10 A server that is visited runs on files that stay as they are, but for what any start and stop writes; it is
//	    never asked to write. What is adopted as a copy is only read.
//
// What it does not do: restart a server that exited, upgrade data directories, manage servers with tablespaces.
package instance
