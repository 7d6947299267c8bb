package cluster

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// Counters whose unique values or keys change with every count, at all nodes at once, count every commit.
func TestChangingKeysCount(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE moving(id int PRIMARY KEY, u int UNIQUE, n int)",
		"CREATE TABLE rekeyed(id int PRIMARY KEY, k int, n int)",
		"CREATE TABLE seats(k int PRIMARY KEY, seat int UNIQUE, n int)",
		"CREATE TABLE places(k int PRIMARY KEY DEFERRABLE, seat int, n int)",
		"CREATE TABLE numbered(k int PRIMARY KEY, id int GENERATED ALWAYS AS IDENTITY UNIQUE, n int)",
		"INSERT INTO moving SELECT g, g, 0 FROM generate_series(1, 4) g",
		"INSERT INTO rekeyed SELECT g, g, 0 FROM generate_series(1, 4) g",
		"INSERT INTO seats SELECT g, g, 0 FROM generate_series(1, 4) g",
		"INSERT INTO places SELECT g, g, 0 FROM generate_series(1, 4) g",
		"INSERT INTO numbered(k, n) SELECT g, 0 FROM generate_series(1, 4) g")
	c.Everywhere("SELECT count(*) FROM numbered", "4")
	kinds := []struct {
		table, sql string // the counter is numbered from 1 to 4
		by         int64
		wins       atomic.Int64
	}{
		{table: "moving", sql: "UPDATE moving SET n = n + 1, u = u + 10 WHERE id = %d", by: 1},
		{table: "rekeyed", sql: "UPDATE rekeyed SET n = n + 1, id = id + 10 WHERE k = %d", by: 1},
		// Two rows, of 1 and 2 or of 3 and 4, change places.
		{table: "seats", sql: "BEGIN; UPDATE seats SET seat = seat + 100 WHERE (k + 1) / 2 = (%d + 1) / 2;" +
			" UPDATE seats SET n = n + 1, seat = CASE WHEN k > 2 THEN 207 ELSE 203 END - 100 - seat WHERE (k + 1) / " +
			"2 = (%[1]d + 1) / 2; COMMIT", by: 2},
		// So do their keys.
		{table: "places", sql: "BEGIN; UPDATE places SET n = n + 1 WHERE seat = %d; UPDATE places SET k = CASE WHEN " +
			"seat > 2 THEN 7 ELSE 3 END - k WHERE (seat + 1) / 2 = (%[1]d + 1) / 2; COMMIT", by: 1},
		{table: "numbered", sql: "UPDATE numbered SET n = n + 1, id = DEFAULT WHERE k = %d", by: 1},
	}
	var wg sync.WaitGroup
	for i := range 12 {
		s := c.Connect(1 + i%3)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range 100 {
				kind := &kinds[n/2%len(kinds)]
				sql := fmt.Sprintf(kind.sql, 1+(n/10+i)%4)
				tags, err := s.Run(sql)
				switch {
				case err == nil:
					kind.wins.Add(kind.by)
					if slices.Contains(tags, "UPDATE 0") {
						t.Errorf("%s has missed the row: %q", sql, tags)
					}
				case Code(err) != "40001" && Code(err) != "40P01": // two of one node may meet two rows in either order
					t.Errorf("an update failed: %s", Explain(err))
					fallthrough
				default:
					s.Do("ROLLBACK")
				}
			}
		}()
	}
	wg.Wait()
	for i := range kinds {
		k := &kinds[i]
		c.Everywhere("SELECT sum(n) FROM "+k.table, fmt.Sprint(k.wins.Load()))
		if k.wins.Load() < 20 {
			t.Errorf("only %d updates of %s committed", k.wins.Load(), k.table)
		}
	}
	c.Everywhere("SELECT string_agg(seat::text, ' ' ORDER BY seat) FROM seats", "1 2 3 4")
	c.Check()
}

// Values are swapped between the schema changes of one transaction.
func TestSwapsBetweenDefinitions(t *testing.T) {
	c := use(t)
	a := c.Connect(1)
	a.Do("CREATE TABLE swapped(k int PRIMARY KEY, u int UNIQUE)", "INSERT INTO swapped VALUES (1, 1), (2, 2)",
		"BEGIN", "UPDATE swapped SET u = u + 10", "UPDATE swapped SET u = 13 - u", "ALTER TABLE swapped ADD v int",
		"UPDATE swapped SET u = u + 10", "UPDATE swapped SET u = 13 - u, v = 1", "UPDATE swapped SET k = 3 WHERE k = 2",
		"CREATE TABLE swapped_later(k int)", "COMMIT")
	c.Everywhere("SELECT string_agg(s::text, ' ' ORDER BY k) FROM swapped s", "(1,1,1) (3,2,1)")
	a.Do("BEGIN", "DROP TABLE swapped_later", "UPDATE swapped SET u = u + 10", "UPDATE swapped SET u = 13 - u",
		"COMMIT", "UPDATE swapped SET v = 2")
	c.Everywhere("SELECT string_agg(s::text, ' ' ORDER BY k) FROM swapped s", "(1,2,2) (3,1,2)")
	c.Check()
}
