package plancache

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/session/plan"
)

// Bounds of what sessions tell each other: statements, those of a program, and under how many roles and search_paths
// each.
const (
	FormsMax = 4096
	WhoMax   = 16
)

// Cache is what the sessions of a replica know of statements. Its zero value is empty. Safe for concurrent use.
type Cache struct {
	mu      sync.RWMutex
	catalog any // as of which
	known   map[string][]session.Foreknown

	kinds   [plan.KindsMax]atomic.Uint64
	refused [plan.KindsMax][plan.FactsMax]atomic.Uint64 // the best kinds for them that were refused, and why
}

// CachedPlans is what the sessions know of a statement. It is not changed.
func (c *Cache) CachedPlans(catalog any, key []byte) []session.Foreknown {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.held(catalog, c.known[string(key)])
}

// held is what of what is known of a statement is so as of a catalog. To whom it is known, the same text may mean
// tables of different schemas.
func (c *Cache) held(catalog any, known []session.Foreknown) (held []session.Foreknown) {
	if c.catalog == catalog {
		return known
	}
	for _, k := range known {
		if k.How != nil && session.Holds(c.catalog, catalog, k.How.Target()) {
			held = append(held, k)
		}
	}
	return held
}

// CachePlan adds to that. What definitions concern is forgotten.
func (c *Cache) CachePlan(catalog any, key []byte, k session.Foreknown) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= FormsMax || c.known == nil {
		c.known = map[string][]session.Foreknown{}
	}
	if c.catalog != catalog {
		for key, all := range c.known { // order-free: each by itself
			if c.known[key] = c.held(catalog, all); len(c.known[key]) == 0 {
				delete(c.known, key)
			}
		}
		c.catalog = catalog
	}
	if all := c.known[string(key)]; len(all) < WhoMax &&
		!slices.ContainsFunc(all, func(x session.Foreknown) bool { return x.Who == k.Who }) {
		c.known[string(key)] = append(slices.Clip(all), k)
	}
}

// Count counts how a statement was carried out, at each try.
func (c *Cache) Count(p plan.Plan) {
	c.kinds[p.Kind].Add(1)
	if p.Because != plan.None {
		c.refused[p.Refused][p.Because].Add(1)
	}
}

// Columns are those of Show's answer.
var Columns = []string{"plan", "statements", "refused_because"}

// Show answers SHOW tutti.plans: how often each plan was carried out, and then which better ones were refused, the
// commonest reasons first.
func (c *Cache) Show() session.Result {
	r := session.Result{Tag: "SHOW", Columns: Columns}
	for k := plan.Kind(0); k < plan.KindsMax; k++ {
		r.Rows = append(r.Rows, []string{k.String(), strconv.FormatUint(c.kinds[k].Load(), 10), ""})
	}
	type reason struct {
		n   uint64
		row []string
	}
	var reasons []reason
	for k := plan.Kind(0); k < plan.KindsMax; k++ {
		for f := plan.None + 1; f < plan.FactsMax; f++ {
			if n := c.refused[k][f].Load(); n > 0 {
				reasons = append(reasons, reason{n, []string{k.String(), strconv.FormatUint(n, 10), f.String()}})
			}
		}
	}
	slices.SortStableFunc(reasons, func(a, b reason) int { return cmp.Compare(b.n, a.n) })
	for _, x := range reasons {
		r.Rows = append(r.Rows, x.row)
	}
	return r
}
