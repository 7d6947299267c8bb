// Package wire turns bytes into PostgreSQL v3 frames and back, on both edges
// of a member: the front edge, where clients connect, and the back edge, the
// unix socket of the local PostgreSQL. It frames, limits, negotiates TLS,
// reads the start-up packet, relays the authentication exchange and routes
// cancel requests.
//
// Neighbours: session drives one client with Frames that node reads with a
// Reader and answers with the Append functions; node owns the connections.
// wire imports nothing of ours and nothing but the standard library.
//
// Data path:
//
//	conn → Accept → Startup ─┬→ Login (relay to the local server) → LoginResult
//	                         └→ CancelRequest → Cancels.Cancel → SendCancel
//	Reader.Next → Frame → Decode… / Append… → Writer.Flush
//
// Invariants:
//
//	W1 A frame is delivered whole or not at all; a length word or a type that
//	   PostgreSQL would refuse ends the stream with a *ProtocolError.
//	W2 A length word is never trusted for an allocation: buffers grow with the
//	   bytes that have arrived.
//	W3 No byte that was received in the clear survives a negotiation of TLS or
//	   GSSAPI (CVE-2021-23214 and its kin).
//	W4 Before a client is authenticated at most 64 KiB are read from it, and
//	   for at most FrontOptions.AuthTimeout.
//	W5 Passwords, SASL data and cancel secrets never appear in an error or in
//	   a String method.
//	W6 Accept and Login answer the client themselves, at most once; whoever
//	   gets their error logs it and closes the connection.
//	W7 A cancel function is never called, nor still running, after its release
//	   function has returned.
//	W8 No Append function can make a frame whose length word differs from its
//	   length (CVE-2024-27304), nor a string that holds a zero byte.
//
// What it does not do: it does not interpret SQL, follow transactions, pool
// connections, know other members, decide about retries, or log.
package wire
