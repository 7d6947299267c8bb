package node

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
	formsMax = 4096
	whoMax   = 16
)

// forms is what the sessions of a member know of statements, see session.Foreknown.
type forms struct {
	mu      sync.RWMutex
	catalog any // as of which
	known   map[string][]session.Foreknown
	plans   plans
}

// plans counts how statements were carried out.
type plans struct {
	kinds   [plan.KindsMax]atomic.Uint64
	refused [plan.KindsMax][plan.FactsMax]atomic.Uint64 // the best kinds for them that were refused, and why
}

// count counts a statement, at each try.
func (c *plans) count(p plan.Plan) {
	c.kinds[p.Kind].Add(1)
	if p.Because != plan.None {
		c.refused[p.Refused][p.Because].Add(1)
	}
}

var planColumns = []string{"plan", "statements", "refused_because"}

// show answers SHOW tutti.plans: how often each plan was carried out, and then which better ones were refused, the
// commonest reasons first.
func (p *plans) show() session.Result {
	r := session.Result{Tag: "SHOW", Columns: planColumns}
	for k := plan.Kind(0); k < plan.KindsMax; k++ {
		r.Rows = append(r.Rows, []string{k.String(), strconv.FormatUint(p.kinds[k].Load(), 10), ""})
	}
	type reason struct {
		n   uint64
		row []string
	}
	var reasons []reason
	for k := plan.Kind(0); k < plan.KindsMax; k++ {
		for f := plan.None + 1; f < plan.FactsMax; f++ {
			if n := p.refused[k][f].Load(); n > 0 {
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

// CachedPlans is what the sessions know of a statement. It is not changed.
func (h *host) CachedPlans(catalog any, key []byte) []session.Foreknown {
	f := &h.n.forms
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.catalog != catalog {
		return nil
	}
	return f.known[string(key)]
}

// CachePlan adds to that. Definitions end it all.
func (h *host) CachePlan(catalog any, key []byte, k session.Foreknown) {
	f := &h.n.forms
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.catalog != catalog || len(f.known) >= formsMax || f.known == nil {
		f.catalog, f.known = catalog, map[string][]session.Foreknown{}
	}
	if all := f.known[string(key)]; len(all) < whoMax &&
		!slices.ContainsFunc(all, func(x session.Foreknown) bool { return x.Who == k.Who }) {
		f.known[string(key)] = append(slices.Clip(all), k)
	}
}
