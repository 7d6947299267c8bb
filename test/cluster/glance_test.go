package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// glanceClient is one client of TestGlances.
type glanceClient struct {
	conn *pgx.Conn
	rng  *rand.Rand
	rows int
}

// number takes the next number of a row: it changes it, looks at what that has made of it, and notes the number.
// Sometimes it looks further than it can unseen.
func (g *glanceClient) number(ctx context.Context, tx pgx.Tx) (id, n int, err error) {
	id = 1 + g.rng.IntN(g.rows)
	further := g.rng.IntN(4) == 0
	change := "UPDATE glances SET n = n + 1, word = $2 WHERE id = $1"
	if further {
		change = "UPDATE glances SET word = $2, n = n + 1 WHERE id = $1"
	}
	if _, err = tx.Exec(ctx, change, id, fmt.Sprint("w", id)); err != nil {
		return id, n, err
	}
	var word string
	if err = tx.QueryRow(ctx, "SELECT n, word FROM glances WHERE id = $1", id).Scan(&n, &word); err == nil &&
		word != fmt.Sprint("w", id) {
		err = fmt.Errorf("row %d shows %q", id, word)
	}
	if err == nil && further {
		err = tx.QueryRow(ctx, "SELECT upper(word) FROM glances WHERE id = $1", id).Scan(&word)
	}
	if err == nil {
		_, err = tx.Exec(ctx, "INSERT INTO glances_log (id, n, at, by) VALUES ($1, $2, CURRENT_TIMESTAMP, now())", id,
			n)
	}
	return id, n, err
}

// guarded adds to a row what it has read of it, in the protection of the lock of another row, which it has changed
// before.
func (g *glanceClient) guarded(ctx context.Context, tx pgx.Tx) (id, n int, err error) {
	id = 1 + g.rng.IntN(g.rows)
	if _, err = tx.Exec(ctx, "UPDATE glances_guard SET n = n + 1 WHERE id = $1", id); err == nil {
		err = tx.QueryRow(ctx, "SELECT n FROM glances_guarded WHERE id = $1", id).Scan(&n)
	}
	if err == nil {
		_, err = tx.Exec(ctx, "UPDATE glances_guarded SET n = $2 WHERE id = $1", id, n+1)
	}
	return id, n, err
}

// do runs one of these in a block.
func (g *glanceClient) do(f func(context.Context, pgx.Tx) (int, int, error)) (id, n int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tx, err := g.conn.Begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	if id, n, err = f(ctx, tx); err != nil {
		_ = tx.Rollback(ctx)
		return id, n, err
	}
	return id, n, tx.Commit(ctx)
}

