package engine

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/tuttidb/tutti/internal/locks"
	"github.com/tuttidb/tutti/internal/writeset"
)

var someLock = locks.Lock{Key: locks.Key{Object: 7, Form: 1}, Mode: locks.Exclusive}

// lockCheckpoint is one that needs version 2.
func lockCheckpoint() *Checkpoint {
	c := goldenCheckpoint()
	table := locks.New()
	for m := range uint32(2) {
		table.Apply(m+1, 5, &locks.Request{Action: locks.Take, Session: 9, Locks: []locks.Lock{someLock}})
	}
	table.Apply(2, 5, &locks.Request{Action: locks.Blocked, Edges: []locks.Edge{{Waiter: 9, Blocker: 10}}})
	c.locks, c.expired = table.Checkpoint(), []expiry{{2, 3}}
	return c
}

// goldenLocks is kept for ever: what version 2 looked like.
const goldenLocks = "0205020307020203040003010204706172740002030102020102010102010000000000000003020000000000000001020301030104000000000000000201020302010201000701050900020100070205090102050902050afe6b3e0c"

func TestCheckpointGoldenLocks(t *testing.T) {
	data := lockCheckpoint().Append(nil)
	if got := hex.EncodeToString(data); got != goldenLocks {
		t.Errorf("%s\nwant %s", got, goldenLocks)
	}
	c, err := DecodeCheckpoint(data)
	if err != nil || !reflect.DeepEqual(c, lockCheckpoint()) {
		t.Errorf("%+v, %v", c, err)
	}
}

// put hands an engine one item of a member as if the log had.
func put(e *Engine, member uint32, number uint64, items ...Item) {
	b := &batch{Member: member, Incarnation: 1, Number: number}
	for i, it := range items {
		it.ID = writeset.TxID{Member: member, Incarnation: 1, Seq: number*10 + uint64(i)}
		b.Items = append(b.Items, it)
	}
	e.deliver(number, b.append(nil))
}

func lockItem(r locks.Request) Item { return Item{Kind: KindLock, Payload: r.Append(nil)} }

// TestExpire: a member's locks are taken from it only if nothing was heard of it since, and a transaction
// under such a lock does not commit afterwards (E11).
func TestExpire(t *testing.T) {
	e := single(t, Options{})
	take := locks.Request{Action: locks.Take, Session: 9, Locks: []locks.Lock{someLock}}
	put(e, 2, 1, lockItem(take)) // ordinal 1
	put(e, 3, 1, lockItem(take)) // ordinal 2
	if got := e.Advisory().Tenants(); !reflect.DeepEqual(got, []Tenant{{2, 1, 1}, {3, 1, 1}}) {
		t.Fatalf("%v", got)
	}
	put(e, 2, 2, lockItem(locks.Request{Action: locks.Renew}))                                        // 3
	put(e, 3, 2, lockItem(locks.Request{Action: locks.Expire, Member: 2, Incarnation: 1, Number: 1})) // 4: too late
	holder := func() uint32 { return e.Advisory().Locks()[0].Session.Member }
	if holder() != 2 {
		t.Fatal("a member of which something was heard has expired")
	}
	ws := &writeset.Writeset{Tables: []writeset.Table{{Schema: "public", Name: "t", Key: 5}},
		Rows: []writeset.Row{{Op: writeset.OpInsert, Identity: 77, Image: []byte{1}}}}
	commits := func(since uint64, number uint64) bool {
		before := e.Figures().Backlog
		ws.Rows[0].Identity++
		put(e, 2, number, Item{Kind: KindCertified, Slot: 1, Base: 1, SharedBase: 1, Since: since,
			Payload: ws.Append(nil)})
		return e.Figures().Backlog > before
	}
	if !commits(1, 3) { // 5
		t.Error("a transaction under a lock was aborted")
	}
	put(e, 3, 3, lockItem(locks.Request{Action: locks.Expire, Member: 2, Incarnation: 1, Number: 3})) // 6
	if holder() != 3 {
		t.Fatal("a silent member keeps its lock")
	}
	if commits(1, 4) { // 7
		t.Error("a transaction committed under a lock that somebody else has")
	}
	if !commits(0, 5) || !commits(7, 6) {
		t.Error("a transaction without a lock, or under a new one, was aborted")
	}
}
