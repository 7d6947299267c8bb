package captest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/capture"
	extents "github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/semantics"
)

// related are tables that hang together in every way that keys and images of rows depend on.
const related = `CREATE SCHEMA f; SET LOCAL search_path = f, public;
CREATE TABLE root(id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE mid PARTITION OF root FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
CREATE TABLE leaf PARTITION OF mid FOR VALUES FROM (0) TO (100);
CREATE TABLE leaf2 PARTITION OF root FOR VALUES FROM (100) TO (200);
CREATE TABLE r_root(k int PRIMARY KEY, t int REFERENCES root(id));
CREATE TABLE r_mid(k int PRIMARY KEY, t int REFERENCES mid(id));
CREATE TABLE r_leaf(k int PRIMARY KEY, t int REFERENCES leaf(id));
CREATE TABLE aroot(id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE amid PARTITION OF aroot FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
CREATE TABLE aleaf PARTITION OF amid FOR VALUES FROM (0) TO (100);
CREATE TABLE nroot(id int NOT NULL, v int) PARTITION BY RANGE (id);
CREATE TABLE nmid PARTITION OF nroot FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
CREATE TABLE nleaf PARTITION OF nmid FOR VALUES FROM (0) TO (100);
CREATE UNIQUE INDEX nleaf_u ON nleaf(id);
CREATE TABLE r_nleaf(k int PRIMARY KEY, t int REFERENCES nleaf(id));
CREATE TABLE mroot(id int NOT NULL, v int) PARTITION BY RANGE (id);
CREATE TABLE mmid PARTITION OF mroot FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
CREATE TABLE mleaf PARTITION OF mmid FOR VALUES FROM (0) TO (100);
ALTER TABLE mleaf ADD PRIMARY KEY (id);
CREATE TABLE r_mleaf(k int PRIMARY KEY, t int REFERENCES mleaf(id));
CREATE TABLE oroot(id int NOT NULL, v int) PARTITION BY RANGE (id);
CREATE TABLE omid PARTITION OF oroot FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
CREATE TABLE oleaf PARTITION OF omid FOR VALUES FROM (0) TO (100);
CREATE UNIQUE INDEX oroot_u ON ONLY oroot(id);
CREATE UNIQUE INDEX omid_u ON omid(id);
CREATE TABLE r_omid(k int PRIMARY KEY, t int REFERENCES omid(id));
CREATE TABLE r_oleaf(k int PRIMARY KEY, t int REFERENCES oleaf(id));
CREATE TABLE fmid(id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE fleaf PARTITION OF fmid FOR VALUES FROM (200) TO (300);
CREATE TABLE r_fmid(k int PRIMARY KEY, t int REFERENCES fmid(id));
CREATE TABLE r_fleaf(k int PRIMARY KEY, t int REFERENCES fleaf(id));
CREATE TABLE fone(id int PRIMARY KEY, v int);
CREATE TABLE r_fone(k int PRIMARY KEY, t int REFERENCES fone(id));
CREATE TABLE t(id int NOT NULL, name text NOT NULL, x int);
CREATE UNIQUE INDEX t_u ON t(id);
CREATE UNIQUE INDEX t_name ON t(name);
CREATE UNIQUE INDEX t_lower ON t(lower(name));
CREATE UNIQUE INDEX t_part ON t(x) WHERE x > 0;
CREATE TABLE r(k int PRIMARY KEY, t int REFERENCES t(id), n text REFERENCES t(name));
CREATE TABLE rd(k int PRIMARY KEY, t int REFERENCES t(id) DEFERRABLE);
CREATE TABLE rp(k int PRIMARY KEY, t int REFERENCES t(id)) PARTITION BY RANGE (k);
CREATE TABLE rp1 PARTITION OF rp FOR VALUES FROM (0) TO (100);
CREATE TABLE rpfree(k int PRIMARY KEY, t int);
CREATE TABLE ct(a int, b text);
CREATE TABLE x_ct(id int PRIMARY KEY, c ct);
CREATE TABLE x_cta(id int PRIMARY KEY, c ct[]);
CREATE DOMAIN ctd AS ct;
CREATE TABLE x_ctd(id int PRIMARY KEY, c ctd);
CREATE TABLE ct2(x ct);
CREATE TABLE x_ct2(id int PRIMARY KEY, c ct2);
CREATE TABLE x_ctk(c ct PRIMARY KEY);
CREATE TABLE x_cti(id int PRIMARY KEY, c ct);
CREATE UNIQUE INDEX ON x_cti (((c).a));
CREATE TYPE comp AS (a int, b text);
CREATE TABLE x_comp(id int PRIMARY KEY, c comp);
CREATE TABLE typed OF comp;
CREATE TYPE rng AS RANGE (subtype = comp);
CREATE TABLE x_rng(id int PRIMARY KEY, c rng);
CREATE VIEW vw AS SELECT 1 AS a;
CREATE TABLE x_vw(id int PRIMARY KEY, c vw);
CREATE MATERIALIZED VIEW mv AS SELECT 1 AS a;
CREATE TABLE x_mv(id int PRIMARY KEY, c mv);
CREATE TABLE p(id int, v int);
CREATE TABLE ch(w int) INHERITS (p);
CREATE UNIQUE INDEX ON ch(id);
CREATE TABLE gch() INHERITS (ch);
CREATE UNIQUE INDEX ON gch(id);
CREATE TABLE r_ch(k int PRIMARY KEY, t int REFERENCES ch(id));
CREATE TABLE x_ch(id int PRIMARY KEY, c ch);
CREATE TABLE x_gch(id int PRIMARY KEY, c gch);
CREATE TABLE lone(id int PRIMARY KEY, v int, w int);
CREATE TABLE x_leaf(id int PRIMARY KEY, c leaf);
CREATE TYPE e AS ENUM ('p');
CREATE TABLE x_e(e e PRIMARY KEY);
CREATE TABLE r_e(k int PRIMARY KEY, e e REFERENCES x_e(e));
CREATE DOMAIN d AS text;
CREATE TABLE x_d(d d PRIMARY KEY);
CREATE TABLE r_d(k int PRIMARY KEY, d d REFERENCES x_d(d));
CREATE FUNCTION fi(int) RETURNS int IMMUTABLE LANGUAGE internal AS 'int4abs';
CREATE TABLE x_fi(id int PRIMARY KEY, v int DEFAULT fi(1));
CREATE UNIQUE INDEX ON x_fi(fi(v));
CREATE FUNCTION fq(int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT $1 > 0';
CREATE DOMAIN dq AS int CHECK (fq(VALUE));
CREATE TABLE x_dq(id int PRIMARY KEY, v dq);
CREATE DOMAIN dz AS int CHECK (VALUE > 0);
CREATE TABLE x_dz(id int PRIMARY KEY, v dz);
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE x_ci(a text COLLATE ci PRIMARY KEY, b text);
CREATE TABLE r_ci(k int PRIMARY KEY, a text COLLATE ci REFERENCES x_ci(a));
CREATE TABLE self(id int PRIMARY KEY, up int);
CREATE UNIQUE INDEX self_u ON self(id);
ALTER TABLE self ADD FOREIGN KEY (up) REFERENCES self(id);
CREATE UNLOGGED TABLE ul(id int PRIMARY KEY);
CREATE TABLE two(a int NOT NULL, b int NOT NULL);
CREATE UNIQUE INDEX two_ab ON two(a, b);
CREATE TABLE r_two(k int PRIMARY KEY, a int, b int, FOREIGN KEY (b, a) REFERENCES two(b, a));
`

