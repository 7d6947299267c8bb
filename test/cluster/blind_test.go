package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// blind is how many transactions of node k were carried out unseen.
func (c *Cluster) blind(k int) int { return int(c.counters(k)["blind"]) }

// TestBlind: statements of all nodes add to the same few rows, each a transaction of its own, among others that change,
// lock, delete and make those rows. Nothing is added twice or lost, who does nothing else and does not begin with that
// never loses, and everybody gets through.
func TestBlind(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE blind (id int PRIMARY KEY, n bigint NOT NULL, who text, at int)",
		"CREATE INDEX ON blind (n)",
		"CREATE TABLE blind_log (who int, i int, id int NOT NULL, n bigint NOT NULL, PRIMARY KEY (who, i))",
		"INSERT INTO blind SELECT i, 0, '', 0 FROM generate_series(1, 4) i")
	c.Everywhere("SELECT count(*) FROM blind", "4")
	n := 0
	for _, k := range c.All() {
		n -= c.blind(k)
	}
	var wg sync.WaitGroup
	var sums [5]atomic.Int64
	var unseen, seen, lost atomic.Int64
	end := time.Now().Add(seconds(4 * time.Second))
	for who := range 4 * c.Size() {
		conn := c.Connect(1 + who%c.Size()).Conn
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(who)))
			for i := 0; time.Now().Before(end); i++ {
				if who < c.Size() {
					switch err := sightOnce(conn, rng, who, i); {
					case err == nil:
						seen.Add(1)
					case Code(err) == "40001" || Code(err) == "40P01":
						lost.Add(1)
					default:
						t.Errorf("client %d: %v", who, err)
						return
					}
					continue
				}
				id, by := 1+rng.IntN(4), rng.Int64N(2001)-1000
				tag, err := conn.Exec(context.Background(), "UPDATE blind SET n = n + $1, who = $2 WHERE id = $3", by,
					fmt.Sprint(who), id)
				if err != nil {
					t.Errorf("client %d: %v", who, err)
					return
				}
				if tag.RowsAffected() == 1 { // else somebody deletes it, and makes it anew
					sums[id].Add(by)
					unseen.Add(1)
				}
			}
		})
	}
	wg.Wait()
	for _, k := range c.All() {
		n += c.blind(k)
	}
	t.Logf("%d committed, %d of them unseen; beside them %d, and %d lost", unseen.Load(), n, seen.Load(), lost.Load())
	if n == 0 || seen.Load() == 0 {
		t.Error("one kind did not get through")
	}
	for id := 1; id <= 4; id++ {
		c.Everywhere(fmt.Sprintf("SELECT n - (SELECT coalesce(sum(l.n), 0) FROM blind_log l WHERE l.id = b.id) FROM "+
			"blind b WHERE id = %d", id), fmt.Sprint(sums[id].Load()))
	}
	c.Check()
}

