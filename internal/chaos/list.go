package chaos

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/check"
)

const (
	listKeysOpen   = 5  // lists that are appended to at the same time
	listAppendsMax = 24 // then another list takes its place
)

// listKeys deals out lists: few at a time, so that clients meet, and none for long, so that
// reading them stays cheap.
type listKeys struct {
	mu      sync.Mutex
	open    [listKeysOpen]uint64
	appends [listKeysOpen]int
	next    uint64
}

// strictKeys is where the lists of SERIALIZABLE transactions begin, which have a table of their own.
const strictKeys = 1 << 32

// newListKeys deals out lists from first on.
func newListKeys(first uint64) *listKeys {
	l := &listKeys{next: first}
	for i := range l.open {
		l.next++
		l.open[i] = l.next
	}
	return l
}

func (l *listKeys) pick(rng *rand.Rand, appends bool) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := rng.IntN(listKeysOpen)
	key := l.open[i]
	if appends {
		if l.appends[i]++; l.appends[i] >= listAppendsMax {
			l.next++
			l.open[i], l.appends[i] = l.next, 0
		}
	}
	return key
}

// listTable is the table a list is in.
func listTable(key uint64) string {
	if key > strictKeys {
		return "chaos_strict"
	}
	return "chaos_list"
}

func listSerializable(c *client, t *Tx) error { return list(c, t, check.Serializable) }
func listRepeatable(c *client, t *Tx) error   { return list(c, t, check.Snapshot) }
func listCommitted(c *client, t *Tx) error    { return list(c, t, check.ReadCommitted) }

// list reads lists and appends to them.
func list(c *client, t *Tx, level check.Level) error {
	t.Workload, t.Level = wList, level
	keys := c.lists
	if level == check.Serializable {
		keys = c.strict
	}
	var ops []check.ListOp
	for i := range 1 + c.rng.IntN(4) {
		if c.rng.IntN(2) == 0 {
			ops = append(ops, check.ListOp{Key: keys.pick(c.rng, false)})
		} else {
			ops = append(ops, check.ListOp{Key: keys.pick(c.rng, true), Append: uint64(t.Tag)<<3 | uint64(i)})
		}
	}
	// In one order, so that clients of a node do not deadlock.
	slices.SortStableFunc(ops, func(a, b check.ListOp) int { return cmp.Compare(a.Key, b.Key) })
	if len(ops) == 1 && level == check.ReadCommitted {
		return c.single(t, func() error { return c.listOp(t, ops[0]) })
	}
	return c.block(t, level, func() error {
		for _, op := range ops {
			if err := c.listOp(t, op); err != nil {
				return err
			}
		}
		return nil
	})
}

// listOp makes one operation. An append is noted before it is tried, a read when it has
// succeeded.
func (c *client) listOp(t *Tx, op check.ListOp) error {
	if op.Append == 0 {
		err := c.row("SELECT v FROM "+listTable(op.Key)+" WHERE k = $1", []any{int64(op.Key)}, &op.Read)
		if err == nil || errors.Is(err, pgx.ErrNoRows) {
			t.Ops = append(t.Ops, op)
			return nil
		}
		return err
	}
	t.Ops = append(t.Ops, op)
	_, err := c.exec("INSERT INTO "+listTable(op.Key)+
		" AS l VALUES ($1, ARRAY[$2::bigint]) ON CONFLICT (k) DO UPDATE SET v = l.v || excluded.v",
		int64(op.Key), int64(op.Append))
	return err
}
