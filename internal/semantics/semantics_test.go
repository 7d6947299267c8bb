package semantics

import (
	"reflect"
	"strings"
	"testing"
)

// TestClassify is the table of what texts are.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		kind  Kind
		texts string // one per line
	}{
		{Read, "SELECT 1\nselect * from t where a = 'x;y'\nTABLE t\nVALUES (1)\nWITH x AS (SELECT 1) SELECT * FROM " +
			"x\nSHOW all\nEXPLAIN SELECT 1\n" +
			"EXPLAIN INSERT INTO t VALUES (1)\nEXPLAIN ANALYZE SELECT 1\nPREPARE a AS INSERT INTO t VALUES " +
			"(1)\nDECLARE c CURSOR FOR SELECT 1\nFETCH 1 FROM c\nCLOSE c\n" +
			"COPY t TO STDOUT\nSELECT f(1)\nSELECT nextval('s')\nSELECT set_config('work_mem', '1MB', false)\nSELECT " +
			"'into x'\nSELECT 1 AS u, t.tutti FROM t"},
		{Write, "SELECT setval('s', 5)\nCOPY (INSERT INTO t VALUES (1) RETURNING a) TO STDOUT\nSELECT setval('s', " +
			"max(id)) FROM t\nINSERT INTO t VALUES (1)\nUPDATE t SET a = 1\nDELETE FROM t\nMERGE INTO t USING s ON a " +
			"= b WHEN MATCHED THEN DELETE\n" +
			"WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x\nDO $$ BEGIN END $$\nCALL p()\nEXECUTE " +
			"a\nTRUNCATE t\nCOPY t FROM '/x'\nINSERT INTO t SELECT 1"},
		{Unknown, "SELEC 1\n'"},
		{Begin, "BEGIN\nbegin work\nSTART TRANSACTION READ ONLY"},
		{Commit, "COMMIT\nEND\nCOMMIT AND CHAIN"},
		{Rollback, "ROLLBACK\nABORT"},
		{InTransaction, "SAVEPOINT a\nRELEASE a\nROLLBACK TO a\nSET LOCAL work_mem = 1\nSET CONSTRAINTS ALL " +
			"DEFERRED\nLOCK TABLE t\nSET TRANSACTION READ ONLY"},
		{Local, "SET work_mem = 1\nRESET ALL\nLISTEN c\nNOTIFY c\nVACUUM t\nANALYZE\nDISCARD ALL\nDEALLOCATE " +
			"a\nREINDEX TABLE t\nCHECKPOINT\nSET ROLE x"},
		{Definition, "SELECT setval('s', f())\nCREATE TABLE t (a int)\nDROP TABLE t\nALTER TABLE t ADD COLUMN b int " +
			"DEFAULT 1\nCREATE INDEX ON t (a)\nGRANT SELECT ON t TO x\nTRUNCATE t RESTART IDENTITY\n" +
			"CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'\nCREATE ROLE x PASSWORD " +
			"'SCRAM-SHA-256$4096:a$b:c'\n" +
			"CREATE MATERIALIZED VIEW m AS SELECT 1\nREFRESH MATERIALIZED VIEW m\nALTER ROLE x SET work_mem = " +
			"1\nCOMMENT ON TABLE t IS 'x'\n" +
			"DROP TYPE pg_temp.r, e\nCREATE TYPE e AS ENUM ('a')"},
		{Temporary, "CREATE TEMP TABLE t (a int)\nCREATE TABLE pg_temp.t (a int)\nCREATE FUNCTION pg_temp.f() " +
			"RETURNS int LANGUAGE sql AS 'SELECT 1'\nCREATE TEMP TABLE t AS SELECT 1\nSELECT 1 INTO TEMP t\nCREATE " +
			"TEMP VIEW v AS SELECT 1\nCREATE TEMP SEQUENCE s\n" +
			"CREATE TYPE pg_temp.r AS RANGE (subtype = text)\nCREATE TYPE pg_temp.e AS ENUM ('a')\nCREATE TYPE " +
			"pg_temp.c AS (a int)\nCREATE DOMAIN pg_temp.d AS int\nCREATE AGGREGATE pg_temp.s(int) (sfunc = f, stype " +
			"= int)\n" +
			"DROP TYPE pg_temp.r, pg_temp.e\nDROP FUNCTION pg_temp.f()\nDROP TABLE pg_temp.t\nALTER TYPE pg_temp.e " +
			"ADD VALUE 'b'\nALTER DOMAIN pg_temp.d SET NOT NULL\n" +
			"ALTER TYPE pg_temp.c RENAME TO x\nCOMMENT ON TYPE pg_temp.c IS 'x'\nALTER FUNCTION pg_temp.f() " +
			"STRICT\nALTER TYPE pg_temp.c OWNER TO x"},
		{Copy, "COPY t FROM STDIN\ncopy t (a) from stdin csv"},
		{Tutti, "SHOW tutti.status\nSHOW TUTTI.applied"},
		{Empty, "\n;\n-- x\n/* x */;;"},
		{Refused, strings.Join(refused, "\n")},
	} {
		for _, text := range strings.Split(c.texts, "\n") {
			got := Classify(text)
			if len(got) != 1 || got[0].Kind != c.kind || got[0].Text != text {
				t.Errorf("%q is %+v, want kind %d", text, got, c.kind)
			}
			if c.kind == Refused && (got[0].Refusal.Code == "" || got[0].Refusal.Hint == "") {
				t.Errorf("%q is refused without code or hint", text)
			}
		}
	}
}

