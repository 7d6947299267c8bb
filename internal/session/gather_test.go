package session

import (
	"testing"

	"github.com/tuttidb/tutti/internal/wire"
)

// TestGathered: rows that stand for one changed row each are bounded by what memory bears, whatever the limit of a
// transaction is; what stands for many is bounded by that limit.
func TestGathered(t *testing.T) {
	const mib = 1 << 20
	row := func(bytes int) [][]byte { return [][]byte{make([]byte, bytes)} }
	for _, x := range []struct {
		most, size int // bytes a transaction may change, and of each row
		want       int // after so many bytes it is refused
	}{
		{16 * RowByRowMax, pieceBytes - 1, 2 * RowByRowMax},
		{16 * mib, pieceBytes - 1, 32 * mib},
		{64 * mib, 4 * mib, 128 * mib},
		{2 * RowByRowMax, 16 * mib, 4 * RowByRowMax},
	} {
		refused := 0
		g := gathered{limits: &limits{
			most: x.most, large: func() *wire.SQLError { return nil },
			exceeded: func(most int) *wire.SQLError { refused = most; return wire.Errorf("54000", "%d", most) },
		}}
		r := row(x.size)
		for n := range x.want/x.size + 2 {
			r[0] = r[0][:x.size-n%2] // else it would be as in the row before
			if g.add(r); refused == 0 {
				g.rows = [][][]byte{{nil}}
				continue
			}
			if got := (n + 1) * x.size; got < x.want || got > x.want+x.want/100+2*x.size {
				t.Errorf("of %d, rows of %d bytes are refused after %d, want %d", x.most, x.size, got, x.want)
			}
			break
		}
		if refused == 0 || g.rows != nil {
			t.Errorf("of %d, rows of %d bytes: refused with %d, %d kept", x.most, x.size, refused, len(g.rows))
		}
	}
}
