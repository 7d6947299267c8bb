package capture

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// generated is everything installed for one table.
type generated struct {
	schema, name string
	signature    string // 16 hex digits over the rest
	shape        string // the same over what the triggers are, but for their functions' bodies
	directed     string // the same over what direct statements are made from; equal at all members
	capture      string // body of the row and truncate trigger's function
	final        string // body of the function that reads final images again; empty without key
	options      string // SET clauses of the trigger function
	reader       string // SET clauses of the final function
	when         string // condition of the row trigger; empty for none
	direct       bool   // there can be direct statements
	bulk         string // body of the statement triggers' function; empty if there are none
}

// functions are the names of the functions a table should have.
func (g *generated) functions() []string {
	out := []string{g.captureName()}
	if g.direct {
		out = append(out, g.directName())
	}
	if g.bulk != "" {
		out = append(out, g.bulkName())
	}
	if g.final != "" {
		out = append(out, finalName(g.schema, g.name))
	}
	return out
}

// All names begin with a kind and the table, so that those of a table can be found.

func (g *generated) captureName() string {
	return "capture_" + keyText(g.schema, g.name) + "_" + g.signature + "_" + g.shape
}

func (g *generated) bulkName() string { return "bulk_" + keyText(g.schema, g.name) + "_" + g.signature }

func (g *generated) directName() string { return directPrefix(g.schema, g.name) + g.directed }

func directPrefix(schema, name string) string { return "direct_" + keyText(schema, name) + "_" }

// keyText is a table's key in hexadecimal.
func keyText(schema, name string) string { return fmt.Sprintf("%016x", TableKey(schema, name)) }

var isKey = regexp.MustCompile("^[0-9a-f]{16}$")

// ofTable is the key, in hexadecimal, of the table that a function was made for; of one of earlier versions it may be
// nobody's.
func ofTable(function string) string {
	_, rest, _ := strings.Cut(function, "_")
	return rest[:min(len(rest), 16)]
}

// finalName depends on the table alone, so that the decoder knows it.
func finalName(schema, name string) string { return "final_" + keyText(schema, name) }

// Signature names the triggers a table should have; it differs when anything they depend on
// does, and between tables.
func Signature(t TableDesc) string { g := generate(&t); return g.captureName() }

// TriggerSQL returns the statements that give t its triggers, replacing older ones.
func TriggerSQL(t TableDesc) []string {
	g := generate(&t)
	name := Quote(t.Schema) + "." + Quote(t.Name)
	fn := "tutti." + g.captureName()
	when := ""
	if g.when != "" {
		when = " WHEN (" + g.when + ")"
	}
	out := []string{
		g.captureFunction(),
		fmt.Sprintf("ALTER FUNCTION %s() OWNER TO tutti_owner", fn),
		fmt.Sprintf("REVOKE ALL ON FUNCTION %s() FROM PUBLIC", fn),
		hidden(name, false),
		fmt.Sprintf(`CREATE OR REPLACE TRIGGER %q AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW%s EXECUTE `+
			`FUNCTION %s()`, TriggerName, name, when, fn),
		fmt.Sprintf(`CREATE OR REPLACE TRIGGER %q AFTER TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION %s()`,
			TruncateTriggerName, name, fn),
		replicaTrigger(name),
	}
	out = append(out, g.bulkTriggers(&t)...)
	out = append(out, hidden(name, true))
	if g.direct {
		fn = "tutti." + g.directName()
		out = append(out,
			fmt.Sprintf(directFunction, fn),
			fmt.Sprintf("ALTER FUNCTION %s() OWNER TO tutti_owner", fn))
	}
	return append(out, g.finalFunction()...)
}

func (g *generated) captureFunction() string {
	return fmt.Sprintf("CREATE OR REPLACE FUNCTION tutti.%s() RETURNS trigger LANGUAGE plpgsql SECURITY "+
		"DEFINER%s AS %s", g.captureName(), g.options, literal(g.capture))
}

