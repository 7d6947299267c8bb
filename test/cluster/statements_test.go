package cluster

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestCopyBothWays(t *testing.T) {
	c := use(t)
	s := c.Connect(2)
	s.Do("CREATE TABLE copied(k int PRIMARY KEY, v text)")
	var in strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&in, "%d\tvalue %d\n", i, i)
	}
	if _, err := s.PgConn().CopyFrom(t.Context(), strings.NewReader(in.String()),
		"COPY copied FROM STDIN"); err != nil {
		t.Fatal(err)
	}
	rows := make([][]any, 5000)
	for i := range rows {
		rows[i] = []any{20000 + i, "binary"}
	}
	if _, err := s.CopyFrom(t.Context(), pgx.Identifier{"copied"}, []string{"k", "v"},
		pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
	c.Everywhere("SELECT count(*), count(DISTINCT v) FROM copied", "25000|20001")
	var out bytes.Buffer
	if _, err := c.Connect(3).PgConn().CopyTo(t.Context(), &out,
		"COPY (SELECT * FROM copied WHERE k < 20000 ORDER BY k) TO STDOUT"); err != nil || out.String() != in.String() {
		t.Errorf("COPY TO gives %d bytes, want %d (%v)", out.Len(), in.Len(), err)
	}
	// A COPY that fails half way leaves nothing anywhere, and the session goes on.
	_, err := s.PgConn().CopyFrom(t.Context(), strings.NewReader("90000\tx\n1\tduplicate\n"), "COPY copied FROM STDIN")
	if Code(err) != "23505" {
		t.Errorf("a duplicate in COPY gives %v", err)
	}
	s.Do("INSERT INTO copied VALUES (90001, 'after')")
	c.Everywhere("SELECT k FROM copied WHERE k >= 90000", "90001")
	c.Check()
}

func TestSavepointsAndErrors(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE saves(k int PRIMARY KEY)",
		"BEGIN", "INSERT INTO saves VALUES (1)", "SAVEPOINT a", "INSERT INTO saves VALUES (2)", "ROLLBACK TO a",
		"INSERT INTO saves VALUES (3)",
		"SAVEPOINT b", "INSERT INTO saves VALUES (4)", "RELEASE b")
	if code := Code(s.Try("INSERT INTO saves VALUES (1)")); code != "23505" {
		t.Errorf("a duplicate gives %s", code)
	}
	if code := Code(s.Try("SELECT 1")); code != "25P02" {
		t.Errorf("a failed block gives %s", code)
	}
	s.Do("ROLLBACK TO a", "INSERT INTO saves VALUES (5)", "COMMIT")
	c.Everywhere("SELECT string_agg(k::text, ' ' ORDER BY k) FROM saves", "1 5")
	s.Do("BEGIN", "INSERT INTO saves VALUES (6)")
	if code := Code(s.Try("SELECT 1/0")); code != "22012" {
		t.Errorf("a division by zero gives %s", code)
	}
	if results, err := s.PgConn().Exec(t.Context(), "COMMIT").ReadAll(); err != nil ||
		results[0].CommandTag.String() != "ROLLBACK" {
		t.Errorf("COMMIT of a failed block: %v %v", results, err)
	}
	s.Do("DO $$ BEGIN INSERT INTO saves VALUES (7); BEGIN INSERT INTO saves VALUES (8), (1); EXCEPTION WHEN " +
		"unique_violation THEN INSERT INTO saves VALUES (9); END; END $$")
	c.Everywhere("SELECT string_agg(k::text, ' ' ORDER BY k) FROM saves", "1 5 7 9")
	c.Check()
}

