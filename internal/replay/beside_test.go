package replay

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// writes is a writeset that does something to a row of a table, by the table's key; without an identity, to the table.
func writes(table uint64, op writeset.Op, identity uint64, image string) *writeset.Writeset {
	return &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t", Key: table}},
		Rows: []writeset.Row{{Op: op, Identity: identity, Image: []byte(image)}}}
}

func certified(ws *writeset.Writeset) engine.Task {
	return engine.Task{Item: engine.Item{Kind: engine.KindCertified}, Writeset: ws}
}

// A row of a table that a long definition holds can be locked beside it. The table cannot.
func TestWhatTouchesALongDefinition(t *testing.T) {
	g := &Job{Held: map[uint64]bool{7: true}}
	for _, c := range []struct {
		ws   *writeset.Writeset
		want bool
	}{
		{writes(7, writeset.OpLock, 1, "k"), false},
		{writes(7, writeset.OpShare, 1, "k"), false},
		{writes(7, writeset.OpLock, 0, string(rune(writeset.ShareUpdateExclusive))), true},
		{writes(7, writeset.OpUpdate, 1, "k"), true},
		{writes(8, writeset.OpUpdate, 1, "k"), false},
		{writes(8, writeset.OpLock, 0, string(rune(writeset.ExclusiveTable))), false},
		{&writeset.Writeset{Barrier: true}, true},
		{&writeset.Writeset{Steps: []writeset.Step{{}}}, true},
	} {
		if got := g.Touches(c.ws); got != c.want {
			t.Errorf("%+v touches it: %v", c.ws, got)
		}
	}
}

// TestWhatWaitsForALongDefinition (L2): what writes to its tables, defines something, or compares whole tables.
func TestWhatWaitsForALongDefinition(t *testing.T) {
	g := &Job{Held: map[uint64]bool{7: true}}
	for _, c := range []struct {
		task engine.Task
		want bool
	}{
		{certified(writes(8, writeset.OpInsert, 1, "k")), false},
		{certified(writes(7, writeset.OpInsert, 1, "k")), true},
		{engine.Task{Item: engine.Item{Kind: engine.KindStatement}}, true},
		{engine.Task{Item: engine.Item{Kind: engine.KindCheck}}, true},
		{engine.Task{Item: engine.Item{Kind: engine.KindCheck, Payload: []byte("part")}}, false},
		{engine.Task{Item: engine.Item{Kind: engine.KindNotify}}, false},
		{engine.Task{Item: engine.Item{Kind: engine.KindFence}}, false},
	} {
		harmless := engine.Task{Item: engine.Item{Kind: engine.KindNotify}}
		if got := g.holdsUp([]engine.Task{harmless, c.task}); got != c.want {
			t.Errorf("kind %d waits: %v", c.task.Item.Kind, got)
		}
	}
}

// TestLongs (L3): who began before a definition ended has not seen it, and loses if it has written to its tables; of
// definitions that are not remembered any more nobody knows which tables they had.
func TestLongs(t *testing.T) {
	x := NewJobs(JobOptions{})
	never := func() bool { return false }
	x.Await(never)
	if x.Under() != nil || x.Seen() != 0 || x.Missed(0, 0, writes(7, writeset.OpUpdate, 1, "k")) != nil {
		t.Error("there is one before the first")
	}
	first := &Job{Held: map[uint64]bool{7: true}}
	before := x.Seen()
	x.add(first)
	if x.Under() != first || first.Number != 1 || x.Seen() != before {
		t.Errorf("%d is under way, seen are %d", first.Number, x.Seen())
	}
	ended := make(chan struct{})
	go func() {
		x.AwaitUpTo(1, never)
		close(ended)
	}()
	select {
	case <-ended:
		t.Error("one that goes on was not waited for")
	case <-time.After(5 * time.Millisecond):
	}
	x.end()
	<-ended
	if x.Under() != nil || x.Seen() != 1 {
		t.Errorf("after its end %v is under way, seen are %d", x.Under(), x.Seen())
	}
	for _, c := range []struct {
		seen, behind, table uint64
		defines             bool
		want                *Job
	}{{before, 1, 7, false, first}, {before, 1, 8, false, nil}, {x.Seen(), 0, 7, false, nil},
		{before, 0, 8, true, first}, {before, 1, 8, true, nil}, {before, 1, 7, true, first}} {
		ws := writes(c.table, writeset.OpUpdate, 1, "k")
		if c.defines {
			ws.Steps = []writeset.Step{{}}
		}
		if got := x.Missed(c.seen, c.behind, ws); got != c.want {
			t.Errorf("a transaction that has seen %d, and is behind %d, and writes to %d has missed %v",
				c.seen, c.behind, c.table, got)
		}
	}
	for range longsMax {
		x.add(&Job{})
		x.end()
	}
	if got := x.Missed(before, 0, writes(8, writeset.OpUpdate, 1, "k")); got == nil {
		t.Error("a transaction that may have missed anything has missed nothing")
	}
	if got := x.Missed(x.Seen()-1, 0, writes(8, writeset.OpUpdate, 1, "k")); got != nil {
		t.Errorf("a transaction that has missed one of no table has missed %v", got)
	}
}

