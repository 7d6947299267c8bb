package locks

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Checkpoint is a table at one moment. It does not change when the table goes on.
type Checkpoint struct {
	rows  []Held
	edges []edge
}

// Checkpoint returns what is held now.
func (t *Table) Checkpoint() Checkpoint {
	c := Checkpoint{rows: t.List()}
	for w, list := range t.blocked { // order-free: sorted below
		for _, b := range list {
			c.edges = append(c.edges, edge{w, b})
		}
	}
	slices.SortStableFunc(c.edges, func(a, b edge) int { return a.waiter.compare(b.waiter) })
	return c
}

// Empty reports whether nobody holds anything.
func (c *Checkpoint) Empty() bool { return len(c.rows)+len(c.edges) == 0 }

// Restore returns the table of which the checkpoint was taken.
func Restore(c Checkpoint) *Table {
	t := New()
	for _, r := range c.rows {
		e := t.keys[r.Lock.Key]
		if e == nil {
			e = &entry{}
			t.keys[r.Lock.Key] = e
		}
		if r.Granted {
			t.grant(r.Session, r.Lock)
			continue
		}
		e.queue = append(e.queue, holding{r.Session, r.Lock.Mode})
		t.waiting[r.Session] = with(t.waiting[r.Session], r.Lock)
	}
	for _, e := range c.edges {
		t.blocked[e.waiter] = append(t.blocked[e.waiter], e.blocker)
	}
	if planted == "checkpoint-without-locks" {
		return New()
	}
	return t
}

// Append encodes the checkpoint: the number of rows, per row byte granted, the lock as in a request, uvarints
// member, incarnation and number of the session; then the number of edges, per edge two sessions.
func (c *Checkpoint) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.rows)))
	for _, r := range c.rows {
		granted := byte(0)
		if r.Granted {
			granted = 1
		}
		dst = appendSession(appendLock(append(dst, granted), r.Lock), r.Session)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.edges)))
	for _, e := range c.edges {
		dst = appendSession(appendSession(dst, e.waiter), e.blocker)
	}
	return dst
}

func appendSession(dst []byte, s Session) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.Member))
	return binary.AppendUvarint(binary.AppendUvarint(dst, s.Incarnation), s.Number)
}

func readSession(r *writeset.Reader) Session {
	return Session{uint32(r.Uvarint()), r.Uvarint(), r.Uvarint()}
}

const (
	sessionBytesMin = 3
	rowBytesMin     = 1 + lockBytesMin + sessionBytesMin
)

// ReadCheckpoint takes an encoded checkpoint off r. The caller looks at r for bytes that are missing.
func ReadCheckpoint(r *writeset.Reader) (c Checkpoint, err error) {
	if n := r.Count(rowBytesMin); n > 0 {
		c.rows = make([]Held, n)
	}
	seen := map[Held]bool{}
	for i := range c.rows {
		h := Held{Granted: r.Byte() == 1}
		if h.Lock, err = readLock(r); err != nil {
			return c, err
		}
		h.Session = readSession(r)
		switch {
		case i > 0 && (h.Lock.Key.compare(c.rows[i-1].Lock.Key) < 0 || h.Lock.Key == c.rows[i-1].Lock.Key &&
			h.Granted && !c.rows[i-1].Granted):
			return c, fmt.Errorf("locks: checkpoint: row %d is not in order", i)
		case seen[h]:
			return c, fmt.Errorf("locks: checkpoint: row %d says again what another says", i)
		}
		c.rows[i], seen[h] = h, true
	}
	if n := r.Count(2 * sessionBytesMin); n > 0 {
		c.edges = make([]edge, n)
	}
	for i := range c.edges {
		c.edges[i] = edge{readSession(r), readSession(r)}
		if i > 0 && c.edges[i].waiter.compare(c.edges[i-1].waiter) < 0 {
			return c, fmt.Errorf("locks: checkpoint: edge %d is not in order", i)
		}
	}
	return c, nil
}
