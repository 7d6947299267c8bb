// Package node is one running member: the only package with goroutines of its own design,
// wiring the IO edges (client sockets, member streams, log, PostgreSQL) to the engine.
//
// Goroutines of a running member:
//
//	core       the engine's only caller; sends, hands out verdicts and groups (package core)
//	log        writes what the core gives it, and waits for the disk (package core)
//	executor   carries out one group after another at the local PostgreSQL (executor)
//	definer    carries out one definition; the executor waits for it, or goes on beside it (see Jobs of replay)
//	streaming  executes a large transaction of another member while it comes in (replay)
//	watcher    finds backends that block the executor, and has them lose (watcher)
//	accept     takes clients; one goroutine per session (clients)
//	gossip     tells the other members this one's state
//	listener   hears what local sessions notify on channels that other members listen to
//	forwarder  puts that into the order
//	publisher  tells local sessions what other members' sessions notified
//	announcer  tells the order to which channels local sessions listen
//	nudger     makes silent sessions hear their backends (guards)
//	serial     tells the order when no SERIALIZABLE transaction is open any more (snapshots)
//	locks      tells the other members which schema locks go on (grants)
//	retention  takes checkpoints and compacts the log (package core)
//	stop       waits until the node is told to stop, and sees its clients off (stopping)
//	audit      compares the members' copies while this one leads
//	file       keeps what the view tutti.metrics reads (show)
//
// Invariants:
//
//	N2  The progress row, or the marker row, travels in the same database transaction as
//	    the rows it vouches for.
//	N3  A snapshot that promises a prefix is taken only while the gate is open. A group waits for those that are being
//	    taken, and breaks off what may take long (package snapshots).
//	N4  A local transaction that blocks the executor and is not certified loses (package watcher).
//	N5  Any failure of the log, the database or the apply ends this life of the member; it
//	    starts again under a new incarnation from what disk and database hold (crash-only). What trying again
//	    cannot help ends the process (package failure).
//	N7  A notification is passed on to local sessions once everything ordered before it is applied; those of
//	    this member's own sessions never, nor any before this life serves sessions. A listen item is
//	    carried out before anything ordered after it.
//	N8  What streaming apply has executed is committed by the executor alone, in its group, with the progress row,
//	    after the log has said yes; and only if no definition was carried out since it began. Whatever is in
//	    its way, or in whose way it is, makes it roll back, and nothing is lost but time.
//	N9  A session that ends because its node stops, or its life ends, is told so before its socket is closed. It is
//	    told
//	    57P01 only if nothing of its transaction was proposed; else it is told what the log has decided, or 40003.
//	N10 The log of the main database is made by a member that never had one (package bootstrap). Which logs of other
//	    databases a member has made is noted in it before the member votes there.
//	N11 What cannot be carried out, however often it is tried, halts the database at this member before the entry
//	    (package halt).
//
// What it does not do: decide verdicts (engine), speak SQL for clients (session).
package node
