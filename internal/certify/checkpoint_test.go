package certify

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tuttidb/tutti/internal/writeset"
)

// again encodes, decodes and restores what c knows.
func again(t interface{ Fatal(...any) }, c *Certifier) (*Certifier, []byte) {
	p := c.Checkpoint()
	data := p.Append(nil)
	r := writeset.NewReader(data)
	q, err := ReadCheckpoint(r)
	if err == nil {
		err = r.Done()
	}
	if err != nil {
		t.Fatal(err)
	}
	return Restore(Options{KeysMax: c.keysMax}, q), data
}

// TestCheckpoint: a certifier that was replaced by its checkpoint, again and again, decides as one
// that was not, and their checkpoints stay the same (C5).
func TestCheckpoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{KeysMax: rapid.IntRange(1, 40).Draw(t, "keys max")}
		whole, part := New(o), New(o)
		ordinal := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "items") {
			ordinal += rapid.Uint64Range(1, 2).Draw(t, "gap")
			switch what := rapid.IntRange(0, 12).Draw(t, "what"); {
			case what == 0:
				whole.SetBarrier(ordinal, id(ordinal))
				part.SetBarrier(ordinal, id(ordinal))
			case what < 4:
				var data, same []byte
				part, data = again(t, part)
				_, same = again(t, whole)
				if !bytes.Equal(data, same) {
					t.Fatalf("ordinal %d: the checkpoints differ", ordinal)
				}
			default:
				tx := drawTransaction(t, ordinal)
				a, b := whole.Certify(ordinal, tx), part.Certify(ordinal, tx)
				if a != b {
					t.Fatalf("ordinal %d: %+v, after a checkpoint %+v", ordinal, a, b)
				}
			}
			held := rapid.Uint64Range(0, ordinal).Draw(t, "held")
			probe := drawTransaction(t, ordinal)
			seen := func(_ writeset.TxID, o uint64, _ bool) bool { return o <= held }
			if a, b := whole.CheckLocks(probe, held, seen), part.CheckLocks(probe, held, seen); a != b {
				t.Fatalf("ordinal %d, locks since %d: %+v, after a checkpoint %+v", ordinal, held, a, b)
			}
			if whole.Keys() != part.Keys() || whole.Floor() != part.Floor() {
				t.Fatalf("ordinal %d: %d keys from %d, after a checkpoint %d from %d", ordinal, whole.Keys(),
					whole.Floor(), part.Keys(), part.Floor())
			}
		}
	})
}

// TestCheckpointStays: what was taken does not change with the certifier.
func TestCheckpointStays(t *testing.T) {
	z := New(Options{KeysMax: 6})
	commit(t, z, 1, at(0, key(1, update), key(2, shared)))
	commit(t, z, 2, at(1, key(3, exclusive)))
	p := z.Checkpoint()
	data := p.Append(nil)
	z.SetBarrier(3, id(3))
	for o := uint64(4); o < 40; o++ {
		commit(t, z, o, at(o-1, key(o, update), key(o+1, update)))
	}
	if !bytes.Equal(data, p.Append(nil)) {
		t.Error("the checkpoint changed")
	}
}

func TestCheckpointRefused(t *testing.T) {
	for what, p := range map[string]Checkpoint{
		"a mode that is none":      {records: []record{{ordinal: 1, keys: []occurrence{{1, 7}}}}},
		"the same ordinal twice":   {records: []record{{ordinal: 5}, {ordinal: 5}}},
		"an ordinal below another": {records: []record{{ordinal: 5}, {ordinal: 4}}},
		"one that is forgotten":    {floor: 9, records: []record{{ordinal: 9}}},
		"ordinals that wrap":       {floor: 9, records: []record{{ordinal: math.MaxUint64}, {ordinal: 3}}},
	} {
		r := writeset.NewReader(p.Append(nil))
		if _, err := ReadCheckpoint(r); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func BenchmarkCheckpoint(b *testing.B) {
	z := New(Options{})
	for o := uint64(1); o <= 250_000; o++ {
		z.Certify(o, at(o-1, key(o, update), key(o*7, exclusive), key(o%100, shared), key(o*11, update)))
	}
	b.Run("take", func(b *testing.B) {
		for b.Loop() {
			z.Checkpoint()
		}
	})
	p := z.Checkpoint()
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			b.SetBytes(int64(len(p.Append(nil))))
		}
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			Restore(Options{}, p)
		}
	})
}
