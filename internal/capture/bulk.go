package capture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// A statement that is expected to change many rows is marked by the session: BulkMark begins its text.
// While it runs, tables that allow it (TableDesc.Whole) are captured by statement triggers from
// transition tables, thousands of rows at a time, and their row triggers keep still.
//
// The row trigger keeps still only if the text of what the client runs begins with BulkMark, and the
// statement trigger fires whenever it does. The text cannot change while a statement runs,
// clients' texts never have the mark, and every statement that writes to such a table names it and so
// fires its statement triggers. So no row is missed, whatever functions and rules do meanwhile. That
// tutti.tx says so as well only saves others the look at the text, which is copied for every row.

// BulkMark begins the text of a statement that is captured as a whole.
const BulkMark = MarkStart + "bulk*/ "

// BulkSetting is TransactionSetting's value for a statement with BulkMark. For all others it is as 'on'.
const BulkSetting = "quiet_bulk"

// Names of the statement triggers, and of the transition tables.
const (
	insertTriggerName = "!!tutti_insert"
	updateTriggerName = "!!tutti_update"
	deleteTriggerName = "!!tutti_delete"

	bulkNew = "tutti_new"
	bulkOld = "tutti_old"
)

// opBulk is added to the operation of a captured row that stands for many of the same operation.
const opBulk = 40

const (
	bulkRowsFirst = 2000     // in the first captured row of a statement
	bulkBytes     = 16 << 20 // images in each of the others, about
)

// marked is the condition that the text begins with BulkMark.
const marked = "pg_catalog.starts_with(pg_catalog.current_query(), '" + BulkMark + "')"

// bulkHeirs refuses what has changed, or may have, rows of other tables, which transition tables do not tell apart: of
// temporary tables that the session has made and knows of only now (capture.HeirState), or of tables that a function
// has given the table as heirs meanwhile.
const bulkHeirs = `  IF TG_OP OPERATOR(pg_catalog.<>) 'INSERT' AND (pg_catalog.pg_my_temp_schema() ` +
	`OPERATOR(pg_catalog.<>) 0::pg_catalog.oid
      OR pg_catalog.current_setting('` + TransactionSetting + `', true) OPERATOR(pg_catalog.<>) '` + BulkSetting + `') THEN
    IF EXISTS (SELECT FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.inhrelid WHERE i.inhparent OPERATOR(pg_catalog.=) TG_RELID
        AND (c.relpersistence OPERATOR(pg_catalog.<>) 't'::pg_catalog."char" OR c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema())) THEN
      RAISE EXCEPTION 'rows of table "%%" and of tables that inherit from it cannot be changed together here', TG_TABLE_NAME USING ERRCODE = 'feature_not_supported',
        HINT = 'Prepare the statement again, or run it after the one that made the other table.';
    END IF;
  END IF;
`

// Whole reports whether statements on the table are captured as a whole if they have the mark. Where somebody's
// triggers may change a row again, or a statement changes rows of a table that it does not name, rows are captured one
// by one.
func (t *TableDesc) Whole() bool {
	for i := range t.Indexes {
		if x := &t.Indexes[i]; !x.expressible() || x.evaluated() || slices.Contains(x.Uses, 0) {
			return false
		}
	}
	return t.Single && !slices.ContainsFunc(t.Columns, func(c Column) bool {
		return c.Name == bulkNew || c.Name == bulkOld || strings.HasPrefix(c.Name, "tutti_")
	})
}

// undirected is the condition under which the row trigger fires, empty for always: neither a direct statement nor one
// that is captured as a whole is running, as far as the table allows them. PostgreSQL reads it anew for every
// statement, which takes the longer the more nodes and bytes of constants it has. The text is only looked at where it
// can matter.
func (t triggerCode) undirected() string {
	var mark string
	switch {
	case t.direct() && t.Whole():
		mark = MarkStart
	case t.direct():
		mark = DirectMark
	case t.Whole():
		mark = BulkMark
	default:
		return ""
	}
	return "(pg_catalog.starts_with(pg_catalog.current_setting('" + TransactionSetting + "', true), '" + quietStart +
		"') AND " +
		"pg_catalog.starts_with(pg_catalog.current_query(), '" + mark + "')) IS NOT TRUE"
}

