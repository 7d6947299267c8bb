package writeset

import (
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// full uses every operation, mode and format.
func full() *Writeset {
	return &Writeset{
		Tables: []Table{
			{Schema: "public", Name: "account", Format: FormatBinary, Key: 0x1122334455667788},
			{Schema: "s x", Name: "Größe", Format: FormatText, Key: 1},
		},
		Rows: []Row{
			{Table: 0, Op: OpInsert, Identity: 0xfedcba9876543210, Image: []byte("\x00\x01\xff")},
			{Table: 0, Op: OpUpdate, Identity: 2, Image: []byte("u")},
			{Table: 1, Op: OpTruncate},
			{Table: 1, Op: OpInsert, Image: []byte("(1,no key)")},
			{Table: 1, Op: OpDelete, Identity: 3, Image: []byte("(1)")},
			{Table: 1, Op: OpReplace, Identity: 4, Image: []byte(strings.Repeat("x", 200))},
		},
		Keys: []Key{
			{Hash: 5, Mode: Shared, Table: 0},
			{Hash: 6, Mode: Update, Table: 0},
			{Hash: 7, Mode: Exclusive, Table: 1},
		},
	}
}

func goldenBytes(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	golden, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return golden
}

// TestGolden: bytes written by version 1 must stay readable for ever. Never change the
// file; a new version gets a new one (W4).
func TestGolden(t *testing.T) {
	golden := goldenBytes(t, "v1.hex")
	w, err := Decode(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(w, full()) {
		t.Errorf("decoded to %+v", w)
	}
	if got := full().Append(nil); !reflect.DeepEqual(got, golden) {
		t.Errorf("encoded to\n%x, want\n%x", got, golden)
	}
}

// TestEveryCutFails: no prefix of an encoding is an encoding (W3).
func TestEveryCutFails(t *testing.T) {
	b := full().Append(nil)
	for i := range b {
		if _, err := Decode(b[:i]); !errors.Is(err, ErrMalformed) {
			t.Errorf("the first %d of %d bytes: %v", i, len(b), err)
		}
	}
	if _, err := Decode(append(b, 0)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a trailing byte: %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, change := range map[string]func(*Writeset){
		"row of no table":      func(w *Writeset) { w.Rows[0].Table = 2 },
		"key of no table":      func(w *Writeset) { w.Keys[0].Table = 2 },
		"an addition to none":  func(w *Writeset) { w.Rows[0].Op, w.Rows[0].Identity = OpAdd, 0 },
		"an addition in text":  func(w *Writeset) { w.Rows[4].Op = OpAdd },
		"a lock of no row":     func(w *Writeset) { w.Rows[1].Op, w.Rows[1].Identity = OpLock, 0 },
		"a key shared so":      func(w *Writeset) { w.Keys[0].Mode = Share },
		"format 2":             func(w *Writeset) { w.Tables[0].Format = 2 },
		"nameless table":       func(w *Writeset) { w.Tables[0].Name = "" },
		"table of no schema":   func(w *Writeset) { w.Tables[0].Schema = "" },
		"update of no row":     func(w *Writeset) { w.Rows[1].Identity = 0 },
		"replace of no row":    func(w *Writeset) { w.Rows[4].Op, w.Rows[4].Identity = OpReplace, 0 },
		"truncate with image":  func(w *Writeset) { w.Rows[2].Image = []byte("x") },
		"insert without image": func(w *Writeset) { w.Rows[0].Image = nil },
	} {
		w := full()
		change(w)
		if w.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
		if name == "a key shared so" {
			continue // it has no encoding of its own
		}
		if _, err := Decode(w.Append(nil)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: decoded with %v", name, err)
		}
	}
	if _, err := Decode([]byte{2, 0, 0, 0}); !errors.Is(err, ErrMalformed) {
		t.Errorf("version 2: %v", err)
	}
	// A count that could not fit must fail before anything is allocated for it.
	huge := []byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}
	if n := testing.AllocsPerRun(1, func() { _, _ = Decode(huge) }); n > 10 {
		t.Errorf("a huge count cost %v allocations", n)
	}
}

func drawWriteset(t *rapid.T) *Writeset {
	w := &Writeset{}
	n := rapid.IntRange(0, 3).Draw(t, "tables")
	for range n {
		w.Tables = append(w.Tables, Table{
			Schema: rapid.StringN(1, 5, 20).Draw(t, "schema"), Name: rapid.StringN(1, 5, 20).Draw(t, "name"),
			Format: Format(rapid.IntRange(0, 1).Draw(t, "format")), Key: rapid.Uint64().Draw(t, "key"),
		})
	}
	if n == 0 {
		return w
	}
	ops := rapid.IntRange(1, 8)
	if rapid.Bool().Draw(t, "blind") {
		ops = rapid.Just(int(OpSet))
	}
	for range rapid.IntRange(0, 5).Draw(t, "rows") {
		r := Row{Table: uint32(rapid.IntRange(0, n-1).Draw(t, "table")), Op: Op(ops.Draw(t, "op"))}
		if r.Op >= OpAdd {
			w.Tables[r.Table].Format = FormatBinary
		}
		if r.Op != OpTruncate {
			r.Identity = rapid.Uint64Range(1, 1<<64-1).Draw(t, "identity")
			r.Image = rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "image")
		}
		if r.Op == OpSet {
			r.Image = append([]byte{1, byte(rapid.IntRange(0, 127).Draw(t, "column"))}, r.Image...)
		}
		w.Rows = append(w.Rows, r)
	}
	for range rapid.IntRange(0, 5).Draw(t, "keys") {
		w.Keys = append(w.Keys, Key{
			Hash: rapid.Uint64().Draw(t, "hash"), Mode: Mode(rapid.IntRange(1, 3).Draw(t, "mode")),
			Table: uint32(rapid.IntRange(0, n-1).Draw(t, "table")),
		})
	}
	return w
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWriteset(t)
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "prefix")
		b := w.Append(append([]byte(nil), prefix...))
		got, err := Decode(b[len(prefix):])
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, w) {
			t.Fatalf("%+v became %+v", w, got)
		}
	})
}