// finalFunction are the statements that make the function that reads final images, or none.
func (g *generated) finalFunction() []string {
	if g.final == "" {
		return nil
	}
	fn := "tutti." + finalName(g.schema, g.name)
	return []string{
		fmt.Sprintf("CREATE OR REPLACE FUNCTION %s(images anyarray, pairs pg_catalog.bool, OUT ident "+
			"pg_catalog.int8, OUT img pg_catalog.bytea) RETURNS SETOF pg_catalog.record LANGUAGE plpgsql STABLE "+
			"SECURITY DEFINER%s AS %s",
			fn, g.reader, literal(g.final)),
		fmt.Sprintf("ALTER FUNCTION %s(anyarray, pg_catalog.bool) OWNER TO tutti_reader", fn),
	}
}

// reshapes reports whether the table has the triggers it should have, but for what their functions do.
func (g *generated) reshapes(t *TableDesc) bool {
	if !strings.HasSuffix(t.Trigger, "_"+g.shape) {
		return false
	}
	if g.bulk == "" {
		return len(t.Bulk) == 0
	}
	return len(t.Bulk) == 3 && t.Bulk[0] == t.Bulk[1] && t.Bulk[1] == t.Bulk[2]
}

// reshape returns the statements that give the functions of such a table, which go on being the same to PostgreSQL,
// what they should do, and their names.
func (g *generated) reshape(t *TableDesc) []string {
	// Who has given the table's functions other names meanwhile has followed it up, too.
	renamed := func(was, is, body string) string {
		return fmt.Sprintf("SELECT tutti.rename_function('%s', '%s', %s)", was, is, literal(body))
	}
	out := []string{renamed(t.Trigger, g.captureName(), g.captureFunction())}
	if g.bulk != "" {
		out = append(out, renamed(t.Bulk[0], g.bulkName(), g.bulkFunction()))
	}
	if g.direct {
		out = append(out, fmt.Sprintf("SELECT tutti.rename_direct('%s', '%s')", directPrefix(t.Schema, t.Name),
			g.directName()))
	}
	return append(out, g.finalFunction()...)
}

// Refresh returns the statements that bring the triggers of all tables up to date: missing
// ones created, changed ones replaced, functions without a table dropped. Nothing to do
// gives nil. Run them in order in the transaction that changed the schema, as a superuser, with
// DDLSetting on.
func Refresh(c Catalog) []string {
	var out, made, left, wanted []string // left are the keys of tables with functions that are not wanted any more
	for _, t := range c.Gone {
		if t.Key == "" {
			t.Key = keyText(t.Schema, t.Name)
		}
		if isKey.MatchString(t.Key) { // a client may have changed it
			left = append(left, t.Key)
		}
	}
	for _, t := range c.Tables {
		g := generate(&t)
		names := g.functions()
		wanted = append(wanted, names...)
		if g.installed(&t) {
			continue
		}
		own := keyText(t.Schema, t.Name)
		if was := ofTable(t.Trigger); was != "" && was != own {
			left = append(left, was)
		}
		if g.reshapes(&t) {
			out = append(out, refit(&t, g.reshape(&t)))
			continue
		}
		left = append(left, own) // its triggers may be gone
		out = append(out, refit(&t, TriggerSQL(t)))
		made = append(made, names...)
	}
	if c.Partial && left != nil {
		slices.Sort(left)
		out = append(out, dropFunctionsOf(slices.Compact(left), wanted))
	}
	slices.Sort(wanted)
	old := slices.DeleteFunc(slices.Clone(c.Functions), func(f string) bool {
		_, is := slices.BinarySearch(wanted, f)
		return is
	})
	if len(old) > 0 {
		out = append(out, dropFunctions(old))
	}
	if made != nil {
		out = append(out, adoptFunctions(made))
	}
	return out
}

// refit has statements done to a table if it is still what was described: whoever describes a table need not have
// locked it, so that others may have dropped it meanwhile, or renamed it and made its triggers fit.
func refit(t *TableDesc, statements []string) string {
	return fmt.Sprintf("SELECT tutti.refit(%d::pg_catalog.oid, %s, %s)", t.OID,
		literal(Quote(t.Schema)+"."+Quote(t.Name)), literal(strings.Join(statements, ";\n")))
}

