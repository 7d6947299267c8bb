package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/deferred"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/pending"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// replica is one that notes what its executor does, in order. Each error comes where its name says.
type replica struct {
	*Executor
	did     []string
	log     bytes.Buffer
	waits   metrics.Waits
	groups  chan *engine.Group
	over    chan struct{}
	errs    map[string]error
	serving bool
	lacks   bool          // a session's rows are not there
	long    bool          // definitions become long
	then    *engine.Group // comes behind the long one
	ahead   bool          // what is to be applied was executed ahead
	missed  bool          // blind rows are not found
	halted  *peers.Halt
	added   []Added
	answers []session.Result
}

func (r *replica) do(format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	r.did = append(r.did, what)
	return r.errs[what]
}

// expect compares what was done since it was asked last.
func (r *replica) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	if !slices.Equal(r.did, want) {
		t.Errorf("%s: it does\n\t%s, want\n\t%s", when, strings.Join(r.did, ", "), strings.Join(want, ", "))
	}
	r.did = nil
}

func ordinals(tasks []engine.Task) (out []uint64) {
	for _, t := range tasks {
		out = append(out, t.Ordinal)
	}
	return out
}

// order is Order of a replica, and the other roles it has.
type order struct{ *replica }

func (r order) Done(added []Added, wait bool) bool {
	r.added = added
	return r.do("done, waiting %v", wait) == nil
}
func (r order) Orphan(seq uint64) bool { return r.do("orphan %d", seq) == nil }

type course struct{ *replica }

func (r course) Serves()                       { _ = r.do("serves"); r.serving = true }
func (r course) Serving() bool                 { return r.serving }
func (r course) Adopted(context.Context) error { return r.do("adopted") }
func (r course) Halts(h *peers.Halt)           { r.halted = h; close(r.over) }

type database struct{ *replica }

func (r database) Apply(_ context.Context, last uint64, tasks []engine.Task) (f Found, err error) {
	if r.missed {
		f.Missed = map[*writeset.Row]bool{&tasks[0].Writeset.Rows[0]: true}
	}
	return f, r.do("apply %d to %d", ordinals(tasks), last)
}
func (r database) Changed(context.Context, *writeset.Writeset) error { return r.do("changed") }
func (r database) Described()                                        { _ = r.do("described") }
func (r database) Unlearn()                                          { _ = r.do("unlearn") }
func (r database) Adopt(_ context.Context, ordinal uint64) error     { return r.do("adopt %d", ordinal) }
func (r database) Orphaned(_ context.Context, of *guards.Guard, _ engine.Task) (bool, error) {
	return r.lacks, r.do("look for %d's", of.PID())
}

// Begin, Try, End and KeyText are of halt.Database.
func (r database) Begin(context.Context) bool                    { return false }
func (r database) Try(context.Context, *writeset.Writeset) error { return nil }
func (r database) End(context.Context)                           {}
func (r database) KeyText(writeset.Table, []byte) (_, _ string, _ bool) {
	return "", "", false
}

type streaming struct{ *replica }

func (r streaming) Commit(_ context.Context, _ uint64, tasks []engine.Task) (bool, error) {
	if !r.ahead {
		return false, nil
	}
	return true, r.do("commit %d", ordinals(tasks))
}
func (r streaming) GiveWay() { _ = r.do("give way") }
func (r streaming) GiveWayUnless(tasks []engine.Task) {
	_ = r.do("give way but for %d", ordinals(tasks))
}

type jobs struct{ *replica }