var refused = []string{
	"PREPARE TRANSACTION 'x'",
	"SET tutti.tx = 'on'", "SET LOCAL TUTTI.tx = 'on'", "RESET tutti.tx", "SET session_replication_role = replica",
	"SET track_counts = off", `SET "tutti.tx" TO on`,
	"SELECT set_config('tutti.tx', 'on', false)", "SELECT SET_CONFIG('Tutti.tx'::text, 'on', true)",
	`SELECT U&"\0073et_config"('tutti.tx', 'on', true)`,
	"ALTER ROLE x SET tutti.tx = 'on'", "ALTER ROLE ALL SET session_replication_role = replica",
	"ALTER DATABASE d SET tutti.tx = 'on'",
	"CREATE FUNCTION f() RETURNS int LANGUAGE sql SET tutti.tx = 'on' AS 'SELECT 1'",
	"ALTER FUNCTION f() SET tutti.tx = 'on'", "ALTER PROCEDURE f() SET tutti.tx TO 'on'",
	"SELECT * FROM tutti.collect(1, 2, 3)", "INSERT INTO t SELECT op FROM tutti.collect(1, 2, 3)",
	`SELECT "tutti".collect(1, 2, 3)`, "EXPLAIN ANALYZE SELECT tutti.collect(1, 2, 3)",
	"COPY (SELECT tutti.collect(1, 2, 3)) TO STDOUT", "CALL tutti.x()", "SELECT pg_catalog.tutti_lo_put(1, 0, 'x')",
	"SELECT tutti_lowrite(1, 'x')", "INSERT INTO t SELECT setval('s', 1)",
	"SELECT setval('s', (random() * 5)::int)", "PREPARE a AS SELECT setval('s', 1)", "CREATE DATABASE x TEMPLATE y",
	"CREATE DATABASE x ALLOW_CONNECTIONS false", "ALTER DATABASE x TABLESPACE y", "ALTER SYSTEM SET work_mem = 1",
	"CREATE TABLESPACE x LOCATION '/x'",
	"CREATE TABLE a PARTITION OF b FOR VALUES FROM (current_timestamp) TO (maxvalue)",
	"ALTER TABLE b ATTACH PARTITION a FOR VALUES IN (now()::date)",
	"CREATE TABLE a PARTITION OF b FOR VALUES FROM ('today') TO ('2099-01-01')", "CREATE ROLE x PASSWORD 'clé'",
	"CREATE ROLE x PASSWORD U&'cle'",
	"ALTER TABLE t ENABLE ALWAYS TRIGGER x", "ALTER TABLE t ENABLE REPLICA TRIGGER x",
	"ALTER TABLE t SET LOGGED, ADD PRIMARY KEY (k)",
	"CREATE MATERIALIZED VIEW v AS SELECT random()", "CREATE MATERIALIZED VIEW v AS SELECT age(a) FROM t",
	"ALTER TABLE t ALTER a TYPE text USING now()::text", "ALTER TABLE t ALTER a TYPE timestamptz USING 'now'",
	"ALTER TABLE t ALTER a TYPE interval USING age(a)",
	"CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p", "SET TRANSACTION SNAPSHOT '00000003-0000001B-1'",
}

