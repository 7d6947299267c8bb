package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Two transactions at two nodes that lock a row, and then change other rows, do not both commit, unless
// PostgreSQL would let them hold their locks together.
func TestRowLocks(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE held(id int PRIMARY KEY, n int NOT NULL DEFAULT 0)", "INSERT INTO held VALUES (1), (2)",
		"CREATE TABLE parts(id int, k text, PRIMARY KEY (id, k)) PARTITION BY LIST (k)",
		"CREATE TABLE parts_a PARTITION OF parts FOR VALUES IN ('a')",
		"CREATE TABLE written(id int PRIMARY KEY)", "INSERT INTO parts VALUES (1, 'a')",
		"CREATE TABLE base(id int PRIMARY KEY)", "CREATE TABLE derived(PRIMARY KEY (id)) INHERITS (base)",
		"INSERT INTO derived VALUES (1)")
	c.Everywhere("SELECT count(*) FROM derived", "1")
	const (
		update   = "SELECT * FROM held WHERE id = 1 FOR UPDATE"
		noKey    = "SELECT n FROM held h WHERE id = 1 FOR NO KEY UPDATE OF h"
		share    = "SELECT * FROM held WHERE id = 1 FOR SHARE"
		change   = "UPDATE held SET n = n + 1 WHERE id = 1"
		other    = "SELECT * FROM held WHERE id = 2 FOR UPDATE"
		part     = "SELECT * FROM parts WHERE id = 1 FOR UPDATE"
		inherits = "SELECT * FROM base WHERE id = 1 FOR UPDATE"
	)
	n, changes := 0, 0
	write := func() string { n++; return fmt.Sprintf("INSERT INTO written VALUES (%d)", n) }
	for _, p := range []struct {
		first, second string
		both          bool
	}{
		{update, update, false}, {update, noKey, false}, {share, update, false}, {update, share, false},
		{share, change, false}, {change, share, false}, {update, change, false}, {change, noKey, false},
		{part, part, false}, {inherits, inherits, false},
		{share, share, true}, {update, other, true}, {change, other, true},
	} {
		for _, levels := range [][2]string{{"READ COMMITTED", "READ COMMITTED"}, {"REPEATABLE READ", "REPEATABLE READ"},
			{"SERIALIZABLE", "READ COMMITTED"}, {"REPEATABLE READ", "SERIALIZABLE"}} {
			level := strings.Join(levels[:], " and ")
			a.Do("BEGIN ISOLATION LEVEL "+levels[0], p.first, write())
			b.Do("BEGIN ISOLATION LEVEL "+levels[1], p.second, write())
			errA, errB := race(a, b, "COMMIT", "COMMIT")
			both := errA == nil && errB == nil
			// An UPDATE that loses at READ COMMITTED comes after the other then: it is done again.
			again := both && (levels[0] == "READ COMMITTED" && p.first == change ||
				levels[1] == "READ COMMITTED" && p.second == change)
			if both != p.both && !again {
				t.Errorf("%s: %s and %s: %v and %v", level, p.first, p.second, errA, errB)
			}
			if code := Code(errors.Join(errA, errB)); !p.both && !again && code != "40001" {
				t.Errorf("%s: %s and %s: the loser was told %v", level, p.first, p.second, errors.Join(errA, errB))
			}
			a.Do("ROLLBACK")
			b.Do("ROLLBACK")
			if p.first == change && errA == nil || p.second == change && errB == nil {
				changes++
			}
			settle(a, b) // nothing is under way
			c.Everywhere("SELECT n FROM held WHERE id = 1", fmt.Sprint(changes))
		}
	}
	c.Check()
}

// TestManyRowLocks: too many locked rows are told as whole tables.
func TestManyRowLocks(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE many(id int PRIMARY KEY)", "INSERT INTO many SELECT generate_series(1, 70000)",
		"CREATE TABLE many_beside(id int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM many_beside", "0")
	for i, lock := range []string{"SELECT * FROM many ORDER BY id LIMIT 60000 FOR UPDATE",
		"SELECT * FROM many FOR UPDATE"} {
		settle(a, b)
		a.Do("BEGIN", lock, fmt.Sprintf("INSERT INTO many_beside VALUES (%d)", i))
		b.Do("BEGIN", "SELECT * FROM many WHERE id = 69999 FOR UPDATE",
			fmt.Sprintf("INSERT INTO many_beside VALUES (-1 - %d)", i))
		errA, errB := race(a, b, "COMMIT", "COMMIT")
		if both := errA == nil && errB == nil; both != (i == 0) {
			t.Errorf("%s: %v and %v", lock, errA, errB)
		}
		a.Do("ROLLBACK")
		b.Do("ROLLBACK")
	}
	c.Check()
}

