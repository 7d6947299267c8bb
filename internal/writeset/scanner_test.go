package writeset

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestScanner: whatever pieces an encoding comes in, the Scanner returns the rows that Decode returns.
func TestScanner(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		w := &Writeset{Tables: []Table{{Schema: "s", Name: "a", Format: FormatBinary, Key: 1},
			{Schema: "s", Name: "b", Key: 2}}}
		for range r.IntN(50) {
			w.Rows = append(w.Rows, Row{Table: uint32(r.IntN(2)), Op: Op(1 + r.IntN(4)), Identity: 1 + r.Uint64(),
				Image: bytes.Repeat([]byte{7}, 1+r.IntN(300))})
		}
		w.AddTableKeys()
		if r.IntN(2) == 0 {
			w.AddTableLocks([]TableLock{{Table: w.Tables[1], Mode: ExclusiveTable}})
		}
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
			if x := w.Rows[i]; row.Table != x.Table || row.Op != x.Op || row.Identity != x.Identity ||
				!bytes.Equal(row.Image, x.Image) {
				t.Fatalf("row %d is %v, not %v", i, row, x)
			}
		}
	}
}

// TestScannerOfSteps: the same for the steps of a transaction that changes the schema.
func TestScannerOfSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		w := &Writeset{Tables: []Table{{Schema: "s", Name: "a", Key: 1}}, Shared: r.IntN(2) == 0,
			Barrier: r.IntN(2) == 0, NewestNames: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			w.Held = []uint32{0}
		}
		for i := range r.IntN(30) {
			w.Keys = append(w.Keys, Key{Hash: uint64(i), Mode: Exclusive})
		}
		var want []string
		for i := range 1 + r.IntN(5) {
			if r.IntN(2) == 0 {
				w.Steps = append(w.Steps, Step{Definition: bytes.Repeat([]byte{byte('a' + i)}, 1+r.IntN(300))})
				want = append(want, string(w.Steps[i].Definition))
				continue
			}
			rows := &Writeset{Tables: []Table{{Schema: "s", Name: "a", Format: FormatBinary, Key: 1},
				{Schema: "s", Name: "b", Key: 2}}}
			for range 1 + r.IntN(20) {
				rows.Rows = append(rows.Rows, Row{Table: uint32(r.IntN(2)), Op: OpInsert,
					Image: bytes.Repeat([]byte{byte('A' + i)}, 1+r.IntN(300))})
				want = append(want, rows.Tables[rows.Rows[len(rows.Rows)-1].Table].Name+string(rows.Rows[len(rows.Rows)-1].Image))
			}
			rows.AddTableKeys()
			w.Steps = append(w.Steps, Step{Rows: rows})
		}
		all := w.Append(nil)
		var s Scanner
		var got []string
		for n := 0; ; n = min(len(all), n+r.IntN(200)) {
			for more := true; more; {
				row, ok := s.Next(all[:n])
				if ok {
					got = append(got, s.Tables[row.Table].Name+string(row.Image))
					continue
				}
				var definition []byte
				if definition, more = s.Definition(all[:n]); more {
					got = append(got, string(definition))
				}
			}
			if n == len(all) {
				break
			}
			if s.Done() && len(got) < len(want) || s.At() > n {
				t.Fatalf("%d of %d, Done says %v, %d of %d bytes", len(got), len(want), s.Done(), s.At(), n)
			}
		}
		if !s.Done() || !slices.Equal(got, want) || s.Shared != w.Shared || s.At() > len(all) {
			t.Fatalf("%d of %d, Done says %v", len(got), len(want), s.Done())
		}
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 1, 's', 1, 't', 1, 9, 1, 2, 3, 4, 5, 6, 7, 8, 1, 'x', 0})
	f.Add((&Writeset{Tables: []Table{{Schema: "s", Name: "a", Key: 1}}, Held: []uint32{0},
		Keys: []Key{{Hash: 1, Mode: Exclusive}}, Steps: []Step{{Definition: []byte("d")},
			{Rows: &Writeset{Tables: []Table{{Schema: "s", Name: "a", Key: 1}},
				Rows: []Row{{Op: OpInsert, Image: []byte("x")}}}}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Scanner
		rows, definitions := 0, 0
		for more := true; more; {
			for _, ok := s.Next(b); ok; _, ok = s.Next(b) {
				rows++
			}
			if _, more = s.Definition(b); more {
				definitions++
			}
		}
		w, err := Decode(b)
		if err != nil {
			return
		}
		for _, step := range w.Steps {
			if step.Rows != nil {
				rows -= len(step.Rows.Rows)
			} else {
				definitions--
			}
		}
		if rows != len(w.Rows) || definitions != 0 || !s.Done() {
			t.Errorf("%d rows of %d and %d definitions too many, Done says %v", rows, len(w.Rows), definitions,
				s.Done())
		}
	})
}
