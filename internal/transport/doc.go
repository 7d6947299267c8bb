// Package transport carries frames between the members of one cluster over TCP.
//
// Neighbours: node gives it ordering's messages to send and hands received frames back to
// ordering. Frames are bytes here. Every member dials every other one, so there are two
// connections per pair, each carrying frames in one direction and pings in both.
//
// Invariants:
//
//	T1  Send never blocks. What it accepted arrives at most once and in the order of the Send
//	    calls per peer; frames can be lost when a connection breaks, never damaged or
//	    repeated.
//	T2  Handler sees only frames of authenticated members of this cluster whose facts the owner has
//	    accepted, and never two at once from one member.
//	T3  Memory is bounded: QueueBytesMax per peer outgoing, one frame per peer incoming, 64
//	    connections that are not authenticated yet, 16 from one address, with less than 4 KiB
//	    each, beside what crypto/tls takes for a handshake. A member's facts have 32 MiB at most.
//	T4  A connection that brings nothing for five seconds is closed; pings flow every
//	    second, so this happens only to dead ones.
//	T5  After Close returned no goroutine is left.
//	T6  Nothing waits for a member that is not connected: Send refuses it, and what waited when
//	    a connection broke is dropped. Raft would take old frames for news, and answer each.
//	T7  Where a link comes and goes, the dialer sends again within about a second of its
//	    coming: a connection of whose bytes nothing is acknowledged for 0.3 s (longer
//	    where the way is long) is dialled again, on Linux, and dialing has little patience at
//	    first. TCP itself would wait twice as long each time, up to seconds.
//	T8  A call (call.go) is made by an authenticated member of this cluster, for this one, and told why it is not
//	    answered. It touches no frames. Eight are answered at once.
//
// The handshake (handshake.go), dialer D and acceptor A:
//
//	D → A  magic, version, D's and A's member id, cluster id, nonce of D
//	A → D  refusal, or nonce of A
//	D → A  HMAC-SHA256(secret, "dialer" + first message + nonce of A)
//	A → D  refusal, or HMAC-SHA256(secret, "acceptor" + first message + nonce of A)
//
// Then they exchange what their owners say of themselves, and each judges the other (facts.go).
//
// A refusal names its reason and nothing about this member. With TLS (credentials.go) the same
// exchange runs inside it, the secret is bound to the channel, and both certificates must be
// signed by a known authority, be valid now and carry the name of their member: the dialer judges
// the acceptor's before it sends anything, the acceptor the dialer's with its first message, so
// that it can tell why it refuses. The names do not travel in the clear.
//
// Secrets and certificates are asked for at every connection. Of two secrets that are accepted at
// once a dialer shows the first, and if that is refused the second.
//
// What it does not do: without TLS frames are neither encrypted nor protected against
// somebody who can change packets on the way, only against strangers who connect. It does not
// resend lost frames (raft does), does not know addresses other than those it was given, and does
// not end connections because a certificate expires or is replaced.
package transport
