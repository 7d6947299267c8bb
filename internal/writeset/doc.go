// Package writeset holds THE value that travels through Tutti: what one transaction
// changed, and the keys other transactions may collide with.
//
// Neighbours: capture makes writesets, ordering carries their bytes, certify reads their
// keys, apply turns their rows into database operations. This package imports nothing of
// ours and does no IO.
//
// Invariants:
//
//	W1  A Row's Table is an index into Writeset.Tables; so is a Key's.
//	W2  A Row with an Identity of zero belongs to a table without key, or it is a Truncate, or a Lock of the table.
//	    It is an Insert, a Delete whose image is the whole row, or an Update right after such a Delete
//	    of the same table: then that row was not deleted but is the Update's image now. Every other Row
//	    has a non-zero Identity.
//	W3  Decode(Encode(w)) equals w, and Decode never panics, never allocates more than a
//	    small multiple of its input, and fails on trailing bytes.
//	W4  The encoding is versioned; bytes written by a released version stay readable.
//
// What it does not do: decide conflicts (certify), know PostgreSQL types (capture).
package writeset