// installed reports whether the table has the triggers it should have.
func (g *generated) installed(t *TableDesc) bool {
	if g.bulk == "" {
		return t.Trigger == g.captureName() && len(t.Bulk) == 0
	}
	return t.Trigger == g.captureName() && slices.Equal(t.Bulk, []string{g.bulkName(), g.bulkName(), g.bulkName()})
}

// Installed notes that what Refresh returned has been run.
func (c *Catalog) Installed() {
	for i := range c.Tables {
		t := &c.Tables[i]
		g := generate(t)
		if t.Trigger, t.Bulk = g.captureName(), nil; g.bulk != "" {
			t.Bulk = []string{g.bulkName(), g.bulkName(), g.bulkName()}
		}
	}
}

const (
	textSettings = " SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' " +
		"SET timezone = 'UTC'" +
		" SET extra_float_digits = '3' SET bytea_output = 'hex' SET lc_monetary = 'C' SET xmloption = 'content' SET " +
		"quote_all_identifiers = 'off'"
	pathSetting  = " SET search_path = pg_catalog, pg_temp"
	readerExtras = " SET client_encoding = 'UTF8' SET enable_seqscan = off SET enable_hashjoin = off SET " +
		"enable_mergejoin = off"
)

func generate(t *TableDesc) generated {
	code := triggerCode{t}
	g := generated{schema: t.Schema, name: t.Name, capture: code.captureBody()}
	g.direct, g.when = t.direct(), code.undirected()
	switch {
	case t.Whole():
		g.bulk = code.bulkBody()
	case len(t.Bulk) > 0 && !t.Heirs:
		g.bulk = bulkQuiet
	}
	pinned := !t.Binary() || t.Key() == nil && !t.Portable()
	for i := range t.Indexes {
		// Expressions are printed for this search_path; unhashable primary keys go by their text.
		pinned = pinned || t.Indexes[i].evaluated() || t.Indexes[i].Primary && !t.Indexes[i].expressible()
	}
	if pinned {
		g.options = textSettings
	}
	g.reader = g.options
	if g.reader == "" {
		g.reader = pathSetting
	}
	g.reader += readerExtras
	if t.Key() != nil {
		g.final = code.finalBody()
	}
	var types []string
	for _, c := range t.Columns {
		types = append(types, c.Name, c.Type)
	}
	g.signature = fmt.Sprintf("%016x", digest(append(types, t.Schema, t.Name, g.capture, g.final, g.options, g.reader,
		g.when, g.bulk, strconv.FormatBool(t.Referenced))...))
	g.shape = fmt.Sprintf("%016x", digest("triggers", foreign, t.Schema, t.Name, g.when,
		fmt.Sprint(g.direct, g.bulk != "", g.final != "")))
	k := code.keys("NEW", "OLD")
	g.directed = fmt.Sprintf("%016x", digest(append(types, t.Schema, t.Name, t.IdentitySQL("NEW"),
		array(k.fresh, k.foreign, k.extra), array(k.stale, k.gone), fmt.Sprint(k.uses),
		g.when, strconv.FormatBool(t.Referenced))...))
	return g
}

// filledAgain refuses a TRUNCATE of a table that has rows again when its trigger fires: of several tables that are
// truncated together all are emptied before the triggers of the first one fire, and what these have written was
// captured already.
const filledAgain = `    IF pg_catalog.pg_relation_size(TG_RELID::pg_catalog.regclass)
        OPERATOR(pg_catalog.>) 0::pg_catalog.int8 THEN
      RAISE EXCEPTION 'a trigger has written to table "%", which the same TRUNCATE empties', TG_TABLE_NAME
        USING ERRCODE = 'feature_not_supported', HINT = 'Truncate the tables one after the other.';
    END IF;
`

// triggerCode writes the code that triggers of a table run, and what else takes rows as they do.
type triggerCode struct{ *TableDesc }

