package engine

import (
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// lockCount says how many own transactions under way hold a key, per mode.
type lockCount struct{ exclusive, update, shared, share, added int }

func (c lockCount) conflicts(m writeset.Mode) bool {
	if m == writeset.Read { // certification decides; it holds no lock, unless it is of LOCK TABLE
		return false
	}
	if c.exclusive > 0 {
		return true
	}
	changes := m == writeset.Update || m == writeset.Exclusive || m == writeset.Add
	switch {
	case c.update > 0 && m >= writeset.Update, c.added > 0 && m >= writeset.Update && m != writeset.Add:
		return true
	case c.share > 0 && changes, c.shared > 0 && m == writeset.Exclusive:
		return true
	}
	return false
}

// join adds what others hold.
func (c *lockCount) join(o lockCount) {
	c.exclusive += o.exclusive
	c.update += o.update
	c.shared += o.shared
	c.share += o.share
	c.added += o.added
}

func (c *lockCount) add(m writeset.Mode, n int) {
	switch m {
	case writeset.Exclusive:
		c.exclusive += n
	case writeset.Update:
		c.update += n
	case writeset.Shared:
		c.shared += n
	case writeset.Share:
		c.share += n
	case writeset.Add:
		c.added += n
	}
}

// ownKeys are the keys of own transactions under way (E5).
type ownKeys struct {
	counts map[uint64]lockCount
	large  []*own // those with Submission.Keys, which are not in counts
}

// clear reports whether a submission conflicts with nothing that is under way.
func (o *ownKeys) clear(w *own) (ok bool) {
	if w.Kind != KindCertified || w.blind || planted == "own-wait-removed" {
		return true
	}
	ok = true
	w.Writeset.EachKey(func(k writeset.Key) bool {
		c := o.counts[k.Hash]
		for _, l := range o.large {
			c.join(l.Keys.held(k.Hash))
		}
		ok = !c.conflicts(k.Mode)
		if k.Mode == writeset.Read && !w.Snapshot { // of LOCK TABLE
			ok = c.exclusive+c.update+c.shared+c.added == 0
		}
		return ok
	})
	return ok
}

// add notes a submission's keys (1), or takes them back (-1).
func (o *ownKeys) add(w *own, n int) {
	if w.Kind != KindCertified || w.blind {
		return
	}
	if w.Keys != nil {
		if o.large = slices.DeleteFunc(o.large, func(l *own) bool { return l == w }); n > 0 {
			o.large = append(o.large, w)
		}
		return
	}
	w.Writeset.EachKey(func(k writeset.Key) bool {
		c := o.counts[k.Hash]
		c.add(k.Mode, n)
		if c == (lockCount{}) {
			delete(o.counts, k.Hash)
		} else {
			o.counts[k.Hash] = c
		}
		return true
	})
}
