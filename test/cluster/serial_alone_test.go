package cluster

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/check"
)

// alonePair is two rows that transactions read and write.
func alonePair(c *Cluster, table string) {
	c.Connect(1).Do("CREATE TABLE "+table+"(k int PRIMARY KEY, v int)", "INSERT INTO "+table+" VALUES (1, 0), (2, 0)")
	c.Everywhere("SELECT count(*) FROM "+table, "2")
}

// TestSerialAlone: SERIALIZABLE where one member runs it alone, and where another comes and goes. Most of it is
// waiting.
func TestSerialAlone(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	for _, s := range []struct {
		name string
		test func(*testing.T, *Cluster)
	}{{"at one member", serialAtOneMember}, {"a reader elsewhere", serialReaderElsewhere}, {"lists", serialLists}} {
		t.Run(s.name, func(t *testing.T) { s.test(t, c.in(t)) })
	}
}

// serialAtOneMember: as long as one member runs SERIALIZABLE transactions alone, they lose where PostgreSQL's lose, and
// nowhere else.
func serialAtOneMember(t *testing.T, c *Cluster) {
	alonePair(c, "alone_one")
	u, v := c.Connect(1), c.Connect(1)
	u.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "SELECT sum(v) FROM alone_one")
	v.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "UPDATE alone_one SET v = 1 WHERE k = 1", "COMMIT")
	u.Do("UPDATE alone_one SET v = 1 WHERE k = 2")
	if err := u.Try("COMMIT"); err != nil {
		t.Errorf("u comes before v: %v", Explain(err))
	}
	// Write skew. When a COMMIT is expected, what was written is collected with the UPDATE, before v dooms u.
	for range 3 {
		u.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "SELECT sum(v) FROM alone_one")
		v.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "SELECT sum(v) FROM alone_one",
			"UPDATE alone_one SET v = 2 WHERE k = 1")
		u.Do("UPDATE alone_one SET v = 2 WHERE k = 2")
		v.Do("COMMIT")
		if err := u.Try("COMMIT"); Code(err) != "40001" {
			t.Errorf("write skew: %v", err)
		}
	}
	// A reader between them, at the same member.
	r := c.Connect(1)
	u.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "SELECT sum(v) FROM alone_one")
	v.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "UPDATE alone_one SET v = 3 WHERE k = 1", "COMMIT")
	r.Do("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY", "SELECT sum(v) FROM alone_one", "COMMIT")
	if err := u.Try("UPDATE alone_one SET v = 3 WHERE k = 2; COMMIT"); Code(err) != "40001" {
		t.Errorf("a reader has seen v and not u: %v", err)
	}
	// Others are as strict as ever.
	u.Do("ROLLBACK", "BEGIN ISOLATION LEVEL SERIALIZABLE", "SELECT sum(v) FROM alone_one")
	c.Connect(1).Do("UPDATE alone_one SET v = 4 WHERE k = 1")
	u.Do("UPDATE alone_one SET v = 4 WHERE k = 2")
	if err := u.Try("COMMIT"); Code(err) != "40001" {
		t.Errorf("written in READ COMMITTED: %v", err)
	}
	c.Check()
}

// serialReaderElsewhere: a reader at another member, of which nobody knows what it has read, is between two
// transactions of one: the second loses, whether the reader's member had told that it runs such transactions before, or
// while they were open.
func serialReaderElsewhere(t *testing.T, c *Cluster) {
	alonePair(c, "alone_two")
	for range 4 {
		u, v, r := c.Connect(1), c.Connect(1), c.Connect(2)
		before := r.Get("SELECT sum(v) FROM alone_two")
		u.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "SELECT sum(v) FROM alone_two")
		v.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "UPDATE alone_two SET v = v + 1 WHERE k = 1", "COMMIT")
		c.Eventually(2, "SELECT sum(v) <> "+before+" FROM alone_two", "t")
		r.Do("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY", "SELECT sum(v) FROM alone_two", "COMMIT")
		u.Do("UPDATE alone_two SET v = v + 1 WHERE k = 2")
		if err := u.Try("COMMIT"); Code(err) != "40001" {
			t.Errorf("the reader has seen v and not u: %v", err)
		}
		time.Sleep(time.Duration(rand.IntN(6500)) * time.Millisecond)
	}
	c.Check()
}

