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

// walPosition is a number that grows with everything written. Of two collect steps, or a collect
// step and the end of a transaction of the applier's, it tells which was first, if a row was written
// in between.
const walPosition = `(pg_catalog.pg_current_wal_insert_lsn() OPERATOR(pg_catalog.-) '0/0'::pg_catalog.pg_lsn)::pg_catalog.int8`

func collectFunction() string {
	var b strings.Builder
	fmt.Fprintf(&b, `
DROP FUNCTION IF EXISTS tutti.collect(pg_catalog.int8, pg_catalog.int4, pg_catalog.int8, pg_catalog.int8);
DROP FUNCTION IF EXISTS tutti.collect(pg_catalog.int8, pg_catalog.int4, pg_catalog.int8, pg_catalog.int8, pg_catalog.bool);
CREATE OR REPLACE FUNCTION tutti.collect(to_token pg_catalog.int8, to_slot pg_catalog.int4, to_incarnation pg_catalog.int8, to_seq pg_catalog.int8, ahead pg_catalog.bool, anyway pg_catalog.bool,
  OUT op pg_catalog.int2, OUT ident pg_catalog.int8, OUT keys pg_catalog._int8, OUT tab pg_catalog.bytea, OUT img pg_catalog.bytea)
RETURNS SETOF pg_catalog.record LANGUAGE plpgsql SECURITY DEFINER ROWS 10 SET enable_seqscan = off AS $tutti$
#variable_conflict use_column
DECLARE s pg_catalog.int8;
BEGIN
  IF `+sharedChanged()+` THEN PERFORM tutti.note_shared(); END IF;
  IF pg_catalog.current_setting('`+definedSetting+`', true) OPERATOR(pg_catalog.=) 'on' THEN op := %d; RETURN NEXT; RETURN; END IF;
  IF `+largeUnnoted()+` THEN PERFORM tutti.guard_large(); END IF;
  s := CASE WHEN ahead AND pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0::pg_catalog.oid THEN -2
    WHEN pg_catalog.set_config('tutti.tx', 'off', true) IS NULL OR pg_catalog.pg_current_xact_id_if_assigned() IS NULL THEN -1
    ELSE %s END;
`, opUnfollowed, window())
	for i := range captureTables {
		word := "ELSIF"
		if i == 0 {
			word = "IF"
		}
		fmt.Fprintf(&b, collectFrom, word, i, opAll)
	}
	fmt.Fprintf(&b, `  END IF;
  IF s OPERATOR(pg_catalog.=) -2 THEN RETURN; END IF;
  IF s OPERATOR(pg_catalog.=) -1 AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.<>) ALL ('{read committed,read uncommitted}'::pg_catalog._text) THEN
    RETURN QUERY SELECT `+firstRow+`; -- the session may not know
  END IF;
  IF s OPERATOR(pg_catalog.>=) 0 THEN
    IF NOT EXISTS (SELECT FROM tutti.token k WHERE k.token OPERATOR(pg_catalog.=) to_token) THEN
      RAISE EXCEPTION 'tutti.collect is not for clients' USING ERRCODE = '42501';
    END IF;
    IF s OPERATOR(pg_catalog.=) %d THEN
      RETURN QUERY SELECT * FROM tutti.collect_serializable(to_slot, to_incarnation, to_seq);
    END IF;
  END IF;
  `+strings.ReplaceAll(collectEnd, "%[3]d", "%[2]d")+`
END $tutti$;
`, captureTables, opAll)
	fmt.Fprintf(&b, collectSerializable, serializableTables, capturedIdents(), opRead)
	return b.String()
}