// FuzzDecode: no input panics, and what decodes encodes to something that decodes to the
// same (the bytes may differ: varints have longer forms).
func FuzzDecode(f *testing.F) {
	f.Add(full().Append(nil))
	f.Add((&Writeset{}).Append(nil))
	f.Add([]byte{})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		again, err := Decode(w.Append(nil))
		if err != nil || !reflect.DeepEqual(again, w) {
			t.Fatalf("%+v became %+v, %v", w, again, err)
		}
		w.EachKey(func(k Key) bool { return k.Mode.Conflicts(Exclusive) })
	})
}

func TestModesConflictLikeRowLocks(t *testing.T) {
	// PostgreSQL's table "Conflicting Row-Level Locks": KEY SHARE, SHARE, NO KEY UPDATE, UPDATE.
	want := map[[2]Mode]bool{
		{Shared, Shared}: false, {Shared, Update}: false, {Shared, Exclusive}: true,
		{Update, Update}: true, {Update, Exclusive}: true, {Exclusive, Exclusive}: true,
		{Share, Shared}: false, {Share, Share}: false, {Share, Update}: true, {Share, Exclusive}: true,
	}
	for p, c := range want {
		if p[0].Conflicts(p[1]) != c || p[1].Conflicts(p[0]) != c {
			t.Errorf("%v: want %v", p, c)
		}
	}
}

