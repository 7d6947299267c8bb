package chaos

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/check"
)

// drawRows are the rows of which clients draw numbers.
const drawRows = 40

// drawNumber takes the next number of a row, as applications do that have no sequence: it changes the row and looks at
// what that has made of it. Only that nobody else can have changed the row between that and COMMIT keeps two from
// drawing one number. It notes the number in a table without a key.
func drawNumber(c *client, t *Tx) error {
	id := int64(1 + c.rng.IntN(drawRows))
	t.Workload, t.Level, t.Key, t.Values = wDraw, check.ReadCommitted, id, []int64{0}
	const prepared = pgx.QueryExecModeCacheStatement // what is not is looked at by the backend
	return c.block(t, check.ReadCommitted, func() error {
		n, err := c.exec("UPDATE chaos_drawn SET n = n + 1, last = $2 WHERE id = $1", prepared, id, t.Tag)
		if err == nil && n != 1 {
			err = fmt.Errorf("row %d is not there", id)
		}
		if err == nil {
			err = c.row("SELECT n FROM chaos_drawn WHERE id = $1", []any{prepared, id}, &t.Values[0])
		}
		if err == nil && c.rng.IntN(8) == 0 {
			err = c.row("SELECT n + 0 FROM chaos_drawn WHERE id = $1", []any{id}, &t.Values[0])
		}
		if err == nil {
			_, err = c.exec("INSERT INTO chaos_draw (tag, id, n, at) VALUES ($1, $2, $3, CURRENT_TIMESTAMP)", prepared,
				t.Tag, id, t.Values[0])
		}
		return err
	})
}

// draws: of each row the numbers are those from 1 to what it holds, each once, and each the one that its client was
// told.
func (j *judge) draws(s *State) {
	j.present(s, wDraw, s.Draws, nil)
	most, count, owner := map[int64]int64{}, map[int64]int64{}, map[[2]int64]int64{}
	for _, row := range s.Drawn {
		most[row[0]] = row[1]
	}
	for _, row := range s.Draws {
		tag, id, n := row[0], row[1], row[2]
		if other, ok := owner[[2]int64{id, n}]; ok {
			j.add("drawn twice", "node%d: %d and %d have both drawn number %d of row %d", s.Node, other, tag, n, id)
		}
		owner[[2]int64{id, n}] = tag
		if count[id]++; n < 1 || n > most[id] {
			j.add("drawn twice", "node%d: %d has drawn number %d of row %d, which has %d", s.Node, tag, n, id, most[id])
		}
		if t := j.fate[wDraw][tag]; t != nil && (t.Values[0] != n || t.Key != id) {
			j.add("wrong row", "node%d holds draw %d with number %d of row %d, its client was told %d of row %d",
				s.Node, tag, n, id, t.Values[0], t.Key)
		}
	}
	for id, n := range most { // order-free: what is added is told in no order
		if count[id] != n {
			j.add("drawn twice", "node%d: row %d has %d, and %d numbers were drawn", s.Node, id, n, count[id])
		}
	}
}
