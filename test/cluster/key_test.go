package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestWideKeysAreToldApart writes rows whose keys PostgreSQL's hash functions take for equal.
func TestWideKeysAreToldApart(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE widekeys(k bigint PRIMARY KEY, v int)",
		"INSERT INTO widekeys VALUES (1::bigint << 32 | 2, 0), (2::bigint << 32 | 1, 0)",
		"UPDATE widekeys SET v = v + 1")
	c.Everywhere("SELECT v, count(*) FROM widekeys GROUP BY v", "1|2")
	s.Do("INSERT INTO widekeys SELECT i::bigint << 32 | (5000 - i), 0 FROM generate_series(10, 4000) i")
	c.Everywhere("SELECT count(*) FROM widekeys", "3993")
	c.Check()
}

// TestEnumKeysAtUnlikeMembers: a member that crashed skips object ids, so that later types have
// other ids there. Equal keys must conflict all the same.
func TestEnumKeysAtUnlikeMembers(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.KillPostgres(2)
	time.Sleep(200 * time.Millisecond)
	c.WaitReady()
	c.Connect(1).Do("CREATE TYPE light AS ENUM ('red', 'green')",
		"CREATE TABLE lights(l light, k int, v int, PRIMARY KEY (l, k))", "INSERT INTO lights VALUES ('red', 0, 0)")
	c.Everywhere("SELECT count(*) FROM lights", "1")
	a, b := c.Connect(1), c.Connect(2)
	const oid = "SELECT min(oid) FROM pg_enum WHERE enumtypid = 'light'::regtype"
	if a.Get(oid) == b.Get(oid) {
		t.Fatal("the object ids do not differ")
	}
	for i := 1; i <= 30; i++ {
		q := fmt.Sprintf("INSERT INTO lights VALUES ('green', %d, 0)", i)
		if errA, errB := race(a, b, q, q); (errA == nil) == (errB == nil) {
			t.Fatalf("round %d: %v and %v; exactly one must win", i, errA, errB)
		} else if code := Code(errors.Join(errA, errB)); code != "23505" {
			t.Errorf("round %d: the loser was told %v", i, errors.Join(errA, errB))
		}
	}
	c.Everywhere("SELECT count(*) FROM lights", "31")
	c.Check()
}
