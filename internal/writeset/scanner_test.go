package writeset

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestScanner: whatever pieces an encoding comes in, the Scanner returns the rows that Decode returns.
func TestScanner(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		w := &Writeset{Tables: []Table{{Schema: "s", Name: "a", Format: FormatBinary, Key: 1}, {Schema: "s", Name: "b", Key: 2}}}
		for range r.IntN(50) {
			w.Rows = append(w.Rows, Row{Table: uint32(r.IntN(2)), Op: Op(1 + r.IntN(4)), Identity: 1 + r.Uint64(), Image: bytes.Repeat([]byte{7}, 1+r.IntN(300))})
		}
		w.AddTableKeys()
		all := w.Append(nil)
		var s Scanner
		var got []Row
		for n := 0; ; n = min(len(all), n+r.IntN(200)) {
			for row, ok := s.Next(all[:n]); ok; row, ok = s.Next(all[:n]) {
				got = append(got, row)
			}
			if n == len(all) {
				break
			}
			if len(got) == len(w.Rows) != s.Done() && len(w.Rows) > 0 {
				t.Fatalf("%d of %d rows, Done says %v", len(got), len(w.Rows), s.Done())
			}
		}
		if !s.Done() || len(got) != len(w.Rows) {
			t.Fatalf("%d of %d rows, Done says %v", len(got), len(w.Rows), s.Done())
		}
		for i, row := range got {
			if x := w.Rows[i]; row.Table != x.Table || row.Op != x.Op || row.Identity != x.Identity || !bytes.Equal(row.Image, x.Image) {
				t.Fatalf("row %d is %v, not %v", i, row, x)
			}
		}
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 1, 's', 1, 't', 1, 9, 1, 2, 3, 4, 5, 6, 7, 8, 1, 'x', 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Scanner
		n := 0
		for _, ok := s.Next(b); ok; _, ok = s.Next(b) {
			n++
		}
		if w, err := Decode(b); err == nil && len(w.Steps) == 0 && (n != len(w.Rows) || !s.Done()) {
			t.Errorf("%d rows of %d", n, len(w.Rows))
		}
	})
}
