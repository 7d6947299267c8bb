package cluster

import (
	"testing"
	"time"
)

// TestCatalogMaintainedBesideDefiners: a VACUUM FULL of a catalog that waits for a block with a definition keeps
// what others commit from being applied only until it is noticed. It is tried again a few times, and may then be told
// that it has lost.
func TestCatalogMaintainedBesideDefiners(t *testing.T) {
	c := use(t)
	a, b, v, looks := c.Connect(1), c.Connect(2), c.Connect(1), c.Connect(1)
	a.Do("CREATE TABLE maintained (id int PRIMARY KEY)")
	c.Settled()
	table := looks.Get("SELECT 'maintained'::regclass::oid")
	v.Do("VACUUM FULL pg_class") // whatever was known of pg_class is forgotten
	a.Do("BEGIN", "CREATE TABLE maintained_beside (id int)")
	done := make(chan error, 1)
	go func() { done <- v.Try("VACUUM FULL pg_class") }()
	// What looks reads no table: it would wait for the VACUUM.
	until := func(sql, want string) {
		t.Helper()
		for began := time.Now(); looks.Get(sql) != want; time.Sleep(20 * time.Millisecond) {
			if time.Since(began) > seconds(20*time.Second) {
				t.Fatalf("%s is not %s", sql, want)
			}
		}
	}
	until("SELECT count(*) FROM pg_lock_status() WHERE relation = 1259 AND mode = 'AccessExclusiveLock'", "1")
	for range 5 {
		b.Do("INSERT INTO maintained SELECT count(*) FROM maintained")
	}
	until("SELECT pg_stat_get_tuples_inserted("+table+")", "5")
	a.Do("ROLLBACK")
	select {
	case err := <-done:
		if err != nil && Code(err) != "40001" {
			t.Errorf("VACUUM FULL is told %v", err)
		}
	case <-time.After(seconds(20 * time.Second)):
		t.Error("VACUUM FULL does not end")
	}
	c.Settled()
}