func (r jobs) Resume(context.Context) error { return r.do("resume") }
func (r jobs) Long() (<-chan struct{}, <-chan error) {
	if !r.long {
		return nil, nil
	}
	r.long = false
	over := make(chan struct{})
	close(over)
	return over, nil
}
func (r jobs) Task() engine.Task { return engine.Task{Ordinal: 77} }
func (r jobs) End(context.Context) error {
	if r.then != nil {
		r.groups <- r.then
	}
	return r.do("end the long one")
}
func (r jobs) Settled() { _ = r.do("settled") }
func (r jobs) Beside(_ context.Context, _ *engine.Group, _ func() error) error {
	return r.errs["beside"]
}
func (r jobs) BuildConcurrently(_ context.Context, _ uint64, _ engine.Task, d session.Definition) error {
	return r.do("build %s", d.Index.Name)
}
func (r jobs) CarryOut(_ context.Context, last uint64, t engine.Task, d *session.Definition) (session.Result, bool,
	error) {
	if d == nil {
		return session.Result{}, true, r.do("steps of %d", t.Ordinal)
	}
	return session.Result{Tag: d.SQL}, !r.long, r.do("define %s to %d", d.SQL, last)
}

type detaches struct{ *replica }

func (r detaches) Begin(_ context.Context, _ uint64, _ engine.Task, d session.Definition) (session.Result, bool,
	error) {
	return session.Result{}, false, r.do("detach %s", d.Detach.Partition[1])
}
func (r detaches) End(_ context.Context, _ uint64, _ engine.Task, d session.Definition) (session.Result, bool, error) {
	return session.Result{Tag: "ALTER"}, true, r.do("end detaching %s", d.Detach.Partition[1])
}

type notices struct{ *replica }

func (r notices) Begin(ordinal uint64) { _ = r.do("listening from %d", ordinal) }
func (r notices) Listen(_ context.Context, t engine.Task) (func(), error) {
	return func() { _ = r.do("carried") }, r.do("listen %d", t.Ordinal)
}
func (r notices) Notified(_ context.Context, notes []engine.Task, serving bool) error {
	if len(notes) == 0 {
		return nil
	}
	return r.do("notify %d, serving %v", ordinals(notes), serving)
}

type meetings struct{ *replica }

func (r meetings) Hold(_ context.Context, number uint64) error {
	return r.do("hold meeting %d", number)
}
func (r meetings) Attend(_ context.Context, number uint64) error {
	return r.do("attend meeting %d", number)
}

// self is member 1 in its life 5.
func self(seq uint64) writeset.TxID { return writeset.TxID{Member: 1, Incarnation: 5, Seq: seq} }

func begin() *replica {
	r := &replica{errs: map[string]error{}, groups: make(chan *engine.Group, 1), over: make(chan struct{})}
	all := &metrics.Database{}
	r.Executor = New(Options{
		Log: slog.New(slog.NewTextHandler(&r.log, nil)), Waits: &r.waits, ID: self, Fence: 3, Groups: r.groups,
		Order: order{r}, Course: course{r}, Gate: admission.NewGate(), Waiters: pending.NewWaiters(),
		Rows: deferred.New(deferred.Options{Values: 9, Metrics: all, Applied: func() uint64 { return 0 },
			Tables: func() *catalog.Tables { return nil }}),
		Group: pending.NewGroup(), Database: database{r}, Trial: database{r}, Ahead: streaming{r}, Jobs: jobs{r},
		Detaches: detaches{r}, Notices: notices{r}, Meetings: meetings{r},
		Answer: func(_ *engine.Task, a session.Result) { r.answers = append(r.answers, a) },
		Check:  func(_ context.Context, t engine.Task) error { return r.do("check %d", t.Ordinal) },
		Databases: func(_ context.Context, last uint64, t engine.Task, d session.Definition) (session.Result, error) {
			result := session.Result{Tag: "CREATE DATABASE"}
			return result, r.do("create %s at %d, to %d", d.Database.Name, t.Ordinal, last)
		},
		Tell: func(member uint32) error { return r.do("tell %d", member) },
		Rest: func(context.Context, time.Duration) { _ = r.do("rest"); close(r.over) },
	})
	return r
}

// rows is a writeset that adds, or not.
func rows(op writeset.Op) *writeset.Writeset {
	return &writeset.Writeset{Tables: []writeset.Table{{Name: "t", Key: 50}},
		Rows: []writeset.Row{{Op: op, Identity: 7, Image: []byte{1}}}}
}

