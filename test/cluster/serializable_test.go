package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serial is a SERIALIZABLE transaction at node 1 that has run statements and written a row that nobody else wants, and
// somebody else's statements at node 2, committed meanwhile. It reports whether the transaction has committed.
func serial(t *testing.T, a, b *Conn, mine []func() error, others string) bool {
	t.Helper()
	a.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "INSERT INTO pin_out VALUES (DEFAULT)")
	for _, f := range mine {
		if err := f(); err != nil {
			t.Fatal(Explain(err))
		}
	}
	if others != "" {
		b.Do(others)
	}
	err := a.Try("COMMIT")
	if err != nil && Code(err) != "40001" {
		t.Fatal(Explain(err))
	}
	return err == nil
}

func pinTables(c *Cluster) {
	c.Connect(1).Do(
		"CREATE TABLE pin_out(id serial PRIMARY KEY)",
		"CREATE TABLE pin(k int PRIMARY KEY, v int, w text)",
		"INSERT INTO pin SELECT i, 0, 'x' FROM generate_series(1, 9) i",
		"CREATE TABLE pin_pair(a int8, b text, v int, PRIMARY KEY (b, a))",
		"INSERT INTO pin_pair SELECT i, 'x' || i, 0 FROM generate_series(1, 9) i",
		"CREATE TABLE pin_num(k numeric PRIMARY KEY, v int)",
		"INSERT INTO pin_num SELECT i, 0 FROM generate_series(1, 9) i",
		"CREATE TABLE pin_float(k float8 PRIMARY KEY, v int)",
		"INSERT INTO pin_float SELECT i, 0 FROM generate_series(1, 9) i",
		"CREATE TABLE pin_uuid(k uuid PRIMARY KEY, v int)",
		"INSERT INTO pin_uuid SELECT ('00000000-0000-0000-0000-00000000000' || i)::uuid, 0 FROM "+
			"generate_series(1, 9) i",
		`CREATE COLLATION pin_ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`,
		"CREATE TABLE pin_ci(k text COLLATE pin_ci PRIMARY KEY, v int)", "INSERT INTO pin_ci VALUES ('a', 0), ('b', 0)",
		"CREATE TABLE pin_parent(k int PRIMARY KEY, v int)",
		"INSERT INTO pin_parent SELECT i, 0 FROM generate_series(1, 9) i",
		"CREATE TABLE pin_child(k int PRIMARY KEY, p int REFERENCES pin_parent)",
		"INSERT INTO pin_child SELECT i, i FROM generate_series(1, 7) i",
		"CREATE TABLE pin_part(k int PRIMARY KEY, v int) PARTITION BY HASH (k)",
		"CREATE TABLE pin_part0 PARTITION OF pin_part FOR VALUES WITH (modulus 1, remainder 0)",
		"INSERT INTO pin_part SELECT i, 0 FROM generate_series(1, 9) i",
		"CREATE TABLE pin_base(k int PRIMARY KEY, v int)", "CREATE TABLE pin_heir() INHERITS (pin_base)",
		"INSERT INTO pin_base SELECT i, 0 FROM generate_series(1, 9) i",
		"CREATE TABLE pin_trigger(k int PRIMARY KEY, v int)",
		"INSERT INTO pin_trigger SELECT i, 0 FROM generate_series(1, 9) i",
		"CREATE FUNCTION pin_look() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM count(*) FROM pin; RETURN "+
			"NEW; END'",
		"CREATE TRIGGER look AFTER UPDATE ON pin_trigger FOR EACH ROW EXECUTE FUNCTION pin_look()",
		"CREATE TABLE pin_policy(k int PRIMARY KEY, v int)",
		"INSERT INTO pin_policy SELECT i, 0 FROM generate_series(1, 9) i",
		"ALTER TABLE pin_policy ENABLE ROW LEVEL SECURITY",
		"CREATE VIEW pin_view AS SELECT * FROM pin",
		"CREATE FUNCTION pin_fn(int) RETURNS int STABLE LANGUAGE sql AS 'SELECT v FROM pin WHERE v = $1 LIMIT 1'",
		"CREATE FUNCTION fn(pin) RETURNS bigint STABLE LANGUAGE sql AS 'SELECT count(*) FROM pin'",
		"CREATE TABLE pin_twice(k int PRIMARY KEY, u int UNIQUE, v int)",
		"INSERT INTO pin_twice SELECT i, i, 0 FROM generate_series(1, 9) i",
		"CREATE TABLE pin_scratch(k int PRIMARY KEY, v int)",
		"INSERT INTO pin_scratch SELECT i, 0 FROM generate_series(1, 9) i")
	c.Connect(1).Do("INSERT INTO pin_out VALUES (0)")
	c.Settled()
}

