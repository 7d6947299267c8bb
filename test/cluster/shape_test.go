package cluster

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestRowsOfNewShape: rows that are written the moment a definition has committed here, before its member knows that it
// is applied and what the table looks like now, are not taken for ones that others cannot store.
func TestRowsOfNewShape(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE shape(id int PRIMARY KEY, n int, filler text)",
		"INSERT INTO shape SELECT g, 0, 'x' FROM generate_series(1, 8) g")
	c.Settled()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for k := range 8 {
		w := c.Connect(1)
		wg.Go(func() {
			for !closed(stop) {
				w.changed(fmt.Sprintf("UPDATE shape SET n = n + 1 WHERE id = %d", k+1))
			}
		})
	}
	for end := time.Now().Add(testSeconds(8)); time.Now().Before(end); {
		s.changed("ALTER TABLE shape ADD COLUMN IF NOT EXISTS extra int")
		s.changed("ALTER TABLE shape DROP COLUMN IF EXISTS extra")
	}
	close(stop)
	wg.Wait()
	c.Check()
}
