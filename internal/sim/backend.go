package sim

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// backend is the model of a PostgreSQL process, as a production session sees it: frames in, frames out. It knows the
// statements that simulated clients send, and those that a session sends itself.
type backend struct {
	s    *served
	d    *database
	in   []byte // of the session, unread
	out  inlet  // to the session
	text map[string]string

	portal execution // the one without a name
	skips  bool      // up to the next Sync
	busy   bool      // something is executed
	calls  int       // executions so far, so that one that was cancelled does not go on
	dead   bool
	runs   execution // what is executed

	openWork
}

// openWork is a transaction of a backend.
type openWork struct {
	t       *tx // nil: none
	failed  bool
	setting string   // of tutti.tx; empty: writes are refused
	reads   bool     // it is READ ONLY
	snapped bool     // its one snapshot is taken
	events  []change // all that it has changed, in order
	caught  []change // of these, what was captured
	saves   []savepoint
	ends    bool // it commits
}

// savepoint is what ROLLBACK TO goes back to.
type savepoint struct {
	events, caught int
	setting        string
}

// execution is a statement with its parameters.
type execution struct {
	text   string
	values [][]byte
	simple bool // it came as a Query
}

// answer is what an execution has come to.
type answer struct {
	columns []string
	rows    [][][]byte
	tag     string
	failed  *wire.SQLError
}

func newBackend(s *served) *backend {
	b := &backend{s: s, d: s.m.db, text: map[string]string{}}
	b.out.s = s
	return b
}

// Write takes what the session sends. It is looked at a moment later.
func (b *backend) Write(p []byte) (int, error) {
	if b.dead {
		return 0, errBroken
	}
	b.in = append(b.in, p...)
	w := b.s.m.w
	w.after(w.rnd.between(1, 20), b.d.in(b.run))
	return len(p), nil
}

// cutFrame takes the first frame off what has come, if all of it has.
func cutFrame(in *[]byte) (f wire.Frame, whole bool) {
	if len(*in) < 5 {
		return f, false
	}
	n := 1 + int(binary.BigEndian.Uint32((*in)[1:]))
	if len(*in) < n {
		return f, false
	}
	f = wire.Frame{Type: (*in)[0], Raw: (*in)[:n:n]}
	*in = (*in)[n:]
	return f, true
}

// run takes frames until one has to wait.
func (b *backend) run() {
	for !b.dead && !b.busy {
		f, whole := cutFrame(&b.in)
		if !whole {
			break
		}
		b.take(f)
	}
	b.s.wake()
}

// send answers.
func (b *backend) send(f func(dst []byte) []byte) { b.out.buf = f(b.out.buf) }

// take carries a frame out, or begins to.
func (b *backend) take(f wire.Frame) {
	if b.skips && f.Type != wire.TypeSync {
		return
	}
	switch f.Type {
	case wire.TypeParse:
		p, err := wire.DecodeParse(f.Body())
		must(err)
		if _, there := b.text[p.Name]; there && p.Name != "" {
			b.refuse(wire.Errorf(wire.CodeDuplicatePreparedStmt, "prepared statement %q already exists", p.Name))
			return
		}
		if b.failed && !exits(p.SQL) {
			b.refuse(errAborted())
			return
		}
		b.text[p.Name] = p.SQL
		b.send(wire.AppendParseComplete)
	case wire.TypeBind:
		b.bind(f)
	case wire.TypeDescribe:
		b.describe(f)
	case wire.TypeExecute:
		b.execute(b.portal)
	case wire.TypeClose:
		if kind, name, err := wire.DecodeTarget(f.Body()); err == nil && kind == 'S' {
			delete(b.text, name)
		}
		b.send(wire.AppendCloseComplete)
	case wire.TypeSync:
		b.skips = false
		b.ready()
	case wire.TypeQuery:
		sql, err := wire.DecodeQuery(f.Body())
		must(err)
		delete(b.text, "")
		b.execute(execution{text: sql, simple: true})
	}
}

func (b *backend) bind(f wire.Frame) {
	m, err := wire.DecodeBind(f.Body())
	must(err)
	sql, there := b.text[m.Statement]
	if !there {
		b.refuse(wire.Errorf(wire.CodeInvalidStatementName, "prepared statement %q does not exist", m.Statement))
		return
	}
	if b.failed && !exits(sql) {
		b.refuse(errAborted())
		return
	}
	_, values, err := wire.DecodeBindValues(m.Rest)
	must(err)
	for i := range values {
		values[i] = slices.Clone(values[i])
	}
	b.portal = execution{text: sql, values: values}
	b.send(wire.AppendBindComplete)
}

func (b *backend) describe(f wire.Frame) {
	kind, name, err := wire.DecodeTarget(f.Body())
	must(err)
	sql := b.portal.text
	if kind == 'S' {
		sql = b.text[name]
		b.send(func(dst []byte) []byte { return wire.AppendParameterDescription(dst, nil) })
	}
	if columns := columnsOf(sql); columns != nil {
		b.send(func(dst []byte) []byte { return wire.AppendRowDescription(dst, described(columns)) })
	} else {
		b.send(wire.AppendNoData)
	}
}