// TestGlances: whoever looks at a row that he has changed, or at another one in the protection of its lock, may rely on
// what he sees, at whatever node others do the same. No two clients take the same number, and nothing that was added is
// lost. Most of it is carried out unseen.
func TestGlances(t *testing.T) {
	const rows = 60
	c := use(t)
	c.Connect(1).Do("CREATE TABLE glances (id int PRIMARY KEY, n int NOT NULL, word varchar(9))",
		"CREATE TABLE glances_guard (id int PRIMARY KEY, n bigint NOT NULL)",
		"CREATE TABLE glances_guarded (id int PRIMARY KEY, n int NOT NULL)",
		"CREATE TABLE glances_log (id int, n int, at timestamptz NOT NULL, by timestamp, note text)",
		fmt.Sprintf("INSERT INTO glances SELECT i, 0, '' FROM generate_series(1, %d) i", rows),
		fmt.Sprintf("INSERT INTO glances_guard SELECT i, 0 FROM generate_series(1, %d) i", rows),
		fmt.Sprintf("INSERT INTO glances_guarded SELECT i, 0 FROM generate_series(1, %d) i", rows))
	c.Everywhere("SELECT count(*) FROM glances_guarded", fmt.Sprint(rows))
	unseen := 0
	for _, k := range c.All() {
		unseen -= c.blindBlocks(k)
	}
	var mu sync.Mutex
	taken := map[[2]int]bool{}
	var wg sync.WaitGroup
	var numbers, guarded, lost atomic.Int64
	end := time.Now().Add(seconds(4 * time.Second))
	for who := range 3 * c.Size() {
		g := &glanceClient{c.Connect(1 + who%c.Size()).Conn, rand.New(rand.NewPCG(7, uint64(who))), rows}
		wg.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				f, count := g.number, &numbers
				if i%2 == 1 {
					f, count = g.guarded, &guarded
				}
				id, n, err := g.do(f)
				switch {
				case err == nil && i%2 == 0:
					mu.Lock()
					if taken[[2]int{id, n}] {
						t.Errorf("number %d of row %d was taken twice", n, id)
					}
					taken[[2]int{id, n}] = true
					mu.Unlock()
					count.Add(1)
				case err == nil:
					count.Add(1)
				case Code(err) == "40001" || Code(err) == "40P01":
					lost.Add(1)
				default:
					t.Errorf("client %d: %v", who, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, k := range c.All() {
		unseen += c.blindBlocks(k)
	}
	t.Logf("%d numbers taken, %d added, %d lost; %d blocks unseen", numbers.Load(), guarded.Load(), lost.Load(), unseen)
	if all := int(numbers.Load() + guarded.Load()); unseen < all/4 {
		t.Errorf("of %d blocks %d were carried out unseen", all, unseen)
	}
	c.Everywhere("SELECT sum(n), (SELECT count(*) FROM glances_log), (SELECT count(DISTINCT (id, n)) FROM "+
		"glances_log) FROM glances", fmt.Sprintf("%d|%[1]d|%[1]d", numbers.Load()))
	c.Everywhere("SELECT sum(n), (SELECT sum(n) FROM glances_guarded) FROM glances_guard",
		fmt.Sprintf("%d|%[1]d", guarded.Load()))
	c.Everywhere("SELECT count(*) FROM glances_log WHERE at AT TIME ZONE current_setting('TimeZone') <> by OR at < "+
		"now() - interval '10 minutes' OR at > now()", "0")
	c.Check()
}

// glancer runs scripts.
type glancer struct {
	c *Cluster
	s *Conn
}

// glanceTexts are the statements of scripts, which have one parameter.
var glanceTexts = map[string]string{"add": "UPDATE glanced SET n = n + 1 WHERE id = $1",
	"set":   "UPDATE glanced SET pad = 'ab', word = 'new', n = 5 WHERE id = $1",
	"drop":  "DELETE FROM glanced WHERE id = $1",
	"log":   "INSERT INTO glanced_log (id, at) VALUES ($1, CURRENT_TIMESTAMP)",
	"stamp": "UPDATE glanced SET at = now() WHERE id = $1",
	"see":   "SELECT n FROM glanced WHERE id = $1", "all": "SELECT * FROM glanced g WHERE g.id = $1 LIMIT 1",
	"pad": "SELECT pad AS p, id FROM glanced WHERE $1 = id", "sum": "SELECT n + 0 FROM glanced WHERE id = $1"}

func (g *glancer) run(sql string) (string, error) {
	word, id, _ := strings.Cut(sql, " ")
	text := glanceTexts[word]
	ctx := context.Background()
	switch {
	case text == "" && strings.HasPrefix(sql, "SELECT"):
		return g.s.Get(sql), nil
	case text == "":
		tag, err := g.s.PgConn().Exec(ctx, sql).ReadAll()
		if err != nil {
			return "", err
		}
		return tag[len(tag)-1].CommandTag.String(), nil
	case strings.HasPrefix(text, "SELECT"):
		rows, err := g.s.Query(ctx, text, id)
		if err != nil {
			return "", err
		}
		got := []string{}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return "", err
			}
			got = append(got, strings.ReplaceAll(fmt.Sprint(values...), "<nil>", "-"))
		}
		return strings.Join(got, ","), rows.Err()
	}
	tag, err := g.s.Exec(ctx, text, id)
	return tag.String(), err
}

// learn lets the node and a new session learn, and has the table as it was.
func (g *glancer) learn(t *testing.T) {
	g.c.Connect(1).Do("TRUNCATE glanced, glanced_log",
		"INSERT INTO glanced SELECT i, 0, 'x', 'x' FROM generate_series(1, 3) i")
	g.s = g.c.Connect(1)
	for range 3 {
		for _, sql := range []string{"BEGIN", "add 3", "see 3", "set 2", "all 2", "pad 2", "sum 2", "stamp 1", "log 1",
			"drop 3", "INSERT INTO glanced VALUES (3, 0, 'x', 'x')", "COMMIT"} {
			if _, err := g.run(sql); err != nil {
				t.Fatalf("%s: %v", sql, Explain(err))
			}
		}
	}
	g.c.Connect(1).Do("UPDATE glanced SET n = 0, word = 'x', pad = 'x', at = NULL", "DELETE FROM glanced_log")
	g.c.Everywhere("SELECT sum(n), (SELECT count(*) FROM glanced_log) FROM glanced", "0|0")
}

// TestGlanceTells: whatever a block looks at of what was put off, and whatever comes behind it, it is told what
// PostgreSQL tells.
func TestGlanceTells(t *testing.T) {
	c := use(t)
	admin := c.Connect(1)
	admin.Do("CREATE TABLE glanced (id int PRIMARY KEY, n int NOT NULL, word varchar(5) NOT NULL, pad char(4) NOT "+
		"NULL, at timestamp(0))", "CREATE TABLE glanced_log (id int, at timestamptz)")
	g := &glancer{c: c}
	for _, x := range []struct {
		script string // statements, and what each must tell behind a colon, if that is not the usual
		rows   string // what there is then
		unseen int
	}{
		{"BEGIN; add 1; see 1: 1; COMMIT", "1,1,x,x 2,0,x,x 3,0,x,x", 1},
		{"BEGIN; add 1; see 2: 0; add 2; see 2: 1; see 1: 1; COMMIT", "1,1,x,x 2,1,x,x 3,0,x,x", 1},
		{"BEGIN; see 1: 0; add 1; see 1: 1; COMMIT; BEGIN; see 1: 1; add 1; see 1: 2; COMMIT; BEGIN; see 1: 2; add " +
			"1; see 1: 3; add 2; COMMIT", "1,3,x,x 2,1,x,x 3,0,x,x", 3},
		{"BEGIN; set 2; all 2: 2 5newab  -; pad 2: ab  2; pad 1: x   1; COMMIT", "1,0,x,x 2,5,new,ab 3,0,x,x", 1},
		{"BEGIN; add 1; see 9: ; COMMIT", "1,1,x,x 2,0,x,x 3,0,x,x", 1},
		{"BEGIN; add 1; see 1: 1; ROLLBACK", "1,0,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; add 1; see 1: 1; log 7; COMMIT; SELECT count(*), min(id) FROM glanced_log: 1|7",
			"1,1,x,x 2,0,x,x 3,0,x,x", 1},
		{"BEGIN; add 1; see 1: 1; log 7; SELECT at = now() FROM glanced_log: t; COMMIT", "1,1,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; add 2; see 2: 1; stamp 1; see 1: 0; COMMIT; SELECT count(*) FROM glanced WHERE at > " +
			"localtimestamp(0) - interval '1 minute': 1", "1,0,x,x 2,1,x,x 3,0,x,x", 1},
		{"BEGIN; add 1; see 1: 1; sum 1: 1; COMMIT", "1,1,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; add 1; see 1: 1; SELECT sum(n) FROM glanced: 1; add 2; see 2: 1; COMMIT", "1,1,x,x 2,1,x,x 3,0,x,x",
			0},
		{"BEGIN; add 1; see 1: 1; add 1; see 1: 2; COMMIT", "1,2,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; add 1; see 1: 1; SAVEPOINT a; add 2; see 2: 1; ROLLBACK TO a; see 2: 0; COMMIT",
			"1,1,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; drop 1; see 1: ; see 2: 0; COMMIT", "2,0,x,x 3,0,x,x", 0},
		{"BEGIN; add 1; see 1: 1; nonsense: 42601; see 1: 25P02; COMMIT: ROLLBACK", "1,0,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; add 1; see 1: 1; SET LOCAL TimeZone = 'Asia/Tokyo'; add 2; see 2: 1; COMMIT",
			"1,1,x,x 2,1,x,x 3,0,x,x", 0},
		{"BEGIN; add 1; see 1: 1; DECLARE k CURSOR FOR SELECT sum(n) FROM glanced; FETCH k; COMMIT",
			"1,1,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; add 1; see 1: 1; COMMIT AND CHAIN; add 1; see 1: 2; COMMIT", "1,2,x,x 2,0,x,x 3,0,x,x", 2},
		{"BEGIN ISOLATION LEVEL REPEATABLE READ; add 1; see 1: 1; COMMIT", "1,1,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; add 1; see 1: 1; SELECT pg_sleep(0.5): ; see 1: 1; COMMIT", "1,1,x,x 2,0,x,x 3,0,x,x", 0},
		{"BEGIN; add 1; see 1: 1; DELETE FROM glanced; see 1: ; COMMIT", "", 0},
	} {
		g.learn(t)
		before := int(c.counters(1)["blind"])
		for _, sql := range strings.Split(x.script, "; ") {
			sql, want, told := strings.Cut(sql, ": ")
			got, err := g.run(sql)
			if err != nil {
				got = Code(err)
			}
			if told && got != want || !told && err != nil {
				t.Errorf("%s: %s tells %q, want %q: %v", x.script, sql, got, want, Explain(err))
			}
		}
		if n := int(c.counters(1)["blind"]) - before; n != x.unseen {
			t.Errorf("%s: %d blocks were carried out unseen, want %d", x.script, n, x.unseen)
		}
		c.Everywhere("SELECT coalesce(string_agg(concat_ws(',', id, n, word, trim(pad)), ' ' ORDER BY id), '') FROM "+
			"glanced", x.rows)
	}
	c.Check()
}

// TestGlanceLoses: who changes a row that a block has changed and looked at makes it lose, or nobody can tell that he
// has; who changes another one does not.
func TestGlanceLoses(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE glanced_lost (id int PRIMARY KEY, n int NOT NULL, word text)")
	other := c.Connect(2)
	for _, x := range []struct {
		before, after string // by another client: between the change and the look at it, or behind both
		see           string
		code, rows    string
	}{
		{"", "", "1", "", "1,1 2,0"},
		{"UPDATE glanced_lost SET n = n + 10 WHERE id = 1", "", "11", "", "1,11 2,0"},
		{"", "UPDATE glanced_lost SET n = n + 10 WHERE id = 1", "1", "40001", "1,10 2,0"},
		{"", "UPDATE glanced_lost SET word = 'x' WHERE id = 1", "1", "", "1,1 2,0"},
		{"", "UPDATE glanced_lost SET n = n + 10 WHERE id = 2", "1", "", "1,1 2,10"},
		{"DELETE FROM glanced_lost WHERE id = 1", "", "40001", "", "2,0"},
		{"", "DELETE FROM glanced_lost WHERE id = 1", "1", "40001", "2,0"},
		{"", "TRUNCATE glanced_lost", "1", "40001", ""},
		{"", "DELETE FROM glanced_lost WHERE id = 1; INSERT INTO glanced_lost VALUES (1, 0)", "1", "", "1,1 2,0"},
		{"UPDATE glanced_lost SET n = 2147483647 WHERE id = 1", "", "40001", "", "1,2147483647 2,0"},
		{"ALTER TABLE glanced_lost ADD IF NOT EXISTS m int", "", "1", "", "1,1 2,0"},
		{"", "ALTER TABLE glanced_lost ALTER n TYPE bigint", "1", "40001", "1,0 2,0"},
	} {
		c.Eventually(2, "SELECT to_regclass('glanced_lost') IS NOT NULL", "t")
		other.Do("TRUNCATE glanced_lost", "INSERT INTO glanced_lost VALUES (1, 0), (2, 0)")
		c.Everywhere("SELECT count(*), sum(n) FROM glanced_lost", "2|0")
		s := c.Connect(1)
		see := func(between string) (string, error) {
			if s.Do("BEGIN"); s.Try("SELECT 1") != nil {
				t.Fatal("the block cannot begin")
			}
			if _, err := s.Exec(context.Background(), "UPDATE glanced_lost SET n = n + $2 WHERE id = $1", 1,
				1); err != nil {
				return "", err
			}
			if between != "" {
				other.Do(between)
				count := other.Get("SELECT count(*), sum(n) FROM glanced_lost")
				c.Everywhere("SELECT count(*), sum(n) FROM glanced_lost", count)
			}
			var n int
			err := s.QueryRow(context.Background(), "SELECT n FROM glanced_lost WHERE id = $1", 1).Scan(&n)
			return fmt.Sprint(n), err
		}
		for range 5 {
			if _, err := see(""); err != nil {
				t.Fatal(Explain(err))
			}
			s.Do("COMMIT")
		}
		other.Do("UPDATE glanced_lost SET n = 0, word = NULL")
		c.Everywhere("SELECT sum(n) FROM glanced_lost", "0")
		got, err := see(x.before)
		if err != nil {
			got = Code(err)
		}
		if got != x.see {
			t.Errorf("%s: the row shows %s, want %s: %v", x.before, got, x.see, Explain(err))
		}
		if x.after != "" {
			other.Do(x.after)
			count := other.Get("SELECT count(*), sum(n) FROM glanced_lost")
			c.Everywhere("SELECT count(*), sum(n) FROM glanced_lost", count)
		}
		if err = s.Try("COMMIT"); Code(err) != x.code {
			t.Errorf("%s, %s: COMMIT says %v, want %s", x.before, x.after, Explain(err), x.code)
		}
		s.Do("ROLLBACK")
		c.Everywhere("SELECT coalesce(string_agg(concat_ws(',', id, n), ' ' ORDER BY id), '') FROM glanced_lost",
			x.rows)
	}
	c.Check()
}

// TestForeknown: what one session has found out of a statement, that it can be carried out unseen, others of its node
// know from their first one on, under the same role and search_path; and a session does not lose to itself.
func TestForeknown(t *testing.T) {
	c := use(t)
	admin := c.Connect(1)
	admin.Do("CREATE TABLE foreknown (id int PRIMARY KEY, n int NOT NULL)",
		"INSERT INTO foreknown SELECT i, 0 FROM generate_series(1, 9) i", "CREATE SCHEMA foreknown_other",
		"CREATE TABLE foreknown_other.foreknown (LIKE foreknown INCLUDING ALL)",
		"INSERT INTO foreknown_other.foreknown SELECT i, 100 FROM generate_series(1, 9) i",
		"CREATE ROLE foreknown_reader", "GRANT SELECT ON foreknown TO foreknown_reader")
	c.Everywhere("SELECT sum(n) FROM foreknown_other.foreknown", "900")
	ctx := context.Background()
	block := func(s *Conn) (n int, err error) {
		s.Do("BEGIN")
		if _, err = s.Exec(ctx, "UPDATE foreknown SET n = n + 1 WHERE id = $1", 5); err == nil {
			err = s.QueryRow(ctx, "SELECT n FROM foreknown WHERE id = $1", 5).Scan(&n)
		}
		if err != nil {
			s.Do("ROLLBACK")
			return n, err
		}
		return n, s.Try("COMMIT")
	}
	blind := func() int { return int(c.counters(1)["blind"]) }
	for i := range 5 {
		if n, err := block(admin); err != nil || n != i+1 {
			t.Fatalf("a block shows %d, %v", n, err)
		}
	}
	for i, x := range []struct {
		set    string
		code   string
		n      int
		unseen bool
	}{
		{"", "", 6, true}, {"SET TimeZone = 'Asia/Tokyo'", "", 7, true},
		{"SET search_path = foreknown_other, public", "", 101, false},
		{"SET search_path = foreknown_other, public", "", 102, false},
		{"SET search_path = public", "", 8, false}, {"SET ROLE foreknown_reader", "42501", 0, false},
		{"SET default_transaction_read_only = on", "25006", 0, false},
		{"CREATE TEMP TABLE foreknown (id int PRIMARY KEY, n int); INSERT INTO foreknown VALUES (5, 50)", "", 51,
			false}, {"", "", 9, true},
	} {
		s := c.Connect(1)
		if x.set != "" {
			s.Do(x.set)
		}
		before := blind()
		n, err := block(s)
		if Code(err) != x.code || n != x.n {
			t.Errorf("%d, %s: the first block shows %d, %v, want %d, %s", i, x.set, n, Explain(err), x.n, x.code)
		}
		if unseen := blind() > before; unseen != x.unseen {
			t.Errorf("%d, %s: the first block is carried out unseen: %v", i, x.set, unseen)
		}
	}
	s := c.Connect(1)
	s.Do("SET default_transaction_read_only = on")
	for range 3 {
		s.Do("BEGIN READ WRITE", "SELECT 1")
		if _, err := s.Exec(ctx, "UPDATE foreknown SET n = n + 1 WHERE id = $1", 6); err != nil {
			t.Fatal(Explain(err))
		}
		s.Do("COMMIT")
	}
	if _, err := s.Exec(ctx, "UPDATE foreknown SET n = n + 1 WHERE id = $1", 6); Code(err) != "25006" {
		t.Errorf("a read-only transaction writes: %v", Explain(err))
	}
	lost := c.counters(1)["aborted"]
	for range 50 {
		admin.Do("UPDATE foreknown SET n = n + 0 WHERE id = 5 AND n > 0")
		if _, err := block(admin); err != nil {
			t.Fatal(Explain(err))
		}
	}
	if n := c.counters(1)["aborted"] - lost; n != 0 {
		t.Errorf("the only session there is has lost %d times", n)
	}
	c.Everywhere("SELECT n FROM foreknown WHERE id = 5", "59")
	c.Check()
}