// image is the row's image, of a variable or alias.
func (t triggerCode) image(row string) string {
	if t.Binary() {
		return "pg_catalog.record_send(" + row + ")"
	}
	return "pg_catalog.convert_to((" + row + ")::pg_catalog.text, 'UTF8')"
}

// keyImage is the image of a row with only the key filled in, where a composite may
// have nulls everywhere else (domains may refuse them, or run user-written checks).
func (t triggerCode) keyImage(row string) string {
	x := t.Key()
	var vals []string
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Domain {
			return t.image(row)
		}
		v := "NULL"
		for _, p := range x.Parts {
			if p.Num == c.Num {
				v = row + "." + Quote(c.Name)
			}
		}
		vals = append(vals, v)
	}
	return t.image(fmt.Sprintf("ROW(%s)::%s.%s", strings.Join(vals, ", "), Quote(t.Schema), Quote(t.Name)))
}

// keyLists are the array elements of the key columns of the captured row, see header.
type keyLists struct {
	fresh, stale, foreign, foreignChanged []string // per unique index and foreign key: new row, old row, INSERT, UPDATE
	extra                                 []string // Exclusive keys of other tables
	gone, goneChanged                     []string // of the table's references: DELETE, UPDATE
	uses                                  []int    // columns any key reads, and:
	always                                []int    // columns that only an insert can set
}

// keys makes the lists for row variables or aliases: the row as it is now, and as it was.
func (t triggerCode) keys(now, was string) keyLists {
	var k keyLists
	own := int8Literal(TableKey(t.Schema, t.Name))
	key := t.Key()
	for i := range t.Indexes {
		x := &t.Indexes[i]
		k.uses = append(k.uses, x.Uses...)
		switch {
		case !x.expressible():
			k.fresh = append(k.fresh, own)
			k.stale = append(k.stale, fmt.Sprintf("CASE WHEN TG_OP OPERATOR(pg_catalog.=) 'DELETE' OR "+
				"pg_catalog.record_image_eq(ROW(%s), ROW(%s)) THEN %s END",
				t.fields(was, x.Uses), t.fields(now, x.Uses), own))
		case x != key:
			k.fresh = append(k.fresh, t.uniqueKey(now, x))
			k.stale = append(k.stale, t.uniqueKey(was, x))
		}
	}
	t.goneKeys(&k, now, was)
	for i := range t.Columns {
		if t.Columns[i].Always {
			k.always = append(k.always, t.Columns[i].Num)
		}
	}
	k.uses = append(k.uses, k.always...)
	for i := range t.Foreign {
		f := &t.Foreign[i]
		var nums []int
		for _, p := range f.Parts {
			nums = append(nums, p.Num)
		}
		k.uses = append(k.uses, nums...)
		var keys []string
		if !f.expressible() {
			keys = append(keys, refers([]string{t.fields(now, nums)}, int8Literal(refersKey(f.Index.RootSchema,
				f.Index.RootTable))))
		}
		if f.exclusive() { // members of earlier builds know nothing but that
			k.extra = append(k.extra, t.foreignKey(now, f))
		} else {
			keys = append(keys, t.foreignKey(now, f))
		}
		k.foreign = append(k.foreign, keys...)
		for _, key := range keys {
			k.foreignChanged = append(k.foreignChanged, t.changedKey(now, was, nums, key))
		}
	}
	return k
}

// goneKeys adds the keys of references that may be lost.
func (t triggerCode) goneKeys(k *keyLists, now, was string) {
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if key := int8Literal(refersKey(x.RootSchema, x.RootTable)); t.vaguelyReferred(x) {
			k.gone = append(k.gone, key)
			k.goneChanged = append(k.goneChanged, t.changedKey(now, was, x.Uses, key))
		}
	}
}

// vaguelyReferred reports whether references to the index may hold the key of all references to the table.
func (t triggerCode) vaguelyReferred(x *Index) bool {
	return t.Referenced && !x.Exclusion && !x.evaluated() && (!x.expressible() ||
		slices.ContainsFunc(t.Referring, func(p RefPart) bool { return !p.castable() }))
}

