// Package session is one client's side of Tutti: the protocol as a state machine over two
// streams of frames, the client's and that of the one backend connection it owns.
//
// Neighbours: wire gives the frames, semantics says what a statement may do, node provides
// the Host (ordering, snapshots, slots) and runs Run on a goroutine of its own. The package
// itself starts no goroutine and touches no clock or socket.
//
// A text comes in by simple.go (Query) or extended.go (Parse, Bind, Execute). What is done about it is in types that
// keep their state and are told whom they need (rooms.go), mostly from below to above:
//
//	texts, levels       what texts mean to the server; isolation levels and modes
//	named, batch        prepared statements and portals; what the client sends up to a Sync, and requests made of it
//	forms, direct       statements that return what they change (returning), and what a transaction has of that
//	locks, reads        rows that are locked, and that a SERIALIZABLE transaction has looked for
//	collecting          the collect step: what a transaction has written and relies on
//	transaction, block  the backend's transaction, and the client's
//	relaying            what the backend says, passed on
//	buffer              writes of a block that are put off: append, read through, flush, commit
//	planner             in which ways a request may be run
//	carrying            one request at the backend
//	plain, alone        requests outside of the client's blocks: as they are, and as transactions of their own
//	blocks              requests inside of the client's blocks
//	retrying            a transaction that is done again
//	procedures          statements that commit by themselves
//	executing           who of these carries a request out
//	definitions         DDL (definition.go, schema.go, detach.go)
//	controls            statements that are not the backend's: transaction commands, SHOW tutti.*, refusals
//
// Session itself has the loop, and what comes in.
//
// The state of the transaction, the client's block included, is declared in session/txn, with a table of moves.
//
// A session waits in few places: for a frame of the client (next, copyData), for a frame of the backend (Server), for
// room to write, and in what the node does for it (Host). Whoever gives it readers and writers that yield, and a Host
// that does, can run it step by step, as package sim does.
//
// Invariants:
//
//	S1  The backend's transaction is opened with the first statement that needs it, never
//	    later than that statement, and always sets tutti.tx, without which capture refuses.
//	S2  Nothing is told "committed" before its writeset is ordered and the local commit is
//	    done, or the log has decided for it.
//	S3  A statement is run again only if the log says it lost, or it was never proposed, and
//	    only if the client has seen none of its results; and never if it may do something outside
//	    of the database (see noteOutside).
//	S4  Once Submit was called, only its answer decides; a broken connection in between is
//	    told as 40003.
//	S5  At most 64 KiB are written to the backend while its answers are unread, except one
//	    frame to an idle backend; so neither side waits for the other for ever.
//	S6  After the collect step nothing can be written. If it was done ahead of the COMMIT
//	    (see ahead) and something else comes, the transaction is opened again and collected
//	    anew; nothing that may fire at COMMIT is overtaken.
//	S7  A statement is run directly (see direct) only while nothing can have been captured before it that
//	    its rows would have to be put between, and nothing that they contain can be rolled back
//	    but with the whole transaction.
//	S8  A row that is put off behind a read is certified as seen from when the client was told, and
//	    what was put off behind one is never run later, but done again with its reads (see relies).
//	S9  The statement without a name that the client uses is the one that it has parsed last. What of it the backend
//	    does not have is sent before it is used (see unnamed).
//
// What it does not do: certify, apply, authenticate, choose a member.
package session
