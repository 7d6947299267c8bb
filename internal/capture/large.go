package capture

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Large objects have no triggers. PostgreSQL's functions that write them are given other names, and functions of the
// old ones take their place: they call PostgreSQL's, with the rights of who calls them, and note which pages of
// which object were written. The notes are captured rows. The collect step puts in their place what they
// came to: rows of tutti.large, a table that is always empty and whose rows are carried out instead of stored.

// LargeName is the name, in schema tutti, of the table that stands for all large objects.
const LargeName = "large"

// LargeApply carries out rows of that table, in order: its argument is an array of them.
const LargeApply = "SELECT tutti.large_apply(r) FROM pg_catalog.unnest($1::tutti.large[]) AS r"

const (
	opLarge = 11 // ident: the object; keys: one of the largeNotes, first and last page

	// largeSetting is 'on' where something was noted.
	largeSetting = "tutti.large"
	// largeOpened, with the number of a descriptor, holds the object that it was opened for, to write.
	largeOpened = "tutti.large_"

	// largePages are written by one row at most; each is 2 kB.
	largePages = 128
	// largeClasses is how many members draw OIDs that no other does.
	largeClasses = 64
)

// What is noted.
const (
	largeMade  = 1
	largeGone  = 2
	largeWrote = 3 // pages were written
	largeCut   = 4 // the first page is the last, or what comes after it was cut off
)

// What a row of tutti.large does.
const (
	largeMake  = 1 // an object, for its owner
	largeDrop  = 2
	largeClear = 3 // takes pages away
	largeFill  = 4 // writes pages that are not there, beginning with one
)

// lastPage stands for all there are.
const lastPage = 1<<31 - 1

// LargeObject is the only large object that a writeset's rows are about, if there is one.
func LargeObject(w *writeset.Writeset) (oid uint32, one bool) {
	for i := range w.Rows {
		t, image := w.Tables[w.Rows[i].Table], w.Rows[i].Image
		if t.Schema != SchemaName || t.Name != LargeName {
			continue
		}
		if len(image) < 4 { // the number of columns, and the first
			return 0, false
		}
		value, _, ok := takeField(image[4:])
		if !ok || len(value) != 4 || one && oid != binary.BigEndian.Uint32(value) {
			return 0, false
		}
		oid, one = binary.BigEndian.Uint32(value), true
	}
	return oid, one
}

// largeFunction is a function of PostgreSQL's that writes, and what is done in its place.
type largeFunction struct {
	name, types, returns string
	declare, body        string
	closed               bool // nobody but a superuser may call it, unless he was granted to
}

var largeFunctions = []largeFunction{
	{name: "lo_creat", types: "pg_catalog.int4", returns: "oid", declare: "o pg_catalog.oid;", body: `
  o := pg_catalog.tutti_lo_create(tutti.large_oid());
  PERFORM tutti.large_note(o, @made, 0, 0);
  RETURN o;`},
	{name: "lo_create", types: "pg_catalog.oid", returns: "oid", declare: "o pg_catalog.oid := $1;", body: `@draw
  o := pg_catalog.tutti_lo_create(o);
  PERFORM tutti.large_note(o, @made, 0, 0);
  RETURN o;`},
	{name: "lo_from_bytea", types: "pg_catalog.oid, pg_catalog.bytea", returns: "oid",
		declare: "o pg_catalog.oid := $1;", body: `@draw
  o := pg_catalog.tutti_lo_from_bytea(o, $2);
  PERFORM tutti.large_note(o, @made, 0, 0);
  RETURN o;`},
	{name: "lo_import", types: "pg_catalog.text", returns: "oid", declare: "o pg_catalog.oid;", closed: true, body: `
  o := pg_catalog.tutti_lo_import($1, tutti.large_oid());
  PERFORM tutti.large_note(o, @made, 0, 0);
  RETURN o;`},
	{name: "lo_import", types: "pg_catalog.text, pg_catalog.oid", returns: "oid", declare: "o pg_catalog.oid := $2;",
		closed: true, body: `@draw
  o := pg_catalog.tutti_lo_import($1, o);
  PERFORM tutti.large_note(o, @made, 0, 0);
  RETURN o;`},
	{name: "lo_open", types: "pg_catalog.oid, pg_catalog.int4", returns: "int4", declare: "fd pg_catalog.int4;", body: `
  fd := pg_catalog.tutti_lo_open($1, $2);
  IF ($2 OPERATOR(pg_catalog.&) 131072) OPERATOR(pg_catalog.<>) 0 THEN
    PERFORM pg_catalog.set_config(pg_catalog.concat('` + largeOpened + `', fd), $1::pg_catalog.text, true);
  END IF;
  RETURN fd;`},
	{name: "lowrite", types: "pg_catalog.int4, pg_catalog.bytea", returns: "int4",
		declare: "n pg_catalog.int4; at pg_catalog.int8;", body: `
  at := pg_catalog.lo_tell64($1);
  n := pg_catalog.tutti_lowrite($1, $2);
  IF n OPERATOR(pg_catalog.>) 0 THEN
    PERFORM tutti.large_note(pg_catalog.current_setting(pg_catalog.concat('` + largeOpened + `', $1))::pg_catalog.oid, @wrote, at, at OPERATOR(pg_catalog.+) n OPERATOR(pg_catalog.-) 1);
  END IF;
  RETURN n;`},
	{name: "lo_put", types: "pg_catalog.oid, pg_catalog.int8, pg_catalog.bytea", returns: "void", body: `
  PERFORM pg_catalog.tutti_lo_put($1, $2, $3);
  IF pg_catalog.length($3) OPERATOR(pg_catalog.>) 0 THEN
    PERFORM tutti.large_note($1, @wrote, $2, $2 OPERATOR(pg_catalog.+) pg_catalog.length($3) OPERATOR(pg_catalog.-) 1);
  END IF;`},
	{name: "lo_truncate", types: "pg_catalog.int4, pg_catalog.int4", returns: "int4", declare: "r pg_catalog.int4;",
		body: largeTruncate},
	{name: "lo_truncate64", types: "pg_catalog.int4, pg_catalog.int8", returns: "int4", declare: "r pg_catalog.int4;",
		body: largeTruncate},
	{name: "lo_unlink", types: "pg_catalog.oid", returns: "int4", declare: "r pg_catalog.int4;", body: `
  r := pg_catalog.tutti_lo_unlink($1);
  PERFORM tutti.large_note($1, @gone, 0, 0);
  RETURN r;`},
}