// TestLocksAreTakenElsewhere: who holds a row lock that the applier needs loses, also if the whole table was locked, or
// if the transaction with the lock has changed the schema. Else it would commit, since all that was applied counts as
// seen.
func TestLocksAreTakenElsewhere(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE taken(id int PRIMARY KEY)", "INSERT INTO taken SELECT generate_series(1, 70000)",
		"CREATE TABLE taken_beside(id int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM taken_beside", "0")
	const one, all = "SELECT * FROM taken WHERE id = 7 FOR UPDATE", "SELECT * FROM taken FOR UPDATE"
	for i, p := range []struct {
		lock, change, other string
		both                bool
	}{
		{all, "SELECT 1", one, false},
		{one, "CREATE TABLE taken_anew(id int)", one, false},
		{one, "ALTER TABLE taken_beside ADD COLUMN n int", "UPDATE taken SET id = -id WHERE id = 7", false},
		{all, "DROP TABLE taken_anew", one, false},
		{one, "CREATE TABLE taken_anew(id int)", "SELECT * FROM taken WHERE id = 8 FOR UPDATE", true},
	} {
		settle(a, b)
		b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", p.other)
		a.Do("BEGIN", p.lock, p.change, fmt.Sprintf("INSERT INTO taken_beside VALUES (%d)", i), "COMMIT")
		c.Eventually(2, fmt.Sprintf("SELECT count(*) FROM taken_beside WHERE id = %d", i), "1")
		err := b.Try(fmt.Sprintf("INSERT INTO taken VALUES (%d)", -1000-i))
		err = errors.Join(err, b.Try("COMMIT"))
		if p.both && err != nil || !p.both && Code(err) != "40001" {
			t.Errorf("%s, %s and %s: %v", p.lock, p.change, p.other, err)
		}
		b.Do("ROLLBACK")
	}
	c.Check()
}

// TestRowLocksQueue: sessions of one node wait for each other's row locks, and nobody loses.
func TestRowLocksQueue(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE queue(id int PRIMARY KEY)", "INSERT INTO queue VALUES (1)",
		"CREATE TABLE queued(id int PRIMARY KEY, q int REFERENCES queue)")
	c.Everywhere("SELECT count(*) FROM queue", "1")
	var wg sync.WaitGroup
	for i := range 4 {
		s := c.Connect(1)
		wg.Go(func() {
			for j := range 25 {
				lock := []string{"FOR UPDATE", "FOR SHARE", "FOR NO KEY UPDATE"}[j%3]
				for _, sql := range []string{"BEGIN", "SELECT 1", "SELECT * FROM queue " + lock,
					fmt.Sprintf("INSERT INTO queued VALUES (%d, 1)", i*1000+j), "COMMIT"} {
					if err := s.Try(sql); err != nil {
						t.Errorf("%s: %v", sql, Explain(err))
						return
					}
				}
			}
		})
	}
	wg.Wait()
	c.Everywhere("SELECT count(*) FROM queued", "100")
}

// TestSeats: who books locks the event, counts what is booked, and books if there is a seat. At three nodes at once,
// no event is ever overbooked, whatever the protocol.
func TestSeats(t *testing.T) {
	c := use(t)
	const events, seats = 12, 4
	c.Connect(1).Do("CREATE TABLE event(id int PRIMARY KEY, seats int)",
		fmt.Sprintf("INSERT INTO event SELECT g, %d FROM generate_series(1, %d) g", seats, events),
		"CREATE TABLE seat(id bigserial PRIMARY KEY, event int REFERENCES event, who int)",
		"CREATE INDEX ON seat(event)")
	c.Everywhere("SELECT count(*) FROM event WHERE to_regclass('seat_event_idx') IS NOT NULL", fmt.Sprint(events))
	deadline := time.Now().Add(2 * sqlTimeout)
	var wg sync.WaitGroup
	for who := range 9 {
		s := c.Connect(1 + who%3)
		mode := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol,
			pgx.QueryExecModeDescribeExec}[who/3]
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(who), 1))
			for full := 0; full < 30 && time.Now().Before(deadline); {
				booked, err := book(s, mode, 1+rng.IntN(events), who)
				switch {
				case Code(err) == "40001" || Code(err) == "40P01":
				case err != nil:
					t.Errorf("%v", Explain(err))
					return
				case !booked:
					full++
				}
			}
		})
	}
	wg.Wait()
	want := strings.TrimSuffix(strings.Repeat(fmt.Sprint(seats, ","), events), ",")
	c.Everywhere("SELECT count(*) FROM seat GROUP BY event ORDER BY event", want)
	c.Check()
}

// book books a seat and reports whether there was one.
func book(s *Conn, mode pgx.QueryExecMode, event, who int) (booked bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	tx, err := s.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback(ctx)
		}
	}()
	var id, seats, taken int
	if err := tx.QueryRow(ctx, "SELECT id, seats FROM event WHERE id = $1 FOR UPDATE", mode, event).Scan(&id,
		&seats); err != nil {
		return false, err
	}
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM seat WHERE event = $1", mode, event).Scan(&taken); err != nil {
		return false, err
	}
	if id != event {
		return false, fmt.Errorf("asked for event %d and was given %d", event, id)
	}
	if taken < seats {
		if _, err := tx.Exec(ctx, "INSERT INTO seat(event, who) VALUES ($1, $2)", mode, event, who); err != nil {
			return false, err
		}
	}
	return taken < seats, tx.Commit(ctx)
}