// described are columns as a RowDescription has them.
func described(names []string) (columns []wire.Column) {
	for _, n := range names {
		columns = append(columns, wire.TextColumn(n))
	}
	return columns
}

// ready tells how the transaction stands.
func (b *backend) ready() {
	status := byte(wire.TxIdle)
	if b.failed {
		status = wire.TxFailed
	} else if b.t != nil {
		status = wire.TxActive
	}
	b.send(func(dst []byte) []byte { return wire.AppendReadyForQuery(dst, status) })
}

// refuse fails what a message asks for, and with it the transaction.
func (b *backend) refuse(e *wire.SQLError) {
	b.fails()
	b.send(e.Append)
	b.skips = true
}

// fails fails the transaction, if there is one.
func (b *backend) fails() {
	if b.t == nil || b.failed {
		return
	}
	b.failed = true
	if len(b.saves) == 0 {
		b.events, b.caught = nil, nil
		b.net()
		b.d.releaseAll(b.t)
		return
	}
	b.d.stopWaiting(b.t)
}

// execute runs a statement: most at once, those that look at rows take time.
func (b *backend) execute(x execution) {
	b.runs = x
	b.calls++
	switch call := b.calls; {
	case b.failed && !exits(x.text):
		b.done(answer{failed: errAborted()})
	case x.text == "COMMIT" && b.t != nil && !b.failed:
		b.commit()
	case takesTime(x.text):
		b.busy = true
		w := b.s.m.w
		w.after(w.rnd.between(10, w.swarm.statementMax)*b.d.slowness(), b.d.in(func() {
			if b.calls == call && !b.dead {
				b.perform()
			}
		}))
	default:
		b.done(b.own(x))
	}
}

// perform carries out the data statement that is executed; again from its start if it had to wait for a lock.
func (b *backend) perform() {
	a, waits := b.data(b.runs)
	if waits {
		if deadlocked(b.t) {
			b.s.m.w.stats.Deadlocks++
			b.done(answer{failed: wire.Errorf(wire.CodeDeadlockDetected, "deadlock detected")})
		} else if b.s.commits() {
			b.s.m.watch(b.t.wait)
		}
		return
	}
	b.done(a)
}

// lock takes the lock of a row, or makes the statement wait.
func (b *backend) lock(k rowKey, mode writeset.Mode) bool {
	call := b.calls
	return b.d.lockFor(k.identity()).acquire(b.t, mode, b.d.in(func() {
		if b.calls == call && !b.dead {
			b.perform()
			b.run()
		}
	}))
}

// cancel is the signal that ends what is executed, if something is.
func (b *backend) cancel() {
	if b.dead || !b.busy || b.ends {
		return
	}
	if b.t != nil {
		b.d.stopWaiting(b.t)
	}
	b.calls++
	b.done(answer{failed: wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to user request")})
}

// done answers an execution, and goes on with what came behind it.
func (b *backend) done(a answer) {
	again := b.busy
	b.busy = false
	if a.failed != nil {
		b.fails()
		b.send(a.failed.Append)
		b.skips = !b.runs.simple
	} else {
		if b.runs.simple && a.columns != nil {
			b.send(func(dst []byte) []byte { return wire.AppendRowDescription(dst, described(a.columns)) })
		}
		for _, r := range a.rows {
			b.send(func(dst []byte) []byte { return wire.AppendDataRow(dst, r) })
		}
		b.send(func(dst []byte) []byte { return wire.AppendCommandComplete(dst, a.tag) })
	}
	if b.runs.simple {
		b.ready()
	}
	if again {
		b.run()
	}
}

// begin begins a transaction.
func (b *backend) begin(repeat bool) {
	b.openWork = openWork{t: b.d.begin(b.s, repeat)}
}

// commit commits the transaction. One that has changed nothing leaves nothing in the log; a cancel can hit the COMMIT
// of that as any other statement.
func (b *backend) commit() {
	t := b.t
	if len(t.changes) == 0 && len(t.marks) == 0 {
		call, w := b.calls, b.s.m.w
		b.busy = true
		w.after(w.rnd.between(1, w.swarm.statementMax), b.d.in(func() {
			if b.calls == call && !b.dead {
				t.rollback()
				b.openWork = openWork{}
				b.done(answer{tag: "COMMIT"})
			}
		}))
		return
	}
	b.busy, b.ends = true, true
	t.commit(func() {
		b.s.shown(t)
		if !b.dead {
			b.openWork = openWork{}
			b.done(answer{tag: "COMMIT"})
		}
	})
}

// rollback ends the transaction without effects.
func (b *backend) rollback() {
	if b.t != nil {
		b.t.rollback()
	}
	b.openWork = openWork{}
}

// die ends the process. What it had logged stays.
func (b *backend) die() {
	if b.dead {
		return
	}
	b.dead, b.out.closed = true, true
	if b.t != nil {
		b.t.rollback()
	}
	b.s.backendDied()
	b.s.wake()
}

// exits reports whether a statement may run in a transaction that has failed.
func exits(sql string) bool {
	return sql == "COMMIT" || strings.HasPrefix(sql, "ROLLBACK")
}

func errAborted() *wire.SQLError {
	return wire.Errorf(wire.CodeInFailedTransaction,
		"current transaction is aborted, commands ignored until end of transaction block")
}