// theirs is a transaction of another member, own one of a session of this life.
func theirs(ordinal uint64, w *writeset.Writeset) engine.Task {
	return engine.Task{Ordinal: ordinal, Writeset: w, Item: engine.Item{Kind: engine.KindCertified,
		ID: writeset.TxID{Member: 2, Seq: ordinal}}}
}

func (r *replica) own(ordinal, seq uint64, sub session.Submission) (engine.Task, *pending.Waiter) {
	sub.Seq = seq
	w := r.o.Waiters.Add(guards.New(guards.Options{PID: uint32(seq), Slot: 4}), sub)
	return engine.Task{Ordinal: ordinal, Writeset: sub.Writeset, Local: true, Own: true,
		Item: engine.Item{Kind: engine.KindCertified, ID: self(seq)}}, w
}

func group(tasks ...engine.Task) *engine.Group {
	return &engine.Group{Last: tasks[len(tasks)-1].Ordinal + 1, Tasks: tasks}
}

// TestGroup: sessions commit while others' rows are applied, and the engine hears of it when both are over (EX1). What
// was notified comes last.
func TestGroup(t *testing.T) {
	r, ctx := begin(), context.Background()
	t6, w := r.own(6, 9, session.Submission{Writeset: rows(writeset.OpUpdate)})
	note := engine.Task{Ordinal: 7, Item: engine.Item{Kind: engine.KindNotify}}
	g := group(theirs(5, rows(writeset.OpInsert)), t6, note)
	entered := make(chan bool, 1)
	over := make(chan error, 1)
	go func() { over <- r.execute(ctx, g) }()
	if d := <-w.Decision; !d.Commit || w.Ordinal != 6 {
		t.Fatalf("the session is told %+v at %d", d, w.Ordinal)
	}
	go func() { entered <- r.o.Gate.Enter(func() bool { return false }) }()
	select {
	case <-over:
		t.Error("the group is over before its session has committed")
	case <-entered:
		t.Error("the gate is open in a group")
	case <-time.After(30 * time.Millisecond):
	}
	w.Added = 44
	w.Commits(true)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	<-w.Applied
	r.expect(t, "a group", "apply [5] to 8", "done, waiting false", "notify [7], serving false")
	if !slices.Equal(r.added, []Added{{9, 44}}) || r.o.Waiters.Get(9) != nil {
		t.Errorf("the engine hears that %v added; the session still waits: %v", r.added, r.o.Waiters.Get(9))
	}
	if err := r.execute(ctx, group(theirs(9, rows(writeset.OpInsert)))); err != nil || r.added != nil {
		t.Errorf("the next group adds %v, %v", r.added, err)
	}
	r.errs["done, waiting false"] = errors.New("no")
	if err := r.execute(ctx, group(theirs(10, rows(writeset.OpInsert)))); err != errCoreStopped {
		t.Errorf("once the core has stopped: %v", err)
	}
}

// TestAddingWaits: rows that add come after the sessions of the group that add (EX2), others do not wait for them.
func TestAddingWaits(t *testing.T) {
	for _, adds := range []bool{true, false} {
		r, op := begin(), writeset.OpAdd
		if !adds {
			op = writeset.OpInsert
		}
		t6, w := r.own(6, 9, session.Submission{Writeset: rows(writeset.OpAdd), AddBases: []uint64{1}})
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if err := r.execute(ctx, group(theirs(5, rows(op)), t6)); err == nil {
			t.Error("a session that has not committed is not waited for")
		}
		if applied := len(r.did) > 0; applied == adds {
			t.Errorf("rows that add: %v; applied beside a session that does: %v", adds, applied)
		}
		<-w.Decision
		cancel()
	}
}