// collectFrom collects from one of the tables, if the caller knows the secret and there is something.
// The mark is not set by a plain UPDATE: a plan made while the table was small would scan it for ever.
const collectFrom = `  %[1]s s OPERATOR(pg_catalog.=) %[2]d THEN
    INSERT INTO tutti.mark SELECT to_slot, to_incarnation, to_seq
      WHERE EXISTS (SELECT FROM tutti.token k WHERE k.token OPERATOR(pg_catalog.=) to_token)
      AND (anyway OR EXISTS (SELECT FROM tutti.capture%[2]d c WHERE c.xid OPERATOR(pg_catalog.=) pg_catalog.txid_current()))
      ON CONFLICT ON CONSTRAINT mark_pkey DO UPDATE SET incarnation = excluded.incarnation, seq = excluded.seq;
    IF FOUND THEN
      IF pg_catalog.current_setting('` + largeSetting + `', true) OPERATOR(pg_catalog.=) 'on' THEN
        RETURN QUERY SELECT ` + firstRow + `;
        RETURN QUERY SELECT * FROM tutti.collect_large('tutti.capture%[2]d');
        ` + collectEnd + `
        RETURN;
      END IF;
      RETURN QUERY SELECT ` + firstRow + `
        UNION ALL (SELECT c.op, c.ident, c.keys, c.tab, c.img FROM tutti.capture%[2]d c WHERE c.xid OPERATOR(pg_catalog.=) pg_catalog.txid_current() ORDER BY c.n);
      ` + collectEnd + `
      RETURN;
    END IF;
`

// collectEnd: what a holdable cursor writes at COMMIT would not be collected any more. So nothing can be written then,
// whatever it sets.
const collectEnd = `IF ahead THEN op := %[3]d; RETURN NEXT; ELSE PERFORM pg_catalog.set_config('transaction_read_only', 'on', true); END IF;`

const firstRow = `0::pg_catalog.int2, ` + walPosition + `, NULL::pg_catalog._int8,
        pg_catalog.convert_to(pg_catalog.current_setting('transaction_isolation'), 'UTF8'), NULL::pg_catalog.bytea`

// collectSerializable keeps clear of sequential scans, because a SIREAD lock on the whole of
// tutti.mark would make every pair of SERIALIZABLE writers a dangerous structure.
//
// tutti.tables_read says which user tables, by schema and name, the transaction has read: PostgreSQL holds a
// SIREAD lock on what it has seen of a table or of an index.
const collectSerializable = `
CREATE OR REPLACE FUNCTION tutti.tables_read() RETURNS pg_catalog.text LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT coalesce(json_agg(DISTINCT jsonb_build_array(n.nspname, c.relname)), '[]')::text FROM (
    SELECT coalesce(i.indrelid, l.relation) AS oid FROM pg_locks l LEFT JOIN pg_index i ON i.indexrelid = l.relation
    WHERE l.mode = 'SIReadLock' AND l.pid = pg_backend_pid()
      AND l.virtualtransaction = (SELECT v.virtualtransaction FROM pg_locks v WHERE v.pid = pg_backend_pid() AND v.locktype = 'virtualxid' AND v.granted LIMIT 1) AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) r
  JOIN pg_class c ON c.oid = r.oid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti')
$tutti$;
REVOKE ALL ON FUNCTION tutti.tables_read FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tutti.tables_read TO tutti_owner;
CREATE OR REPLACE FUNCTION tutti.collect_serializable(to_slot pg_catalog.int4, to_incarnation pg_catalog.int8, to_seq pg_catalog.int8,
  OUT op pg_catalog.int2, OUT ident pg_catalog.int8, OUT keys pg_catalog._int8, OUT tab pg_catalog.bytea, OUT img pg_catalog.bytea)
RETURNS SETOF pg_catalog.record LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $tutti$
#variable_conflict use_column
DECLARE c pg_catalog.text; f pg_catalog.bool; r pg_catalog.int8;
BEGIN
  c := pg_catalog.concat(' FROM tutti.capture_s', pg_catalog.mod(pg_catalog.pg_backend_pid(), %[1]d),
    ' c WHERE c.xid OPERATOR(pg_catalog.=) pg_catalog.txid_current()');
  EXECUTE pg_catalog.concat('SELECT EXISTS (SELECT', c, ')') INTO f;
  IF NOT f THEN RETURN; END IF;
  EXECUTE 'UPDATE tutti.mark SET incarnation = $2, seq = $3 WHERE slot OPERATOR(pg_catalog.=) $1' USING to_slot, to_incarnation, to_seq;
  GET DIAGNOSTICS r = ROW_COUNT;
  IF r OPERATOR(pg_catalog.=) 0::pg_catalog.int8 THEN INSERT INTO tutti.mark VALUES (to_slot, to_incarnation, to_seq); END IF;
  RETURN QUERY SELECT ` + firstRow + `;
  RETURN QUERY SELECT %[3]d::pg_catalog.int2, NULL::pg_catalog.int8, NULL::pg_catalog._int8, NULL::pg_catalog.bytea, pg_catalog.convert_to(tutti.tables_read(), 'UTF8');
  IF pg_catalog.current_setting('` + largeSetting + `', true) OPERATOR(pg_catalog.=) 'on' THEN
    RETURN QUERY SELECT * FROM tutti.collect_large(tutti.captures());
    RETURN;
  END IF;
  RETURN QUERY EXECUTE pg_catalog.concat('SELECT c.op, c.ident, c.keys, c.tab, c.img::pg_catalog.bytea', c, ' ORDER BY c.n');
END $tutti$;
%[2]s
ALTER FUNCTION tutti.collect OWNER TO tutti_owner;
ALTER FUNCTION tutti.collect_serializable OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.collect_serializable FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tutti.collect TO PUBLIC;
`