func TestAddLocks(t *testing.T) {
	w := &Writeset{Tables: []Table{{Schema: "s", Name: "t", Key: 1}},
		Rows: []Row{{Op: OpUpdate, Identity: 5, Image: []byte("5")}}}
	lock := func(table uint64, op Op, id uint64) Lock {
		return Lock{Table: Table{Schema: "s", Name: "t", Key: table}, Op: op, Identity: id, Image: []byte("k")}
	}
	w.AddLocks([]Lock{lock(1, OpLock, 5), lock(1, OpShare, 6), lock(1, OpLock, 6), lock(2, OpShare, 7),
		lock(2, OpShare, 8)})
	want := []Row{{Op: OpUpdate, Identity: 5, Image: []byte("5")}, {Op: OpLock, Identity: 6, Image: []byte("k")},
		{Table: 1, Op: OpShare, Identity: 7, Image: []byte("k")},
		{Table: 1, Op: OpShare, Identity: 8, Image: []byte("k")}}
	if !reflect.DeepEqual(w.Rows, want) || len(w.Tables) != 2 ||
		!reflect.DeepEqual(w.Keys, []Key{{Hash: 2, Mode: Shared, Table: 1}}) || w.Validate() != nil {
		t.Errorf("%+v", w)
	}
	read := &Writeset{Rows: w.Rows[:1:1], Tables: w.Tables[:1:1]}
	read.AddTableKeys()
	read.AddRead(Table{Schema: "s", Name: "read", Key: 3}) // which keeps nobody from the table
	read.AddLocks([]Lock{lock(3, OpShare, 9), lock(3, OpShare, 10)})
	keys := []Key{{Hash: 1, Mode: Shared}, {Hash: 3, Table: 1}, {Hash: 3, Mode: Shared, Table: 1}}
	if !reflect.DeepEqual(read.Keys, keys) || read.Validate() != nil {
		t.Errorf("%+v", read.Keys)
	}
	steps := &Writeset{Tables: w.Tables[:1:1], Steps: []Step{{Definition: []byte("d")}}}
	steps.AddLocks([]Lock{lock(1, OpShare, 6), lock(2, OpLock, 7)})
	rows := steps.Steps[len(steps.Steps)-1].Rows
	if len(steps.Rows) != 0 || len(steps.Steps) != 2 || len(rows.Keys) != 0 || steps.Validate() != nil ||
		!reflect.DeepEqual(rows.Rows, []Row{{Op: OpShare, Identity: 6, Image: []byte("k")},
			{Table: 1, Op: OpLock, Identity: 7, Image: []byte("k")}}) {
		t.Errorf("%+v", steps)
	}
	if want := []Key{{Hash: 6, Mode: Update}, {Hash: 2, Mode: Shared, Table: 1},
		{Hash: 7, Mode: Update, Table: 1}}; !reflect.DeepEqual(steps.Keys, want) {
		t.Errorf("%+v", steps.Keys)
	}
	if steps.AddLocks(nil); len(steps.Steps) != 2 {
		t.Error("a step of nothing")
	}
}

// TestAddTableLocks: a table that was locked against writers has its key Exclusive, but only by a lock, if it was not
// Exclusive before; SHARE agrees with itself, and who only writes does not meet SHARE UPDATE EXCLUSIVE.
func TestAddTableLocks(t *testing.T) {
	table, name := Table{Schema: "s", Name: "t", Key: 1}, Table{Schema: "tutti", Name: "locks", Key: 2}
	for _, c := range []struct {
		mode TableMode
		keys []Key
		held []uint32
	}{
		{ShareUpdateExclusive, []Key{{Hash: 2, Mode: Exclusive}}, []uint32{0}},
		{ShareTable, []Key{{Hash: 2, Mode: Shared}, {Hash: 1, Mode: Read, Table: 1}}, nil},
		{ShareRowExclusive, []Key{{Hash: 2, Mode: Exclusive}, {Hash: 1, Mode: Exclusive, Table: 1}}, []uint32{0, 1}},
		{ExclusiveTable, []Key{{Hash: 2, Mode: Exclusive}, {Hash: 1, Mode: Exclusive, Table: 1}}, []uint32{0, 1}},
	} {
		for _, unknown := range []bool{false, true} {
			for _, steps := range [][]Step{nil, {{Definition: []byte("d")}}} {
				w := &Writeset{Steps: steps}
				w.AddTableLocks([]TableLock{{Table: table, Name: name, Mode: c.mode, Unknown: unknown}})
				if !reflect.DeepEqual(w.Keys, c.keys) || !reflect.DeepEqual(w.Held, c.held) || w.Validate() != nil {
					t.Errorf("mode %d: keys %+v, held %v", c.mode, w.Keys, w.Held)
				}
				defer func() {
					if w.ForgetTableLocks(); len(w.Rows) > 0 || len(w.Steps) != len(steps) ||
						len(w.Keys) != len(c.keys) {
						t.Errorf("mode %d: %+v is left", c.mode, w)
					}
				}()
				rows := w
				if len(w.Steps) > 1 {
					rows = w.Steps[1].Rows
				}
				if n := len(rows.Rows); n != map[bool]int{true: 0, false: 1}[unknown] ||
					n > 0 && (!rows.Rows[0].LocksTable() || TableMode(rows.Rows[0].Image[0]) != c.mode) {
					t.Errorf("mode %d: rows %+v", c.mode, rows.Rows)
				}
				if got, err := Decode(w.Append(nil)); err != nil || !reflect.DeepEqual(got, w) {
					t.Errorf("mode %d: decoded to %+v, %v", c.mode, got, err)
				}
			}
		}
	}
	w := &Writeset{Tables: []Table{table}, Rows: []Row{{Op: OpTruncate}}, Keys: []Key{{Hash: 1, Mode: Exclusive}}}
	if w.AddTableLocks([]TableLock{{Table: table, Mode: ExclusiveTable}}); len(w.Keys) != 1 || len(w.Held) != 0 ||
		len(w.Rows) != 2 {
		t.Errorf("what was Exclusive is now held: %+v", w)
	}
	for _, image := range []string{"", "\x03", "\x08", "\x07\x07"} {
		if (&Writeset{Tables: []Table{table}, Rows: []Row{{Op: OpLock, Image: []byte(image)}}}).Validate() == nil {
			t.Errorf("mode %q is taken", image)
		}
	}
	if m := ShareUpdateExclusive.With(ShareTable); m != ShareRowExclusive || m.With(ExclusiveTable) != ExclusiveTable ||
		ShareTable.With(ShareTable) != ShareTable || TableMode(0).With(ShareTable) != ShareTable {
		t.Error("modes are not joined")
	}
}

