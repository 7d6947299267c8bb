package session

import (
	"bytes"

	"github.com/tuttidb/tutti/internal/wire"
)

// largeBytes is how much a session keeps of what its transaction changes before that is a large one, of which a node
// keeps few at once.
const largeBytes = 16 << 20

// RowByRowMax is how many bytes a transaction may change, at most, of what is captured, or returned, row by row, and of
// what is not carried out in pieces: each row is kept by itself, which takes several times as much memory.
const RowByRowMax = 256 << 20

// pieceBytes is from how many bytes on a row of an answer is none that stands for one changed row alone, most likely.
const pieceBytes = 64 << 10

// gathered are rows of an answer, as long as they can be of a transaction within its limit. What is as in the row
// before does not count, because a writeset has that once; what else it has less of, of a narrow row, is within twice.
// Of what is refused nothing is kept, but it is read to its end.
type gathered struct {
	limits  *limits
	rows    [][][]byte
	bytes   int
	single  int // of them in rows that stand for one changed row
	refused *wire.SQLError
}

// limits are those of what a transaction changes.
type limits struct {
	most     int                           // bytes
	room     func(int) []byte              // an empty slice for so many
	large    func() *wire.SQLError         // is told that there is much; see Order.BeginLarge
	exceeded func(most int) *wire.SQLError // is told that there is too much, and says so
}

// read takes a row as it came, and copies it.
func (g *gathered) read(body []byte) error {
	if g.refused != nil {
		return nil
	}
	row, err := wire.DecodeDataRow(nil, append(g.limits.room(len(body)), body...))
	g.add(row)
	return err
}

// add takes a row.
func (g *gathered) add(row [][]byte) {
	if g.refused != nil {
		return
	}
	before, size := g.bytes, 0
	for i, v := range row {
		if n := len(g.rows); n == 0 || i >= len(g.rows[n-1]) || !bytes.Equal(v, g.rows[n-1][i]) {
			size += len(v)
		}
	}
	if g.bytes += size; size < pieceBytes {
		g.single += size
	}
	g.rows = append(g.rows, row)
	if before <= largeBytes && g.bytes > largeBytes {
		g.refused = g.limits.large()
	}
	if byRow := min(g.limits.most, RowByRowMax); g.refused == nil && g.single > 2*byRow {
		g.refused = g.limits.exceeded(byRow)
	}
	if g.refused == nil && g.bytes > 2*g.limits.most {
		g.refused = g.limits.exceeded(g.limits.most)
	}
	if g.refused != nil {
		g.rows = nil
	}
}