// capturedIdents is a function for the final_… functions: which identities of a table has this
// transaction captured? They return nothing else, or clients could read with them.
func capturedIdents() string {
	return fmt.Sprintf(`
CREATE OR REPLACE FUNCTION tutti.captured_idents(of_tab pg_catalog.bytea) RETURNS SETOF pg_catalog.int8
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $tutti$
DECLARE c pg_catalog.text;
BEGIN
  IF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'serializable' THEN
    c := pg_catalog.concat('_s', pg_catalog.mod(pg_catalog.pg_backend_pid(), %d));
  ELSE
    c := ((pg_catalog.txid_current() OPERATOR(pg_catalog.>>) %d) OPERATOR(pg_catalog.&) %d)::pg_catalog.text;
  END IF;
  RETURN QUERY EXECUTE pg_catalog.concat('SELECT c.ident FROM tutti.capture', c,
    ' c WHERE c.xid OPERATOR(pg_catalog.=) pg_catalog.txid_current() AND c.tab OPERATOR(pg_catalog.=) $1 AND c.op OPERATOR(pg_catalog.<) %d
      UNION SELECT k FROM tutti.capture', c, ' c CROSS JOIN LATERAL pg_catalog.unnest(c.keys) AS k
    WHERE c.xid OPERATOR(pg_catalog.=) pg_catalog.txid_current() AND c.tab OPERATOR(pg_catalog.=) $1 AND c.op OPERATOR(pg_catalog.>) %d') USING of_tab;
END $tutti$;
ALTER FUNCTION tutti.captured_idents OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.captured_idents FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tutti.captured_idents TO tutti_reader;`, serializableTables, windowBits, captureTables-1, opBulk, opBulk)
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
		`pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.current_setting('tutti.proof', true), 'UTF8')) OPERATOR(pg_catalog.=) '\x%x'::pg_catalog.bytea`, sha256.Sum256([]byte(proof))), secret, bytesMax)
}

// CollectSQL is tutti.collect for a simple Query, with results in text: bytea columns are
// hex without prefix, whatever the session's bytea_output.
func CollectSQL(token int64, slot int32, incarnation, seq uint64) string {
	return fmt.Sprintf("SELECT op, ident, keys, pg_catalog.encode(tab, 'hex'), pg_catalog.encode(img, 'hex') FROM tutti.collect(%d, %d, %d, %d, false, false)",
		token, slot, int64(incarnation), int64(seq))
}
