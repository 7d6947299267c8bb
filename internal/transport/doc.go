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
//	    connections that are not authenticated yet with less than 4 KiB each. A member's facts have 32 MiB at most.
//	T4  A connection that brings nothing for five seconds is closed; pings flow every
//	    second, so this happens only to dead ones.
//	T5  After Close returned no goroutine is left.
//	T6  Nothing waits for a member that is not connected: Send refuses it, and what waited when
//	    a connection broke is dropped. Raft would take old frames for news, and answer each.
//	T7  Where a link comes and goes, the dialer sends again within about a second of its
//	    coming: a connection of whose bytes nothing is acknowledged for 0.3 s (longer
//	    where the way is long) is dialled again, on Linux, and dialing has little patience at
//	    first. TCP itself would wait twice as long each time, up to seconds.
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
// A refusal names its reason and nothing about this member. With TLS the same exchange runs
// inside it, and the certificates must carry the names of both members.
//
// What it does not do: without TLS frames are neither encrypted nor protected against
// somebody who can change packets on the way, only against strangers who connect. It does not
// resend lost frames (raft does), and does not know addresses other than those it was given.
package transport