func TestTriggersCascadesAndFunctions(t *testing.T) {
	c := use(t)
	s := c.Connect(3)
	s.Do(
		"CREATE TABLE cp(k int PRIMARY KEY)",
		"CREATE TABLE cc(k int PRIMARY KEY, p int REFERENCES cp ON DELETE CASCADE ON UPDATE CASCADE)",
		"CREATE TABLE cn(k int PRIMARY KEY, p int REFERENCES cp ON DELETE SET NULL)",
		"CREATE TABLE clog(n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text)",
		"CREATE FUNCTION clogged() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO clog(what) VALUES (TG_OP "+
			"|| ' ' || TG_TABLE_NAME); RETURN NULL; END $$",
		"CREATE TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON cc FOR EACH ROW EXECUTE FUNCTION clogged()",
		"CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.k := NEW.k + 100; RETURN NEW; END $$",
		"CREATE TRIGGER b BEFORE INSERT ON cn FOR EACH ROW EXECUTE FUNCTION stamp()",
		"INSERT INTO cp VALUES (1), (2), (3)", "INSERT INTO cc SELECT i, 1 + i % 3 FROM generate_series(1, 9) i",
		"INSERT INTO cn VALUES (1, 1), (2, 2)",
		"UPDATE cp SET k = 30 WHERE k = 3", "DELETE FROM cp WHERE k = 1",
	)
	c.Everywhere("SELECT count(*), sum(p) FROM cc", "6|96")
	c.Everywhere("SELECT k, p FROM cn ORDER BY k", "101|,102|2")
	c.Everywhere("SELECT what, count(*) FROM clog GROUP BY 1 ORDER BY 1", "DELETE cc|3,INSERT cc|9,UPDATE cc|3")
	s.Do("CREATE FUNCTION writes(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO cp VALUES (i); RETURN "+
		"i; END $$",
		"CREATE PROCEDURE proc(i int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO cp VALUES (i); END $$")
	c.Everywhere("SELECT count(*) FROM pg_proc WHERE proname IN ('writes', 'proc')", "2")
	for i := range 3 { // first as a read that turns out to write, then known to
		if got := c.Connect(1 + i).Get(fmt.Sprintf("SELECT writes(%d)", 100+i)); got != fmt.Sprint(100+i) {
			t.Errorf("the function returns %s", got)
		}
	}
	one := c.Connect(2)
	for i := range 2 {
		var got int
		if err := one.QueryRow(t.Context(), "SELECT writes($1)", 110+i).Scan(&got); err != nil || got != 110+i {
			t.Errorf("the function, prepared, returns %d (%v)", got, err)
		}
	}
	one.Do("CALL proc(120)", "WITH w AS (INSERT INTO cp VALUES (121) RETURNING k) SELECT k FROM w",
		"BEGIN; SELECT writes(122); COMMIT", "BEGIN; SELECT writes(123); ROLLBACK")
	c.Everywhere("SELECT string_agg(k::text, ' ' ORDER BY k) FROM cp", "2 30 100 101 102 110 111 120 121 122")
	c.Check()
}

func TestCancel(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE cancels(k int PRIMARY KEY)")
	for _, q := range []string{"SELECT pg_sleep(30)", "INSERT INTO cancels SELECT 1 FROM pg_sleep(30)"} {
		began := time.Now()
		answer := background(s, q)
		c.Eventually(1, fmt.Sprintf("SELECT wait_event FROM pg_stat_activity WHERE pid = %d", s.PgConn().PID()),
			"PgSleep")
		if err := s.PgConn().CancelRequest(s.ctx()); err != nil {
			t.Error(err)
		}
		if err := <-answer; Code(err) != "57014" || time.Since(began) > 25*time.Second {
			t.Errorf("%s, cancelled: %v after %s", q, err, time.Since(began))
		}
	}
	s.Do("SET statement_timeout = 100")
	if code := Code(s.Try("SELECT pg_sleep(5)")); code != "57014" {
		t.Errorf("a statement timeout gives %s", code)
	}
	s.Do("RESET statement_timeout", "INSERT INTO cancels VALUES (2)")
	c.Everywhere("SELECT k FROM cancels", "2")
}