// TestAsksForTheLevel: after these the session does not know its isolation level.
func TestAsksForTheLevel(t *testing.T) {
	for text, want := range map[string]Scope{
		"SELECT set_config('Default_Transaction_Isolation', 'serializable', false)": ResetSession,
		"SELECT set_config($1, $2, true)":                                           NoScope,
		"SELECT set_config($1, $2, $3)":                                             ResetSession,
		"SELECT set_config($1, $2, false)":                                          ResetSession,
		"UPDATE t SET a = set_config(b, c, false)":                                  ResetSession,
		"DO 'BEGIN SET Default_transaction_isolation = serializable; END'":          ResetSession,
		"DO 'BEGIN PERFORM SET_CONFIG(a, b, false) FROM t; END'":                    ResetSession,
		"RESET default_transaction_isolation":                                       ResetSession,
		"SELECT set_config('work_mem', '1MB', false)":                               NoScope,
		"DO 'BEGIN UPDATE t SET a = 1; END'":                                        NoScope,
		"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE":   ThisSession,
	} {
		if got := Classify(text); len(got) != 1 || got[0].Scope != want {
			t.Errorf("%s: %+v, want scope %d", text, got, want)
		}
	}
}

func TestListens(t *testing.T) {
	for text, want := range map[string]Statement{
		"LISTEN a":          {Listens: true, Channel: "a"},
		`listen "Ä ""b"`:    {Listens: true, Channel: `Ä "b`},
		"UNLISTEN a":        {Listens: true},
		"UNLISTEN *":        {Listens: true},
		"DISCARD ALL":       {Listens: true},
		"DISCARD PLANS":     {},
		"NOTIFY a, 'b'":     {},
		"DEALLOCATE ALL":    {},
		"SELECT 'LISTEN a'": {},
	} {
		if got := Classify(text)[0]; got.Listens != want.Listens || got.Channel != want.Channel {
			t.Errorf("%q listens %v, to %q", text, got.Listens, got.Channel)
		}
	}
}

func TestModes(t *testing.T) {
	for text, want := range map[string]Modes{
		"BEGIN": {},
		"BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE":       {Serializable, "READ ONLY", "DEFERRABLE"},
		"START TRANSACTION READ WRITE, ISOLATION LEVEL REPEATABLE READ": {RepeatableRead, "READ WRITE", ""},
		"BEGIN ISOLATION LEVEL READ UNCOMMITTED NOT DEFERRABLE":         {ReadUncommitted, "", "NOT DEFERRABLE"},
		"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ":               {Isolation: RepeatableRead},
		"SET transaction_isolation = 'repeatable read'":                 {Isolation: RepeatableRead},
		"SET default_transaction_isolation TO serializable":             {Isolation: Serializable},
	} {
		if got := Classify(text)[0].Modes; got != want {
			t.Errorf("%q has modes %+v, want %+v", text, got, want)
		}
		if !strings.HasPrefix(text, "SET") && want != (Modes{}) {
			if got := Classify("BEGIN" + want.SQL())[0].Modes; got != want {
				t.Errorf("%q is not read back: %+v", want.SQL(), got)
			}
		}
	}
}

// TestSeveral: texts are cut, and places counted in characters.
func TestSeveral(t *testing.T) {
	const sql = "SELECT 'ä;'; -- c\n COMMIT;;SELECT 2"
	got := Classify(sql)
	if len(got) != 3 || got[0].Kind != Read || got[1].Kind != Commit || got[2].Kind != Read {
		t.Fatalf("%+v", got)
	}
	runes := []rune(sql)
	for _, s := range got {
		if rest := string(runes[s.Before:]); !strings.HasPrefix(rest, s.Text) {
			t.Errorf("%q is said to begin at %d, where %q is", s.Text, s.Before, rest)
		}
	}
	if got := Classify("SELECT '\xe9'; COMMIT"); len(got) != 2 || got[1].Kind != Commit {
		t.Errorf("bytes that are no UTF-8 hide a COMMIT: %+v", got)
	}
}

