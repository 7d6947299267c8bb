package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/fault"
)

// TestForetold: a transaction waits at COMMIT for the log's word, which takes long, and holds a row that another
// member's transaction has changed. It can only lose, and is told so at once: else nothing could be applied at its
// member meanwhile.
func TestForetold(t *testing.T) {
	const late, soon = 3 * time.Second, 700 * time.Millisecond
	c := startFaulty(t, 3)
	c.Connect(1).Do("CREATE TABLE foretold(k int PRIMARY KEY, v int)", "INSERT INTO foretold VALUES (1, 0), (2, 0)")
	c.Everywhere("SELECT count(*) FROM foretold", "2")
	took := late
	for try := 1; took > soon && try <= 3; try++ { // the machine may stand still
		leader := c.Leader()
		k := 1 + leader%3
		winner, loser, other := c.Connect(leader), c.Connect(k), c.Connect(k)
		loser.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", fmt.Sprintf("UPDATE foretold SET v = -%d WHERE k = 1", try))
		c.Node(k).fault(t, fault.Rules{Delay: map[uint32]int{uint32(leader): int(late / time.Millisecond)}})
		time.Sleep(100 * time.Millisecond) // the file is read
		began, told := time.Now(), make(chan error, 1)
		go func() { told <- loser.Try("COMMIT") }()
		time.Sleep(100 * time.Millisecond) // it is on its way
		winner.Do(fmt.Sprintf("UPDATE foretold SET v = %d WHERE k = 1", try))
		if err := <-told; Code(err) == "40001" {
			took = time.Since(began)
		} else if err != nil { // nil: it was on its way before the fault was there
			t.Fatalf("the transaction got %v", Explain(err))
		}
		c.Node(k).fault(t, fault.Rules{})
		other.Do("UPDATE foretold SET v = v + 1 WHERE k = 2")
		c.Everywhere("SELECT v FROM foretold WHERE k = 1", fmt.Sprint(try))
	}
	t.Logf("it was told after %v", took)
	if took > soon {
		t.Errorf("it was told after %v", took)
	}
	c.Check()
}