// TestBigTransaction is larger than one message between members may be.
func TestBigTransaction(t *testing.T) {
	c := use(t)
	s := c.Connect(2)
	s.Do("CREATE TABLE bigs(k int PRIMARY KEY, v text)", "CREATE TABLE small(k int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM small", "0")
	other := c.Connect(3)
	stop := make(chan struct{})
	small := make(chan int)
	go func() { // nobody else is held up for long
		n := 0
		for ; !closed(stop); n++ {
			if err := other.Try(fmt.Sprintf("INSERT INTO small VALUES (%d)", n)); err != nil {
				t.Errorf("beside a big transaction: %s", Explain(err))
				break
			}
		}
		small <- n
	}()
	began := time.Now()
	s.Do("INSERT INTO bigs SELECT i, repeat(md5(i::text), 4) FROM generate_series(1, 100000) i")
	inserted := time.Since(began)
	s.Do("UPDATE bigs SET v = v || 'x' WHERE k % 2 = 0")
	updated := time.Since(began) - inserted
	s.Do("DELETE FROM bigs WHERE k > 90000")
	close(stop)
	n := <-small
	t.Logf("100000 inserts %s, 50000 updates %s; %d small transactions beside", inserted, updated, n)
	if n == 0 {
		t.Error("nothing was committed beside the big transaction")
	}
	c.Everywhere("SELECT count(*), sum(length(v)) FROM bigs", "90000|11565000")
	c.Everywhere("SELECT count(*) FROM small", fmt.Sprint(n))
	c.Check()
}

func TestSessionFeatures(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("LISTEN news", "NOTIFY news, 'hello'")
	ctx, cancel := context.WithTimeout(t.Context(), sqlTimeout)
	defer cancel()
	if n, err := s.WaitForNotification(ctx); err != nil || n.Payload != "hello" {
		t.Errorf("notification: %v %v", n, err)
	}
	s.Do("CREATE TABLE feats(k int PRIMARY KEY, v text)")
	s.Do("CREATE TEMP TABLE tmp(k int)", "INSERT INTO tmp VALUES (1), (2)", "UPDATE tmp SET k = k + 1",
		"INSERT INTO feats SELECT k, 'tmp' FROM tmp", "DROP TABLE tmp")
	s.Do("PREPARE p AS INSERT INTO feats VALUES ($1, 'prepared')", "EXECUTE p(10)", "BEGIN; EXECUTE p(11); COMMIT",
		"DEALLOCATE p")
	s.Do("BEGIN", "DECLARE cur CURSOR FOR SELECT k FROM feats ORDER BY k")
	if got := s.Get("FETCH 2 FROM cur"); got != "2,3" {
		t.Errorf("the cursor gives %s", got)
	}
	s.Do("CLOSE cur", "COMMIT", "SET search_path = pg_catalog, public", "SET DateStyle = 'SQL, DMY'", "DISCARD ALL",
		"VACUUM feats", "ANALYZE", "CHECKPOINT")
	if got := s.Get("SELECT pg_try_advisory_lock(5)"); got != "t" {
		t.Errorf("advisory lock: %s", got)
	}
	s.Do("MERGE INTO feats USING (VALUES (10), (20)) AS n(k) ON feats.k = n.k WHEN MATCHED THEN UPDATE SET v = "+
		"'merged' WHEN NOT MATCHED THEN INSERT VALUES (n.k, 'new')",
		"INSERT INTO feats VALUES (11, 'a'), (12, 'b') ON CONFLICT (k) DO UPDATE SET v = excluded.v", "TRUNCATE feats",
		"INSERT INTO feats VALUES (1, 'last')")
	batch := &pgx.Batch{}
	for i := 30; i < 40; i++ {
		batch.Queue("INSERT INTO feats VALUES ($1, $2)", i, "batch")
	}
	if err := s.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Errorf("a pipelined batch: %v", err)
	}
	c.Everywhere("SELECT v, count(*) FROM feats GROUP BY v ORDER BY v", "batch|10,last|1")
	c.Check()
}
