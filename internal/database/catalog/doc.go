// Package catalog does the IO between a database's catalogs and the pure packages: it installs
// schema tutti, keeps capture triggers in step with the schema, describes tables to apply,
// and keeps sequences in the member's residue class.
//
// Neighbours: capture generates and decodes, apply takes the table descriptions, node calls it
// at start and after every schema change.
//
// Invariants:
//
//	D1  Refresh runs inside the caller's transaction, so that a table and its triggers become
//	    visible together.
//	D2  A sequence value belongs to the member floor(value / |base increment|) mod step: no two
//	    members can hand out the same value, whatever setval or RESTART say, because the class
//	    depends on the value alone.
//	D3  Aligning is idempotent, and aligning at another member (a cloned database) re-aligns.
//
// What it does not do: decide when (node), order schema changes (engine), notice a user's
// INCREMENT BY that equals the aligned one (it is taken for the aligned one).
package catalog
