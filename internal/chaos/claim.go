package chaos

import (
	"errors"
	"sync/atomic"

	"github.com/tuttidb/tutti/internal/check"
)

type counter struct{ atomic.Int64 }

// errNone says that a statement did nothing, which its client had to expect.
var errNone = errors.New("nothing was done")

// claim inserts a key that clients of other nodes insert at the same time: one wins.
func claim(c *client, t *Tx) error {
	t.Workload, t.Level = wClaim, check.ReadCommitted
	t.Key = 1 + c.claims.Add(1)/int64(c.c.o.Nodes)
	q := "INSERT INTO chaos_claim VALUES ($1, $2)"
	polite := c.rng.IntN(3) == 0
	if polite {
		q += " ON CONFLICT DO NOTHING"
	}
	insert := func() error {
		n, err := c.exec(q, t.Tag, t.Key)
		if err == nil && n == 0 {
			return errNone
		}
		return err
	}
	var err error
	if c.rng.IntN(2) == 0 {
		err = c.single(t, insert)
	} else {
		err = c.block(t, c.level(), insert)
	}
	return c.refusal(t, err, "23505")
}

// refusal sorts out the answer that says why there is no row.
func (c *client) refusal(t *Tx, err error, refused string) error {
	switch {
	case errors.Is(err, errNone):
		t.Outcome, t.Refused = check.Fail, true
		return nil
	case err != nil && code(err) == refused:
		t.Refused = true
	}
	return err
}
