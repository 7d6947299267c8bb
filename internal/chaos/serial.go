package chaos

import (
	"math/rand/v2"
	"sync"

	"github.com/tuttidb/tutti/internal/check"
)

// recent holds the tags of the newest parents.
type recent struct {
	mu   sync.Mutex
	tags []int64
}

const recentMax = 64

func (r *recent) put(tag int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tags = append(r.tags, tag)
	if len(r.tags) > recentMax {
		r.tags = r.tags[1:]
	}
}

func (r *recent) pick(rng *rand.Rand) (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tags) == 0 {
		return 0, false
	}
	return r.tags[rng.IntN(len(r.tags))], true
}

// serial inserts rows whose numbers the database hands out, children of them, and deletes
// some that perhaps have children.
func serial(c *client, t *Tx) error {
	parent, ok := c.parents.pick(c.rng)
	switch n := c.rng.IntN(10); {
	case !ok || n < 5:
		return insertParent(c, t)
	case n < 8:
		return insertChild(c, t, parent)
	default:
		return deleteParent(c, t, parent)
	}
}

func insertParent(c *client, t *Tx) error {
	t.Workload, t.Values = wParent, []int64{0, 0}
	insert := func() error {
		return c.row("INSERT INTO chaos_parent(tag) VALUES ($1) RETURNING id, s", []any{t.Tag}, &t.Values[0],
			&t.Values[1])
	}
	var err error
	if c.rng.IntN(2) == 0 {
		err = c.single(t, insert)
	} else {
		err = c.block(t, c.level(), insert)
	}
	if err == nil {
		c.parents.put(t.Tag)
	}
	return err
}

func insertChild(c *client, t *Tx, parent int64) error {
	t.Workload, t.Key = wChild, parent
	insert := func() error {
		_, err := c.exec("INSERT INTO chaos_child VALUES ($1, $2)", t.Tag, parent)
		return err
	}
	if c.rng.IntN(2) == 0 {
		return c.refusal(t, c.single(t, insert), "23503")
	}
	return c.refusal(t, c.block(t, check.ReadCommitted, insert), "23503")
}

func deleteParent(c *client, t *Tx, parent int64) error {
	t.Workload, t.Key = wDelete, parent
	return c.refusal(t, c.single(t, func() error {
		n, err := c.exec("DELETE FROM chaos_parent WHERE tag = $1", parent)
		if err == nil && n == 0 {
			return errNone
		}
		return err
	}), "23503")
}