// pinShapes are statements of a SERIALIZABLE transaction that read row 1 of a table, and maybe more of it. pinned says
// that this is certain to be all, so that a change of row 2 is none of its business.
var pinShapes = []struct {
	table, sql string
	pinned     bool
}{
	{"pin", "SELECT v FROM pin WHERE k = 1", true},
	{"pin", "SELECT v FROM pin WHERE k = '1' AND w = 'x'", true},
	{"pin", "SELECT p.* FROM public.pin AS p WHERE 1 = p.k AND (v = 3 OR w LIKE '%x') ORDER BY v LIMIT 1", true},
	{"pin", "SELECT count(*), max(v) FROM pin WHERE k IN (1, 3, 4)", true},
	{"pin", "SELECT v FROM pin WHERE k = 1::bigint", true},
	{"pin", "SELECT v FROM pin WHERE k = 1 FOR UPDATE", true},
	{"pin", "UPDATE pin SET w = 'y' WHERE k = 1", true},
	{"pin", "UPDATE pin SET w = 'y' WHERE k = 1 AND v = 99", true},
	{"pin", "DELETE FROM pin WHERE k = 1 AND v = 99", true},
	{"pin", "SELECT v FROM pin WHERE k = 1; SAVEPOINT a; SELECT v FROM pin WHERE k = 3; RELEASE a", true},
	// read as a whole is another table
	{"pin", "SELECT v FROM pin WHERE k = 1; SELECT v FROM pin_scratch WHERE v = 7", true},
	{"pin", "SELECT v FROM pin WHERE k = 1; SET LOCAL lock_timeout = '5s'", true},
	{"pin", "SELECT v FROM pin WHERE k = 1 AND k = 2", true}, // nothing is found whatever 2 is
	{"pin_pair", "SELECT v FROM pin_pair WHERE a = 1 AND b = 'x1'", true},
	{"pin_pair", "SELECT v FROM pin_pair WHERE b IN ('x1', 'x3') AND a IN (1, 3)", true},
	{"pin_num", "SELECT v FROM pin_num WHERE k = 1", true},
	{"pin_uuid", "SELECT v FROM pin_uuid WHERE k = '00000000-0000-0000-0000-000000000001'", true},
	{"pin_parent", "INSERT INTO pin_child VALUES (8, 1); DELETE FROM pin_out WHERE id = 0", true},
	{"pin_scratch", "INSERT INTO pin_scratch VALUES (1, 1) ON CONFLICT DO NOTHING", true},
	{"pin_scratch", "INSERT INTO pin_scratch VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v WHERE " +
		"pin_scratch.v = 99", true},
	{"pin_scratch", "INSERT INTO pin_scratch AS s (v, k) VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET v = s.v", true},

	{"pin", "SELECT v FROM pin", false},
	{"pin", "SELECT v FROM pin WHERE k = 1 OR v = 99", false},
	{"pin", "SELECT v FROM pin WHERE k < 2", false},
	{"pin", "SELECT v FROM pin WHERE k = 1.0", false},
	{"pin", "SELECT v FROM pin WHERE k = 1::numeric", false},
	{"pin", "SELECT v FROM pin WHERE k = 0 + 1", false},
	{"pin", "SELECT v FROM pin WHERE k = (SELECT 1)", false},
	{"pin", "SELECT v FROM pin WHERE k = 1 AND NOT EXISTS (SELECT FROM pin WHERE v = 99)", false},
	{"pin", "SELECT pin_fn(99) FROM pin WHERE k = 1", false},
	{"pin", "SELECT pin.fn FROM pin WHERE k = 1", false},
	{"pin", "SELECT ctid FROM pin p WHERE p.k = 1; SELECT p.ctid FROM pin p WHERE k = 1", false},
	{"pin", "SELECT v FROM pin_view WHERE k = 1", false},
	{"pin", "WITH x AS (SELECT * FROM pin) SELECT v FROM x WHERE k = 1", false},
	{"pin", "SELECT a.v FROM pin a JOIN pin b ON a.k = b.k WHERE a.k = 1", false},
	{"pin", "DECLARE c CURSOR FOR SELECT v FROM pin WHERE k = 1; FETCH c", false},
	{"pin", "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT v FROM pin WHERE k = 1", false},
	{"pin", "DO 'BEGIN PERFORM v FROM pin WHERE k = 1; END'", false},
	{"pin", "SELECT v FROM pin WHERE k = 1; SET LOCAL search_path = public", false},
	{"pin", "SELECT v FROM pin WHERE k = 1; SELECT v FROM pin WHERE v = 99", false},
	{"pin", "SAVEPOINT a; SELECT v FROM pin WHERE v = 99; ROLLBACK TO a; SELECT v FROM pin WHERE k = 1", false},
	{"pin", "SELECT v FROM pin WHERE k = 1; SAVEPOINT a; ROLLBACK TO a", false},
	{"pin", "UPDATE pin SET w = 'y' WHERE v = 99", false},
	{"pin", "INSERT INTO pin_out SELECT k + 1000000 FROM pin WHERE v = 99", false},
	{"pin", "UPDATE pin_trigger SET v = 1 WHERE k = 1; SELECT v FROM pin WHERE k = 1", false},
	{"pin", "COPY (SELECT v FROM pin WHERE k = 1) TO STDOUT", false},
	{"pin_pair", "SELECT v FROM pin_pair WHERE a = 1", false},
	{"pin_num", "SELECT v FROM pin_num WHERE k = 1.00", false},
	{"pin_ci", "SELECT v FROM pin_ci WHERE k = 'A'", false},
	{"pin_float", "SELECT v FROM pin_float WHERE k = 1", false},
	{"pin_part", "SELECT v FROM pin_part WHERE k = 1", false},
	{"pin_base", "SELECT v FROM pin_base WHERE k = 1", false},
	{"pin_policy", "SELECT v FROM pin_policy WHERE k = 1", false},
	{"pin_twice", "INSERT INTO pin_twice VALUES (1, 1, 1) ON CONFLICT DO NOTHING; SELECT u FROM pin_twice WHERE k = 1",
		false},
	// nothing of it is certified
	{"pin_parent", "INSERT INTO pin_child VALUES (9, 1); DELETE FROM pin_child WHERE k = 9", false},
	// who refers to it is looked for
	{"pin_child", "SELECT p FROM pin_child WHERE k = 1; DELETE FROM pin_parent WHERE k = 9", false},
}