// sightOnce is a transaction that has to see its row. It logs what it adds.
func sightOnce(conn *pgx.Conn, rng *rand.Rand, who, i int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	id, by, n := 1+rng.IntN(4), rng.Int64N(2001)-1000, int64(0)
	switch rng.IntN(3) {
	case 0:
		var tag pgconn.CommandTag
		if tag, err = tx.Exec(ctx, "UPDATE blind SET n = n + $1, at = at + 1 WHERE id = $2 AND n IS NOT NULL", by,
			id); err == nil && tag.RowsAffected() == 0 {
			err = pgx.ErrNoRows // somebody deletes it, and makes it anew
		}
	case 1:
		if err = tx.QueryRow(ctx, "SELECT n FROM blind WHERE id = $1 FOR UPDATE", id).Scan(&n); err == nil {
			_, err = tx.Exec(ctx, "UPDATE blind SET n = $1 WHERE id = $2", n+by, id)
		}
	default:
		if err = tx.QueryRow(ctx, "DELETE FROM blind WHERE id = $1 RETURNING n", id).Scan(&n); err == nil {
			_, err = tx.Exec(ctx, "INSERT INTO blind VALUES ($1, $2, 'anew', 0)", id, n+by)
		}
	}
	if err == nil {
		_, err = tx.Exec(ctx, "INSERT INTO blind_log VALUES ($1, $2, $3, $4)", who, i, id, by)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = &pgconn.PgError{Code: "40001"}
	}
	if err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

// goesBlind runs a statement of a session until it is carried out unseen, or often enough to say that it is not. It
// gives what the last one has told.
func (c *Cluster) goesBlind(k int, s *Conn, sql string, args ...any) (tag string, blind bool, err error) {
	before := c.blind(k)
	for range 4 {
		var got pgconn.CommandTag
		if got, err = s.Exec(context.Background(), sql, args...); err != nil {
			return "", false, err
		}
		tag = got.String()
	}
	return tag, c.blind(k) > before, nil
}

// TestBlindTells: clients are told what PostgreSQL tells them, also where nothing can be carried out unseen.
func TestBlindTells(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE blind_told (id int PRIMARY KEY, small int NOT NULL DEFAULT 0, big bigint, word varchar(5), "+
		"flag bool, u uuid, at timestamptz, other int UNIQUE)",
		"INSERT INTO blind_told (id) SELECT generate_series(1, 3)",
		"CREATE TABLE blind_told_two (a int, b bigint, n int, PRIMARY KEY (b, a))",
		"INSERT INTO blind_told_two VALUES (1, 2, 0)")
	for _, x := range []struct {
		sql   string
		args  []any
		tag   string
		blind bool
		code  string
	}{
		{"UPDATE blind_told SET small = small + $1 WHERE id = $2", []any{1, 1}, "UPDATE 1", true, ""},
		{"UPDATE blind_told SET small = small - 3, word = $1 WHERE $2 = id", []any{"ab", 1}, "UPDATE 1", true, ""},
		{"UPDATE blind_told SET big = $1, flag = $2, u = $3, at = $4 WHERE id = $5",
			[]any{int64(1) << 40, true, "12345678-1234-1234-1234-123456789abc", time.Unix(5, 0), 2}, "UPDATE 1", true,
			""},
		{"UPDATE blind_told AS x SET word = 'xy', flag = false WHERE x.id = $1", []any{2}, "UPDATE 1", true, ""},
		{"UPDATE blind_told_two SET n = n + 1 WHERE a = $1 AND b = $2", []any{1, 2}, "UPDATE 1", true, ""},
		{"UPDATE blind_told SET small = small + $1 WHERE id = $2", []any{1, 99}, "UPDATE 0", false, ""},
		{"UPDATE blind_told SET small = $1 WHERE id = $2", []any{nil, 1}, "", false, "23502"},
		{"UPDATE blind_told SET word = $1 WHERE id = $2", []any{"toolong", 1}, "", false, "22001"},
		{"UPDATE blind_told SET word = $1 WHERE id = $2", []any{"xx\x00", 1}, "", false, "22021"},
		{"UPDATE blind_told SET small = small + $1 WHERE id = $2", []any{1<<31 - 1, 3}, "", false, "22003"},
		{"UPDATE blind_told SET big = big + $1 WHERE id = $2", []any{1, 3}, "UPDATE 1", false, ""}, // NULL
		{"UPDATE blind_told SET other = $1 WHERE id = $2", []any{7, 1}, "UPDATE 1", false, ""},
		{"UPDATE blind_told SET small = $1 WHERE id = $2 AND flag", []any{7, 1}, "UPDATE 0", false, ""},
		{"UPDATE blind_told SET small = $1 WHERE id > $2", []any{7, 1}, "UPDATE 2", false, ""},
		{"UPDATE blind_told_two SET n = n + 1 WHERE a = $1", []any{1}, "UPDATE 1", false, ""},
	} {
		tag, blind, err := c.goesBlind(1, s, x.sql, x.args...)
		if tag != x.tag || blind != x.blind || Code(err) != x.code {
			t.Errorf("%s %v: %s, unseen: %v, %v; want %s, %v, %s", x.sql, x.args, tag, blind, Explain(err), x.tag,
				x.blind, x.code)
		}
	}
	c.Everywhere("SELECT id, small, big, word, flag, u, extract(epoch FROM at)::int FROM blind_told ORDER BY id",
		s.Get("SELECT id, small, big, word, flag, u, extract(epoch FROM at)::int FROM blind_told ORDER BY id"))
	c.Everywhere("SELECT n FROM blind_told_two", "8")
	if got := s.Get("SELECT small, word FROM blind_told WHERE id = 1"); got != "-8|ab" {
		t.Errorf("row 1 is %s", got)
	}
	// Literals in the text of a Query, and what a client sees of its own.
	before := c.blind(1)
	for i := range 6 {
		s.Do(fmt.Sprintf("UPDATE blind_told SET small = %d, word = 'w''%d' WHERE id = 3", i, i))
		if got := s.Get("SELECT small, word FROM blind_told WHERE id = 3"); got != fmt.Sprintf("%d|w'%d", i, i) {
			t.Errorf("after update %d it is %s", i, got)
		}
	}
	if n := c.blind(1) - before; n < 3 {
		t.Errorf("%d of 6 were carried out unseen", n)
	}
	s.Do("CREATE TABLE blind_told_drop (a int, b bigint, v text, PRIMARY KEY (b, a))",
		"INSERT INTO blind_told_drop SELECT 1, i, 'x' FROM generate_series(1, 8) i")
	before = c.blind(1)
	for i := range 7 {
		for _, want := range []string{"DELETE 1", "DELETE 0"} {
			if tag, err := s.Exec(context.Background(), "DELETE FROM blind_told_drop WHERE b = $1 AND a = 1",
				i+1); err != nil || tag.String() != want {
				t.Errorf("deletion %d: %s, %v; want %s", i, tag, Explain(err), want)
			}
		}
	}
	if n := c.blind(1) - before; n < 3 {
		t.Errorf("%d of 7 deletions were carried out unseen", n)
	}
	c.Everywhere("SELECT string_agg(b::text, ' ') FROM blind_told_drop", "8")
	c.Check()
}

// TestBlindKnowsWho: whatever changes who a session is, or what its statement may do, is seen before the next one is
// carried out unseen.
func TestBlindKnowsWho(t *testing.T) {
	c := use(t)
	admin := c.Connect(1)
	admin.Do("CREATE ROLE blind_none", "CREATE TABLE who (id int PRIMARY KEY, n int NOT NULL)",
		"INSERT INTO who VALUES (1, 0)", "CREATE SCHEMA aside",
		"CREATE TABLE blind_other (id int PRIMARY KEY, n int NOT NULL)", "INSERT INTO blind_other VALUES (1, 0)",
		"CREATE TABLE aside.who (id int PRIMARY KEY, n int NOT NULL)", "INSERT INTO aside.who VALUES (1, 1000)",
		"CREATE FUNCTION aside.go() RETURNS text LANGUAGE sql AS $$ SELECT set_config('search_path', 'aside, "+
			"public', false) $$",
		"CREATE VIEW blind_goes AS SELECT set_config('search_path', 'aside, public', false)")
	c.Everywhere("SELECT count(*) FROM aside.who", "1")
	const sql = "UPDATE who SET n = n + 1 WHERE id = 1"
	run := func(s *Conn) error {
		_, err := s.Exec(context.Background(), sql)
		return err
	}
	for _, x := range []struct{ before, after, code, where string }{
		{"SET ROLE blind_none", "RESET ROLE", "42501", ""},
		{"SELECT set_config('role', 'blind_none', false)", "RESET ROLE", "42501", ""},
		{"SET default_transaction_read_only = on", "RESET default_transaction_read_only", "25006", ""},
		{"SET search_path = aside, public", "RESET search_path", "", "aside.who"},
		{"SELECT aside.go()", "RESET search_path", "", "aside.who"},
		{"SELECT * FROM blind_goes", "RESET search_path", "", "aside.who"},
		{"CREATE TEMP TABLE who (id int PRIMARY KEY, n int); INSERT INTO who VALUES (1, 5)", "DROP TABLE pg_temp.who",
			"", "pg_temp.who"},
		{"CREATE TEMP TABLE who (id int PRIMARY KEY, n int); INSERT INTO who VALUES (1, 5); UPDATE blind_other SET n " +
			"= n + 1 WHERE id = 1; UPDATE blind_other SET n = n + 1 WHERE id = 1",
			"DROP TABLE pg_temp.who", "", "pg_temp.who"},
		{"BEGIN; SET LOCAL search_path = aside; COMMIT", "SELECT 1", "", "public.who"},
	} {
		s := c.Connect(1) // what is refused is not tried again in a session
		if _, _, err := c.goesBlind(1, s, "UPDATE blind_other SET n = n + 1 WHERE id = 1"); err != nil {
			t.Fatal(Explain(err))
		}
		if _, blind, err := c.goesBlind(1, s, sql); err != nil || !blind {
			t.Fatalf("before %s: unseen: %v, %v", x.before, blind, Explain(err))
		}
		for _, q := range strings.Split(x.before, "; ") {
			if strings.HasPrefix(q, "UPDATE") { // which is run directly, and tells who the session is
				if _, err := s.Exec(context.Background(), q); err != nil {
					t.Fatal(Explain(err))
				}
				continue
			}
			s.Do(q)
		}
		count := "0"
		if x.where != "" {
			count = s.Get("SELECT n FROM " + x.where + " WHERE id = 1")
		}
		if err := run(s); Code(err) != x.code {
			t.Errorf("%s: %v", x.before, Explain(err))
		}
		if x.where != "" {
			if now := s.Get("SELECT n FROM " + x.where + " WHERE id = 1"); now == count {
				t.Errorf("%s: %s is still %s", x.before, x.where, now)
			}
		}
		s.Do(x.after)
	}
	// What others do to the table, and the session.
	s := c.Connect(1)
	for _, x := range []struct{ do, undo, code string }{
		{"ALTER TABLE who ADD CHECK (n < 0) NOT VALID", "ALTER TABLE who DROP CONSTRAINT who_n_check", "23514"},
		{"ALTER TABLE who RENAME TO whom", "ALTER TABLE whom RENAME TO who", "42P01"},
		{"ALTER TABLE who RENAME n TO m", "ALTER TABLE who RENAME m TO n", "42703"},
		{"CREATE TRIGGER same BEFORE UPDATE ON who FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
			"DROP TRIGGER same ON who", ""},
	} {
		if _, blind, err := c.goesBlind(1, s, sql); err != nil || !blind {
			t.Fatalf("before %s: unseen: %v, %v", x.do, blind, Explain(err))
		}
		admin.Do(x.do)
		before := c.blind(1)
		if err := run(s); Code(err) != x.code || c.blind(1) != before {
			t.Errorf("%s: %v", x.do, Explain(err))
		}
		admin.Do(x.undo)
		_ = run(s) // which may be refused once more
	}
	if _, blind, err := c.goesBlind(1, s, sql); err != nil || !blind {
		t.Fatalf("unseen: %v, %v", blind, Explain(err))
	}
	admin.Do(fmt.Sprintf("SELECT pg_terminate_backend(%d)", s.PgConn().PID()))
	var err error
	for end := time.Now().Add(5 * time.Second); err == nil && time.Now().Before(end); {
		err = run(s)
	}
	if Code(err) != "57P01" {
		t.Errorf("a session whose backend was ended goes on: %v", Explain(err))
	}
	c.Check()
}

// TestBlindWaits: who has locked a row at a session's node, or changed one of its table, is waited for as in
// PostgreSQL.
func TestBlindWaits(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE blindwait (id int PRIMARY KEY, n int)", "INSERT INTO blindwait VALUES (1, 0)")
	c.Everywhere("SELECT count(*) FROM blindwait", "1")
	s, other := c.Connect(2), c.Connect(2)
	const sql = "UPDATE blindwait SET n = n + 1 WHERE id = 1"
	want := 0
	for _, lock := range []string{"SELECT n FROM blindwait WHERE id = 1 FOR UPDATE",
		"LOCK TABLE blindwait IN SHARE MODE", "UPDATE blindwait SET n = n * 1 WHERE id = 1",
		"UPDATE blindwait SET n = n + 0 WHERE id > 0",
		"DELETE FROM blindwait WHERE id = 1 AND n < 0; UPDATE blindwait SET n = n WHERE id = 1"} {
		if _, blind, err := c.goesBlind(2, s, sql); err != nil || !blind {
			t.Fatalf("before %s: unseen: %v, %v", lock, blind, Explain(err))
		}
		other.Do("BEGIN")
		for _, q := range strings.Split(lock, "; ") {
			other.Do(q)
		}
		committed := make(chan error, 1)
		go func() {
			_, err := s.Exec(context.Background(), sql)
			committed <- err
		}()
		select {
		case err := <-committed:
			t.Fatalf("%s: nobody waits for it: %v", lock, err)
		case <-time.After(300 * time.Millisecond):
		}
		other.Do("UPDATE blindwait SET n = n + 100 WHERE id = 1", "COMMIT")
		if err := <-committed; err != nil {
			t.Errorf("%s: %v", lock, Explain(err))
		}
		want += 105
	}
	c.Everywhere("SELECT n FROM blindwait", fmt.Sprint(want))
}

// TestBlindFits: a row that would not fit a page any more is refused to the client, and stops nobody.
func TestBlindFits(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	var names, uuids, values []string
	for i := range 120 {
		names, values = append(names, fmt.Sprintf("f%d name", i)), append(values, "repeat('x', 60)")
	}
	for i := range 60 {
		uuids = append(uuids, fmt.Sprintf("u%d uuid", i))
	}
	s.Do("CREATE TABLE fits (id int PRIMARY KEY, "+strings.Join(names, ", ")+", "+strings.Join(uuids, ", ")+")",
		"INSERT INTO fits SELECT 1, "+strings.Join(values, ", "), "INSERT INTO fits (id) VALUES (2)")
	refused := ""
	for i := 0; i < 60 && refused == ""; i++ {
		sql := fmt.Sprintf("UPDATE fits SET u%d = $1 WHERE id = $2", i)
		for _, id := range []int{2, 2, 2, 1} {
			if _, err := s.Exec(context.Background(), sql, "12345678-1234-1234-1234-123456789abc", id); err != nil {
				refused = Code(err)
			}
		}
	}
	if refused != "54000" {
		t.Errorf("no row became too large: %q", refused)
	}
	s.Do("UPDATE fits SET u0 = NULL WHERE id = 2")
	c.Everywhere("SELECT u0 IS NULL FROM fits WHERE id = 2", "t")
}