// bulkTriggers are the statements that install the statement triggers, or remove them.
func (g *generated) bulkTriggers(t *TableDesc) (out []string) {
	name := Quote(t.Schema) + "." + Quote(t.Name)
	if g.bulk == "" {
		if len(t.Bulk) > 0 {
			for _, trigger := range []string{insertTriggerName, updateTriggerName, deleteTriggerName} {
				out = append(out, fmt.Sprintf(`DROP TRIGGER IF EXISTS %q ON %s`, trigger, name))
			}
		}
		return out
	}
	fn := "tutti." + g.bulkName()
	out = append(out,
		g.bulkFunction(),
		fmt.Sprintf("ALTER FUNCTION %s() OWNER TO tutti_owner", fn),
		fmt.Sprintf("REVOKE ALL ON FUNCTION %s() FROM PUBLIC", fn))
	for _, x := range [][3]string{
		{insertTriggerName, "INSERT", "NEW TABLE AS " + bulkNew},
		{updateTriggerName, "UPDATE", "OLD TABLE AS " + bulkOld + " NEW TABLE AS " + bulkNew},
		{deleteTriggerName, "DELETE", "OLD TABLE AS " + bulkOld},
	} {
		out = append(out, fmt.Sprintf(`CREATE OR REPLACE TRIGGER %q AFTER %s ON %s REFERENCING %s FOR EACH STATEMENT `+
			`WHEN (%s) EXECUTE FUNCTION %s()`,
			x[0], x[1], name, x[2], marked, fn))
	}
	return out
}

func (g *generated) bulkFunction() string {
	return fmt.Sprintf("CREATE OR REPLACE FUNCTION tutti.%s() RETURNS trigger LANGUAGE plpgsql SECURITY "+
		"DEFINER%s AS %s", g.bulkName(), textSettings+bulkExtras, literal(g.bulk))
}

// bulkExtras keep the planner from plans that are quadratic in the rows of a transition table.
const bulkExtras = " SET client_encoding = 'UTF8' SET enable_nestloop = off SET jit = off"

// bulkQuiet is the body where a table is not captured as a whole any more. The triggers stay: to drop them would keep
// readers out, which CREATE TRIGGER and others that bring that about do not. Where tables inherit they go: PostgreSQL
// cannot gather rows of heirs that are foreign tables for them.
const bulkQuiet = "BEGIN RETURN NULL; END"

// bulkBody is the body of the statement triggers' function. It goes through the transition tables in
// pieces, so that memory is bounded. Old and new rows of an update stand in the same order.
func (t triggerCode) bulkBody() string {
	var b strings.Builder
	header := t.header()
	fmt.Fprintf(&b, `
#variable_conflict use_column
DECLARE s pg_catalog.int8; tutti_at pg_catalog.int8 := 0; tutti_step pg_catalog.int8 := %d; tutti_op pg_catalog.int2;
  tutti_stamp pg_catalog.int8; tutti_k pg_catalog._int8; tutti_m pg_catalog.bytea; tutti_c pg_catalog.int8; tutti_r record; tutti_sum pg_catalog.int8 := 0;
BEGIN
  IF pg_catalog.current_setting('%s', true) OPERATOR(pg_catalog.=) ANY ('{on,%s,%s}'::pg_catalog._text) THEN ELSE
    RAISE EXCEPTION 'write outside a Tutti transaction' USING ERRCODE = '%s', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      HINT = 'Connect to Tutti, not to the database behind it.';
  END IF;
`+bulkHeirs+`  s := %s;
  tutti_stamp := (((pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) OPERATOR(pg_catalog.*) 1000000::pg_catalog.float8)::pg_catalog.int8) OPERATOR(pg_catalog.<<) %d)
    OPERATOR(pg_catalog.|) (pg_catalog.pg_stat_get_xact_tuples_inserted(tutti.captures()::pg_catalog.regclass) OPERATOR(pg_catalog.&) %d::pg_catalog.int8);
  LOOP
    tutti_k := NULL;
`, bulkRowsFirst, TransactionSetting, BulkSetting, DirectSetting, OutsideState, window(), runBits, 1<<runBits-1)
	k := t.keys(bulkNew, bulkOld)
	fmt.Fprintf(&b, "    IF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN\n      tutti_op := %d;\n%s",
		opBulk+writeset.OpInsert,
		t.bulkPiece(bulkNew, t.image(bulkNew+".*"), k.fresh, k.foreign, k.extra))
	var pairs string
	if t.Key() == nil {
		pairs = t.bulkWholePairs(&k)
		b.WriteString("    ELSIF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN\n" +
			bulkOneByOne(t.bulkWholes(&k), header))
	} else {
		fmt.Fprintf(&b, "    ELSIF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN\n      tutti_op := %d;\n%s",
			opBulk+writeset.OpDelete, t.bulkPiece(bulkOld, t.bulkKeyImage(), k.stale, k.gone))
		fmt.Fprintf(&b, "    ELSIF %s THEN\n      tutti_op := %d;\n%s", t.bulkUnchanged(&k),
			opBulk+writeset.OpUpdate, t.bulkPiece(bulkNew, t.image(bulkNew+".*")))
		pairs = t.bulkPairs(&k)
	}
	b.WriteString("    ELSE\n" + bulkOneByOne(pairs, header))
	b.WriteString("    END IF;\n    EXIT WHEN tutti_c OPERATOR(pg_catalog.=) 0::pg_catalog.int8;\n  " +
		"  IF tutti_k IS NOT NULL THEN\n")
	b.WriteString(indent(insertChain(header+", tutti_op, tutti_stamp, tutti_k, tutti_m"), "    "))
	fmt.Fprintf(&b,
		`      tutti_sum := tutti_sum OPERATOR(pg_catalog.+) pg_catalog.length(tutti_m) OPERATOR(pg_catalog.-) tutti_c;
      IF EXISTS (SELECT FROM tutti.token k WHERE k.bytes_max OPERATOR(pg_catalog.<) tutti_sum) THEN
        RAISE EXCEPTION 'the transaction changes more than %% bytes (writeset_bytes)', (SELECT k.bytes_max FROM tutti.token k)
          USING ERRCODE = 'program_limit_exceeded', HINT = 'Split it into smaller transactions.';
      END IF;
    END IF;
    EXIT WHEN tutti_c OPERATOR(pg_catalog.<) tutti_step;
    tutti_at := tutti_at OPERATOR(pg_catalog.+) tutti_c;
    tutti_step := GREATEST(100::pg_catalog.int8, LEAST(tutti_step OPERATOR(pg_catalog.*) 16::pg_catalog.int8,
      tutti_c OPERATOR(pg_catalog.*) %d::pg_catalog.int8 OPERATOR(pg_catalog./) GREATEST(1, pg_catalog.length(tutti_m))::pg_catalog.int8));
  END LOOP;
  RETURN NULL;
END`, bulkBytes)
	return b.String()
}