// TestPinnedReads: a SERIALIZABLE transaction loses to who has changed a row that it has read; if nothing but rows that
// were told by their key can have been read, to nobody else.
func TestPinnedReads(t *testing.T) {
	c := use(t)
	pinTables(c)
	a, b := c.Connect(1), c.Connect(2)
	for _, s := range pinShapes {
		set, where := "v = v + 1", "k = "
		switch s.table {
		case "pin_pair":
			where = "a = "
		case "pin_child":
			set = "p = p + 0"
		}
		value := func(n int) string {
			switch s.table {
			case "pin_ci":
				return []string{"", "'a'", "'b'"}[n]
			case "pin_uuid":
				return fmt.Sprintf("'00000000-0000-0000-0000-00000000000%d'", n)
			}
			return fmt.Sprint(n)
		}
		run := []func() error{func() error { return a.Try(s.sql) }}
		change := fmt.Sprintf("UPDATE %s SET %s WHERE %s", s.table, set, where)
		if got := serial(t, a, b, run, change+value(2)); got != s.pinned {
			t.Errorf("%s: row 2 was changed meanwhile: committed %v, want %v", s.sql, got, s.pinned)
		}
		settle(a, b)
		if s.table == "pin_parent" || s.table == "pin_child" {
			if strings.HasPrefix(s.sql, "INSERT INTO pin_child VALUES (8") {
				a.Do("DELETE FROM pin_child WHERE k = 8") // and who refers to a row is not concerned by its columns
			}
			continue
		}
		if serial(t, a, b, run, change+value(1)) {
			t.Errorf("%s: row 1 was changed meanwhile, and it has committed", s.sql)
		}
	}
	c.Check()
}

