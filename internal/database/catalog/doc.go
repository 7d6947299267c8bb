// Package catalog does the IO between a database's catalogs and the pure packages: it installs
// schema tutti, keeps capture triggers in step with the schema, describes tables to apply,
// and starts sequences on the member's own values.
//
// Neighbours: capture generates and decodes, apply takes the table descriptions, node calls it
// at start and after every schema change.
//
// Invariants:
//
//	D1  Refresh runs inside the caller's transaction, so that a table and its triggers become
//	    visible together.
//	D2  A sequence value belongs to one member for as long as the sequence lives: no two
//	    members can hand out the same value, whatever setval, RESTART or ALTER SEQUENCE say. The
//	    arithmetic is capture's, in SQL.
//	D3  StartSequences is idempotent, and at another member (a cloned database) moves the
//	    sequences to that member's values.
//
// What it does not do: decide when (node), order schema changes (engine).
package catalog