// TestLongsWake: who waits for the end of a definition goes on when the replica ends.
func TestLongsWake(t *testing.T) {
	x := NewJobs(JobOptions{})
	x.add(&Job{})
	over := false
	done := make(chan struct{})
	go func() {
		x.Await(func() bool { return over })
		close(done)
	}()
	x.mu.Lock()
	over = true
	x.mu.Unlock()
	x.Wake()
	<-done
}

// TestJobGoesOnBeside: a definition becomes long, or ends with its group, but not both; if it is long its own
// transaction waits until it is noted (L1), and says that it is done in place of the progress.
func TestJobGoesOnBeside(t *testing.T) {
	ends := &Job{Kept: make(chan struct{}), Done: make(chan struct{})}
	if beside, err := ends.settle(t.Context()); beside || err != nil || ends.Leave() {
		t.Errorf("one that ends with its group: beside %v, %v", beside, err)
	}
	if ends.again(); !ends.Leave() {
		t.Error("one that tries again does not become long")
	}
	stops, stop := context.WithCancel(t.Context())
	stop()
	if beside, err := ends.settle(stops); !beside || err == nil {
		t.Errorf("before it is noted it may commit: %v, %v", beside, err)
	}
	close(ends.Kept)
	if beside, err := ends.settle(t.Context()); !beside || err != nil {
		t.Errorf("once it is noted: beside %v, %v", beside, err)
	}
	if ends.Exposed() || ends.Over() {
		t.Error("it hides a table, or is over")
	}
	if ends.Kind = semantics.LongAttached; !ends.Exposed() {
		t.Error("others would see that a partition is not attached after all")
	}
	if ends.again() {
		t.Error("it is tried again although others go on")
	}
}

// TestCurtainOfATry: who is attached goes on beside others only behind a curtain, and each try draws its own; one that
// has its lock before keeps it from nobody.
func TestCurtainOfATry(t *testing.T) {
	g := &Job{Kind: semantics.LongAttached}
	if !g.again() || g.Leave() {
		t.Error("others see the table")
	}
	c := &Curtain{Conn: &pgconn.PgConn{}, over: make(chan struct{}), gone: make(chan struct{})}
	g.draw(c)
	go func() {
		<-c.over
		close(c.gone)
	}()
	if !g.again() || g.Curtain != nil || g.Leave() {
		t.Error("the curtain of a try that has failed is that of the next one")
	}
	if g.draw(c); g.keeps(c) || g.Curtain != nil {
		t.Error("a curtain keeps the table from the next try")
	}
	if g.draw(c); !g.Leave() || !g.keeps(c) || g.Curtain != c {
		t.Error("the curtain is down while others go on")
	}
}