// TestPinnedSkew: what is promised of reads by key, of rows that are there, that are not, that go, or come.
func TestPinnedSkew(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE pinskew(k int8 PRIMARY KEY, v int)", "CREATE TABLE pinskew2(k text PRIMARY KEY, v int)")
	const one = "SELECT v FROM pinskew WHERE k = 1"
	for _, x := range []struct {
		name, readsA, readsB, writesA, writesB string
		both                                   bool
	}{
		{"nothing in common", one, "SELECT v FROM pinskew WHERE k = 2", "UPDATE pinskew SET v = 1 WHERE k = 1",
			"UPDATE pinskew SET v = 1 WHERE k = 2", true},
		{"in one direction", one, "SELECT v FROM pinskew WHERE k = 2", "UPDATE pinskew SET v = 1 WHERE k = 3",
			"UPDATE pinskew SET v = 1 WHERE k = 1", true},
		{"write skew", one, "SELECT v FROM pinskew WHERE k = 2", "UPDATE pinskew SET v = 1 WHERE k = 2",
			"UPDATE pinskew SET v = 1 WHERE k = 1", false},
		{"of tables", one, "SELECT v FROM pinskew2 WHERE k = 'a'", "UPDATE pinskew2 SET v = 1 WHERE k = 'a'",
			"UPDATE pinskew SET v = 1 WHERE k = 1", false},
		{"absent rows", "SELECT v FROM pinskew WHERE k = 101", "SELECT v FROM pinskew WHERE k = 102",
			"INSERT INTO pinskew VALUES (102, 1)", "INSERT INTO pinskew VALUES (101, 1)", false},
		{"other absent rows", "SELECT v FROM pinskew WHERE k = 101", "SELECT v FROM pinskew WHERE k = 102",
			"INSERT INTO pinskew VALUES (103, 1)", "INSERT INTO pinskew VALUES (104, 1)", true},
		{"updates that find nothing", "UPDATE pinskew SET v = 1 WHERE k = 101", "DELETE FROM pinskew WHERE k = 102",
			"INSERT INTO pinskew VALUES (102, 1)", "INSERT INTO pinskew VALUES (101, 1)", false},
		{"moved there", "SELECT v FROM pinskew WHERE k = 101", "SELECT v FROM pinskew WHERE k = 102",
			"UPDATE pinskew SET k = 102 WHERE k = 3", "UPDATE pinskew SET k = 101 WHERE k = 4", false},
		{"moved away", one, "SELECT v FROM pinskew WHERE k = 2", "UPDATE pinskew SET k = 103 WHERE k = 2",
			"UPDATE pinskew SET k = 104 WHERE k = 1", false},
		{"deleted", one, "SELECT v FROM pinskew WHERE k = 2", "DELETE FROM pinskew WHERE k = 2",
			"DELETE FROM pinskew WHERE k = 1", false},
		{"inserted or passed over", "INSERT INTO pinskew VALUES (1, 1) ON CONFLICT DO NOTHING",
			"INSERT INTO pinskew VALUES (2, 1) ON CONFLICT DO NOTHING", "DELETE FROM pinskew WHERE k = 2",
			"DELETE FROM pinskew WHERE k = 1", false},
		{"whole here, by key there", "SELECT count(*) FROM pinskew WHERE v = 9", "SELECT v FROM pinskew2 WHERE k = 'a'",
			"UPDATE pinskew2 SET v = 1 WHERE k = 'a'", "UPDATE pinskew SET v = 1 WHERE k = 1", false},
		{"by key here, whole there", one, "SELECT count(*) FROM pinskew2", "INSERT INTO pinskew2 VALUES ('z', 1)",
			"UPDATE pinskew SET v = 1 WHERE k = 1", false},
		{"emptied", "SELECT v FROM pinskew2 WHERE k = 'a'", one, "UPDATE pinskew SET v = 1 WHERE k = 1",
			"TRUNCATE pinskew2", false},
		{"by parameters", "1 SELECT v FROM pinskew WHERE k = $1", "2 SELECT v FROM pinskew WHERE k = $1",
			"UPDATE pinskew SET v = 1 WHERE k = 2", "UPDATE pinskew SET v = 1 WHERE k = 1", false},
		{"by other parameters", "1 SELECT v FROM pinskew WHERE k = $1", "2 SELECT v FROM pinskew WHERE k = $1",
			"UPDATE pinskew SET v = 1 WHERE k = 3", "UPDATE pinskew SET v = 1 WHERE k = 4", true},
		{"by arrays", "1 SELECT sum(v) FROM pinskew WHERE k = ANY (ARRAY[$1::int8])",
			"2 SELECT v FROM pinskew WHERE k = $1::int8", "UPDATE pinskew SET v = 1 WHERE k = 2",
			"UPDATE pinskew SET v = 1 WHERE k = 1", false},
	} {
		a.Do("TRUNCATE pinskew, pinskew2", "INSERT INTO pinskew SELECT i, 0 FROM generate_series(1, 9) i",
			"INSERT INTO pinskew2 VALUES ('a', 0), ('b', 0)")
		settle(a, b)
		run := func(s *Conn, sql string) error {
			if sql[1] != ' ' {
				return s.Try(sql)
			}
			rows, err := s.Query(s.ctx(), sql[2:], int64(sql[0]-'0'))
			if err == nil {
				rows.Close()
				err = rows.Err()
			}
			return err
		}
		var lost [2]error
		both := []*Conn{a, b}
		for i, sql := range []string{"BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN ISOLATION LEVEL SERIALIZABLE",
			x.readsA, x.readsB, x.writesA, x.writesB, "COMMIT", "COMMIT"} {
			if lost[i%2] == nil {
				if lost[i%2] = run(both[i%2], sql); lost[i%2] != nil && Code(lost[i%2]) != "40001" {
					t.Fatalf("%s: %s: %s", x.name, sql, Explain(lost[i%2]))
				}
			}
		}
		for i, s := range both {
			if lost[i] != nil {
				s.Do("ROLLBACK")
			}
		}
		if got := lost[0] == nil && lost[1] == nil; got != x.both {
			t.Errorf("%s: both have committed: %v, want %v: %v, %v", x.name, got, x.both, lost[0], lost[1])
		}
		if lost[0] != nil && lost[1] != nil {
			t.Errorf("%s: both have lost: %s; %s", x.name, Explain(lost[0]), Explain(lost[1]))
		}
	}
	c.Check()
}

