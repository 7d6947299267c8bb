package cluster

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestProcedureLosesItsSpeaker: the connections by which a node speaks with transactions of procedures end at any
// moment. The procedures' sessions end with them; the node goes on, and what it has decided is at all nodes.
func TestProcedureLosesItsSpeaker(t *testing.T) {
	c := use(t)
	a, killer := c.Connect(1), c.alone(1, "template1")
	a.Do("CREATE TABLE proc_spoken (id int PRIMARY KEY)")
	c.Settled()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for ended := false; !ended; {
			run(killer, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tutti "+
				"speaker'")
			select {
			case <-stop:
				ended = true
			case <-time.After(3 * time.Millisecond):
			}
		}
	})
	lost := 0
	for i := 0; i < 60 && lost < 10; i++ {
		s := c.Connect(1)
		if err := s.Try(fmt.Sprintf("DO $$ BEGIN FOR i IN 1..20 LOOP INSERT INTO proc_spoken VALUES (%d + i); "+
			"COMMIT; END LOOP; END $$", i*100)); err != nil {
			lost++
		}
	}
	close(stop)
	wg.Wait()
	if lost == 0 {
		t.Error("no procedure has lost its connection")
	}
	a.Do("INSERT INTO proc_spoken VALUES (-1)", "DO $$ BEGIN INSERT INTO proc_spoken VALUES (-2); COMMIT; END $$")
	c.Everywhere("SELECT count(*), sum(id) FROM proc_spoken", a.Get("SELECT count(*), sum(id) FROM proc_spoken"))
	c.Check()
}

// TestProceduresGiveLocksBack: what a procedure has locked for one of its transactions others get when that has
// committed, at other nodes and at the same one, where the procedure may be the next to want it again.
func TestProceduresGiveLocksBack(t *testing.T) {
	c := use(t)
	a := c.Connect(1)
	a.Do("CREATE TABLE proc_freed (id int PRIMARY KEY)")
	c.Settled()
	result := make(chan error, 1)
	go func() {
		result <- a.Try(`DO $$ BEGIN PERFORM pg_advisory_xact_lock(77010); INSERT INTO proc_freed VALUES (1); COMMIT;
			WHILE NOT EXISTS (SELECT FROM proc_freed WHERE id = 2) LOOP PERFORM pg_sleep(0.01); END LOOP;
			PERFORM pg_advisory_xact_lock(77010); INSERT INTO proc_freed VALUES (3); COMMIT; END $$`)
	}()
	c.Everywhere("SELECT count(*) FROM proc_freed", "1")
	for k := 1; k <= 2; k++ {
		b := c.Connect(k)
		b.Do("SET statement_timeout = '30s'", "SELECT pg_advisory_lock(77010)", "SELECT pg_advisory_unlock(77010)")
	}
	b := c.Connect(1)
	b.Do("SELECT pg_advisory_lock(77010)", "INSERT INTO proc_freed VALUES (2)")
	time.Sleep(100 * time.Millisecond) // the procedure waits for it now
	b.Do("SELECT pg_advisory_unlock(77010)")
	if err := <-result; err != nil {
		t.Error(Explain(err))
	}
	c.Everywhere("SELECT count(*) FROM proc_freed", "3")
}

// TestProceduresAreNotRunTwice: what a procedure's first transaction has done to tables that are not replicated is
// there when it has committed. If a later one loses, all that is not done again.
func TestProceduresAreNotRunTwice(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE proc_twice (id int PRIMARY KEY, n int)", "INSERT INTO proc_twice VALUES (1, 0)",
		"CREATE TEMP TABLE proc_once (n int)")
	c.Settled()
	for i, x := range []struct{ steps, want string }{
		{"INSERT INTO proc_once VALUES (%d); COMMIT; UPDATE proc_twice SET n = n + 1; PERFORM pg_sleep(0.7); COMMIT;",
			"1"},
		{"UPDATE proc_twice SET n = n + 1; PERFORM pg_sleep(0.7); INSERT INTO proc_once VALUES (%d); COMMIT;", "1"},
		{"INSERT INTO proc_once VALUES (%d); COMMIT; PERFORM FROM proc_twice FOR UPDATE; PERFORM pg_sleep(0.7); " +
			"COMMIT;", "1"},
	} {
		result := make(chan error, 1)
		go func() { result <- a.Try("DO $$ BEGIN " + fmt.Sprintf(x.steps, i) + " END $$") }()
		time.Sleep(300 * time.Millisecond)
		b.Do("UPDATE proc_twice SET n = n + 10")
		err := <-result
		if err != nil && Code(err) != "40001" {
			t.Errorf("%s: %v", x.steps, Explain(err))
		}
		if got := a.Get(fmt.Sprintf("SELECT count(*) FROM proc_once WHERE n = %d", i)); got != x.want {
			t.Errorf("%s: done %s times; %v", x.steps, got, err)
		}
	}
}
