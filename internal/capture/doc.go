// Package capture is the SQL side of noting what a transaction changed: it generates the
// schema and the triggers that write captured rows down, and turns the rows a transaction
// captured into a writeset.Writeset. It is pure: it makes SQL text and reads bytes; package
// database/catalog and the session run the SQL.
//
// The way of a row: an AFTER ROW trigger (one generated function per table) writes the row's
// image, its identity hash and the hashes of changed unique and foreign keys into one of four
// unlogged tables, chosen by the transaction's xid. At COMMIT tutti.collect returns the
// transaction's rows, and Collector nets them. A statement that can do nothing but change one plain
// table may return the same instead (Direct). One that is expected to change many rows is captured by
// statement triggers, from transition tables (bulk.go). Large objects have no triggers; the functions that write them
// note it (large.go).
//
// What is installed is in sql/*.sql. Names in braces stand for what Go knows, too (sqlfile.go); the functions that give
// the words are beside the rest of each subject. What is generated for each table is in trigger.go, bulk.go and
// direct.go.
//
// Neighbours: session asks for the rows, writeset holds the result, database/catalog installs
// the triggers, apply executes the images at the other members.
//
// Invariants:
//
//	C1  A row change of a permanent table in a user schema is captured in the transaction that
//	    makes it, or it fails. Rolled-back savepoints and exception blocks take their
//	    captured rows with them, because those are rows of a table.
//	C2  Rows of the writeset hold the final image: an identity captured more than once is read
//	    again from the table (AFTER-trigger order is not write order), unless whole statements of
//	    the client's, one after the other, captured it. Rows of tables without key
//	    are followed from image to image, in no order (whole.go).
//	C3  Key values have equal hashes, at every member, exactly if they are equal under the key's operator class (but
//	    for chance, C8), and a foreign key's hash is the hash of the key it references. That holds of the types on one
//	    list (forms.go), of which a test tries pairs of values (captest TestKeyForms). Where a key is of another type,
//	    or cannot be expressed as values, the table key is held Exclusive, and rows are told apart by the key's text.
//	C4  Clients can neither read nor forge captured rows: the tables belong to a role that
//	    cannot log in. No user-written code runs as that role.
//	C5  Nothing generated depends on the session's settings (search_path, DateStyle,
//	    client_encoding, bytea_output, standard_conforming_strings): names and operators are qualified, or settings
//	    pinned.
//	C6  Captured rows in use cannot be cleaned up: TRUNCATE waits for the lock every
//	    capturing transaction holds on its table.
//	C7  Transactions of different backends never meet in the capture tables in a way that
//	    SERIALIZABLE could take for a read-write dependency: they use tables chosen by backend (two backends whose
//	    process ids agree modulo 16 may get a needless 40001).
//	C8  Two rows of a table whose identities collide are never taken for one: whenever an identity comes again in a
//	    transaction, or an update changes a key, keys are compared, and the transaction fails if they are not equal
//	    (doubt.go).
//
// What it does not do: run SQL, refuse statements by their text (semantics), or have two rows of one table changed in
// one transaction whose 64-bit identities collide (odds about 2^-64 per pair, 2^-59 where both columns of a key have
// one value).
package capture