const pinAccounts = 1000

// pinTransfers has clients at all nodes move money between accounts in SERIALIZABLE transactions, each of which begins
// with a statement, and tells how many were tried and committed.
func pinTransfers(t *testing.T, c *Cluster, first string, d time.Duration) (tried, committed int64) {
	var sum, good atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for i := range 4 * c.Size() {
		s := c.Connect(i%c.Size() + 1)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 30))
			for time.Now().Before(end) {
				from := rng.IntN(pinAccounts)
				to := (from + 1 + rng.IntN(pinAccounts-1)) % pinAccounts
				sum.Add(1)
				err := s.Try("BEGIN ISOLATION LEVEL SERIALIZABLE; " + first)
				for _, sql := range []string{
					fmt.Sprintf("SELECT v FROM pinbank WHERE k = %d", from),
					fmt.Sprintf("UPDATE pinbank SET v = v - 1 WHERE k = %d", from),
					fmt.Sprintf("UPDATE pinbank SET v = v + 1 WHERE k = %d", to),
					fmt.Sprintf("INSERT INTO pinbank_history (k, v) VALUES (%d, 1)", to), "COMMIT",
				} {
					if err == nil {
						err = s.Try(sql)
					}
				}
				switch {
				case err == nil:
					good.Add(1)
				case Code(err) == "40001" || Code(err) == "40P01":
					err = s.Try("ROLLBACK")
				}
				if err != nil {
					t.Error(Explain(err))
					return
				}
			}
		})
	}
	wg.Wait()
	return sum.Load(), good.Load()
}