const largeTruncate = `
  r := pg_catalog.tutti_@name($1, $2);
  PERFORM tutti.large_note(pg_catalog.current_setting(pg_catalog.concat('` + largeOpened + `', $1))::pg_catalog.oid, @cut, $2, $2);
  RETURN r;`

func largeSchema() string {
	var b strings.Builder
	var names []string
	for _, f := range largeFunctions {
		names = append(names, f.name)
	}
	notes := strings.NewReplacer(
		"@made", fmt.Sprintf("%d::pg_catalog.int2", largeMade), "@gone", fmt.Sprintf("%d::pg_catalog.int2", largeGone),
		"@wrote", fmt.Sprintf("%d::pg_catalog.int2", largeWrote), "@cut", fmt.Sprintf("%d::pg_catalog.int2", largeCut),
		"@draw", "\n  IF o OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN o := tutti.large_oid(); END IF;")
	b.WriteString(install("rename_large.sql", words{"names": "'{" + strings.Join(names, ",") + "}'"}))
	b.WriteString(largeNoting())
	b.WriteString(largeCollecting())
	for _, f := range largeFunctions {
		body := notes.Replace(strings.ReplaceAll(f.body, "@name", f.name))
		b.WriteString(expand("large_wrapper.sql", words{
			"name":    f.name,
			"types":   f.types,
			"returns": f.returns,
			"declare": f.declare,
			"count":   largeCount,
			"counted": largeCounted,
			"body":    body,
		}))
		if f.closed {
			fmt.Fprintf(&b, "REVOKE ALL ON FUNCTION pg_catalog.%s(%s) FROM PUBLIC;\n", f.name, f.types)
		}
	}
	return b.String()
}

// largeNoting notes what is written.
func largeNoting() string {
	return install("large_tables.sql", words{
		"oids":    fmt.Sprint((1<<32-16384)/largeClasses - 1),
		"classes": largeClasses,
	}) +
		install("large_notes.sql", words{
			"tx":      TransactionSetting,
			"begun":   ownBegin,
			"session": SessionSetting,
			"applies": SessionApplies,
			"defines": SessionDefines,
			"direct":  DirectSetting,
			"inside":  InsideSetting,
			"bulk":    BulkSetting,
			"outside": OutsideState,
			"wrote":   largeWrote,
			"cut":     largeCut,
			"end":     lastPage,
			"gone":    largeGone,
			"made":    largeMade,
			"op":      opLarge,
			"flag":    largeSetting,
			"counted": largeCountSetting,
			"count":   largeCount,
			"seen":    largeSeenSetting,
			"marks":   "(" + marksCount + ")",
			"odd":     largeOddSetting,
		})
}