// TestOrphan: rows of a session whose COMMIT failed are applied unless the database has them, and what a session finds
// to differ is the end (EX3).
func TestOrphan(t *testing.T) {
	for _, lacks := range []bool{true, false} {
		r := begin()
		r.lacks = lacks
		t6, w := r.own(6, 9, session.Submission{Writeset: rows(writeset.OpUpdate)})
		w.Commits(false)
		if err := r.execute(context.Background(), group(t6)); err != nil {
			t.Fatal(err)
		}
		want := []string{"orphan 9", "look for 9's", "apply [6] to 7", "done, waiting false"}
		if !lacks {
			want = slices.Delete(want, 2, 3)
		}
		r.expect(t, fmt.Sprintf("a failed COMMIT, whose rows lack %v", lacks), want...)
		if r.added != nil {
			t.Errorf("it has added %v", r.added)
		}
	}
	r := begin()
	t6, w := r.own(6, 9, session.Submission{Writeset: rows(writeset.OpUpdate)})
	w.Diverged = errors.New("another row")
	w.Commits(true)
	var fatal *failure.Fatal
	if err := r.execute(context.Background(), group(t6)); !errors.As(err, &fatal) || len(r.did) > 0 {
		t.Errorf("of a database that differs: %v, after %v", err, r.did)
	}
}

// TestOwnSteps: behind a session's own definitions the tables are read anew; others' are carried out as a job, or were
// executed ahead. What is executed ahead gives way first (EX4).
func TestOwnSteps(t *testing.T) {
	r := begin()
	steps := rows(writeset.OpInsert)
	steps.Steps = []writeset.Step{{}}
	t6, w := r.own(6, 9, session.Submission{Writeset: steps})
	w.Commits(true)
	if err := r.execute(context.Background(), group(t6)); err != nil {
		t.Fatal(err)
	}
	r.expect(t, "own steps", "give way but for [6]", "changed", "described", "done, waiting false", "give way")
	if err := r.execute(context.Background(), group(theirs(8, steps))); err != nil {
		t.Fatal(err)
	}
	r.expect(t, "others' steps", "give way but for [8]", "steps of 8", "done, waiting false", "give way")
	r.ahead = true
	if err := r.execute(context.Background(), group(theirs(9, steps))); err != nil {
		t.Fatal(err)
	}
	r.expect(t, "ahead", "give way but for [9]", "commit [9]", "described", "done, waiting false", "give way")
	if err := r.execute(context.Background(), group(theirs(10, rows(writeset.OpInsert)))); err != nil {
		t.Fatal(err)
	}
	r.expect(t, "rows, ahead", "commit [10]", "done, waiting false")
}

// TestBlind: the session of a blind transaction hears whether its row was found.
func TestBlind(t *testing.T) {
	for _, missed := range []bool{true, false} {
		r := begin()
		r.missed = missed
		t6, w := r.own(6, 9, session.Submission{Writeset: &writeset.Writeset{Tables: []writeset.Table{{Name: "t"}},
			Rows: []writeset.Row{{Op: writeset.OpSet, Identity: 7}}}})
		t6.Local = false
		if err := r.execute(context.Background(), group(t6)); err != nil {
			t.Fatal(err)
		}
		if d := <-w.Decision; !d.Commit || w.Missed != missed {
			t.Errorf("it is told %+v and that its row was missed %v, want %v", d, w.Missed, missed)
		}
	}
}

// statement is a group of a definition.
func statement(d session.Definition) *engine.Group {
	w := &writeset.Writeset{Shared: d.Database.Name != "",
		Steps: []writeset.Step{{Definition: replay.EncodeDefinition(d)}}}
	return group(engine.Task{Ordinal: 8, Writeset: w, Item: engine.Item{Kind: engine.KindStatement}})
}