// TestPinnedTransfers: transfers keep what there is, none is lost, and few lose to each other, unless something makes
// whole tables of what they read.
func TestPinnedTransfers(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE pinbank(k int PRIMARY KEY, v int)",
		fmt.Sprintf("INSERT INTO pinbank SELECT i, 100 FROM generate_series(0, %d) i", pinAccounts-1),
		"CREATE TABLE pinbank_history(id bigserial PRIMARY KEY, k int, v int, at timestamptz DEFAULT now())")
	c.Everywhere("SELECT count(*) FROM pinbank_history", "0")
	d := seconds(3 * time.Second)
	tried, committed := pinTransfers(t, c, "SET LOCAL lock_timeout = 0", d)
	triedWhole, committedWhole := pinTransfers(t, c, "SET LOCAL work_mem = '4MB'", d)
	lost, lostWhole := 1-float64(committed)/float64(tried), 1-float64(committedWhole)/float64(triedWhole)
	t.Logf("by key: %d of %d committed, %.1f %% lost; by whole tables: %d of %d, %.1f %% lost; %.1f times as many "+
		"commits",
		committed, tried, 100*lost, committedWhole, triedWhole, 100*lostWhole,
		float64(committed)/float64(committedWhole))
	if lost > lostWhole/2 {
		t.Errorf("transfers of different accounts lose to each other")
	}
	c.Everywhere("SELECT sum(v) FROM pinbank", fmt.Sprint(100*pinAccounts))
	c.Everywhere("SELECT count(*) FROM pinbank_history", fmt.Sprint(committed+committedWhole))
	c.Check()
}

// pinTypes are types of keys, a value of each in the words of who reads and of who writes, and another value.
var pinTypes = []struct{ typ, reads, writes, other string }{
	{"bool", "t", "yes", "false"},
	{"bytea", `\x6162`, "ab", "abc"},
	{"int2", "7", "007", "8"},
	{"int4", "-7", " -7 ", "7"},
	{"int8", "4294967298", "4294967298", "8589934593"}, // PostgreSQL's own hashes of these two are equal
	{"text", "a", "a", "A"},
	{"varchar(5)", "a ", "a ", "a"},
	{"char(5)", "a", "a   ", "b"},
	{"date", "2026-02-01", "1 Feb 2026", "2026-01-02"},
	{"timestamp", "2026-02-01 00:00:00.000001", "2026-02-01 0:0:0.000001", "2026-02-01 0:0:0"},
	{"timestamptz", "2026-02-01 00:00:00+00", "2026-02-01 02:00:00+02", "2026-02-01 00:00:00+02"},
	{"numeric", "1.10", "1.1000", "1.01"},
	{"numeric(9,3)", "1", "1.000", "1.001"},
	{"uuid", "00000000-0000-0000-0000-00000000000a", "{0000000000000000000000000000000A}",
		"00000000-0000-0000-0000-00000000000b"},
}

