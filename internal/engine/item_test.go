package engine

import (
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// everyKind is a batch with one item of each kind that version 1 began with.
func everyKind() *batch {
	id := func(seq uint64) writeset.TxID { return writeset.TxID{Member: 300, Incarnation: 2, Seq: seq} }
	return &batch{Member: 300, Incarnation: 2, Number: 1000, Items: []Item{
		{Kind: KindCertified, ID: id(1), Slot: 7, Base: 1 << 40, SharedBase: 1<<40 - 5, Payload: []byte("writeset")},
		{Kind: KindStatement, ID: id(2), Slot: 8, Base: 9, Payload: []byte("CREATE TABLE t ()")},
		{Kind: KindFence, ID: id(3)},
		{Kind: KindCheck, ID: id(4), Base: 3, SharedBase: 3, Payload: []byte{0}},
		{Kind: KindPart, ID: id(5), Slot: 1, Base: 3, SharedBase: 3, Payload: []byte("front")},
	}}
}

// TestGoldenBatch: entries written by version 1 must stay readable for ever. Never change
// the files; a new version gets a new one.
func TestGoldenBatch(t *testing.T) {
	for file, want := range map[string]*batch{"batch-v1.hex": everyKind(), "batch-v1-later.hex": laterKinds(),
		"batch-v1-latest.hex": latestKinds(), "batch-v2.hex": lockKinds()} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		golden, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatal(err)
		}
		b, err := decodeBatch(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(b, want) {
			t.Errorf("%s: decoded to %+v", file, b)
		}
		if got := want.append(nil); !reflect.DeepEqual(got, golden) {
			t.Errorf("%s: encoded to\n%x, want\n%x", file, got, golden)
		}
	}
}

// laterKinds is a batch of the kinds that version 1 has got since.
func laterKinds() *batch {
	id := func(seq uint64) writeset.TxID { return writeset.TxID{Member: 2, Incarnation: 3, Seq: seq} }
	return &batch{Member: 2, Incarnation: 3, Number: 4, Items: []Item{
		{Kind: KindNotify, ID: id(1), Base: 300, Payload: []byte("notifications")},
		{Kind: KindListen, ID: id(2), Base: 301, Payload: []byte("channels")},
	}}
}

// latestKinds is a batch of those that version 1 has got after that.
func latestKinds() *batch {
	id := func(seq uint64) writeset.TxID { return writeset.TxID{Member: 2, Incarnation: 3, Seq: seq} }
	return &batch{Member: 2, Incarnation: 3, Number: 6, Items: []Item{
		{Kind: KindSerial, ID: id(5), Base: 304, SharedBase: 304, Payload: []byte{1}},
		{Kind: KindShun, ID: id(6), Base: 305, SharedBase: 305, Payload: []byte("8 bytes.")},
	}}
}

// lockKinds is a batch of what needs version 2.
func lockKinds() *batch {
	id := func(seq uint64) writeset.TxID { return writeset.TxID{Member: 2, Incarnation: 3, Seq: seq} }
	return &batch{Member: 2, Incarnation: 3, Number: 5, Items: []Item{
		{Kind: KindLock, ID: id(3), Base: 302, Payload: []byte("request")},
		{Kind: KindCertified, ID: id(4), Slot: 7, Base: 303, SharedBase: 303, Since: 300, Payload: []byte("writeset")},
	}}
}

func TestDecodeBatchRefuses(t *testing.T) {
	good := everyKind().append(nil)
	for i := range good {
		if _, err := decodeBatch(good[:i]); err == nil {
			t.Errorf("the first %d of %d bytes were taken", i, len(good))
		}
	}
	if _, err := decodeBatch(append(good, 0)); err == nil {
		t.Error("a trailing byte was taken")
	}
	bad := func(change func(*Item)) []byte {
		b := everyKind()
		change(&b.Items[0])
		return b.append(nil)
	}
	for name, data := range map[string][]byte{
		"kind 0":      bad(func(i *Item) { i.Kind = 0 }),
		"kind 11":     bad(func(i *Item) { i.Kind = 11 }),
		"shared base": bad(func(i *Item) { i.SharedBase = i.Base + 1 }),
		"version 6":   {6, 1, 1, 1, 0},
	} {
		if _, err := decodeBatch(data); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func FuzzDecodeBatch(f *testing.F) {
	f.Add(everyKind().append(nil))
	f.Add(laterKinds().append(nil))
	f.Add((&batch{Member: 2, Incarnation: 3, Number: 6, Items: []Item{
		{Kind: KindSerial, ID: writeset.TxID{Member: 2, Incarnation: 3, Seq: 5}, Payload: []byte{1}},
		{Kind: KindCertified, ID: writeset.TxID{Member: 2, Incarnation: 3, Seq: 6}, Slot: 7, Base: 303, SharedBase: 303,
			ReadBase: 305, Payload: []byte("writeset")},
	}}).append(nil))
	f.Add((&batch{Member: 2, Incarnation: 3, Number: 7, Items: []Item{
		{Kind: KindCertified, ID: writeset.TxID{Member: 2, Incarnation: 3, Seq: 7}, Slot: 7, Base: 303, SharedBase: 303,
			LockBase: 306, Payload: []byte("writeset")},
	}}).append(nil))
	f.Add((&batch{Member: 2, Incarnation: 3, Number: 8, passes: true,
		Items: []Item{{Kind: KindFence, ID: writeset.TxID{Member: 2, Incarnation: 3, Seq: 8}}}}).append(nil))
	f.Add((&batch{Member: 1, Incarnation: 1, Number: 1}).append(nil))
	f.Add([]byte{1, 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeBatch(data)
		if err != nil {
			return
		}
		again, err := decodeBatch(b.append(nil))
		if err != nil || !reflect.DeepEqual(again, b) {
			t.Fatalf("%+v became %+v, %v", b, again, err)
		}
	})
}