// definitions on them. Each is undone before the next.
var definitions = []string{
	"ALTER TABLE aroot DETACH PARTITION amid", "ALTER TABLE root DETACH PARTITION mid",
	"ALTER TABLE mid DETACH PARTITION leaf", "ALTER TABLE root DETACH PARTITION leaf2",
	"ALTER TABLE root ATTACH PARTITION fmid FOR VALUES FROM (200) TO (300)",
	"ALTER TABLE aroot ATTACH PARTITION fmid FOR VALUES FROM (200) TO (300)",
	"ALTER TABLE aroot ATTACH PARTITION fone FOR VALUES FROM (200) TO (300)",
	"ALTER TABLE amid ATTACH PARTITION fone FOR VALUES FROM (100) TO (200)",
	"ALTER TABLE nroot ATTACH PARTITION fmid FOR VALUES FROM (200) TO (300)",
	"ALTER TABLE nroot ATTACH PARTITION fone DEFAULT",
	"ALTER TABLE nroot ADD PRIMARY KEY (id)", "ALTER TABLE nmid ADD PRIMARY KEY (id)",
	"ALTER TABLE nroot ADD UNIQUE (id)", "CREATE UNIQUE INDEX ON nroot(id)", "CREATE UNIQUE INDEX ON nmid(id)",
	"CREATE UNIQUE INDEX ON ONLY nroot(id)",
	"CREATE UNIQUE INDEX CONCURRENTLY ON nleaf(v)", "CREATE UNIQUE INDEX CONCURRENTLY ON t(x)",
	"ALTER TABLE ONLY nroot ADD PRIMARY KEY (id)", "ALTER TABLE nleaf ADD PRIMARY KEY USING INDEX nleaf_u",
	"ALTER TABLE nleaf ADD UNIQUE USING INDEX nleaf_u",
	"ALTER TABLE mroot ADD PRIMARY KEY (id)", "ALTER TABLE mroot ADD UNIQUE (id)", "CREATE UNIQUE INDEX ON mroot(id)",
	"CREATE UNIQUE INDEX ON mmid(id)", "ALTER TABLE mmid ADD PRIMARY KEY (id)",
	"ALTER INDEX oroot_u ATTACH PARTITION omid_u", "DROP INDEX oroot_u", "ALTER TABLE omid ADD PRIMARY KEY (id)",
	"ALTER TABLE oroot ADD PRIMARY KEY (id)", "CREATE UNIQUE INDEX ON oroot(id)",
	"ALTER TABLE aroot DROP CONSTRAINT aroot_pkey", "ALTER TABLE root DROP CONSTRAINT root_pkey CASCADE",
	"ALTER TABLE fmid DROP CONSTRAINT fmid_pkey CASCADE",
	"ALTER TABLE t ADD PRIMARY KEY USING INDEX t_u", "ALTER TABLE t ADD PRIMARY KEY USING INDEX t_name",
	"ALTER TABLE t ADD PRIMARY KEY (id)", "ALTER TABLE t ADD UNIQUE USING INDEX t_u",
	"ALTER TABLE t ADD CONSTRAINT other UNIQUE USING INDEX t_u DEFERRABLE",
	"ALTER TABLE self ADD UNIQUE USING INDEX self_u", "ALTER TABLE two ADD PRIMARY KEY USING INDEX two_ab",
	"DROP INDEX t_lower", "DROP INDEX t_part", "DROP INDEX t_u CASCADE", "DROP INDEX t_name CASCADE",
	"ALTER INDEX t_lower RENAME TO other", "ALTER TABLE t_lower RENAME TO other", "ALTER INDEX t_u RENAME TO other",
	"ALTER TABLE t RENAME COLUMN id TO other", "ALTER TABLE t RENAME name TO other",
	"ALTER TABLE root RENAME COLUMN id TO other", "ALTER TABLE fmid RENAME COLUMN id TO other",
	"ALTER TABLE p RENAME COLUMN id TO other", "ALTER TABLE ct RENAME COLUMN a TO other",
	"ALTER TABLE ch RENAME COLUMN w TO other", "ALTER TABLE x_ci RENAME COLUMN a TO other",
	"ALTER TABLE two RENAME COLUMN a TO other", "ALTER TABLE self RENAME COLUMN id TO other",
	"ALTER VIEW vw RENAME COLUMN a TO other", "ALTER TABLE vw RENAME COLUMN a TO other",
	"ALTER MATERIALIZED VIEW mv RENAME COLUMN a TO other",
	"ALTER TABLE t RENAME TO other", "ALTER TABLE root RENAME TO other", "ALTER TABLE leaf RENAME TO other",
	"ALTER TABLE ct RENAME TO other", "ALTER TABLE r RENAME CONSTRAINT r_t_fkey TO other", "ALTER SCHEMA f RENAME TO g",
	"ALTER TABLE t SET SCHEMA public", "ALTER TABLE root SET SCHEMA public", "ALTER TABLE leaf2 SET SCHEMA public",
	"ALTER TABLE ch RENAME TO other", "ALTER TABLE p SET SCHEMA public", "ALTER TABLE IF EXISTS mid RENAME TO other",
	"ALTER VIEW vw RENAME TO other", "ALTER TABLE vw RENAME TO other", "ALTER TABLE vw SET SCHEMA public",
	"ALTER MATERIALIZED VIEW mv RENAME TO other", "ALTER MATERIALIZED VIEW mv SET SCHEMA public",
	"ALTER TYPE comp RENAME ATTRIBUTE a TO other CASCADE",
	"ALTER TYPE comp SET SCHEMA public", "ALTER TYPE e RENAME TO other", "ALTER DOMAIN d RENAME TO other",
	"ALTER COLLATION ci RENAME TO other", "ALTER FUNCTION fi(int) RENAME TO other",
	"ALTER FUNCTION fi(int) SET SCHEMA public", "ALTER FUNCTION fi(int) VOLATILE", "ALTER FUNCTION fq(int) VOLATILE",
	"ALTER TABLE t ALTER COLUMN id TYPE bigint", "ALTER TABLE t ALTER COLUMN name TYPE varchar",
	"ALTER TABLE t ALTER COLUMN x TYPE numeric", "ALTER TABLE two ALTER COLUMN a TYPE bigint",
	"ALTER TABLE x_ci ALTER COLUMN a TYPE varchar COLLATE ci", "ALTER TABLE r ALTER COLUMN t TYPE bigint",
	"ALTER TABLE rp ALTER COLUMN t TYPE bigint", "ALTER TABLE self ALTER id TYPE bigint",
	"ALTER TABLE t ALTER COLUMN name TYPE text COLLATE ci", "ALTER TABLE x_ci ALTER COLUMN a TYPE text COLLATE \"C\"",
	"ALTER TABLE ct ADD COLUMN z int", "ALTER TABLE ct ADD COLUMN z e", "ALTER TABLE ct ADD COLUMN z regclass",
	"ALTER TABLE ct DROP COLUMN b", "ALTER TABLE ct2 ADD COLUMN z int8", "ALTER TABLE ch ADD COLUMN z e",
	"ALTER TABLE p ADD COLUMN z regclass", "ALTER TABLE root ADD COLUMN z regclass",
	"ALTER TYPE comp ADD ATTRIBUTE z regclass CASCADE", "ALTER TYPE comp DROP ATTRIBUTE b CASCADE",
	"CREATE OR REPLACE VIEW vw AS SELECT 1 AS a, 'x_ct'::regclass AS b",
	"ALTER TABLE t ALTER name DROP NOT NULL", "ALTER TABLE t ALTER x SET NOT NULL",
	"ALTER TABLE p ALTER id SET NOT NULL", "ALTER TABLE p ADD PRIMARY KEY (id)",
	"ALTER TABLE ONLY p ADD PRIMARY KEY (id)", "ALTER TABLE ch ALTER id SET NOT NULL",
	"ALTER TABLE nroot ALTER v SET NOT NULL", "ALTER TABLE aroot ALTER v SET NOT NULL",
	"ALTER TABLE nroot ALTER v SET DEFAULT 1",
	"ALTER TABLE gch NO INHERIT ch", "ALTER TABLE ch NO INHERIT p", "ALTER TABLE lone INHERIT p",
	"CREATE TABLE n1() INHERITS (p)", "CREATE TABLE n1() INHERITS (lone)", "CREATE TABLE n1 (LIKE t INCLUDING ALL)",
	"CREATE TABLE n1 (k int REFERENCES t(id))", "CREATE TABLE n1 (k int REFERENCES root)",
	"CREATE TABLE n1 (k int REFERENCES lone)", "CREATE TABLE n1 PARTITION OF root FOR VALUES FROM (200) TO (300)",
	"CREATE TABLE n1 PARTITION OF root DEFAULT",
	"CREATE TABLE n1 PARTITION OF mid DEFAULT", "CREATE TABLE n1 PARTITION OF rp FOR VALUES FROM (200) TO (300)",
	"CREATE TABLE n1 PARTITION OF root FOR VALUES FROM (200) TO (300) PARTITION BY RANGE (id)",
	"ALTER TABLE rp ATTACH PARTITION rpfree FOR VALUES FROM (100) TO (200)", "ALTER TABLE rp DETACH PARTITION rp1",
	"ALTER TABLE rpfree ADD FOREIGN KEY (t) REFERENCES t(id)", "ALTER TABLE rpfree ADD FOREIGN KEY (t) REFERENCES root",
	"ALTER TABLE rpfree ADD FOREIGN KEY (t) REFERENCES lone",
	"ALTER TABLE rpfree ADD FOREIGN KEY (t) REFERENCES lone NOT VALID",
	"ALTER TABLE r DROP CONSTRAINT r_t_fkey", "ALTER TABLE r_root DROP CONSTRAINT r_root_t_fkey",
	"ALTER TABLE r_fone DROP CONSTRAINT r_fone_t_fkey", "DROP TABLE r_fone", "DROP TABLE fone CASCADE",
	"DROP TABLE leaf CASCADE", "DROP TABLE aleaf", "DROP TABLE amid", "DROP TABLE root CASCADE", "DROP TABLE rp1",
	"DROP TABLE t CASCADE", "DROP TABLE r, rd, rp", "DROP TABLE ct CASCADE", "DROP TABLE x_ct",
	"ALTER TABLE r_fone ALTER CONSTRAINT r_fone_t_fkey DEFERRABLE",
	"ALTER TABLE r ALTER CONSTRAINT r_t_fkey DEFERRABLE INITIALLY DEFERRED",
	"ALTER TABLE rp ALTER CONSTRAINT rp_t_fkey DEFERRABLE", "ALTER TABLE rd ALTER CONSTRAINT rd_t_fkey NOT DEFERRABLE",
	"ALTER TABLE r_root ALTER CONSTRAINT r_root_t_fkey DEFERRABLE",
	"ALTER TYPE e ADD VALUE 'q'", "ALTER DOMAIN d ADD CHECK (VALUE <> '')",
	"ALTER DOMAIN dz ADD CHECK (fq(VALUE)) NOT VALID", "ALTER DOMAIN dz DROP CONSTRAINT dz_check",
	"CREATE OR REPLACE FUNCTION fi(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'",
	"CREATE OR REPLACE FUNCTION fq(int) RETURNS bool VOLATILE LANGUAGE sql AS 'SELECT true'",
	"DROP FUNCTION fi(int) CASCADE", "DROP FUNCTION fq(int) CASCADE", "DROP DOMAIN dz CASCADE", "DROP TYPE e CASCADE",
	"DROP TYPE comp CASCADE", "DROP COLLATION ci CASCADE", "DROP SCHEMA f CASCADE",
	"CREATE TRIGGER tr BEFORE INSERT ON lone FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
	"CREATE TRIGGER tr AFTER INSERT ON aroot FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
	"CREATE TRIGGER tr AFTER INSERT ON aroot EXECUTE FUNCTION suppress_redundant_updates_trigger()",
	"CREATE RULE ru AS ON INSERT TO lone DO ALSO NOTHING", "CREATE POLICY po ON lone",
	"ALTER TABLE lone ENABLE ROW LEVEL SECURITY", "ALTER TABLE root ENABLE ROW LEVEL SECURITY",
	"ALTER TABLE t DISABLE TRIGGER ALL", "ALTER TABLE lone REPLICA IDENTITY FULL",
	"ALTER TABLE lone CLUSTER ON lone_pkey", "ALTER TABLE r VALIDATE CONSTRAINT r_t_fkey",
	"ALTER TABLE lone SET UNLOGGED", "ALTER TABLE ul SET LOGGED", "ALTER TABLE r_fone SET UNLOGGED",
	"GRANT SELECT (v) ON lone TO PUBLIC", "ALTER TABLE lone ADD EXCLUDE USING btree (v WITH =)",
	"CREATE UNIQUE INDEX ON t((x + 1))", "CREATE INDEX ON root(v)", "REINDEX TABLE t", "CLUSTER lone USING lone_pkey",
	"ALTER TABLE typed NOT OF", "ALTER TABLE ct OF comp",
	"TRUNCATE t CASCADE", "COMMENT ON TABLE t IS 'x'", "CREATE STATISTICS st ON id, name FROM t",
	"CREATE SCHEMA g CREATE TABLE h(k int REFERENCES f.t(id))", "CREATE EXTENSION citext",
	"CREATE EXTENSION btree_gist",
	"ALTER TABLE p ADD COLUMN z int, ADD COLUMN y int", "ALTER TABLE leaf ADD CONSTRAINT c CHECK (id > 0)",
	"ALTER TABLE ONLY root DROP CONSTRAINT root_pkey CASCADE", "ALTER TABLE t ADD COLUMN z int UNIQUE",
	"ALTER TABLE t DROP COLUMN x", "ALTER TABLE t DROP COLUMN id CASCADE", "ALTER TABLE nroot DROP COLUMN v",
	"ALTER TABLE nleaf ADD PRIMARY KEY USING INDEX nleaf_u; ALTER TABLE nroot ADD UNIQUE (id)",
	"ALTER TABLE nleaf ADD PRIMARY KEY USING INDEX nleaf_u; ALTER TABLE nmid ADD UNIQUE (id); ALTER TABLE nroot ADD " +
		"PRIMARY KEY (id)",
	"ALTER TABLE nmid ADD UNIQUE (id); CREATE TABLE r_nmid (k int REFERENCES nmid(id)); ALTER TABLE nroot ADD " +
		"PRIMARY KEY (id)", "ALTER TABLE mmid ADD UNIQUE (id); CREATE TABLE r_mmid (k int REFERENCES mmid(id)); " +
		"ALTER TABLE mroot ADD UNIQUE (id); CREATE TABLE r_mroot (k int REFERENCES mroot(id))",
	"CREATE UNIQUE INDEX ON nmid(id); CREATE TABLE r_nmid (k int REFERENCES nmid(id)); ALTER TABLE nroot ADD PRIMARY " +
		"KEY (id); ALTER TABLE nroot DETACH PARTITION nmid",
	"ALTER TABLE root DETACH PARTITION mid; ALTER TABLE aroot ATTACH PARTITION mid FOR VALUES FROM (500) TO (600)",
	"ALTER TABLE root DETACH PARTITION mid; ALTER TABLE mid RENAME COLUMN id TO other",
	"ALTER TABLE t RENAME id TO other; ALTER TABLE t ADD PRIMARY KEY USING INDEX t_u",
	"ALTER TABLE t ADD PRIMARY KEY USING INDEX t_u; ALTER TABLE ct RENAME COLUMN a TO b2",
	"ALTER TABLE self ADD FOREIGN KEY (up) REFERENCES t(id); ALTER TABLE t ADD PRIMARY KEY USING INDEX t_u",
	"SELECT * INTO n1 FROM t", "CREATE TABLE n1 AS SELECT * FROM t", "CREATE TABLE n1 OF comp",
	"CREATE TYPE other AS (a ct)", "CREATE TYPE other AS RANGE (subtype = ct)",
	"CREATE AGGREGATE ag(int) (sfunc = int4pl, stype = int)",
	"CREATE OPERATOR CLASS oc DEFAULT FOR TYPE comp USING btree AS OPERATOR 3 = (record, record)",
}