// FuzzClassify: nothing panics, parts are parts, and the quick path says what the grammar
// says of every text the grammar knows.
func FuzzClassify(f *testing.F) {
	for _, s := range append(refused, "SELECT 1", "insert into t values ('a;')", "delete from t;;",
		"-- x\nUPDATE t SET a = 1", "SELECT 1; COMMIT", "SELECT \xff", "", "U&'\\'", "select1 into x") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		if strings.Contains(sql, "\x00") {
			return // cannot come in a message
		}
		all := Classify(sql)
		if len(all) == 0 {
			t.Fatal("no statement")
		}
		for _, s := range all {
			if !strings.Contains(sql, s.Text) || s.Kind > Empty {
				t.Errorf("%+v is no part of the text", s)
			}
		}
		q, ok := quick(sql)
		if !ok {
			return
		}
		g := grammar(sql)
		if g[0].Kind != Unknown && (len(g) != 1 || !reflect.DeepEqual(g[0], q)) {
			t.Errorf("quick says %+v, the grammar %+v", q, g)
		}
	})
}

func TestDetach(t *testing.T) {
	for text, want := range map[string]Detach{
		`ALTER TABLE s.p DETACH PARTITION "P1" CONCURRENTLY`: {
			Plain: `ALTER TABLE s.p DETACH PARTITION "P1"             `, Parent: `"s"."p"`, Partition: `"P1"`},
		"alter table finalize detach partition finalize finalize": {
			Plain: "alter table finalize detach partition finalize         ", Parent: `"finalize"`,
			Partition: `"finalize"`, Finalizes: true},
	} {
		want.Text = text
		got := Classify("SELECT 1; " + text)[1]
		if got.Detach == nil || *got.Detach != want || (got.Alone == "") != want.Finalizes {
			t.Errorf("%s is %+v", text, got.Detach)
		}
	}
	if got := Classify("ALTER TABLE p DETACH PARTITION p1")[0].Detach; got != nil {
		t.Errorf("without either word: %+v", got)
	}
}

func TestConcurrently(t *testing.T) {
	for text, want := range map[string]string{
		`CREATE INDEX CONCURRENTLY "concurrently" ON t (a)`: `CREATE INDEX              "concurrently" ` +
			`ON t (a)`,
		`/* concurrently */ create unique index concurrently ON "é" (a)`: `/* concurrently */ create unique index    ` +
			`          ON "é" (a)`,
		"DROP INDEX CONCURRENTLY i": "DROP INDEX              i",
		"ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY": "ALTER TABLE p DETACH PARTITION p1       " +
			"      ",
	} {
		got := Classify(text)
		if len(got) != 1 || got[0].Kind != Definition || got[0].Alone == "" || got[0].Text != want {
			t.Errorf("%s is %+v, want the text %q", text, got, want)
		}
	}
}

func TestSubstitute(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT setval($1, $2)":                       "SELECT setval( 'a' ,  2 )",
		"SELECT setval('$1', $2) -- $1\n/* $2 */ x":   "SELECT setval('$1',  2 ) -- $1\n/* $2 */ x",
		"SELECT $$ $1 $$, $q$ $2 $q$, \"$1\", $2, $3": "SELECT $$ $1 $$, $q$ $2 $q$, \"$1\",  2 , $3",
		"SELECT 'ä', $1":                              "SELECT 'ä',  'a' ",
		"SELECT E'\\' $1', $1":                        "SELECT E'\\' $1',  'a' ",
		"none":                                        "none",
	} {
		if got := Substitute(sql, []string{"'a'", "2"}); got != want {
			t.Errorf("%q became %q, not %q", sql, got, want)
		}
	}
}

// TestApart: what PostgreSQL may refuse in a transaction block is told from what else is the session's own.
func TestApart(t *testing.T) {
	for sql, want := range map[string]bool{"VACUUM t": true, "CLUSTER": true, "REINDEX TABLE t": true,
		"REINDEX TABLE CONCURRENTLY t": true, "DISCARD ALL": true, "ANALYZE": false, "SET x.y = 1": false,
		"LISTEN a": false, "NOTIFY a": false, "DISCARD PLANS": false, "DEALLOCATE ALL": false} {
		st := Classify(sql)[0]
		if st.Kind != Local || st.Apart() != want || st.Text != sql {
			t.Errorf("%s: kind %v, apart %t, as %q", sql, st.Kind, st.Apart(), st.Text)
		}
	}
}
