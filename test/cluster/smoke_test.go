package cluster

import "testing"

func TestWriteHereReadThere(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE smoke(i int PRIMARY KEY, who text)")
	for _, k := range c.All() {
		c.Eventually(k, "SELECT to_regclass('smoke')::text", "smoke")
		c.Connect(k).Do("INSERT INTO smoke VALUES (" + string(rune('0'+k)) + ", 'x')")
	}
	c.Everywhere("SELECT count(*), sum(i) FROM smoke", "3|6")
	c.Check()
}
