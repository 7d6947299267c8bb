package chaos

import (
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/check"
)

// hitRows are the rows that all clients hit. Each has a twin, and a slot, that blocks hit with it.
const hitRows = 3

// hit adds to a row by a statement that need not see it, which all members carry out alike; now and then it has to see
// it, or there is none.
func hit(c *client, t *Tx) error {
	if c.rng.IntN(3) == 0 {
		return drawNumber(c, t)
	}
	id, by := 1+c.rng.IntN(hitRows), 1+c.rng.Int64N(1<<40)
	if c.rng.IntN(10) == 0 {
		id = 100
	}
	t.Workload, t.Level, t.Values = wHit, check.ReadCommitted, []int64{int64(id), by}
	update := func() error {
		n, err := c.exec("UPDATE chaos_hit SET n = n + $1, last = $2 WHERE id = $3", by, t.Tag, id)
		if err == nil && n == 0 {
			return errNone
		}
		return err
	}
	switch c.rng.IntN(10) {
	case 0:
	case 1, 2, 3, 4:
		t.Values = append(t.Values, 1)
		return c.refusal(t, c.block(t, check.ReadCommitted, func() error { return hitAll(c, t, id, update) }), "")
	default:
		return c.refusal(t, c.single(t, update), "")
	}
	return c.refusal(t, c.block(t, check.ReadCommitted, func() error {
		var seen int64
		if err := c.row("SELECT count(*) FROM (SELECT FROM chaos_hit WHERE id = $1 FOR UPDATE) AS x", []any{id},
			&seen); err != nil {
			return err
		}
		time.Sleep(time.Duration(c.rng.IntN(3)) * time.Millisecond)
		return update()
	}), "")
}

// hitAll hits a row, its twin and its slot, by statements of which all can be carried out by all members alike, or
// none.
func hitAll(c *client, t *Tx, id int, update func() error) error {
	if c.rng.IntN(4) == 0 {
		var last int64
		if err := c.row("SELECT last FROM chaos_slot WHERE id = $1", []any{1}, &last); err != nil {
			return err
		}
	}
	one := func(sql string, args ...any) error {
		n, err := c.exec(sql, args...)
		if err == nil && n != 1 { // READ COMMITTED has waited for who deletes it, and does not see it made anew
			return errNone
		}
		return err
	}
	err := update()
	if err == nil {
		err = one("UPDATE chaos_hit SET n = n + $1, last = $2 WHERE id = $3", t.Values[1], t.Tag, id+hitRows)
	}
	switch {
	case err != nil:
		return err
	case c.rng.IntN(2) == 0:
		return one("UPDATE chaos_slot SET last = $1 WHERE id = $2", t.Tag, id)
	}
	if err := one("DELETE FROM chaos_slot WHERE id = $1", id); err != nil {
		return err
	}
	return one("INSERT INTO chaos_slot (id, last) VALUES ($1, $2)", id, t.Tag)
}

// unknownMax is of how many hits that may have happened all combinations are looked at.
const unknownMax = 16

// hits: each row holds what was added to it, of what nobody knows any part, and the tag of one that was not refused;
// twins what blocks have added, and their slots the tag of the same.
func (j *judge) hits(s *State) {
	for _, row := range s.Hits {
		id, rest := row[0], row[1]
		var unknown []int64
		for _, t := range j.fate[wHit] { // order-free: a sum
			switch {
			case !t.hits(id):
			case t.Outcome == check.OK:
				rest -= t.Values[1]
			case t.Outcome == check.Unknown:
				unknown = append(unknown, t.Values[1])
			}
		}
		slices.Sort(unknown)
		if !partOf(rest, unknown) {
			j.add("hits", "node%d: row %d has %d, which is %d more than was acknowledged, and no part of what may "+
				"have been: %v", s.Node, id, row[1], rest, unknown)
		}
		if t := j.fate[wHit][row[2]]; row[2] != 0 && (t == nil || t.Outcome == check.Fail || !t.hits(id)) {
			j.add("hits", "node%d: row %d was last hit by %d, which did not", s.Node, id, row[2])
		}
	}
	for _, slot := range s.Slots {
		for _, row := range s.Hits {
			if row[0] == slot[0]+hitRows && row[2] != slot[1] {
				j.add("hits", "node%d: row %d was last hit by %d, and its slot by %d", s.Node, row[0], row[2], slot[1])
			}
		}
	}
}

// hits reports whether a transaction hits a row, or would have.
func (t *Tx) hits(id int64) bool {
	return t.Values[0] == id || len(t.Values) > 2 && t.Values[0]+hitRows == id
}

// partOf reports whether some of the numbers, none of which is negative, come to a sum; of many only whether they may.
func partOf(sum int64, numbers []int64) bool {
	if len(numbers) > unknownMax {
		total := int64(0)
		for _, n := range numbers {
			total += n
		}
		return sum >= 0 && sum <= total
	}
	if sum == 0 || len(numbers) == 0 {
		return sum == 0
	}
	return partOf(sum, numbers[1:]) || partOf(sum-numbers[0], numbers[1:])
}