// TestDefinitionsReachNoFurther: what a definition changes, of what triggers do and of what is known of tables, is
// described anew; the tables are held by it, whether it is ordered first (tutti.extent) or carried out first
// (tutti.touched); and every foreign key names an index that the table it refers to has. What each definition changes
// is found by comparing descriptions of everything.
func TestDefinitionsReachNoFurther(t *testing.T) {
	p := newPair(t)
	p.exec(p.a, "BEGIN; SET LOCAL backtrace_functions = 'tutti_own'; "+related+"; COMMIT")
	partial, before := 0, p.describes(describeAll)
	for _, sql := range definitions {
		p.exec(p.a, "BEGIN; SET LOCAL backtrace_functions = 'tutti_own'; SET LOCAL search_path = f, public; SET "+
			"LOCAL tutti.tags = ''; SET LOCAL client_min_messages = error")
		if p.reaches(before, sql) {
			partial++
		}
		p.exec(p.a, "ROLLBACK")
	}
	if partial < len(definitions)/2 {
		t.Errorf("%d of %d definitions are described in part", partial, len(definitions))
	}
}

// reaches looks at one definition in an open transaction, and reports whether it is described in part.
func (p *pair) reaches(before capture.Catalog, sql string) (partial bool) {
	t := p.t
	t.Helper()
	held, barrier := p.extent(sql)
	r, err := p.a.PgConn().Exec(ctx, strings.Replace(sql, "CONCURRENTLY ", "", 1)).ReadAll()
	if err != nil {
		t.Fatalf("%s: %s", sql, explain(err))
	}
	tag := strings.TrimRight(r[len(r)-1].CommandTag.String(), " 0123456789")
	p.exec(p.a, "SELECT tutti.note_tag("+quoted(tag)+", "+quoted(sql)+")")
	p.scan(p.a, "SELECT tutti.partial()", &partial)
	var described capture.Catalog
	if partial {
		described = p.describes(capture.DescribeQuery())
	}
	full := p.describes(describeAll)
	for _, apart := range apart(full) {
		t.Errorf("%s: %s names an index that is not there", sql, apart)
	}
	refresh := full
	if partial {
		refresh = described
	}
	for _, statement := range capture.Refresh(refresh) {
		p.exec(p.a, statement)
	}
	touched := p.touched()
	for _, d := range full.Tables {
		i := slices.IndexFunc(before.Tables, func(b capture.TableDesc) bool { return b.OID == d.OID })
		same := func(x capture.TableDesc) bool { return x.OID == d.OID }
		if i >= 0 && reflect.DeepEqual(before.Tables[i], d) {
			continue
		}
		changed := i >= 0 && capture.Signature(before.Tables[i]) != capture.Signature(d)
		if i >= 0 && !changed && strings.Contains(sql, " FUNCTION ") {
			continue // triggers call no functions of users
		}
		if partial && !slices.ContainsFunc(described.Tables, same) {
			t.Errorf("%s: %s is not described anew", sql, d.Name)
		}
		if !changed {
			continue
		}
		was := [2]string{before.Tables[i].Schema, before.Tables[i].Name}
		if !barrier && !slices.Contains(held, was) {
			t.Errorf("%s: ordered first it does not hold %s", sql, was[1])
		}
		// A name that it had is held by what is noted of the definition.
		is := [2]string{d.Schema, d.Name}
		if partial && tag != "ALTER INDEX" && !slices.Contains(touched, is) { // which is a barrier
			t.Errorf("%s: carried out first it does not hold %s", sql, was[1])
		}
	}
	return partial
}

