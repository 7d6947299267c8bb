package cluster

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// TestBackendEndsWhileWaiting: a session waits at COMMIT for a majority, not yet proposed, when
// its backend is ended, and with it its row locks. Another node changes its row before it
// is proposed. It must not commit over that (engine E8).
func TestBackendEndsWhileWaiting(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	// Two inserts into the second table conflict but need no lock of each other, because its key
	// cannot be hashed: the later one waits until the earlier one is applied.
	c.Connect(1).Do("CREATE TABLE wait(k int PRIMARY KEY, n int NOT NULL)", "INSERT INTO wait VALUES (1, 0)",
		"CREATE TABLE odd(k interval PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM wait", "1")
	c.Stop(2, 3)
	p, s := c.Connect(1), c.Connect(1)
	pid := s.Get("SELECT pg_backend_pid()")
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- p.Try("INSERT INTO odd VALUES ('1 hour')") }()
	time.Sleep(300 * time.Millisecond)
	s.Do("BEGIN", "UPDATE wait SET n = n + 1 WHERE k = 1", "INSERT INTO odd VALUES ('2 hours')")
	go func() { second <- s.Try("COMMIT") }()
	time.Sleep(300 * time.Millisecond)
	if got := c.Connect(1).Get("SELECT pg_terminate_backend(" + pid + ")"); got != "t" {
		t.Fatalf("pg_terminate_backend gives %s", got)
	}
	node := c.Node(1).proc
	node.Signal(syscall.SIGSTOP)
	defer node.Signal(syscall.SIGCONT)
	c.Run(2)
	c.Run(3)
	c.WaitReady(2, 3)
	c.Connect(2).Do("UPDATE wait SET n = n + 1 WHERE k = 1")
	node.Signal(syscall.SIGCONT)
	want := 1
	if err := <-second; err == nil {
		want++
	} else {
		t.Logf("COMMIT: %s", Explain(err))
	}
	if err := <-first; err != nil {
		t.Errorf("the other transaction was told %s", Explain(err))
	}
	c.WaitReady()
	c.Everywhere("SELECT n FROM wait WHERE k = 1", fmt.Sprint(want))
	c.Check()
}