// bulkOneByOne is the PL/pgSQL that captures the rows of a query, which says of each whether another row of the table
// is done with it.
func bulkOneByOne(query, header string) string {
	return "      tutti_c := 0; tutti_m := '';\n      FOR tutti_r IN " + query +
		" LOOP\n        tutti_c := tutti_c OPERATOR(pg_catalog.+) tutti_r.tutti_first;\n" +
		indent(insertChain(header+", tutti_r.tutti_op, tutti_r.tutti_ident, tutti_r.tutti_keys, tutti_r.tutti_img"),
			"      ") + "      END LOOP;\n"
}

func indent(s, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+by) + "\n"
}

// bulkRows is the FROM item for the next rows of a transition table.
func bulkRows(table string) string {
	return fmt.Sprintf("(SELECT * FROM %s OFFSET tutti_at LIMIT tutti_step) AS %s", table, table)
}

// bulkPiece is the PL/pgSQL that gathers the next rows: their identities in tutti_k and, in tutti_m, one
// after the other as records in binary, their images, each with its other keys if the operation
// has any.
func (t triggerCode) bulkPiece(row, image string, keys ...[]string) string {
	list := array(keys...)
	if list != "NULL" {
		image += ", " + list
	}
	return fmt.Sprintf("      SELECT pg_catalog.count(*), pg_catalog.array_agg(%s), "+
		"pg_catalog.string_agg(pg_catalog.record_send(ROW(%s)), ''::pg_catalog.bytea) INTO tutti_c, tutti_k, "+
		"tutti_m\n        FROM %s;\n",
		t.IdentitySQL(row), image, bulkRows(row))
}

// bulkKeyImage is keyImage of an alias.
func (t triggerCode) bulkKeyImage() string {
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Domain }) {
		return t.image(bulkOld + ".*")
	}
	return t.keyImage(bulkOld)
}

// bulkUnchanged is the condition that an update leaves all columns of keys, byte for byte, in the next rows.
func (t triggerCode) bulkUnchanged(k *keyLists) string {
	side := func(row string) string {
		return fmt.Sprintf("(SELECT pg_catalog.string_agg(pg_catalog.record_send(ROW(%s)), ''::pg_catalog.bytea) "+
			"FROM %s)", t.fields(row, k.uses), bulkRows(row))
	}
	return side(bulkOld) + " OPERATOR(pg_catalog.=) " + side(bulkNew)
}

