package session

import "github.com/tuttidb/tutti/internal/semantics"

// cache remembers what recent texts are, in two generations of bounded size. Texts over
// cacheTextMax bytes are classified each time.
type cache struct {
	max      int
	bytes    int // of the texts in now
	now, old map[string][]semantics.Statement
}

const (
	cacheTextMax  = 8 << 10
	cacheBytesMax = 256 << 10 // texts of one generation
)

func newCache(max int) *cache {
	return &cache{max: max, now: map[string][]semantics.Statement{}}
}

func (c *cache) classify(sql string) []semantics.Statement {
	if s, ok := c.now[sql]; ok {
		return s
	}
	s, ok := c.old[sql]
	if !ok {
		s = semantics.Classify(sql)
	}
	if len(sql) <= cacheTextMax {
		c.put(sql, s)
	}
	return s
}

func (c *cache) put(sql string, s []semantics.Statement) {
	if len(c.now) >= c.max || c.bytes+len(sql) > cacheBytesMax {
		c.old, c.now, c.bytes = c.now, map[string][]semantics.Statement{}, 0
	}
	c.now[sql] = s
	c.bytes += len(sql)
}

// writes remembers that a statement thought to read turned out to write.
func (c *cache) writes(sql string) {
	s := append([]semantics.Statement(nil), c.classify(sql)...)
	for i := range s {
		if s[i].Kind == semantics.Read {
			s[i].Kind = semantics.Write
		}
	}
	if len(sql) <= cacheTextMax {
		c.put(sql, s)
	}
}