// TestWhatALongDefinitionHolds (L2): the locks it has, or the tables it may change, or none.
func TestWhatALongDefinitionHolds(t *testing.T) {
	for _, c := range []struct {
		kind semantics.Long
		want string
	}{
		{semantics.LongNamed, "map[8:true]"}, {semantics.LongFree, "map[]"}, {semantics.NotLong, "map[]"},
	} {
		g := &Job{Kind: c.kind, Task: engine.Task{Writeset: writes(8, writeset.OpInsert, 1, "k")}}
		if g.Hold([][2]string{{"s", "t"}}); fmt.Sprint(g.Held) != c.want {
			t.Errorf("kind %d holds %v, want %s", c.kind, g.Held, c.want)
		}
	}
	for _, kind := range []semantics.Long{semantics.LongLocked, semantics.LongSnapshot, semantics.LongAttached} {
		g := &Job{Kind: kind, Task: engine.Task{Writeset: writes(8, writeset.OpInsert, 1, "k")}}
		if g.Hold([][2]string{{"s", "t"}}); len(g.Held) != 1 || g.Held[8] {
			t.Errorf("kind %d holds %v, not what it has locked", kind, g.Held)
		}
	}
	// The second step has yet to lock its table.
	steps := &writeset.Writeset{
		Tables: []writeset.Table{{Schema: "s", Name: "first", Key: 1}, {Schema: "s", Name: "second", Key: 2},
			{Schema: "s", Name: "read", Key: 3}},
		Keys: []writeset.Key{{Hash: 1, Mode: writeset.Exclusive}, {Hash: 2, Mode: writeset.Exclusive, Table: 1},
			{Hash: 3, Mode: writeset.Shared, Table: 2}, {Hash: 9, Mode: writeset.Exclusive, Table: 2}},
		Steps: []writeset.Step{{Definition: []byte("1")}, {Definition: []byte("2")}},
	}
	g := &Job{Kind: semantics.LongLocked, Task: engine.Task{Writeset: steps}}
	g.Hold([][2]string{{"s", "t"}})
	if want := (map[uint64]bool{capture.TableKey("s", "t"): true, 1: true, 2: true}); !maps.Equal(g.Held, want) {
		t.Errorf("several steps hold %v, not %v", g.Held, want)
	}
}

// TestSettled: what is to be done once the group counts as applied is done once.
func TestSettled(t *testing.T) {
	x, done := NewJobs(JobOptions{}), 0
	x.afterwards = func() { done++ }
	x.Settled()
	if x.Settled(); done != 1 {
		t.Errorf("done %d times", done)
	}
	if over, down := x.Long(); over != nil || down != nil || x.Busy() {
		t.Error("there is a long definition")
	}
}

// TestBackends: another backend is at work in between, and then the one before again.
func TestBackends(t *testing.T) {
	var b Backends
	b.Busy.Store(1)
	over := b.Instead(2)
	inner := b.Instead(3)
	inner()
	if got := b.Busy.Load(); got != 2 {
		t.Errorf("%d is at work", got)
	}
	if over(); b.Busy.Load() != 1 {
		t.Errorf("%d is at work in the end", b.Busy.Load())
	}
}

// TestAfterDetach (D1): a statement that has failed is run again if that may be for want of its client or of its luck;
// what all members find is told. One that has come through without the order is damage.
func TestAfterDetach(t *testing.T) {
	for _, c := range []struct {
		code string
		ours bool
		want detachNext
	}{
		{"", false, detachAhead}, {"", true, detachAhead},
		{wire.CodeQueryCanceled, false, detachAnew}, {wire.CodeQueryCanceled, true, detachAnew},
		{wire.CodeDeadlockDetected, true, detachAnew},
		{wire.CodeAdminShutdown, false, detachAnew},
		{"53100", false, detachAnew}, {"53100", true, detachFails}, // the disk is full
		{"42P01", false, detachRefused}, {"42P01", true, detachRefused},
	} {
		var failed *wire.ErrorFields
		if c.code != "" {
			failed = &wire.ErrorFields{Code: c.code}
		}
		if got := afterDetach(failed, c.ours); got != c.want {
			t.Errorf("%q on a connection of ours %v: %d, want %d", c.code, c.ours, got, c.want)
		}
	}
}

// TestDetachBounds: only so many detach at once, and a definition that was refused before it had its place leaves
// nothing behind.
func TestDetachBounds(t *testing.T) {
	seq := uint64(0)
	x := NewDetaches(NewJobs(JobOptions{
		Seq:  func() uint64 { seq++; return seq },
		TxID: func(seq uint64) writeset.TxID { return writeset.TxID{Member: 1, Incarnation: 1, Seq: seq} },
	}))
	turns := 0
	begin := func(turn bool) *wire.SQLError {
		g, r := x.Detach(session.Definition{}, 1, func() bool { return false },
			func(writeset.TxID) (r session.Result) { r.Turn = turn; return r })
		if g != nil {
			turns++
		}
		return r.Err
	}
	for range 2 * detachMax {
		if e := begin(false); e != nil {
			t.Fatal(e)
		}
	}
	for range detachMax {
		if e := begin(true); e != nil {
			t.Fatal(e)
		}
	}
	if e := begin(true); e == nil || e.Code != wire.CodeConfigurationLimit || turns != detachMax {
		t.Errorf("one too many: %v, %d have their turn", e, turns)
	}
	if x.BreakOff(1) {
		t.Error("one that holds nothing was broken off")
	}
}