// TestPinnedTypes: whoever makes a row that was looked for and not found is seen, in whatever form either has told the
// key; whoever makes another is not.
func TestPinnedTypes(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE pintype_out(n int)")
	for i, x := range pinTypes {
		a.Do(fmt.Sprintf("CREATE TABLE pintype%d(k %s PRIMARY KEY)", i, x.typ))
	}
	const text = `SELECT FROM %s WHERE k = $1`
	forms := map[string]func(table, v string) error{
		"a parameter as text": func(table, v string) error {
			return a.PgConn().ExecParams(a.ctx(), fmt.Sprintf(text, table), [][]byte{[]byte(v)}, nil, nil,
				nil).Read().Err
		},
		"a parameter in binary": func(table, v string) error {
			d, err := a.Prepare(a.ctx(), "", fmt.Sprintf(text, table))
			if err != nil {
				return err
			}
			value, err := a.TypeMap().Encode(d.ParamOIDs[0], 1, pinValue(a, d.ParamOIDs[0], v), nil)
			if err != nil {
				return err
			}
			return a.PgConn().ExecParams(a.ctx(), fmt.Sprintf(text, table), [][]byte{value}, d.ParamOIDs, []int16{1},
				nil).Read().Err
		},
		"an array": func(table, v string) error {
			return a.PgConn().ExecParams(a.ctx(), fmt.Sprintf("SELECT FROM %s WHERE k = ANY ($1)", table),
				[][]byte{[]byte(`{"` + strings.ReplaceAll(v, `\`, `\\`) + `"}`)}, nil, nil, nil).Read().Err
		},
		"a constant": func(table, v string) error {
			return a.Try(fmt.Sprintf("SELECT FROM %s WHERE k = '%s'", table, v))
		},
	}
	for i, x := range pinTypes {
		table := fmt.Sprintf("pintype%d", i)
		for name, f := range forms {
			for _, value := range []string{x.writes, x.other} {
				settle(a, b)
				a.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "INSERT INTO pintype_out VALUES (1)")
				if err := f(table, x.reads); err != nil {
					t.Fatalf("%s: %s: %s", x.typ, name, Explain(err))
				}
				b.Do(fmt.Sprintf("INSERT INTO %s VALUES ('%s')", table, value))
				err := a.Try("COMMIT")
				// those may be read otherwise
				known := name != "a constant" || !strings.Contains("bytea date timestamp timestamptz", x.typ)
				switch {
				case value == x.writes && Code(err) != "40001":
					t.Errorf("%s: %s was looked for as %s and made as %s meanwhile: %v", x.typ, x.reads, name, value,
						err)
				case value == x.other && known && err != nil:
					t.Errorf("%s: %s was looked for as %s and %s made meanwhile: %s", x.typ, x.reads, name, value,
						Explain(err))
				}
				b.Do("DELETE FROM " + table)
			}
		}
	}
}

// TestPinnedParameters: a parameter whose type the client has prescribed is compared as one of that type.
func TestPinnedParameters(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE pinparam_out(n int)", "CREATE TABLE pinparam4(k int PRIMARY KEY)",
		"CREATE TABLE pinparamtext(k text PRIMARY KEY)", "CREATE TABLE pinparamchar(k char(3) PRIMARY KEY)")
	for _, x := range []struct {
		table  string
		oid    uint32
		where  string
		pinned bool
	}{
		{"pinparam4", 0, "k = $1", true}, {"pinparam4", 20, "k = $1", true}, {"pinparam4", 21, "k = $1", true},
		{"pinparam4", 705, "k = $1", true},
		{"pinparam4", 25, "k = $1::int4", true}, {"pinparam4", 1007, "k = ANY ($1)", true},
		{"pinparam4", 1700, "k = $1", false}, {"pinparam4", 701, "k = $1", false},
		{"pinparam4", 1231, "k = ANY ($1)", false},
		{"pinparamtext", 25, "k = $1", true}, {"pinparamtext", 1043, "k = $1", true},
		{"pinparamtext", 1042, "k = $1", false},
		{"pinparamchar", 1042, "k = $1", true}, {"pinparamchar", 25, "k = $1", false},
		{"pinparam4", 0, "k = $1 AND $1 > 0", false}, // the server may have inferred its type elsewhere
	} {
		for value, want := range map[string]string{"1": "40001", "2": map[bool]string{false: "40001"}[x.pinned]} {
			settle(a, b)
			a.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "INSERT INTO pinparam_out VALUES (1)")
			given := "1"
			if x.oid == 1007 || x.oid == 1231 {
				given = "{1,3}"
			}
			if err := a.PgConn().ExecParams(a.ctx(), "SELECT FROM "+x.table+" WHERE "+x.where, [][]byte{[]byte(given)},
				[]uint32{x.oid}, nil, nil).Read().Err; err != nil {
				t.Fatalf("%s: %s", x.where, Explain(err))
			}
			b.Do(fmt.Sprintf("INSERT INTO %s VALUES ('%s')", x.table, value))
			if got := Code(a.Try("COMMIT")); got != want {
				t.Errorf("%s with a parameter of type %d in %s, while %s was made: %q, want %q", x.where, x.oid,
					x.table, value, got, want)
			}
			b.Do("DELETE FROM " + x.table)
		}
	}
}

// pinValue is a value in a form that can be encoded in binary.
func pinValue(s *Conn, oid uint32, text string) any {
	typ, ok := s.TypeMap().TypeForOID(oid)
	if !ok {
		return text
	}
	v, err := typ.Codec.DecodeValue(s.TypeMap(), oid, 0, []byte(text))
	if err != nil {
		return text
	}
	return v
}

// TestSerializableCommitsThatFail: PostgreSQL may refuse the COMMIT of a transaction that is in the order, where it
// suspects a cycle. Its rows are applied all the same, also while another session of this node has locked one of them
// meanwhile.
func TestSerializableCommitsThatFail(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE failing(k int PRIMARY KEY, v int)",
		"INSERT INTO failing SELECT i, 0 FROM generate_series(0, 5) i")
	c.Everywhere("SELECT count(*) FROM failing", "6")
	var wg sync.WaitGroup
	var good atomic.Int64
	end := time.Now().Add(seconds(3 * time.Second))
	for i := range 10 {
		s := c.Connect(1)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 31))
			for time.Now().Before(end) {
				began := time.Now()
				err := s.Try("BEGIN ISOLATION LEVEL SERIALIZABLE")
				for _, sql := range []string{
					fmt.Sprintf("SELECT v FROM failing WHERE k = %d", rng.IntN(6)),
					fmt.Sprintf("UPDATE failing SET v = v + 1 WHERE k = %d", rng.IntN(6)), "COMMIT",
				} {
					if err == nil {
						err = s.Try(sql)
					}
				}
				switch {
				case err == nil:
					good.Add(1)
				case Code(err) == "40001" || Code(err) == "40P01":
					err = s.Try("ROLLBACK")
				}
				if took := time.Since(began); err != nil || took > 30*time.Second {
					t.Errorf("after %s: %s", took, Explain(err))
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d commits", good.Load())
	c.Everywhere("SELECT sum(v) FROM failing", fmt.Sprint(good.Load()))
	c.Check()
}
