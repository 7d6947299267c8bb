package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// putOff is how many additions node k has put off to COMMIT.
func (c *Cluster) putOff(k int) int { return int(c.counters(k)["additions"]) }

// TestAdditions: transactions of all nodes add to the same few rows, among others that change, lock, delete and make
// those rows. Nothing is added twice or lost, and who does nothing but add loses to nobody who does the same.
func TestAdditions(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE added (id int PRIMARY KEY, n int NOT NULL, b bigint NOT NULL, v text)",
		"CREATE INDEX ON added (n)",
		"CREATE TABLE added_log (who int, i int, id int NOT NULL, n int NOT NULL, b bigint NOT NULL, PRIMARY KEY "+
			"(who, i, id))",
		"INSERT INTO added SELECT i, 0, 0, 'x' FROM generate_series(1, 4) i")
	c.Everywhere("SELECT count(*) FROM added", "4")
	before := 0
	for _, k := range c.All() {
		before += c.putOff(k)
	}
	var wg sync.WaitGroup
	var committed, lost atomic.Int64
	end := time.Now().Add(seconds(4 * time.Second))
	for who := range 4 * c.Size() {
		conn := c.Connect(1 + who%c.Size()).Conn
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(who)))
			for i := 0; time.Now().Before(end); i++ {
				switch err := addOnce(conn, rng, who, i); {
				case err == nil:
					committed.Add(1)
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
	after := -before
	for _, k := range c.All() {
		after += c.putOff(k)
	}
	t.Logf("%d committed, %d lost, %d additions put off", committed.Load(), lost.Load(), after)
	if after < int(committed.Load())/20 {
		t.Errorf("of %d transactions only %d additions were put off", committed.Load(), after)
	}
	c.Everywhere("SELECT count(*) FROM added a WHERE (n, b) <> (SELECT sum(l.n), sum(l.b) FROM added_log l WHERE "+
		"l.id = a.id)", "0")
	c.Everywhere("SELECT count(*) FROM added", "4")
	c.Check()
}

// addOnce runs one of these transactions, which logs what it has added.
func addOnce(conn *pgx.Conn, rng *rand.Rand, who, i int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	one, two, by := 1+rng.IntN(4), 1+rng.IntN(4), rng.IntN(2001)-1000
	level, kind := pgx.ReadCommitted, rng.IntN(40)
	if kind == 0 {
		level = pgx.RepeatableRead
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		return err
	}
	exec := func(sql string, args ...any) {
		var tag pgconn.CommandTag
		if err == nil {
			tag, err = tx.Exec(ctx, sql, args...)
		}
		if err == nil && tag.RowsAffected() == 0 { // somebody deletes it, and makes it anew
			err = &pgconn.PgError{Code: "40001"}
		}
	}
	exec("INSERT INTO added_log VALUES ($1, $2, $3, $4, $5)", who, i, one, by, -by)
	switch kind {
	case 0, 1: // read, and write what was read
		var n, b int
		if err == nil {
			err = tx.QueryRow(ctx, "SELECT n, b FROM added WHERE id = $1 FOR UPDATE", one).Scan(&n, &b)
		}
		// READ COMMITTED waited for who deletes it, and does not see it made anew
		if kind == 1 && errors.Is(err, pgx.ErrNoRows) {
			err = &pgconn.PgError{Code: "40001"}
		}
		exec("UPDATE added SET n = $1, b = $2, v = $3 WHERE id = $4", n+by, b-by, fmt.Sprint("v", i), one)
	case 2: // delete, and make anew
		var n, b int
		if err == nil {
			err = tx.QueryRow(ctx, "DELETE FROM added WHERE id = $1 RETURNING n, b", one).Scan(&n, &b)
		}
		exec("INSERT INTO added VALUES ($1, $2, $3, 'y')", one, n+by, b-by)
		if errors.Is(err, pgx.ErrNoRows) { // somebody else does
			err = &pgconn.PgError{Code: "40001"}
		}
	case 3: // and look
		exec("UPDATE added SET n = n + $1, b = b - $1 WHERE id = $2", by, one)
		if err == nil {
			var found bool
			if err = tx.QueryRow(ctx, "SELECT n + b = 0 FROM added WHERE id = $1", one).Scan(&found); err == nil &&
				!found {
				err = errors.New("n and b do not belong together")
			}
		}
	default:
		exec("UPDATE added SET n = n + $1, b = b - $1 WHERE id = $2", by, one)
		if two != one {
			exec("UPDATE added SET b = b + $1, n = n - $1 WHERE id = $2", by, two)
			exec("INSERT INTO added_log VALUES ($1, $2, $3, $4, $5)", who, i, two, -by, by)
		}
	}
	if err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

// TestAdditionsWait: who has locked a row, or its table, is waited for at its node.
func TestAdditionsWait(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE addwait (id int PRIMARY KEY, n int)", "CREATE TABLE addwait_log (i int PRIMARY KEY)",
		"INSERT INTO addwait VALUES (1, 0)")
	c.Everywhere("SELECT count(*) FROM addwait", "1")
	adds, other := c.Connect(2), c.Connect(2)
	ctx := context.Background()
	i := 0
	begin := func() {
		t.Helper()
		adds.Do("BEGIN")
		i++
		for _, sql := range []string{fmt.Sprintf("INSERT INTO addwait_log VALUES (%d)", i),
			"UPDATE addwait SET n = n + 1 WHERE id = 1"} {
			if _, err := adds.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 4 {
		begin()
		adds.Do("COMMIT")
	}
	for _, lock := range []string{"SELECT n FROM addwait WHERE id = 1 FOR UPDATE", "LOCK TABLE addwait IN SHARE MODE"} {
		before := c.putOff(2)
		begin()
		other.Do("BEGIN", lock) // which does not wait: nothing is locked
		committed := make(chan error, 1)
		go func() { committed <- adds.Try("COMMIT") }()
		select {
		case err := <-committed:
			t.Errorf("%s: nobody waits for it: %v", lock, err)
		case <-time.After(300 * time.Millisecond):
		}
		other.Do("UPDATE addwait SET n = n + 100 WHERE id = 1", "COMMIT")
		if err := <-committed; err != nil {
			t.Errorf("%s: %v", lock, Explain(err))
		}
		if n := c.putOff(2); n != before {
			t.Errorf("%s: %d additions were put off", lock, n-before)
		}
		for range 2 { // the first learns it
			begin()
			adds.Do("COMMIT")
		}
		if n := c.putOff(2); n == before {
			t.Errorf("%s: it is over, and %d additions were put off", lock, n-before)
		}
	}
	c.Everywhere("SELECT n FROM addwait", fmt.Sprint(i+200))
}

// adder is a session whose transactions log, and add to row 1 of a table.
type adder struct {
	*Conn
	table string
	who   int
	i     int
}

func (c *Cluster) adder(k int, table string) *adder { return &adder{c.Connect(k), table, k, 0} }

// begin begins a transaction that has added, or gives the statement's error.
func (a *adder) begin(by int) error {
	ctx := context.Background()
	a.Do("BEGIN")
	a.i++
	if _, err := a.Exec(ctx, "INSERT INTO "+a.table+"_log VALUES ($1, $2)", a.who, a.i); err != nil {
		return err
	}
	_, err := a.Exec(ctx, "UPDATE "+a.table+" SET n = n + $1 WHERE id = 1", by)
	return err
}

// learn has the node know the row.
func (a *adder) learn() {
	a.c.tb.Helper()
	for range 4 {
		if err := a.begin(0); err != nil {
			a.c.tb.Fatal(err)
		}
		a.Do("COMMIT")
	}
}

func addTable(s *Conn, name string, more ...string) {
	s.Do("CREATE TABLE "+name+" (id int PRIMARY KEY, n int)",
		"CREATE TABLE "+name+"_log (who int, i int, PRIMARY KEY (who, i))", "INSERT INTO "+name+" VALUES (1, 1)")
	s.Do(more...)
	s.c.Everywhere("SELECT count(*) FROM "+name, "1")
}

// TestAdditionsKnown: whatever makes what is known of a row too old to add to it, that is found out, and who adds does
// not lose for ever.
func TestAdditionsKnown(t *testing.T) {
	c := use(t)
	s := c.Connect(3)
	addTable(s, "addknown")
	adds := []*adder{c.adder(1, "addknown"), c.adder(2, "addknown")}
	for _, what := range []string{
		"ALTER TABLE addknown ADD COLUMN n int", // it fails
		"ALTER TABLE addknown ADD COLUMN m int",
		"BEGIN; LOCK TABLE addknown IN EXCLUSIVE MODE; INSERT INTO addknown_log VALUES (0, 1); COMMIT",
		"BEGIN; SELECT FROM addknown WHERE id = 1 FOR UPDATE; INSERT INTO addknown_log VALUES (0, 2); COMMIT",
		"UPDATE addknown SET n = n + 1000",
		"BEGIN; DELETE FROM addknown; INSERT INTO addknown VALUES (1, 5); COMMIT",
		"CREATE TABLE addknown_other ()", "DO $$ BEGIN ALTER TABLE addknown RENAME COLUMN m TO o; END $$",
		"TRUNCATE addknown; INSERT INTO addknown VALUES (1, 6)",
	} {
		for _, a := range adds {
			a.learn()
		}
		_ = s.Try(what) // one fails
		n := s.Get("SELECT n FROM addknown")
		c.Everywhere("SELECT n FROM addknown", n)
		for _, a := range adds {
			if err := errors.Join(a.begin(0), a.Try("COMMIT")); err != nil {
				t.Errorf("%s: then node %d: %v", what, a.who, Explain(err))
				a.Do("ROLLBACK")
			}
		}
	}
	c.Check()
}

// TestAdditionsComputed: what an index computes of a row may fail, and fails with the statement.
func TestAdditionsComputed(t *testing.T) {
	c := use(t)
	for i, index := range []string{"CREATE INDEX ON addcomputed%d ((100 / n))",
		"CREATE INDEX ON addcomputed%d (id) WHERE 100 / n > 1"} {
		name := fmt.Sprintf("addcomputed%d", i)
		addTable(c.Connect(1), name, fmt.Sprintf(index, i))
		a := c.adder(2, name)
		a.learn()
		if err := a.begin(-1); Code(err) != "22012" {
			t.Errorf(index+": %v", i, Explain(err))
		}
		a.Do("ROLLBACK")
		c.Everywhere("SELECT n FROM "+name, "1")
	}
}

// TestAdditionsUnderLocks: who locks the row again and again is not in the way of those who add to it, and they are not
// in its way.
func TestAdditionsUnderLocks(t *testing.T) {
	c := use(t)
	addTable(c.Connect(1), "addlocks")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var added atomic.Int64
	for who := range 4 {
		a := c.adder(2, "addlocks")
		a.who = who
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := errors.Join(a.begin(1), a.Try("COMMIT")); err != nil {
					t.Errorf("who adds: %v", Explain(err))
					return
				}
				added.Add(1)
			}
		})
	}
	locks := c.Connect(2)
	lost := 0
	const times = 40
	for range times {
		locks.Do("BEGIN")
		n, err := locks.Ask("SELECT n FROM addlocks WHERE id = 1 FOR UPDATE")
		time.Sleep(10 * time.Millisecond)
		if err == nil {
			var v int
			if v, err = strconv.Atoi(n); err == nil {
				err = locks.Try(fmt.Sprintf("UPDATE addlocks SET n = %d + 100000 WHERE id = 1", v))
			}
		}
		if err = errors.Join(err, locks.Try("COMMIT")); err != nil {
			lost++
		}
		time.Sleep(5 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	t.Logf("%d additions, %d of %d locks lost", added.Load(), lost, times)
	if lost > times/10 {
		t.Errorf("%d of %d who had locked the row lost", lost, times)
	}
	c.Everywhere("SELECT n FROM addlocks", fmt.Sprint(1+int(added.Load())+(times-lost)*100000))
}
