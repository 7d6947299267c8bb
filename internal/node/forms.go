package node

import (
	"slices"
	"sync"

	"github.com/tuttidb/tutti/internal/session"
)

// Bounds of what sessions tell each other: statements, those of a program, and under how many roles and search_paths each.
const (
	formsMax = 4096
	whoMax   = 16
)

// forms is what the sessions of a member know of statements, see session.Foreknown.
type forms struct {
	mu      sync.RWMutex
	catalog any // as of which
	known   map[string][]session.Foreknown
}

// Foreknown is what the sessions know of a statement. It is not changed.
func (h *host) Foreknown(catalog any, key []byte) []session.Foreknown {
	f := &h.n.forms
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.catalog != catalog {
		return nil
	}
	return f.known[string(key)]
}

// Foreknow adds to that. Definitions end it all.
func (h *host) Foreknow(catalog any, key []byte, k session.Foreknown) {
	f := &h.n.forms
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.catalog != catalog || len(f.known) >= formsMax || f.known == nil {
		f.catalog, f.known = catalog, map[string][]session.Foreknown{}
	}
	if all := f.known[string(key)]; len(all) < whoMax && !slices.ContainsFunc(all, func(x session.Foreknown) bool { return x.Who == k.Who }) {
		f.known[string(key)] = append(slices.Clip(all), k)
	}
}