// bulkPairs is the query for the next rows of an update that changes keys, as the row trigger captures them.
func (t triggerCode) bulkPairs(k *keyLists) string {
	fresh, stale := k.changed()
	replaced := "false"
	if len(k.fresh) > 0 {
		replaced = "tutti_a OPERATOR(pg_catalog.<>) tutti_b"
	}
	if len(k.always) > 0 {
		replaced += fmt.Sprintf(" OR NOT pg_catalog.record_image_eq(ROW(%s), ROW(%s))", t.fields(bulkOld, k.always),
			t.fields(bulkNew, k.always))
	}
	// The images are of rows without tutti_n.
	whole := func(row string) string { return "ROW(" + t.fields(row, t.numbers()) + ")" }
	from := t.keyImage(bulkOld)
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Domain }) {
		from = t.image(whole(bulkOld))
	}
	return fmt.Sprintf(`SELECT tutti_v.* FROM %s JOIN %s ON %s.tutti_n OPERATOR(pg_catalog.=) %s.tutti_n
        CROSS JOIN LATERAL (SELECT %s AS tutti_i, %s AS tutti_j, %s AS tutti_a, %s AS tutti_b OFFSET 0) AS tutti_h
        CROSS JOIN LATERAL (SELECT %s AS tutti_moved OFFSET 0) AS tutti_l
        CROSS JOIN LATERAL (SELECT 0 AS tutti_first, %d::pg_catalog.int2 AS tutti_op, tutti_j AS tutti_ident, %s AS tutti_keys, %s AS tutti_img WHERE tutti_moved
          UNION ALL SELECT 1, CASE WHEN tutti_moved THEN %d WHEN %s THEN %d ELSE %d END::pg_catalog.int2, tutti_i,
            CASE WHEN tutti_moved THEN %s ELSE %s END, %s) AS tutti_v
        ORDER BY %s.tutti_n, tutti_v.tutti_first`,
		bulkNumbered(bulkOld), bulkNumbered(bulkNew), bulkOld, bulkNew,
		t.IdentitySQL(bulkNew), t.IdentitySQL(bulkOld), orEmpty(array(k.fresh)), orEmpty(array(k.stale)),
		t.rekeyed(bulkOld, bulkNew),
		opMoved, orEmpty(array(k.stale, k.gone)), from,
		writeset.OpInsert, replaced, writeset.OpReplace, writeset.OpUpdate,
		orEmpty(array(k.fresh, k.foreign, k.extra)), orEmpty(array(fresh, k.foreignChanged, k.extra, stale)),
		t.image(whole(bulkNew)),
		bulkOld)
}

// bulkWholes is the query for the next rows of a deletion from a table without key, as the row trigger captures them.
func (t triggerCode) bulkWholes(k *keyLists) string {
	return fmt.Sprintf("SELECT 1 AS tutti_first, %d::pg_catalog.int2 AS tutti_op, NULL::pg_catalog.int8 AS "+
		"tutti_ident, %s AS tutti_keys, %s AS tutti_img FROM %s", writeset.OpDelete,
		array(k.stale, []string{t.wholeKey(bulkOld + ".*")}, k.gone), t.image(bulkOld+".*"), bulkRows(bulkOld))
}

// bulkWholePairs is bulkPairs for a table without key: what a row was, and behind it what it is.
func (t triggerCode) bulkWholePairs(k *keyLists) string {
	fresh, stale := k.changed()
	row := func(table string) string { return "ROW(" + t.fields(table, t.numbers()) + ")" }
	return fmt.Sprintf(`SELECT tutti_v.* FROM %s JOIN %s ON %s.tutti_n OPERATOR(pg_catalog.=) %s.tutti_n
        CROSS JOIN LATERAL (SELECT %s AS tutti_a, %s AS tutti_b OFFSET 0) AS tutti_h
        CROSS JOIN LATERAL (SELECT 0 AS tutti_first, %d::pg_catalog.int2 AS tutti_op, NULL::pg_catalog.int8 AS tutti_ident, %s AS tutti_keys, %s AS tutti_img
          UNION ALL SELECT 1, %d::pg_catalog.int2, NULL, %s, %s) AS tutti_v
        ORDER BY %s.tutti_n, tutti_v.tutti_first`,
		bulkNumbered(bulkOld), bulkNumbered(bulkNew), bulkOld, bulkNew,
		orEmpty(array(k.fresh)), orEmpty(array(k.stale)),
		writeset.OpDelete, array(stale, []string{t.wholeKey(row(bulkOld))}), t.image(row(bulkOld)),
		writeset.OpUpdate, orEmpty(array(fresh, k.foreignChanged, k.extra)), t.image(row(bulkNew)), bulkOld)
}

// numbers are the attribute numbers of all columns.
func (t triggerCode) numbers() (all []int) {
	for i := range t.Columns {
		all = append(all, t.Columns[i].Num)
	}
	return all
}

// bulkNumbered is the FROM item for the next rows of a transition table with their places, as tutti_n.
func bulkNumbered(row string) string {
	return fmt.Sprintf("(SELECT pg_catalog.row_number() OVER () AS tutti_n, %s.* FROM %s) AS %s", row,
		bulkRows(row), row)
}

// orEmpty gives a list of keys its type.
func orEmpty(list string) string {
	if list == "NULL" {
		return "NULL::pg_catalog._int8"
	}
	return list
}
