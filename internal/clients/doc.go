// Package clients is about who connects to the client port: as the log, the rules and SQL are told of them.
//
//	client       what is known of one: address, TLS, what the start-up packet says
//	rules        those of hba_file: who is let in, and what he must prove
//	log          who came, who was refused, who failed; bounded
//	sessionfile  where sessions come from, for the view tutti.sessions
//	password     what PostgreSQL would store of a password
//
// Neighbours: node accepts connections and asks here; hba reads and matches the rules; wire holds a login to what they
// demand.
//
// Invariants:
//
//	CL1  Rules that cannot be read or honoured leave those in force as they were.
//	CL2  What strangers can cause is bounded: records in the log, connections to the local server.
//	CL3  Text that came from outside is cut and made valid before it is logged.
//
// What it does not do: carry a login out (wire).
package clients