// TestRenamesReachFurther: an index may have the name of any relation in its predicate, which the trigger of its
// table asks as well.
func TestRenamesReachFurther(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int)", "CREATE TABLE x(id int, o regclass)",
		"CREATE UNIQUE INDEX ON x(id) WHERE o <> 't'::regclass")
	for _, sql := range []string{"ALTER TABLE t RENAME TO u", "CREATE SCHEMA s", "ALTER TABLE u SET SCHEMA s"} {
		p.ddl(sql)
		p.tx("INSERT INTO x SELECT count(*), 'x' FROM x")
	}
	p.sync()
	p.equal()
}

// TestDroppedMeanwhile: what is described and not locked may be dropped, or get another name, before its triggers are
// made to fit. What does follows up the definition that it waited for.
func TestDroppedMeanwhile(t *testing.T) {
	p := newPair(t, "CREATE TYPE e AS ENUM ('p')", "CREATE TABLE gone(e e PRIMARY KEY)", "CREATE SCHEMA s",
		"CREATE TABLE s.gone(e e)", "CREATE TABLE moves(e e)", "CREATE TABLE stays(e e PRIMARY KEY)")
	other := pgtest.Shared(t).Connect(t, p.dbA)
	p.install(other)
	p.exec(p.a, "BEGIN; SET LOCAL backtrace_functions = 'tutti_own'; ALTER TYPE e RENAME TO f")
	statements := capture.Refresh(p.describes(describeAll))
	p.exec(other, "BEGIN; SET LOCAL backtrace_functions = 'tutti_own'; DROP TABLE gone; DROP SCHEMA s CASCADE; "+
		"ALTER TABLE moves RENAME TO moved; CREATE TABLE moves(e int)")
	changed := capture.Refresh(p.describesTo(other, describeAll))
	for _, sql := range append(changed, "COMMIT") {
		p.exec(other, sql)
	}
	for _, sql := range append(statements, "COMMIT") {
		p.exec(p.a, sql)
	}
	for _, d := range p.describes(describeAll).Tables {
		if d.Trigger != capture.Signature(d) && d.Name != "moved" { // the type's new name was not known to who moved it
			t.Errorf("%s has trigger %s", d.Name, d.Trigger)
		}
	}
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// describes gives a description.
func (p *pair) describes(query string) capture.Catalog {
	p.t.Helper()
	return p.describesTo(p.a, query)
}

// describesTo gives what a connection sees.
func (p *pair) describesTo(c *pgx.Conn, query string) capture.Catalog {
	p.t.Helper()
	var text string
	p.scan(c, query, &text)
	d, err := capture.DecodeDescribe([]byte(text))
	if err != nil {
		p.t.Fatal(query, err)
	}
	for i := range d.Tables {
		for j := range d.Tables[i].Columns {
			d.Tables[i].Columns[j].User = nil // one that is missing is doubtful, and one that is gone is in no value
		}
	}
	return d
}

// extent gives the tables that a definition holds if it is ordered first, or that it is a barrier.
func (p *pair) extent(sql string) (tables [][2]string, barrier bool) {
	p.t.Helper()
	st := semantics.Classify(sql)
	if len(st) != 1 || !st[0].Confined.To {
		return nil, true
	}
	var answer *string
	err := p.a.QueryRow(ctx, extents.Collector{}.AskExtent(&st[0])).Scan(&answer)
	if err == pgx.ErrNoRows || err == nil && answer == nil {
		return nil, true
	}
	if err == nil {
		err = json.Unmarshal([]byte(*answer), &tables)
	}
	if err != nil {
		p.t.Fatalf("%s: %s", sql, explain(err))
	}
	return tables, false
}

// touched gives the tables that the open transaction holds.
func (p *pair) touched() (tables [][2]string) {
	p.t.Helper()
	var text string
	p.scan(p.a, "SELECT tutti.touched()::text", &text)
	var got [][]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		p.t.Fatal(err)
	}
	for _, x := range got {
		tables = append(tables, [2]string{fmt.Sprint(x[0]), fmt.Sprint(x[1])})
	}
	return tables
}

