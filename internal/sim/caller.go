package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/session/plan"
	"github.com/tuttidb/tutti/internal/wire"
)

// callers are the clients that speak PostgreSQL's protocol with production sessions.
type callers struct {
	list  []*caller
	runs  *served           // the one that runs
	all   []*served         // sessions there were
	early uint64            // the last ordinal that has committed before its group
	wrote map[rowKey]uint64 // at which ordinal a row was changed last
	w     *world
}

// callersSalt spreads the seeds that have callers. None of those in rare does.
const callersSalt = 0x5ef6

// newCallers draws how many there are. What else a seed does not depend on it, as long as there are none.
func newCallers(w *world) *callers {
	cs := &callers{w: w, wrote: map[rowKey]uint64{}}
	draw := mix(w.seed ^ callersSalt)
	if draw%3 != 0 {
		return cs
	}
	for i := range []int{1, 3, 6}[draw/3%3] {
		c := &caller{w: w, home: w.members[i%w.swarm.members]}
		w.processes++
		c.process = w.processes
		cs.list = append(cs.list, c)
	}
	return cs
}

// begin lets them begin.
func (cs *callers) begin() {
	for _, c := range cs.list {
		c.next()
	}
}

// planned counts how statements are carried out.
func (cs *callers) planned(p plan.Plan) {
	n := &cs.w.stats.Served
	switch p.Kind {
	case plan.Blind:
		n.Blind++
	case plan.Defer:
		n.Deferred++
	case plan.Delta:
		n.Delta++
	case plan.ReadThrough:
		n.ReadThrough++
	case plan.Returning:
		n.Returning++
	default:
		n.Plain++
	}
}

// of are the sessions of a member.
func (cs *callers) of(m *member) (out []*served) {
	for _, s := range cs.all {
		if s.m == m && !s.gone {
			out = append(out, s)
		}
	}
	return out
}

// stop ends all coroutines.
func (cs *callers) stop() {
	for _, s := range cs.all {
		s.gone = true
		s.co.stop()
	}
}

// kill ends the backend of one of a member's sessions.
func (cs *callers) kill(m *member) {
	if all := cs.of(m); len(all) > 0 && cs.w.rnd.chance(500) {
		s := all[cs.w.rnd.intn(len(all))]
		for _, o := range all {
			if o.commits() && cs.w.rnd.chance(300) {
				s = o // the worst moment
			}
		}
		cs.w.stats.Served.Kills++
		s.b.die()
	}
}

// callKind is what a client asks for.
type callKind uint8

const (
	callData callKind = iota
	callBegin
	callCommit
	callRollback
	callSave
	callBack // to the savepoint
	callFails
)

// call is one statement.
type call struct {
	kind callKind
	sql  string  // with parameters
	args []int64 // of these
	verb dataVerb
	key  rowKey
	n    int64
	more []call // in the same batch
}

// all are the statements of its batch.
func (x *call) all() []call { return append([]call{*x}, x.more...) }

// caller is a client: it runs one script after the other, and notes what it is told.
type caller struct {
	w       *world
	home    *member
	s       *served
	process int
	idle    bool

	a        *attempt // nil: none
	script   []call
	before   []call // the block that it has run last; nil: that was none
	pc       int
	awaits   bool // the answer to a statement, or to its connection
	number   int  // statements sent, so that what comes late is known
	cancels  bool // it has asked to cancel something in this transaction
	prepared map[string]string
	parses   [2]string // a text that is being prepared, and its name

	heard []byte
	reply
}

// reply is the answer to a statement, so far.
type reply struct {
	rows   [][]string
	tags   []string // of its statements
	failed *wire.ErrorFields
}

// healedPause is how much longer callers wait once the cluster is healed. They all change the same few rows, and a
// client at a member that lags would lose again and again; a node has those who lose take turns.
const healedPause = 20_000

// next starts the next transaction after a pause.
func (c *caller) next() {
	pause := c.w.rnd.between(10, c.w.swarm.thinkMax)
	if c.w.phase > phaseSafety {
		pause += healedPause
	}
	c.w.after(pause, c.begin)
}

func (c *caller) begin() {
	w := c.w
	if w.phase == phaseQuiet {
		c.idle = true
		return
	}
	if home := w.truth.voting.joins.home(c.home, c.s == nil); home != c.home {
		w.processes++
		c.home, c.process = home, w.processes
	}
	if m := c.home; !m.up || !m.open || m.paused {
		w.after(w.rnd.between(1000, 20000), c.begin)
		return
	}
	if c.s == nil {
		c.heard, c.reply, c.prepared = nil, reply{}, map[string]string{}
		c.s, c.awaits, c.a = connect(c.home, c), true, nil
		w.stats.Served.Sessions++
		return
	}
	w.tags++
	c.a = &attempt{tag: w.tags, process: c.process, home: c.home.id, start: w.now, base: c.home.engine.Applied()}
	c.a.told = &told{}
	if c.before != nil && w.rnd.chance(300) {
		c.script = w.callers.again(c.a, c.before)
	} else {
		c.script = w.callers.draw(c.a)
	}
	c.before, c.pc, c.cancels = nil, 0, false
	if c.script[0].kind == callBegin {
		c.before = c.script
	}
	w.history = append(w.history, c.a)
	c.s.a = c.a
	c.send()
}