// serialLists: clients read lists and append to others, all in SERIALIZABLE: at one member, where most
// of it is left to PostgreSQL; at two; and at one, with a client of another that comes and goes. What they saw must
// have a serial order.
func serialLists(t *testing.T, c *Cluster) {
	c.Connect(1).Do("CREATE TABLE alone_lists(k int PRIMARY KEY, v int[] NOT NULL)")
	c.Everywhere("SELECT count(*) FROM alone_lists", "0")
	for i, members := range [][]int{{1, 1, 1, 1, 1, 1}, {1, 1, 1, 2, 2, 2}, {1, 1, 1, 1, 1, -2}} {
		time.Sleep(7 * time.Second) // the order is told that nobody runs SERIALIZABLE any more
		l := &aloneLists{c: c, keys: 6, base: 100 * i}
		c.Connect(1).Do(fmt.Sprintf("INSERT INTO alone_lists SELECT g, '{}' FROM generate_series(%d, %d) g", l.base+1,
			l.base+l.keys))
		c.Everywhere(fmt.Sprintf("SELECT count(*) FROM alone_lists WHERE k > %d", l.base), fmt.Sprint(l.keys))
		l.run(t, members, seconds(4*time.Second))
	}
	c.Check()
}

// aloneLists is one load on lists with the keys from base + 1 on.
type aloneLists struct {
	c          *Cluster
	base, keys int
	next       atomic.Uint64

	mu      sync.Mutex
	history []check.ListTransaction
	lost    int
}

// run has one client for each member, with a negative number one that is away at times.
func (l *aloneLists) run(t *testing.T, members []int, d time.Duration) {
	var wg sync.WaitGroup
	over := time.Now().Add(d)
	for n, k := range members {
		wg.Go(func() {
			s := l.c.Connect(max(k, -k))
			rnd := rand.New(rand.NewPCG(uint64(n), uint64(l.base)))
			for time.Now().Before(over) {
				if err := l.transaction(s, rnd, n); err != nil {
					t.Error(Explain(err))
					return
				}
				if k < 0 && rnd.IntN(10) == 0 {
					time.Sleep(time.Duration(rnd.IntN(600)) * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	l.c.Settled()
	var final [][]check.ListOp
	for _, k := range l.c.All() {
		var ops []check.ListOp
		for key := l.base + 1; key <= l.base+l.keys; key++ {
			ops = append(ops, check.ListOp{Key: uint64(key),
				Read: numbers(l.c.Connect(k).Get(fmt.Sprint(
					"SELECT array_to_string(v, ' ') FROM alone_lists WHERE k = ", key)))})
		}
		final = append(final, ops)
	}
	t.Logf("at %v: %d committed, %d lost", members, len(l.history), l.lost)
	for _, a := range check.ListAppend(l.history, check.ListOptions{Final: final}) {
		t.Errorf("%v", a)
		for _, i := range a.Transactions {
			t.Logf("  %d: %+v", i, l.history[i])
		}
	}
}

// transaction reads lists, appends to some of them or to others, and writes down what it has seen.
func (l *aloneLists) transaction(s *Conn, rnd *rand.Rand, session int) error {
	reads, appends := 1+rnd.IntN(3), rnd.IntN(3)
	x := check.ListTransaction{Session: session, Level: check.Serializable, Outcome: check.OK}
	err := s.Try("BEGIN ISOLATION LEVEL SERIALIZABLE")
	for range reads {
		key := l.base + 1 + rnd.IntN(l.keys)
		where := fmt.Sprint("k = ", key) // one row, or a range in which PostgreSQL locks more
		if rnd.IntN(2) == 0 {
			where = fmt.Sprintf("k BETWEEN %d AND %d ORDER BY k LIMIT 1", key, key+1)
		}
		var got string
		if err == nil {
			got, err = s.Ask("SELECT array_to_string(v, ' ') FROM alone_lists WHERE " + where)
		}
		x.Ops = append(x.Ops, check.ListOp{Key: uint64(key), Read: numbers(got)})
	}
	for range appends {
		if err == nil && rnd.IntN(3) == 0 {
			time.Sleep(time.Duration(rnd.IntN(2000)) * time.Microsecond)
		}
		key, n := l.base+1+rnd.IntN(l.keys), l.next.Add(1)
		if err == nil {
			err = s.Try(fmt.Sprintf("UPDATE alone_lists SET v = v || %d WHERE k = %d", n, key))
		}
		x.Ops = append(x.Ops, check.ListOp{Key: uint64(key), Append: n})
	}
	if err == nil {
		err = s.Try("COMMIT")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch Code(err) {
	case "":
		l.history = append(l.history, x)
		return nil
	case "40001", "40P01":
		l.lost++
		return s.Try("ROLLBACK")
	}
	return err
}

func numbers(text string) (out []uint64) {
	for _, w := range strings.Fields(text) {
		n, _ := strconv.ParseUint(w, 10, 64)
		out = append(out, n)
	}
	return out
}