// changedKey is a key of an UPDATE that has changed one of these columns.
func (t triggerCode) changedKey(now, was string, nums []int, key string) string {
	return fmt.Sprintf("CASE WHEN NOT pg_catalog.record_image_eq(ROW(%s), ROW(%s)) THEN %s END", t.fields(was, nums),
		t.fields(now, nums), key)
}

func array(lists ...[]string) string {
	var all []string
	for _, l := range lists {
		all = append(all, l...)
	}
	if len(all) == 0 {
		return "NULL"
	}
	return "ARRAY[" + strings.Join(all, ", ") + "]::pg_catalog._int8"
}

// header tells the decoder what a captured row is: format, number of leading Exclusive keys,
// number of Shared keys after them (whatever follows is Exclusive), the table's array type, the places of the
// key's columns, and the table.
func (t triggerCode) header() string {
	return fmt.Sprintf("pg_catalog.decode('%x', 'hex')", t.headerText()) // without a backslash, see C5
}

func (t triggerCode) headerText() string {
	k := t.keys("NEW", "OLD")
	format := byte('T')
	if t.Binary() {
		format = 'B'
	}
	var places []string
	for _, i := range t.keyPlaces() {
		places = append(places, strconv.Itoa(i))
	}
	return fmt.Sprintf("%c;%d;%d;%d;%s;%d;%s%s", format, len(k.fresh), len(k.foreign), t.Array,
		strings.Join(places, ","), len(t.Schema), t.Schema, t.Name)
}

// keyPlaces are the places of the key's columns among the table's.
func (t triggerCode) keyPlaces() (places []int) {
	if x := t.Key(); x != nil {
		for _, p := range x.Parts {
			places = append(places, slices.IndexFunc(t.Columns, func(c Column) bool { return c.Num == p.Num }))
		}
	}
	return places
}

func (t triggerCode) captureBody() string {
	var b strings.Builder
	header := t.header()
	b.WriteString(`
#variable_conflict use_column
DECLARE tutti_op pg_catalog.int2; tutti_i pg_catalog.int8; tutti_j pg_catalog.int8; tutti_k pg_catalog._int8; tutti_m pg_catalog.bytea;
  tutti_a pg_catalog._int8; tutti_b pg_catalog._int8; s pg_catalog.int8; tutti_e pg_catalog.text;
BEGIN
  ` + ownBegin + `
  s := CASE WHEN pg_catalog.current_setting('` + TransactionSetting + `', true) OPERATOR(pg_catalog.=) ANY ('{on,` + BulkSetting + `}'::pg_catalog._text) THEN
    CASE WHEN pg_catalog.current_setting('client_encoding') OPERATOR(pg_catalog.=) 'UTF8' THEN ` + window() + ` ELSE -1 END END;
  IF s OPERATOR(pg_catalog.>=) 0 THEN ELSE
    IF s IS NULL AND pg_catalog.current_setting('` + TransactionSetting + `', true) OPERATOR(pg_catalog.=) '` + DirectSetting + `' THEN
      PERFORM pg_catalog.set_config('` + TransactionSetting + `', 'on', true); -- direct statements are captured, too, from here on
    ELSIF s IS NULL AND pg_catalog.current_setting('` + TransactionSetting + `', true) OPERATOR(pg_catalog.=) '` + InsideSetting + `' THEN
      PERFORM tutti.enter_inside();
    ELSIF s IS NULL THEN
      RAISE EXCEPTION 'write outside a Tutti transaction' USING ERRCODE = '` + OutsideState + `', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
        HINT = 'Connect to Tutti, not to the database behind it.';
    END IF;
    tutti_e := pg_catalog.current_setting('client_encoding');
    PERFORM pg_catalog.set_config('client_encoding', 'UTF8', true);
    s := ` + window() + `;
  END IF;
`)
	k := t.keys("NEW", "OLD")
	fmt.Fprintf(&b, "  IF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN\n    tutti_op := %d; tutti_i := %s; tutti_m := "+
		"%s; tutti_k := %s;\n",
		writeset.OpInsert, t.IdentitySQL("NEW"), t.image("NEW"), array(k.fresh, k.foreign, k.extra))
	fmt.Fprintf(&b, "  ELSIF TG_OP OPERATOR(pg_catalog.=) 'TRUNCATE' THEN\n    tutti_op := %d;\n%s",
		writeset.OpTruncate, filledAgain)
	if t.Key() == nil {
		b.WriteString(t.wholeBody(&k, header))
	} else {
		fmt.Fprintf(&b, "  ELSIF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN\n    tutti_op := %d; tutti_i := %s; "+
			"tutti_m := %s; tutti_k := %s;\n",
			writeset.OpDelete, t.IdentitySQL("OLD"), t.keyImage("OLD"), array(k.stale, k.gone))
		b.WriteString(t.updateBody(&k, header))
	}
	b.WriteString("  END IF;\n")
	b.WriteString(insertChain(header + ", tutti_op, tutti_i, tutti_k, tutti_m"))
	b.WriteString(
		`  IF tutti_e IS NOT NULL THEN PERFORM pg_catalog.set_config('client_encoding', tutti_e, true); END IF;
  RETURN NULL;
END`)
	return b.String()
}

