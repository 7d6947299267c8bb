package cluster

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestForerunnerDefines: large transactions that change the schema as well are executed while they come in, at all
// nodes at once, amid others that conflict with them, a member that ends, and definitions. The copies are equal.
func TestForerunnerDefines(t *testing.T) {
	t.Parallel()
	const rows = 1500
	c := Start(t, 3, smallLimits)
	s := c.Connect(1)
	s.Do("CREATE TABLE versions(n int, k int)",
		"CREATE TABLE everyone(id int PRIMARY KEY, n int NOT NULL, filler text)",
		fmt.Sprintf("INSERT INTO everyone SELECT g, 0, repeat('x', 40) FROM generate_series(1, %d) g", rows))
	for k := 1; k <= 3; k++ {
		s.Do(fmt.Sprintf("CREATE TABLE migrated%d(id int PRIMARY KEY, n int, filler text)", k),
			fmt.Sprintf("INSERT INTO migrated%d SELECT * FROM everyone", k))
	}
	c.Settled()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	work := func(k int, f func(s *Conn, r *rand.Rand, n int)) {
		s, r := c.Connect(k), rand.New(rand.NewPCG(uint64(k), 7))
		wg.Go(func() {
			for n := 0; !closed(stop); n++ {
				f(s, r, n)
			}
		})
	}
	for k := 1; k <= 2; k++ { // node 3 is killed
		work(k, func(s *Conn, r *rand.Rand, n int) {
			switch r.IntN(4) {
			case 0:
				s.changed(fmt.Sprintf("CREATE TABLE copied%d_%d AS SELECT * FROM everyone", k, n))
				s.changed(fmt.Sprintf("DO $$ BEGIN INSERT INTO copied%d_%d SELECT * FROM everyone WHERE id < 9; "+
					"EXCEPTION WHEN undefined_table THEN END $$", k, n))
				s.changed(fmt.Sprintf("DROP TABLE IF EXISTS copied%d_%d", k, n))
			case 1:
				s.changed(fmt.Sprintf("BEGIN; ALTER TABLE migrated%[1]d ADD COLUMN c%[2]d int DEFAULT 5; UPDATE "+
					"migrated%[1]d SET c%[2]d = id; CREATE INDEX ON migrated%[1]d(c%[2]d); INSERT INTO versions "+
					"VALUES (%[2]d, %[1]d); COMMIT", k, n))
				s.changed("ROLLBACK") // it may have lost before its end
				s.changed(fmt.Sprintf("DO $$ BEGIN UPDATE migrated%d SET c%d = 1 WHERE id < 9; EXCEPTION WHEN "+
					"undefined_column THEN END $$", k, n))
				s.changed(fmt.Sprintf("ALTER TABLE migrated%d DROP COLUMN IF EXISTS c%d", k, n))
			case 2:
				s.changed(fmt.Sprintf("BEGIN; ALTER TABLE everyone ADD COLUMN IF NOT EXISTS extra int DEFAULT 1; "+
					"UPDATE everyone SET extra = extra + %d, n = n + 1; COMMIT", k))
			case 3:
				s.changed(fmt.Sprintf("UPDATE migrated%d SET n = n + 1", k))
			}
			s.changed("ROLLBACK")
		})
		work(k, func(s *Conn, r *rand.Rand, _ int) {
			s.changed(fmt.Sprintf("UPDATE everyone SET n = n + 1 WHERE id = %d", 1+r.IntN(rows)))
			time.Sleep(time.Duration(50+r.IntN(200)) * time.Millisecond)
		})
	}
	work(1, func(s *Conn, _ *rand.Rand, _ int) {
		time.Sleep(900 * time.Millisecond)
		s.changed("ALTER TABLE everyone DROP COLUMN IF EXISTS extra")
	})
	// has nothing to do with them; but what a member knows of the tables must hold it
	work(2, func(s *Conn, r *rand.Rand, n int) {
		s.changed(fmt.Sprintf("CREATE TABLE apart%d(id int PRIMARY KEY)", n))
		for i := range 8 {
			time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
			s.changed(fmt.Sprintf("INSERT INTO apart%d VALUES (%d)", n, i))
		}
		s.changed(fmt.Sprintf("DROP TABLE apart%d", n))
	})
	ahead, inTurn, killed := 0, 0, false
	lasts(testSeconds(6), func() bool {
		ahead, inTurn = 0, 0
		for _, k := range c.All() {
			ahead, inTurn = ahead+c.said(k, saidAhead), inTurn+c.said(k, saidInTurn)
		}
		if !killed && ahead >= 4 {
			killed = true
			c.Kill(3)
			c.Run(3)
		}
		return ahead >= 8 && inTurn >= 2
	})
	close(stop)
	wg.Wait()
	t.Logf("%d large transactions were executed ahead of their turn, %d were left to it", ahead, inTurn)
	if ahead < 8 || !killed {
		t.Errorf("they must have been executed ahead of their turn for this test to say something")
	}
	for _, k := range c.All() {
		if c.said(k, "write outside a Tutti transaction") > 0 {
			t.Errorf("node %d has executed rows as those of a client", k)
		}
	}
	c.WaitReady(3)
	s.Do("CREATE TABLE large(id int PRIMARY KEY, v text)",
		"INSERT INTO large SELECT g, repeat('z', 50) FROM generate_series(1, 3000) g")
	c.Everywhere("SELECT count(*) FROM large", "3000")
	c.Everywhere("SELECT count(*) FROM information_schema.tables WHERE table_name ~ '^copied'", "0")
	c.Check()
}
