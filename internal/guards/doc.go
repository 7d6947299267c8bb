// Package guards is what the rest of a node may do to its running sessions: have a session's transaction lose, cancel
// what its backend executes, make it look up, end it. And it is the list of a replica's sessions.
//
// Neighbours: node's watcher, its gate, its stop and its clients' cancel requests call a Guard from any goroutine; the
// session announces its phases to it, from its own. Package session knows the same as Control.
//
// Start reading at Guard.Enter, Guard.Abort and Sessions.
//
// Invariants:
//
//	GU1  A transaction loses only while its session waits for the client or for the backend. Once the log decides, it
//	     does not; PhaseIdle forgets that it has lost, unless the session has been ended.
//	GU2  A cancel that is meant for one statement does not hit the next one, nor the COMMIT: the next phase but
//	     PhaseRunning begins only when none is under way.
//	GU3  Who is to look up is poked: a read from the client that is under way, or the next one, times out once.
//	GU4  A session is not ended while the log decides on its transaction, or its definition.
//	GU5  What may be broken off is cancelled until it is over, as one cancel might come too early, and all cancels
//	     have left before it counts as over.
//	GU6  A slot belongs to one session at a time, also while the log has yet to decide on what it has given up. When
//	     the replica is over, nobody gets one, and backends are left.
//
// What it does not do: decide who loses; close clients, but for those that do not take what they are told.
package guards