// updateBody is the UPDATE branch: rows whose keys did not change take the first way out.
func (t triggerCode) updateBody(k *keyLists, header string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  ELSIF pg_catalog.record_image_eq(ROW(%s), ROW(%s)) THEN\n    tutti_op := %d; tutti_i := %s; "+
		"tutti_m := %s;\n",
		t.fields("OLD", k.uses), t.fields("NEW", k.uses), writeset.OpUpdate, t.IdentitySQL("NEW"), t.image("NEW"))
	fmt.Fprintf(&b, "  ELSE\n    tutti_op := %d; tutti_i := %s; tutti_j := %s; tutti_m := %s;\n",
		writeset.OpUpdate, t.IdentitySQL("NEW"), t.IdentitySQL("OLD"), t.image("NEW"))
	fmt.Fprintf(&b, "    tutti_a := %s; tutti_b := %s;\n", array(k.fresh), array(k.stale))
	fmt.Fprintf(&b, "    IF %s THEN\n      tutti_op := %d; tutti_k := %s;\n", t.rekeyed("OLD", "NEW"),
		writeset.OpInsert, array(k.fresh, k.foreign, k.extra))
	fmt.Fprintf(&b, "      PERFORM tutti.put(%s, %d::pg_catalog.int2, tutti_j, %s, %s);\n", header, opMoved,
		array(k.stale, k.gone), t.keyImage("OLD"))
	b.WriteString("    ELSE\n")
	fresh, stale := k.changed()
	b.WriteString(t.replaceBody(k))
	fmt.Fprintf(&b, "      tutti_k := %s;\n    END IF;\n", array(fresh, k.foreignChanged, k.extra, stale))
	return b.String()
}

// rekeyed is the condition that an update has given its row, whose identities are tutti_j and tutti_i, another key. If
// it has, and they are the same, the collector finds out by that: two changes of one identity.
func (t triggerCode) rekeyed(was, now string) string {
	var same []string
	for _, p := range t.Key().Parts {
		c := Quote(t.column(p.Num).Name)
		same = append(same, fmt.Sprintf("%s.%s %s %s.%s", was, c, p.Equal, now, c))
	}
	return "tutti_i OPERATOR(pg_catalog.<>) tutti_j OR (" + strings.Join(same, " AND ") + ") IS NOT TRUE"
}