// largeCollecting says what the notes have come to, and carries it out elsewhere.
func largeCollecting() string {
	header := fmt.Sprintf("pg_catalog.decode('%x', 'hex')",
		fmt.Sprintf("B;1;0;0;;%d;%s%s", len(SchemaName), SchemaName, LargeName))
	return install("large_collect.sql", words{
		"op":     opLarge,
		"gone":   largeGone,
		"made":   largeMade,
		"wrote":  largeWrote,
		"cut":    largeCut,
		"drop":   largeDrop,
		"make":   largeMake,
		"end":    lastPage,
		"clear":  largeClear,
		"key":    int8Literal(TableKey(SchemaName, LargeName)),
		"header": header,
		"pages":  largePages,
		"fill":   largeFill,
	}) +
		install("large_guard.sql", words{
			"counted":    largeCountSetting,
			"odd":        largeOddSetting,
			"op":         opLarge,
			"definition": opDefinition,
			"frozen":     opFrozen,
			"made":       largeMade,
			"seen":       largeSeenSetting,
			"count":      largeCount,
			"marks":      "(" + marksCount + ")",
		}) +
		install("large_apply.sql", words{
			"own_settings": ownSettings,
			"make":         largeMake,
			"fill":         largeFill,
			"drop":         largeDrop,
			"clear":        largeClear,
		})
}

// sql/rename_large.sql gives PostgreSQL's own functions, known by the OIDs below those of users, other names.

// largeCount is SQL for how often the session has written to the catalogs of large objects, as PostgreSQL counts it,
// and largeCounted for how often it had when one of our functions ended; both as text.
var (
	largeCount   = countOf(asideCatalogs, "inserted", "updated", "deleted") + "::pg_catalog.text"
	largeCounted = "pg_catalog.current_setting('" + largeCountSetting + "', true)"
)

const marksCount = "pg_catalog.pg_stat_get_xact_tuples_inserted('tutti.mark'::pg_catalog.regclass) " +
	"OPERATOR(pg_catalog.+) pg_catalog.pg_stat_get_xact_tuples_updated('tutti.mark'::pg_catalog.regclass)"

// largeCountSetting is that, and largeOddSetting is 'on' where something was written in between.
const (
	largeCountSetting = "tutti.large_count"
	largeOddSetting   = "tutti.large_odd"
	// largeSeenSetting is, for the session, the count that is known, and that of marks then.
	largeSeenSetting = "tutti.large_seen"
)

// sql/large_wrapper.sql runs with the caller's rights: PostgreSQL's function asks for them.

// largeUnnoted is SQL, whatever the search_path, for whether something may have been written without a note.
func largeUnnoted() string {
	return largeCount + " OPERATOR(pg_catalog.<>) COALESCE(NULLIF(" + largeCounted +
		", ''), '0') OR pg_catalog.current_setting('" + largeOddSetting + "', true) OPERATOR(pg_catalog.=) 'on'"
}

// sql/large_tables.sql: OIDs are drawn such that no two members draw the same, as long as a sequence has not gone
// around.

// sql/large_notes.sql: anybody may call tutti.large_note. So it notes nothing but what this transaction has done in
// fact, which takes the rights to do it: the page, or the object, is this transaction's. That an object is gone by its
// own doing is looked up by the collect step. To write an object locks its row as the applier does: from then on until
// this transaction ends, no other member's change of the object comes in between, see the base in ARCHITECTURE.
//
// The first and the last byte come in; of what was cut, the length.

// sql/large_collect.sql: tutti.large_steps says what the notes came to, object by object, and behind which captured row
// that comes; tutti.collect_large returns the captured rows with it. An object's pages are as they are now, which is as
// they were written last, if its row is locked. n tells where something happened.

// sql/large_apply.sql: pages are written as they are, as rows of the catalog: short ones and gaps are kept, which no
// function of PostgreSQL's would do. An object that should be there and is not, or the other way round, is passed over
// with a warning: a client who calls PostgreSQL's own functions by the names they have now can bring that about,
// and must not be able to end other members.
//
// tutti.settle_large puts PL/pgSQL in the place of what the extension lo has in C: that would pass our functions by.

// sql/large_guard.sql: where the counts say that something may have been written without a note, tutti.guard_large
// looks for it. They go with PostgreSQL's statistics, a second after a transaction; until then tutti.large_seen knows
// them, as long as those of tutti.mark have not begun anew. What definitions have changed (owner, rights) is noted
// otherwise, and what was frozen is not told any more.
