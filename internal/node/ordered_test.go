package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/databases"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/raftlog"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/standing"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// ordered are the replicas of a member that is alone, of the main database and of others by their names, each with an
// order and without PostgreSQL. What is ordered counts as applied at once.
func ordered(t *testing.T, others ...string) *tenure {
	t.Helper()
	c := &config.Config{Cluster: "c", Member: 1, Database: "main", DataDir: t.TempDir(), Listen: "127.0.0.1:0",
		MemberListen: "127.0.0.1:0", Secret: "a secret for tests only",
		Members: []config.Member{{Member: 1, Name: "alpha", Address: "127.0.0.1:1"},
			{Member: 2, Name: "beta", Address: "127.0.0.1:2"}}}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	n := New(c, slog.New(slog.NewTextHandler(&said, nil)))
	ctx, cancel := context.WithCancelCause(context.Background())
	tn := &tenure{node: n, ctx: ctx, fail: cancel, lives: map[uint64]*life{}, words: peers.NewWords(c.SequenceStep),
		come: make(chan struct{}, 1), looking: make(chan struct{}, 1)}
	tn.standing = standing.New(c, c.Name, cancel)
	tn.retired = databases.NewRetired(retiredOf(tn))
	for i, name := range append([]string{c.Database}, others...) {
		l := newLife(tn, mainGroup+uint64(i), name)
		l.id.incarnation, l.course.context = 1, ctx
		o := raftlog.Options{Dir: filepath.Join(c.DataDir, "log-"+name)}
		if err := raftlog.Create(o, raftlog.Identity{Cluster: "c", Member: 1, Voters: []uint64{1}}); err != nil {
			t.Fatal(err)
		}
		disk, err := raftlog.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(engine.Options{Member: 1, Incarnation: 1, Order: ordering.Options{Storage: disk}})
		if err != nil {
			t.Fatal(err)
		}
		l.order.disk = disk
		l.order.core = core.New(core.Options{
			Log: l.log, Metrics: &l.metrics, Engine: e, Disk: disk, Send: func(uint32, []byte) bool { return false },
			Aborted: l.aborted, Locked: func([]engine.Lock) {}, Fronts: func([]engine.Front) {},
			Moved: l.flow.gate.Moved, Survey: func() (bool, []uint32) { return false, nil },
			Leave: l.others.peers.Leave, Reaches: func(uint32) bool { return false },
			Rule:       func() (int, int) { return 2, 0 },
			Configures: func() bool { return false }, Members: func() (l engine.List) { return l },
			Sites: func() [][]uint32 { return nil },
		})
		l.submitted.patience, l.words = patienceOf(l), wordsOf(l)
		l.db.jobs = replay.NewJobs(replay.JobOptions{})
		l.audit = audit.New(auditOf(l))
		l.order.fence = l.order.seq.Add(1)
		tn.lives[l.id.group] = l
		over := make(chan error, 1)
		go func() { over <- l.order.core.Run(ctx) }()
		go func() {
			for {
				select {
				case <-l.order.core.Groups():
					l.flow.gate.Close()
					done{l}.Done(nil, false)
				case <-ctx.Done():
					return
				}
			}
		}()
		t.Cleanup(func() {
			cancel(nil)
			if err := <-over; err != nil {
				t.Errorf("the core ends: %v", err)
			}
			if err := disk.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	n.setTenure(tn)
	await(t, "it leads its orders", func() bool {
		for _, l := range tn.all() {
			if l.order.core.Leader() != 1 {
				return false
			}
		}
		return true
	})
	return tn
}

// lose has a member be without its main database until back is called.
func lose(tn *tenure) (back func()) {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	main := tn.lives[mainGroup]
	delete(tn.lives, mainGroup)
	return func() {
		tn.mu.Lock()
		defer tn.mu.Unlock()
		tn.lives[mainGroup] = main
	}
}

// within fails the test if something takes too long.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	over := make(chan struct{})
	go func() { f(); close(over) }()
	select {
	case <-over:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s takes too long", what)
	}
}

// TestDefinesAs: a definition is answered with what its executor says; one that has no room, or whose replica ends, is
// told so, and its session waits for it no longer.
func TestDefinesAs(t *testing.T) {
	tn := ordered(t)
	l := tn.life(mainGroup)
	d := session.Definition{SQL: "CREATE", Extent: &writeset.Writeset{}}
	id := l.txid(l.order.seq.Add(1))
	go func() {
		await(t, "it is ordered", func() bool { return l.resolved(id.Seq) && l.order.core.Ordinal() > 0 })
		l.answer(&engine.Task{Item: engine.Item{ID: id}}, session.Result{Tag: "CREATE TABLE"})
	}()
	within(t, "a definition", func() {
		if r := l.defineAs(id, d, nil); r.Tag != "CREATE TABLE" {
			t.Errorf("it is answered %+v", r)
		}
	})
	close(l.course.done)
	within(t, "a definition at the end", func() {
		if r := l.define(d, guards.New(guards.Options{})); r.Err == nil || r.Err.Code != wire.CodeStatementUnknown {
			t.Errorf("at the end it is answered %+v", r)
		}
	})
	tn.fail(nil)
	await(t, "the core has stopped", func() bool { return !l.order.core.Call(func(*engine.Engine) {}) })
	if r := l.define(d, nil); r.Err == nil || r.Err.Code != wire.CodeStatementUnknown {
		t.Errorf("behind the end it is answered %+v", r)
	}
	if (done{l}).Done(nil, true) {
		t.Error("the executor is not told that the core has stopped")
	}
}

// TestAborted: who has lost is told by whom, and begins after the winner; a definition that has lost is answered, and
// an orphan's slot is free.
func TestAborted(t *testing.T) {
	l := ordered(t).life(mainGroup)
	ws := &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t"}}}
	g := guards.New(guards.Options{})
	w := l.submitted.waiters.Add(g, session.Submission{Seq: 7, Writeset: ws})
	v := certify.Verdict{Reason: certify.KeyConflict, WinnerOrdinal: 44, Winner: writeset.TxID{Member: 1, Seq: 3}}
	l.aborted(engine.Aborted{Seq: 7, Verdict: v, Blind: true})
	d := <-w.Decision
	if !d.Retry || d.Err == nil || d.Err.Code != wire.CodeSerializationFailure || w.Ordinal != 44 || !w.Beaten {
		t.Errorf("it is told %+v, at %d, beaten %v", d, w.Ordinal, w.Beaten)
	}
	l.submitted.waiters.Orphaned(w)
	l.aborted(engine.Aborted{Seq: 7, Orphan: true})
	within(t, "the orphan's slot", func() { <-g.Orphan() })
	result, over := l.submitted.definitions.Begin(8)
	defer over()
	l.aborted(engine.Aborted{Seq: 8, Verdict: certify.Verdict{Reason: certify.TooOld}})
	if r := <-result; r.Err == nil {
		t.Errorf("the definition is answered %+v", r)
	}
	if n := l.metrics.Limits.Keys.Load(); n != 1 {
		t.Errorf("%d were too old", n)
	}
}

// hosted is a session of a replica.
func hosted(t *testing.T, l *life) *host {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	if l.grants == nil {
		l.grants = grants.New(grantsOf(l))
	}
	return newHost(l, guards.New(guards.Options{Slot: 3, PID: 9, Client: client, Backend: server, Cancel: func() {},
		Wake: func() {}}))
}

// TestEnter: a transaction that has lost goes behind what is being applied, and when the session is idle, nothing of
// the transaction is left. Why it waits in vain is told, the loss first.
func TestEnter(t *testing.T) {
	l := ordered(t).life(mainGroup)
	h := hosted(t, l)
	if e := h.Enter(session.PhaseRunning); e != nil || h.Interrupted() != nil {
		t.Errorf("it begins with %v, interrupted %v", e, h.Interrupted())
	}
	l.submitted.running.Begin([]engine.Task{{Ordinal: 30}}, nil)
	why := wire.Errorf(wire.CodeSerializationFailure, "lost")
	h.g.Abort(why)
	if got := h.Interrupted(); got != why {
		t.Errorf("it is interrupted by %v", got)
	}
	if e := h.Enter(session.PhaseRunning); e != why || h.after != 30 || !h.writes || !h.lost {
		t.Errorf("it is told %v, to go behind %d, writes %v, lost %v", e, h.after, h.writes, h.lost)
	}
	h.turn = true
	l.tenure.larges = admission.NewLarges(1, &l.node.metrics.Process.Clients.LargeWaited)
	for range 2 { // it is one already the second time
		if e := h.BeginLarge(); e != nil || !h.large {
			t.Error(e)
		}
	}
	h.Enter(session.PhaseIdle)
	if h.turn || h.large || l.tenure.larges.Open() != 0 {
		t.Error("something of the transaction is left")
	}
	close(l.course.done)
	if got := h.Interrupted(); got == nil || got.Code == wire.CodeSerializationFailure {
		t.Errorf("at the end it is interrupted by %v", got)
	}
	if got := (control{h.g, h}).Dismissed(); got == nil || got.Code != wire.CodeAdminShutdown {
		t.Errorf("at the end it is dismissed by %v", got)
	}
}

// TestLastDecision: a decision that comes together with the replica's end is told; else nobody knows.
func TestLastDecision(t *testing.T) {
	h := hosted(t, ordered(t).life(mainGroup))
	w := h.n.submitted.waiters.Add(h.g, session.Submission{Seq: 5})
	if d, got := h.lastDecision(writeset.TxID{Seq: 5}, w); got != nil || d.Err == nil ||
		d.Err.Code != wire.CodeStatementUnknown {
		t.Errorf("without one it is told %+v", d)
	}
	w.Decision <- session.Decision{Commit: true}
	if d, got := h.lastDecision(writeset.TxID{Seq: 5}, w); got != w || !d.Commit {
		t.Errorf("with one it is told %+v", d)
	}
}

// TestTaken: what the log has decided is kept for the next transaction: behind what it comes, and whether it lost.
func TestTaken(t *testing.T) {
	l := ordered(t).life(mainGroup)
	h := hosted(t, l)
	w := l.submitted.waiters.Add(h.g, session.Submission{Seq: 5, Writeset: &writeset.Writeset{}})
	w.Ordinal, h.after, h.beaten = 12, 20, 2
	concluded(h, w, &session.Decision{Retry: true})
	if h.after != 20 || !h.lost || h.won || h.beaten != 2 || l.submitted.waiters.Get(5) != nil {
		t.Errorf("a loss leaves it behind %d, lost %v, beaten %d", h.after, h.lost, h.beaten)
	}
	w = l.submitted.waiters.Add(h.g, session.Submission{Seq: 6, Writeset: &writeset.Writeset{}})
	w.Ordinal = 33
	concluded(h, w, &session.Decision{Commit: true})
	if h.after != 33 || h.lost || !h.won || h.beaten != 0 || l.submitted.waiters.Get(6) != w {
		t.Errorf("a win leaves it behind %d, won %v, beaten %d", h.after, h.won, h.beaten)
	}
	for _, c := range []struct {
		code string
		lost bool
	}{{wire.CodeSerializationFailure, true}, {wire.CodeQueryCanceled, false}} {
		h.lost, h.writes = false, false
		if e := h.losesBy(wire.Errorf(c.code, "no")); e.Code != c.code || h.lost != c.lost || h.writes != c.lost {
			t.Errorf("by %s it has lost: %v", c.code, h.lost)
		}
	}
}

// TestDecoded: a large writeset becomes what the others will read, a small one stays as it is.
func TestDecoded(t *testing.T) {
	h := hosted(t, ordered(t).life(mainGroup))
	ws := &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t", Key: 5}},
		Rows: []writeset.Row{{Op: writeset.OpInsert, Identity: 7, Image: []byte("image")}}}
	payload := ws.Append(nil)
	if keys, err := h.decoded(ws, payload); keys != nil || err != nil {
		t.Errorf("of a small one: %v, %v", keys, err)
	}
	h.n.config.Limits.BatchBytes = len(payload) - 1
	ws.Rows[0].Image = []byte("other")
	if keys, err := h.decoded(ws, payload); keys == nil || err != nil || string(ws.Rows[0].Image) != "image" {
		t.Errorf("of a large one: %v, %v; its row is %q", keys, err, ws.Rows[0].Image)
	}
	h.n.config.Limits.BatchBytes = 0
	if _, err := h.decoded(ws, payload[:2]); err == nil {
		t.Error("a part of one can be read")
	}
}

// TestDefineElsewhere: what all databases share is ordered by the main one, if that is there and not halted.
func TestDefineElsewhere(t *testing.T) {
	tn := ordered(t, "shop")
	main, shop := tn.life(mainGroup), tn.named("shop")
	h := hosted(t, shop)
	d := session.Definition{SQL: "CREATE ROLE", Extent: &writeset.Writeset{Shared: true}}
	main.course.halts(&peers.Halt{Ordinal: 4, Reason: "no"})
	if r := h.Define(d); r.Err == nil || r.Err.Code != wire.CodeCannotConnectNow ||
		!strings.Contains(r.Err.Detail, "4") {
		t.Errorf("beside a halted one: %+v", r.Err)
	}
	back := lose(tn)
	if r := h.Define(d); r.Err == nil || r.Err.Code != wire.CodeCannotConnectNow {
		t.Errorf("without one: %+v", r.Err)
	}
	back()
	if h.Main() || !hosted(t, main).Main() {
		t.Error("it is not known which is the main one")
	}
	d = session.Definition{Extent: &writeset.Writeset{},
		Cluster: semantics.Cluster{Database: semantics.Database{Does: semantics.DropsDatabase, Name: "shop"}}}
	main.course.serves()
	if r := h.Define(d); r.Err == nil || r.Err.Code != wire.CodeObjectInUse {
		t.Errorf("its own database: %+v", r.Err)
	}
}

// TestMeeting: a definition of what all databases share waits for the others to come to it, and they for it.
func TestMeeting(t *testing.T) {
	tn := ordered(t, "shop")
	main, shop := tn.life(mainGroup), tn.named("shop")
	go func() {
		await(t, "it is asked to come", func() bool { return shop.order.core.Ordinal() > 0 })
		_ = meeting{shop}.Attend(context.Background(), 9)
	}()
	within(t, "a meeting", func() {
		if err := (meeting{main}).Hold(context.Background(), 9); err != nil {
			t.Error(err)
		}
	})
	main.meetings.Through(9)
	within(t, "the other side", func() {
		if err := (meeting{shop}).Attend(context.Background(), 9); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	lose(tn)
	if err := (meeting{shop}).Attend(ctx, 10); err == nil {
		t.Error("it has come to a meeting that nobody holds")
	}
}

// TestLookedFor: a database that is not known is looked for behind all that is ordered; while that cannot be told, it
// is not known whether there is one. Who looks, looks alone.
func TestLookedFor(t *testing.T) {
	tn := ordered(t, "shop")
	main, shop := tn.life(mainGroup), tn.named("shop")
	main.course.serves()
	ctx := context.Background()
	if l, known := tn.await(ctx, "shop"); l != shop || !known {
		t.Errorf("one that is there: %v, %v", l, known)
	}
	before := main.order.core.Ordinal()
	if l, known := tn.await(ctx, "nowhere"); l != nil || !known || main.order.core.Ordinal() <= before {
		t.Errorf("one that is not: %v, known %v", l, known)
	}
	if !main.flow.gate.Enter(func() bool { return false }) { // so that nothing is applied
		t.Fatal("the gate is closed")
	}
	found := make(chan *life, 1)
	go func() { l, _ := tn.await(ctx, "late"); found <- l }()
	await(t, "it looks", func() bool { return main.order.core.Ordinal() > main.order.core.Applied() })
	late := newLife(tn, 9, "late")
	late.audit = audit.New(auditOf(late))
	tn.mu.Lock()
	tn.lives[9] = late
	tn.mu.Unlock()
	select {
	case <-found:
		t.Error("it is not waited for what is ordered")
	case <-time.After(30 * time.Millisecond):
	}
	main.flow.gate.Leave()
	if l := <-found; l != late {
		t.Errorf("one that comes meanwhile: %v", l)
	}
	tn.looking <- struct{}{}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, known := tn.await(short, "nowhere"); known {
		t.Error("two look at a time")
	}
	<-tn.looking
	back := lose(tn)
	if _, known := tn.await(ctx, "nowhere"); known || !tn.leaderless() {
		t.Error("it is known what there is without the main database")
	}
	back()
	close(main.course.done)
	if _, known := tn.await(ctx, "nowhere"); known {
		t.Error("it is known what there is at the end")
	}
}

// TestOpening: a client waits for a database that is being opened, until it is, is halted or ends; whoever has created
// one waits for that, too.
func TestOpening(t *testing.T) {
	for name, f := range map[string]func(*life){"opened": func(l *life) { l.course.serves() },
		"halted": func(l *life) { l.course.halts(&peers.Halt{}) }, "over": func(l *life) { close(l.course.done) },
		"of no main one": func(l *life) { lose(l.tenure) }} {
		tn := ordered(t, "shop")
		shop := tn.named("shop")
		tn.life(mainGroup).course.serves()
		over := make(chan struct{})
		go func() { shop.awaitOpen(context.Background()); close(over) }()
		select {
		case <-over:
			t.Error("it does not wait")
		case <-time.After(30 * time.Millisecond):
		}
		f(shop)
		within(t, "one that is "+name, func() { <-over })
	}
	tn := ordered(t, "shop")
	tn.awaitDatabase("nowhere")
	tn.named("shop").course.serves()
	within(t, "one that is open", func() { tn.awaitDatabase("shop") })
}

// TestComesUp: a login waits for a moment for what is known to be ordered, and no longer.
func TestComesUp(t *testing.T) {
	l := ordered(t).life(mainGroup)
	began := time.Now()
	l.comeUp()
	if d := time.Since(began); d > comeUpMost {
		t.Errorf("with nothing to wait for it takes %s", d)
	}
}

// TestFrames: a frame comes to the replica of its database; what names none, or is of no known kind, is passed over.
func TestFrames(t *testing.T) {
	tn := ordered(t, "shop")
	var said bytes.Buffer
	tn.node.log = slog.New(slog.NewTextHandler(&said, nil))
	shop := tn.named("shop")
	shop.log = tn.node.log
	tn.receive(2, nil)
	tn.receive(2, []byte{frameStatus})
	if !strings.Contains(said.String(), "names no database") {
		t.Errorf("of a frame without a database it says %q", said.String())
	}
	group := byte(shop.id.group)
	tn.receive(2, append([]byte{frameStatus, group}, `{"state": "synced", "clients": 3}`...))
	if s, _ := shop.others.peers.Of(2); s.Clients != 3 {
		t.Errorf("it hears %+v", s)
	}
	if s, _ := tn.life(mainGroup).others.peers.Of(2); s.Clients != 0 {
		t.Error("another database's hears it")
	}
	tn.receive(2, []byte{frameStatus, group, '{'})
	tn.receive(2, []byte{'x', group})
	for _, want := range []string{"status cannot be read", "unknown kind"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q, but %q", want, said.String())
		}
	}
	tn.receive(2, []byte{frameRaft, 99, 1}) // of a database that is not there
	if s := tn.words.Reach(1, 1, []uint32{1, 2}); s.Heard < 1 {
		t.Errorf("it reaches %+v", s)
	}
	shop.others.peers.Forget(2)
	tn.gone(2)
	tn.reached(2)
	if _, alive := shop.others.peers.Of(2); alive {
		t.Error("one that has ended is alive")
	}
}

// TestEndsOne: the end of one database's replica is waited for, and is none of the others'.
func TestEndsOne(t *testing.T) {
	tn := ordered(t, "shop")
	shop := tn.named("shop")
	shop.course.stop = func() {
		go func() {
			time.Sleep(10 * time.Millisecond)
			tn.mu.Lock()
			delete(tn.lives, shop.id.group)
			tn.mu.Unlock()
			close(shop.course.ended)
		}()
	}
	within(t, "the end", func() { tn.end(shop.id.group) })
	if !shop.course.dismissed.Load() || tn.named("shop") != nil || tn.named("main") == nil {
		t.Error("it has not ended, or another one has")
	}
	tn.end(shop.id.group)
	if e := shop.errEnds(); !strings.Contains(e.Message, "administrator") {
		t.Errorf("its sessions are told %q", e.Message)
	}
	if e := tn.life(mainGroup).errEnds(); !strings.Contains(e.Message, "restarts") {
		t.Errorf("those of another one are told %q", e.Message)
	}
	x := replicas{tn}
	if x.Runs(shop.id.group) || !x.Runs(mainGroup) {
		t.Error("it is not known which databases run")
	}
}

// TestPort: a port that another process has is waited for while that may just be ending, and refused later.
func TestPort(t *testing.T) {
	n := ordered(t).node
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	got := make(chan error, 1)
	go func() {
		ln, err := n.listen(context.Background(), "client port", address)
		if err == nil {
			err = ln.Close()
		}
		got <- err
	}()
	time.Sleep(30 * time.Millisecond)
	if len(got) > 0 {
		t.Errorf("it is not waited for: %v", <-got)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("once it is free: %v", err)
	}
	if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	address = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if ln, err := n.listen(ctx, "client port", address); ln != nil || err != nil {
		t.Errorf("when it is to stop: %v, %v", ln, err)
	}
	n.served = true
	var wrong *failure.Config
	soon, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := n.listen(soon, "client port", address); !errors.As(err, &wrong) ||
		!strings.Contains(err.Error(), "client port "+address) {
		t.Errorf("later: %v", err)
	}
}

// TestSettings: what Tutti needs of PostgreSQL wins over the configuration, which wins over what Tutti would like.
func TestSettings(t *testing.T) {
	n := ordered(t).node
	n.config.Limits.Sessions, n.config.Limits.Databases = 100, 2
	n.config.Postgres.Settings = map[string]string{"synchronous_commit": "on", "track_counts": "off", "work_mem": "1MB"}
	s := n.settings()
	if s["synchronous_commit"] != "on" || s["track_counts"] != "on" || s["work_mem"] != "1MB" ||
		s["max_connections"] <= "100" {
		t.Errorf("the settings are %q", s)
	}
	if n.nameOf(1) != "alpha" || n.nameOf(3) != "" {
		t.Error("a member has another one's name")
	}
	for major, want := range map[int32]uint16{17: 0, 18: wire.ProtocolMinorLong} {
		n.major.Store(major)
		if got := n.minorMax(); got != want {
			t.Errorf("PostgreSQL %d speaks 3.%d", major, got)
		}
	}
	n.setTenure(nil)
	if _, err := n.connString(); err != errDatabaseGone {
		t.Errorf("without a server: %v", err)
	}
	if f, known := facts(n, ""); !f.Starting || !known {
		t.Errorf("without a server the admin port says %+v", f)
	}
	if _, _, ok := statusRows(n); ok {
		t.Error("without a server there is a status")
	}
}