func TestEachKey(t *testing.T) {
	keys := func(limit int) (ks []Key) {
		full().EachKey(func(k Key) bool {
			ks = append(ks, k)
			return len(ks) < limit
		})
		return ks
	}
	want := []Key{
		{Hash: 0xfedcba9876543210, Mode: Exclusive, Table: 0, Fresh: true}, // insert
		{Hash: 2, Mode: Update, Table: 0},                                  // update
		{Hash: 3, Mode: Exclusive, Table: 1},                               // delete
		{Hash: 4, Mode: Exclusive, Table: 1},                               // replace
		{Hash: 5, Mode: Shared, Table: 0},
		{Hash: 6, Mode: Update, Table: 0},
		{Hash: 7, Mode: Exclusive, Table: 1},
	}
	if got := keys(100); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	for n := 1; n <= len(want); n++ {
		if got := keys(n); !reflect.DeepEqual(got, want[:n]) {
			t.Errorf("stopped after %d: got %v", n, got)
		}
	}
}

func TestAddTableKeys(t *testing.T) {
	w := &Writeset{
		Tables: []Table{{Schema: "s", Name: "written", Key: 10}, {Schema: "s", Name: "truncated", Key: 11},
			{Schema: "s", Name: "asked", Key: 12}},
		Rows: []Row{{Table: 0, Op: OpInsert, Identity: 1, Image: []byte("x")}, {Table: 1, Op: OpTruncate}},
		Keys: []Key{{Hash: 12, Mode: Exclusive, Table: 2}},
	}
	w.AddTableKeys()
	want := []Key{{Hash: 12, Mode: Exclusive, Table: 2}, {Hash: 10, Mode: Shared},
		{Hash: 11, Mode: Exclusive, Table: 1}}
	if !reflect.DeepEqual(w.Keys, want) {
		t.Errorf("got %v", w.Keys)
	}
	w.AddTableKeys()
	if !reflect.DeepEqual(w.Keys, want) {
		t.Errorf("a second call added keys: %v", w.Keys)
	}
}

func TestNames(t *testing.T) {
	if s := (TxID{3, 1, 17}).String(); s != "3.1.17" {
		t.Error(s)
	}
	if !(TxID{}).IsZero() || (TxID{Seq: 1}).IsZero() {
		t.Error("IsZero")
	}
	if s := full().Tables[0].String(); s != "public.account" {
		t.Error(s)
	}
	if !(&Writeset{}).Empty() || full().Empty() || (&Writeset{Keys: full().Keys}).Empty() {
		t.Error("Empty")
	}
}

func BenchmarkDecode(b *testing.B) {
	data := full().Append(nil)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