// wholeBody is the UPDATE and DELETE branches without key: rows are known by their whole image, and
// an update is captured as what was and what is, next to each other.
func (t triggerCode) wholeBody(k *keyLists, header string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  ELSIF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN\n    tutti_op := %d; tutti_m := %s; tutti_k "+
		":= %s;\n",
		writeset.OpDelete, t.image("OLD"), array(k.stale, []string{t.wholeKey("OLD")}, k.gone))
	fresh, stale := k.changed()
	fmt.Fprintf(&b, "  ELSE\n    tutti_a := %s; tutti_b := %s;\n", array(k.fresh), array(k.stale))
	fmt.Fprintf(&b, "    PERFORM tutti.put(%s, %d::pg_catalog.int2, NULL, %s, %s);\n", header, writeset.OpDelete,
		array(stale, []string{t.wholeKey("OLD")}), t.image("OLD"))
	fmt.Fprintf(&b, "    tutti_op := %d; tutti_m := %s; tutti_k := %s;\n", writeset.OpUpdate, t.image("NEW"),
		array(fresh, k.foreignChanged, k.extra))
	return b.String()
}

// replaceBody tells an update that changes a unique value, or what an update cannot set.
func (t triggerCode) replaceBody(k *keyLists) string {
	var b strings.Builder
	if len(k.fresh) > 0 {
		fmt.Fprintf(&b, "      IF tutti_a OPERATOR(pg_catalog.<>) tutti_b THEN tutti_op := %d; END IF;\n",
			writeset.OpReplace)
	}
	if len(k.always) > 0 {
		fmt.Fprintf(&b, "      IF NOT pg_catalog.record_image_eq(ROW(%s), ROW(%s)) THEN tutti_op := %d; END IF;\n",
			t.fields("OLD", k.always), t.fields("NEW", k.always), writeset.OpReplace)
	}
	return b.String()
}

// changed are, of the keys in the variables tutti_a and tutti_b, those that differ. What is lost by that is with the
// second.
func (k *keyLists) changed() (fresh, stale []string) {
	for i := range k.fresh {
		differ := fmt.Sprintf("CASE WHEN NOT COALESCE(tutti_a[%[1]d] OPERATOR(pg_catalog.=) tutti_b[%[1]d], "+
			"tutti_a[%[1]d] IS NULL AND tutti_b[%[1]d] IS NULL)", i+1)
		fresh = append(fresh, fmt.Sprintf("%s THEN tutti_a[%d] END", differ, i+1))
		stale = append(stale, fmt.Sprintf("%s THEN tutti_b[%d] END", differ, i+1))
	}
	return fresh, append(stale, k.goneChanged...)
}

// finalBody reads again the rows of images that this transaction captured. Of pairs of images it tells instead which
// have unequal keys (doubt): their identities, and no images.
func (t triggerCode) finalBody() string {
	var on, same []string
	for _, p := range t.Key().Parts {
		c := Quote(t.column(p.Num).Name)
		on = append(on, fmt.Sprintf("t.%s %s r.%s", c, p.Equal, c))
		same = append(same, fmt.Sprintf("tutti_a.%s %s tutti_b.%s", c, p.Equal, c))
	}
	return fmt.Sprintf(`
#variable_conflict use_column
BEGIN
  IF $2 THEN
    RETURN QUERY SELECT %s, NULL::pg_catalog.bytea FROM pg_catalog.generate_series(1, pg_catalog.cardinality($1), 2) AS tutti_p(tutti_i)
      CROSS JOIN LATERAL (SELECT ($1[tutti_p.tutti_i]).*) AS tutti_a CROSS JOIN LATERAL (SELECT ($1[tutti_p.tutti_i OPERATOR(pg_catalog.+) 1]).*) AS tutti_b
      WHERE (%s) IS NOT TRUE;
    RETURN;
  END IF;
  RETURN QUERY SELECT %s, %s FROM pg_catalog.unnest(images) AS r JOIN ONLY %s.%s AS t ON %s
  WHERE %s OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT tutti.captured_idents(%s)));
END`, t.IdentitySQL("tutti_a"), strings.Join(same, " AND "),
		t.IdentitySQL("t"), t.image("t.*"), Quote(t.Schema), Quote(t.Name), strings.Join(on, " AND "),
		t.IdentitySQL("t"),
		t.header())
}