// send sends the next statement.
func (c *caller) send() {
	w, x := c.w, &c.script[c.pc]
	c.reply, c.awaits = reply{}, true
	c.number++
	w.say("client %d with tag %d at slot %d of %v: %s", c.process, c.a.tag, c.s.slot, c.s.m, x.literal())
	if c.a.told.sends(x); x.kind == callBegin || x.kind == callCommit ||
		len(x.more) == 0 && w.rnd.chance(400) {
		c.s.in.buf = wire.AppendQuery(c.s.in.buf, x.literal())
	} else {
		for _, y := range x.all() {
			c.s.in.buf = c.extended(c.s.in.buf, &y)
		}
		c.s.in.buf = wire.AppendSync(c.s.in.buf)
	}
	c.s.wake()
	c.disturb(c.number)
}

// extended sends a statement with its parameters, prepared under a name once, or without one each time.
func (c *caller) extended(dst []byte, x *call) []byte {
	name, known := c.prepared[x.sql]
	c.parses = [2]string{}
	switch {
	case known:
	case x.kind == callData && len(c.script[c.pc].more) == 0 && c.w.rnd.chance(400):
		name = fmt.Sprint("s", c.number)
		c.parses = [2]string{x.sql, name}
		dst = wire.AppendParse(dst, name, x.sql, nil)
	default:
		dst = wire.AppendParse(dst, "", x.sql, nil)
	}
	values := make([][]byte, len(x.args))
	for i, v := range x.args {
		values[i] = strconv.AppendInt(nil, v, 10)
	}
	dst = wire.AppendBind(dst, "", name, nil, values, nil)
	return wire.AppendExecute(dst, "", 0)
}

// disturb draws what happens while the client waits: it cancels, or goes.
func (c *caller) disturb(number int) {
	w, s := c.w, c.s
	waits := func() bool { return c.s == s && c.awaits && c.number == number }
	if !w.faulty {
		return
	}
	if w.rnd.chance(20) {
		w.after(w.rnd.between(1, 5000), s.m.in(func() {
			if waits() {
				w.stats.Served.Cancels++
				c.cancels = true
				s.cancelClient()
			}
		}))
	}
	if w.rnd.chance(3) {
		w.after(w.rnd.between(1, 5000), s.m.in(func() {
			if waits() {
				w.stats.Served.Gone++
				s.in.closed = true
				s.wake()
				c.lost(s)
			}
		}))
	}
}

// hears takes what comes from a session.
func (c *caller) hears(s *served, p []byte) {
	if c.s != s {
		return
	}
	c.heard = append(c.heard, p...)
	for c.s == s {
		f, whole := cutFrame(&c.heard)
		if !whole {
			return
		}
		c.take(f)
	}
}

func (c *caller) take(f wire.Frame) {
	switch f.Type {
	case wire.TypeDataRow:
		values, err := wire.DecodeDataRow(nil, f.Body())
		must(err)
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = string(v)
		}
		c.rows = append(c.rows, row)
	case wire.TypeParseComplete:
		if c.parses[1] != "" {
			c.prepared[c.parses[0]] = c.parses[1]
		}
	case wire.TypeCommandComplete:
		tag, err := wire.DecodeCommandComplete(f.Body())
		must(err)
		if c.tags = append(c.tags, tag); c.a != nil && len(c.tags) > len(c.script[c.pc].all()) {
			c.w.violation("a client was told twice what its statement has done: %s", c.tags)
		}
	case wire.TypeErrorResponse:
		e, err := wire.DecodeErrorFields(f.Body())
		must(err)
		c.failed = &e
	case wire.TypeReadyForQuery:
		status, err := wire.DecodeReadyForQuery(f.Body())
		must(err)
		c.answered(status)
	}
}

// answered is the end of an answer.
func (c *caller) answered(status byte) {
	if !c.awaits {
		c.w.violation("a client was told that its session is ready, unasked")
	}
	c.awaits = false
	c.w.say("client %d is told %q %q %v, %c", c.process, c.tags, c.rows, c.failed, status)
	if c.a == nil {
		c.next()
		return
	}
	x := &c.script[c.pc]
	if c.failed != nil {
		c.refused(x, status)
		return
	}
	if len(c.tags) != len(x.all()) {
		c.w.violation("a client was told %q of %q", c.tags, x.sql)
	}
	c.a.told.hears(c, x)
	switch {
	case x.kind == callCommit && c.tags[0] == "COMMIT":
		c.finished(outcomeOK)
	case x.kind == callCommit || x.kind == callRollback:
		c.finished(outcomeFail)
	case c.script[0].kind != callBegin:
		c.finished(outcomeOK)
	case status != wire.TxActive:
		c.w.violation("the block of the client with tag %d has ended with %q", c.a.tag, x.sql)
	default:
		c.pc++
		c.thinks()
	}
}

