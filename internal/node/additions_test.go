package node

import (
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// byte1 is a record whose image is one byte: what it holds, or what is added.
type byte1 struct{}

func (byte1) Read(image []byte) ([]int64, []byte, bool) { return []int64{int64(image[0])}, nil, true }

func (byte1) Sum(values []int64, image []byte) bool {
	values[0] += int64(image[0])
	return values[0] < 100
}

func changes(op writeset.Op, image ...byte) *writeset.Writeset {
	return &writeset.Writeset{
		Tables: []writeset.Table{{Schema: "s", Name: "t", Key: 50}},
		Rows:   []writeset.Row{{Op: op, Identity: 7, Image: image}},
	}
}

// TestAdditionsAreSeenInOrder: what own sessions and others have done to a row in one group counts in the order's
// order. Nothing is known of rows that somebody asks to lock, and of none if that is switched off.
func TestAdditionsAreSeenInOrder(t *testing.T) {
	h := &host{n: &life{core: core.New(core.Options{})}}
	a, what := &h.n.additions, session.Adds{Row: "r", Name: "t"}
	row := session.Counted{Row: "r", Identity: 7, Values: []int64{10}, At: 5, Columns: byte1{}}
	if h.Learn(row); a.values != nil {
		t.Error("it is switched off, and something is known")
	}
	a.max = 10
	h.Learn(row)
	a.sights = []sight{{9, changes(writeset.OpAdd, 1)}, {7, changes(writeset.OpUpdate, 20)}}
	a.sawGroup([]engine.Task{
		{Ordinal: 6, Writeset: changes(writeset.OpAdd, 5)}, {Ordinal: 8, Writeset: changes(writeset.OpAdd, 2)},
		{Ordinal: 10, Writeset: changes(writeset.OpAdd, 3)}, {Ordinal: 11},
	})
	if c, ok := h.Known(what); !ok || !slices.Equal(c.Values, []int64{26}) || c.At != 10 {
		t.Errorf("%+v", c)
	}
	if len(a.sights) != 0 {
		t.Errorf("%d sights are left", len(a.sights))
	}
	for _, c := range []struct {
		locked string
		known  bool
	}{{"t", false}, {"", false}, {"u", true}} {
		locker := &host{n: h.n}
		locker.locks([]string{c.locked})
		if _, ok := h.Known(what); ok != c.known {
			t.Errorf("%+v", c)
		}
		locker.endAdditions()
	}
}