// TestDefinitions: each kind of definition is carried out its own way, and answered once it counts as applied, unless
// it goes on.
func TestDefinitions(t *testing.T) {
	detach := session.Detach{Parent: [2]string{"s", "t"}, Partition: [2]string{"s", "p"}}
	ends := detach
	ends.Ends = true
	for name, c := range map[string]struct {
		d      session.Definition
		does   []string
		long   bool
		answer string
	}{
		"any":        {d: session.Definition{SQL: "CREATE"}, does: []string{"define CREATE to 9"}, answer: "CREATE"},
		"a long one": {d: session.Definition{SQL: "CREATE"}, does: []string{"define CREATE to 9"}, long: true},
		"an index": {d: session.Definition{Index: session.Index{Schema: "s", Table: "t", Name: "i"}},
			does: []string{"build i"}},
		"a detachment": {d: session.Definition{Detach: detach}, does: []string{"detach p"}},
		"its end":      {d: session.Definition{Detach: ends}, does: []string{"end detaching p"}, answer: "ALTER"},
		"a database": {d: session.Definition{
			Cluster: semantics.Cluster{Database: semantics.Database{Does: semantics.CreatesDatabase, Name: "d"}}},
			does: []string{"create d at 8, to 9"}, answer: "CREATE DATABASE"},
	} {
		r := begin()
		r.long = c.long
		if err := r.execute(context.Background(), statement(c.d)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := append([]string{"give way but for [8]"}, append(c.does, "done, waiting true", "settled", "give way")...)
		if c.d.Database.Name != "" {
			want = append([]string{"hold meeting 8", "unlearn"}, want...)
			want = slices.Insert(want, len(want)-3, "unlearn") // before anybody is told
		}
		r.expect(t, name, want...)
		if got := fmt.Sprint(r.answers); got != fmt.Sprint([]session.Result{{Tag: c.answer}}) &&
			(c.answer != "" || len(r.answers) > 0) {
			t.Errorf("%s: answered is %s", name, got)
		}
	}
	r := begin()
	g := statement(session.Definition{})
	g.Tasks[0].Writeset.Steps[0].Definition = replay.EncodeMeeting(12)
	if err := r.execute(context.Background(), g); err != nil {
		t.Fatal(err)
	}
	r.expect(t, "a meeting", "give way but for [8]", "attend meeting 12", "unlearn", "done, waiting true",
		"give way")
	var fatal *failure.Fatal
	g.Tasks[0].Writeset.Steps[0].Definition = []byte{250}
	if err := r.execute(context.Background(), g); !errors.As(err, &fatal) {
		t.Errorf("a definition that nobody can read: %v", err)
	}
}

// TestAlone: a fence of this life, and no other, has the replica serve, or adopt its copy (EX5); who has listened
// hears that it does.
func TestAlone(t *testing.T) {
	r, ctx := begin(), context.Background()
	item := func(kind engine.Kind, id writeset.TxID) *engine.Group {
		return group(engine.Task{Ordinal: 8, Item: engine.Item{Kind: kind, ID: id}})
	}
	old, other := self(3), self(3)
	old.Incarnation, other.Member = 4, 2
	for _, id := range []writeset.TxID{old, other, self(2)} {
		if err := r.execute(ctx, item(engine.KindFence, id)); err != nil || r.serving {
			t.Errorf("with fence %s: serving %v, %v", id, r.serving, err)
		}
		r.expect(t, "another fence", "done, waiting true")
	}
	if err := r.execute(ctx, item(engine.KindFence, self(3))); err != nil || !r.serving {
		t.Errorf("with its own: serving %v, %v", r.serving, err)
	}
	r.expect(t, "the fence", "done, waiting true", "listening from 9", "serves")
	r.o.Copied, r.serving, r.errs["adopted"] = true, false, errors.New("begin anew")
	if err := r.execute(ctx, item(engine.KindFence, self(3))); err != r.errs["adopted"] || r.serving {
		t.Errorf("a copy: serving %v, %v", r.serving, err)
	}
	r.expect(t, "a copy", "done, waiting true", "adopt 9", "adopted")
	for _, c := range []struct {
		g    *engine.Group
		want []string
	}{
		{item(engine.KindListen, self(4)), []string{"listen 8", "done, waiting true", "carried"}},
		{item(engine.KindListen, other), []string{"listen 8", "done, waiting true", "tell 2"}},
		{item(engine.KindCheck, other), []string{"check 8", "done, waiting true"}},
	} {
		if err := r.execute(ctx, c.g); err != nil {
			t.Error(err)
		}
		r.expect(t, "an item", c.want...)
	}
}

// TestHalts: of a group with an entry that cannot be carried out, what comes before is applied, and the replica halts
// there; one that serves ends instead, and one that may succeed is tried again by the next life (EX6).
func TestHalts(t *testing.T) {
	bad, passing := &pgconn.PgError{Code: "23505", Message: "duplicate"}, &pgconn.PgError{Code: "53100"}
	for _, c := range []struct {
		name    string
		err     error
		serving bool
		halted  uint64
	}{{"one that can never be", bad, false, 6}, {"beside clients", bad, true, 0}, {"a full disk", passing, false, 0}} {
		r := begin()
		r.serving = c.serving
		r.errs["apply [5 6 7] to 8"], r.errs["apply [6] to 6"] = c.err, c.err
		ctx, cancel := context.WithCancel(context.Background())
		go func() { <-r.over; cancel() }()
		r.groups <- group(theirs(5, rows(writeset.OpInsert)), theirs(6, rows(writeset.OpInsert)),
			theirs(7, rows(writeset.OpInsert)))
		err := r.Run(ctx)
		did := []string{"resume", "apply [5 6 7] to 8"}
		if c.halted > 0 {
			did = append(did, "apply [5] to 5", "apply [6] to 6")
		}
		r.expect(t, c.name, did...)
		if halted := r.halted != nil; halted != (c.halted > 0) || halted && r.halted.Ordinal != c.halted ||
			halted == (err != nil) {
			t.Errorf("%s: halted at %+v, %v", c.name, r.halted, err)
		}
		var pg *pgconn.PgError
		if c.serving && errors.As(err, &pg) {
			t.Errorf("%s: %v would end the process", c.name, err)
		}
		cancel()
	}
}

// TestRun: it begins with what was under way, ends a long definition when that is over, and rests after each group.
func TestRun(t *testing.T) {
	r := begin()
	ctx, cancel := context.WithCancel(context.Background())
	r.long, r.then = true, group(theirs(5, rows(writeset.OpInsert)))
	go func() { <-r.over; cancel() }()
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	r.expect(t, "a run", "resume", "end the long one", "apply [5] to 6", "done, waiting false", "rest")
	r = begin()
	r.long, r.errs["end the long one"] = true, &pgconn.PgError{Code: "23505"}
	ctx, cancel = context.WithCancel(context.Background())
	go func() { <-r.over; cancel() }()
	if err := r.Run(ctx); err != nil || r.halted == nil || r.halted.Ordinal != 77 {
		t.Errorf("a long one that fails: %v, %+v", err, r.halted)
	}
	r = begin()
	r.errs["resume"] = context.DeadlineExceeded
	if err := r.Run(context.Background()); err != context.DeadlineExceeded || r.halted != nil {
		t.Errorf("what it cannot resume: %v, %+v", err, r.halted)
	}
}

// TestNewerDefinition: what only a newer release understands ends the process, and does not halt the database.
func TestNewerDefinition(t *testing.T) {
	r := begin()
	g := group(engine.Task{Ordinal: 5, Item: engine.Item{Kind: engine.KindStatement, ID: self(9)},
		Writeset: &writeset.Writeset{Steps: []writeset.Step{{Definition: []byte{99}}}}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := r.failed(ctx, g, r.execute(ctx, g))
	if !failure.NotUnderstood(err) || r.halted != nil || strings.Contains(fmt.Sprint(r.did), "done") {
		t.Errorf("%v, halted %v, after %v", err, r.halted, r.did)
	}
}
