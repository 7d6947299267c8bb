package capture

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// The columns of tutti.collect: op int2, ident int8, keys int8[], tab bytea, img bytea. The
// first row has op 0, the transaction's isolation level in tab, and in ident the position of the
// server's WAL while it held its locks; without captured rows there is no row at all, unless asked
// for with anyway.

// WALPosition, in SQL, is a number that grows with everything written. Of two collect steps, or a collect
// step and the end of a transaction of the applier's, it tells which was first, if a row was written
// in between.
const WALPosition = `(pg_catalog.pg_current_wal_insert_lsn() OPERATOR(pg_catalog.-) ` +
	`'0/0'::pg_catalog.pg_lsn)::pg_catalog.int8`

func collectFunction() string {
	var tables strings.Builder
	for i := range captureTables {
		word := "ELSIF"
		if i == 0 {
			word = "IF"
		}
		tables.WriteString(collectTable(word, i))
	}
	return install("collect.sql", words{
		"window":          window(),
		"shared_changed":  sharedChanged(),
		"defined_setting": definedSetting,
		"op_unfollowed":   opUnfollowed,
		"large_unnoted":   largeUnnoted(),
		"first_row":       firstRow,
		"capture_tables":  captureTables,
		"collect_end":     collectEnd(),
		"tables":          tables.String(),
	}) + collectSerializable()
}

// collectTable collects from one of the tables, if the caller knows the secret and there is something.
// The mark is not set by a plain UPDATE: a plan made while the table was small would scan it for ever.
func collectTable(word string, i int) string {
	return expand("collect_table.sql", words{
		"word":          word,
		"table":         i,
		"large_setting": largeSetting,
		"first_row":     firstRow,
		"collect_end":   collectEnd(),
	})
}

// collectEnd: what a holdable cursor writes at COMMIT would not be collected any more. So nothing can be written then,
// whatever it sets.
func collectEnd() string {
	return fmt.Sprintf("IF ahead THEN op := %d; RETURN NEXT; ELSE "+
		"PERFORM pg_catalog.set_config('transaction_read_only', 'on', true); END IF;", opAll)
}

const firstRow = `0::pg_catalog.int2, ` + WALPosition + `, NULL::pg_catalog._int8,
        pg_catalog.convert_to(pg_catalog.current_setting('transaction_isolation'), 'UTF8'), NULL::pg_catalog.bytea`

// collectSerializable keeps clear of sequential scans, because a SIREAD lock on the whole of
// tutti.mark would make every pair of SERIALIZABLE writers a dangerous structure.
//
// tutti.tables_read says which user tables, by schema and name, the transaction has read: PostgreSQL holds a
// SIREAD lock on what it has seen of a table or of an index.
func collectSerializable() string {
	return install("collect_serializable.sql", words{
		"serializable_tables": serializableTables,
		"first_row":           firstRow,
		"op_read":             opRead,
		"large_setting":       largeSetting,
		"captured_idents":     capturedIdents(),
	})
}

// capturedIdents is a function for the final_… functions: which identities of a table has this
// transaction captured? They return nothing else, or clients could read with them.
func capturedIdents() string {
	return install("captured_idents.sql", words{
		"serializable_tables": serializableTables,
		"window_bits":         windowBits,
		"last_table":          captureTables - 1,
		"op_bulk":             opBulk,
	})
}

// CollectStatement is tutti.collect for the extended protocol: parameters int8, int4, int8, int8
// and bool (CollectParameterOIDs), results in binary.
const CollectStatement = "SELECT op, ident, keys, tab, img FROM tutti.collect($1, $2, $3, $4, false, $5)"

// AheadStatement is CollectStatement for a transaction that may go on: nothing deferred was fired,
// and the caller knows that no permanent object defers anything. Its last row has op 100. In a
// session with temporary objects, which might, it does nothing and returns no row.
const AheadStatement = "SELECT op, ident, keys, tab, img FROM tutti.collect($1, $2, $3, $4, true, $5)"

// MarkStatement writes the mark of a transaction of nothing but direct statements, and lets nothing
// be written after it. It must be the last before COMMIT, at which code of clients may
// run: it leaves no proof behind. Parameters: int4, int8 and int8 as for CollectStatement, and the
// proof of TokenSQL.
const MarkStatement = `INSERT INTO tutti.mark SELECT $1, $2, $3
  WHERE pg_catalog.set_config('tutti.proof', $4, true) IS NOT NULL AND pg_catalog.set_config('tutti.tx', 'off', true) IS NOT NULL
  ON CONFLICT ON CONSTRAINT mark_pkey DO UPDATE SET incarnation = $2, seq = $3 RETURNING pg_catalog.set_config('tutti.proof', '', true), pg_catalog.set_config('transaction_read_only', 'on', true)`

// MarkParameterOIDs are its parameter types.
func MarkParameterOIDs() []uint32 { return []uint32{23, 20, 20, 25} }

// opAll is the op of the row that ends the answer to AheadStatement.
const opAll = 100

// CollectParameterOIDs are the parameter types of CollectStatement.
func CollectParameterOIDs() []uint32 { return []uint32{20, 23, 20, 20, 16} }

// TokenSQL makes token the one that tutti.collect demands, and proof the one that MarkStatement
// must give: secrets between this process and the database, so that no client can overwrite
// another session's mark. Run it as a superuser, once per start.
// secret is what Proof takes. bytesMax is how many bytes a statement may change.
func TokenSQL(token int64, proof string, secret []byte, bytesMax int) string {
	return fmt.Sprintf(`SELECT pg_catalog.set_config('`+DDLSetting+`', '`+DDLOn+`', true);
DELETE FROM tutti.token; INSERT INTO tutti.token VALUES (%[1]d, '\x%[3]x', %[4]d);
ALTER POLICY mark ON tutti.mark USING (%[2]s) WITH CHECK (%[2]s)`, token, fmt.Sprintf(
		`pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.current_setting('tutti.proof', true), 'UTF8')) `+
			`OPERATOR(pg_catalog.=) '\x%x'::pg_catalog.bytea`, sha256.Sum256([]byte(proof))), secret, bytesMax)
}

// CollectSQL is tutti.collect for a simple Query, with results in text: bytea columns are
// hex without prefix, whatever the session's bytea_output.
func CollectSQL(token int64, slot int32, incarnation, seq uint64) string {
	return fmt.Sprintf("SELECT op, ident, keys, pg_catalog.encode(tab, 'hex'), pg_catalog.encode(img, 'hex') FROM "+
		"tutti.collect(%d, %d, %d, %d, false, false)",
		token, slot, int64(incarnation), int64(seq))
}