// thinks waits before the next statement of a block. Meanwhile the session may look at what else there is to do.
func (c *caller) thinks() {
	w, s, number := c.w, c.s, c.number
	d := w.rnd.between(1, w.swarm.thinkMax/4)
	if w.rnd.chance(100) {
		w.after(d/2, s.m.in(func() {
			if g := &s.guard; !g.watch && g.phase <= session.PhaseWaiting {
				s.poke()
			}
		}))
	}
	w.after(d, func() {
		if c.s == s && c.number == number {
			c.send()
		}
	})
}

// refused is what a client does about an error.
func (c *caller) refused(x *call, status byte) {
	w, block := c.w, c.script[0].kind == callBegin
	c.allowed(x)
	over := !block || x.kind == callCommit || x.kind == callBegin
	if over != (status == wire.TxIdle) {
		w.violation("%q has failed with %s, and its session says %c", x.sql, c.failed.Code, status)
	}
	c.a.told.pending = nil
	switch {
	case over && c.failed.Code == wire.CodeStatementUnknown:
		c.finished(outcomeUnknown)
	case over:
		c.finished(outcomeFail)
	case x.kind == callRollback:
		w.violation("ROLLBACK has failed with %s: %s", c.failed.Code, c.failed.Message)
	case c.a.told.saved() && x.kind != callBack && w.rnd.chance(500):
		c.script = append(c.script[:c.pc:c.pc], call{kind: callBack, sql: "ROLLBACK TO SAVEPOINT s"},
			call{kind: callCommit, sql: "COMMIT"})
		c.thinks()
	default:
		c.script = append(c.script[:c.pc:c.pc], call{kind: callRollback, sql: "ROLLBACK"})
		c.thinks()
	}
}

// allowed checks that a client may be told of an error (G6).
func (c *caller) allowed(x *call) {
	ok := false
	switch c.failed.Code {
	case wire.CodeSerializationFailure, wire.CodeDeadlockDetected, wire.CodeConfigurationLimit,
		wire.CodeCannotConnectNow, wire.CodeStatementUnknown:
		ok = true
	case wire.CodeUniqueViolation:
		ok = x.verb == dataInsert
	case wire.CodeQueryCanceled:
		ok = c.cancels
	case wire.CodeInFailedTransaction: // the savepoint is gone with a transaction that has lost
		ok = x.kind == callBack
	case "22012":
		ok = x.sql == failing
	case wire.CodeActiveTransaction:
		ok = x.sql == refused
	}
	if !ok {
		c.w.violation("%q has failed with %s: %s", x.sql, c.failed.Code, c.failed.Message)
	}
}

// lost is the end of a connection.
func (c *caller) lost(s *served) {
	if c.s != s {
		return
	}
	greets := c.awaits
	c.s, c.awaits = nil, false
	if c.a == nil {
		if greets { // else it begins soon
			c.next()
		}
		return
	}
	o := outcomeFail
	if x := &c.script[c.pc]; x.kind == callCommit || c.script[0].kind != callBegin {
		o = outcomeUnknown
	}
	c.finished(o)
}

// finished is the end of a transaction.
func (c *caller) finished(o outcome) {
	w, a := c.w, c.a
	a.outcome, a.end = o, w.now
	for _, e := range a.told.pending {
		if e.verb == dataAppend && o == outcomeUnknown {
			a.ops = append(a.ops, listOp{key: e.key.id, value: uint64(e.n)})
		}
	}
	w.note(a.tag, uint64(o), a.base)
	w.stats.count(a)
	w.truth.voting.joins.told(a)
	switch o {
	case outcomeOK:
		w.stats.Served.OK++
	case outcomeFail:
		w.stats.Served.Fail++
	}
	if o == outcomeOK && len(a.told.effects) > 0 && !w.faulty {
		w.alive[a.home-1] = true
	}
	if c.s == nil || o == outcomeUnknown {
		w.processes++
		c.process = w.processes
	}
	if c.s == nil && w.faulty && w.rnd.chance(w.swarm.roamPerMille) {
		c.home = w.truth.voting.joins.home(w.members[w.rnd.intn(len(w.members))], true)
	}
	c.a = nil
	c.next()
}

// literal is the statement with its parameters in it.
func (x *call) literal() string {
	sql := x.sql
	for i, v := range x.args {
		p := "$" + strconv.Itoa(i+1)
		if v < 0 {
			sql, v = strings.Replace(sql, "+ "+p, "- "+p, 1), -v
		}
		sql = strings.Replace(sql, p, strconv.FormatInt(v, 10), 1)
	}
	return sql
}