// apart lists the foreign keys of a catalog whose keys have another name than those of every index of the table they
// refer to.
func apart(c capture.Catalog) (out []string) {
	name := func(primary bool, schema, table string, columns []string) string {
		if primary {
			return "primary key of " + schema + "." + table
		}
		return fmt.Sprint(schema, ".", table, columns)
	}
	for _, d := range c.Tables {
		for _, f := range d.Foreign {
			var columns []string
			for _, p := range f.Parts {
				columns = append(columns, p.RefName)
			}
			want := name(f.Index.Primary, f.Index.RootSchema, f.Index.RootTable, columns)
			i := slices.IndexFunc(c.Tables, func(to capture.TableDesc) bool {
				return to.Schema == f.RefSchema &&
					to.Name == f.RefTable
			})
			if i >= 0 && !slices.ContainsFunc(c.Tables[i].Indexes, func(x capture.Index) bool {
				var columns []string
				for _, part := range x.Parts {
					for _, col := range c.Tables[i].Columns {
						if col.Num == part.Num {
							columns = append(columns, col.Name)
						}
					}
				}
				return name(x.Primary, x.RootSchema, x.RootTable, columns) == want
			}) {
				out = append(out, d.Name+" to "+f.RefTable)
			}
		}
	}
	return out
}
