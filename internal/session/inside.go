package session

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// A procedure, or DO, may commit. Then it runs outside of a transaction of ours, and each of its transactions, before
// it commits, asks the session by an INFO what to do (capture.InsideState), as a function asks for advisory locks. The
// session has it carry out the collect step, hands the writeset over, and lets it go on or fail.

// procedures runs statements that may commit.
type procedures struct {
	backend    *backend
	host       proceduresHost
	conversing Conversing
	results    *proto.Results
	triesMax   int

	txn        *txn.Machine
	tx         *transaction
	block      *block
	levels     *levels
	collecting *collecting
	relaying   *relaying
	schema     *schema
	advisory   *advisory

	inside inside
}

// proceduresHost is what it needs of the node.
type proceduresHost struct {
	Control
	Order
	Intents
	Procedures
}

// inside is what a session has of that, for one statement.
type inside struct {
	calling bool
	commits int            // its transactions that have committed, if they wrote something
	first   bool           // its first one has begun to write
	later   bool           // a later one has; those before may have committed what is not replicated
	lost    *wire.SQLError // what the client is told when the transaction that waits fails
	talk    *talk          // the one that is under way
	stopped string         // with what the statement was cancelled while the log decided
}

// talk is a conversation with a transaction.
type talk struct {
	said int
	r    *reply // of the statement
}

// errOver says that the statement has failed while its transaction was talked to, and the client was told.
var errOver = errors.New("session: the procedure has failed")

// commitsInside reports whether a request is a statement that may commit, in a session where that can be followed.
func (p *procedures) commitsInside(r *request) (bool, error) {
	if r.does.added != 1 || !r.does.commits && r.does.calls == "" || p.levels.level >= semantics.RepeatableRead {
		return false, nil
	}
	if r.does.commits {
		return true, nil
	}
	rows, err := p.backend.query("SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.prokind " +
		"OPERATOR(pg_catalog.=) 'p' AND p.proname OPERATOR(pg_catalog.=) " + quoted(r.does.calls) +
		"::pg_catalog.name AND p.prosrc OPERATOR(pg_catalog.~*) '(commit|rollback|call)')")
	return err == nil && string(rows[0][0]) == "t", err
}

// call runs such a statement, and again if its first transaction has lost and the client has seen nothing yet.
func (p *procedures) call(r request, rep *reply) (bool, error) {
	parsed := rep.parsed
	p.host.Writing("")
	for try := 0; ; try++ {
		again, since, err := p.callOnce(r, closeFirst(r, parsed), rep)
		if err != nil {
			return true, err
		}
		parsed = max(parsed, rep.parsed)
		if again && !p.results.Spilled() && try < p.triesMax && r.does.outlives&effects == 0 {
			again, err := p.advisory.giveBack()
			if err != nil {
				return true, err
			}
			if again {
				p.results.Drop()
				p.block.reset()
				continue
			}
		}
		var failure *wire.SQLError
		if since != "" {
			if failure, err = p.shareBehind(since); err != nil {
				return true, err
			}
		}
		return p.endCall(&r, rep, failure)
	}
}

// endCall passes on what is held, and the failure of what came behind the statement, if there is one.
func (p *procedures) endCall(r *request, rep *reply, failure *wire.SQLError) (failedToo bool, err error) {
	switch {
	case failure == nil:
	case rep.failed != nil: // it is told beside the other one
		failure.Severity = wire.SeverityWarning
		p.results.Notice(wire.AppendNoticeResponse(nil, failure.ErrorFields))
		failure = nil
	case !r.extended:
		p.results.Uncommitted()
	}
	p.results.Release()
	p.block.reset()
	if failure != nil {
		return true, p.block.fail(failure)
	}
	return rep.failed != nil, nil
}

// callOnce is one try. It reports whether that has lost before it had committed anything, and, if roles, what they may
// do to databases, or owners have changed meanwhile, since which transaction: PostgreSQL tells nobody of it if a
// transaction does nothing else.
func (p *procedures) callOnce(r request, closes []byte, rep *reply) (lost bool, since string, err error) {
	if err := p.relaying.anew(&r, closes); err != nil {
		return false, "", err
	}
	p.tx.base = p.host.Base()
	before, err := p.backend.query(insideOn)
	if err != nil {
		return false, "", err
	}
	p.inside = inside{calling: true}
	p.backend.out.Append(r.frames)
	*rep, err = p.relaying.relay(r)
	calls := p.inside
	p.inside = inside{}
	if err != nil {
		return false, "", err
	}
	lost = rep.failed != nil && calls.first && !calls.later && calls.commits == 0 &&
		(p.tx.doomed() || calls.lost != nil && calls.lost.Code == wire.CodeSerializationFailure ||
			rep.failed.Code == wire.CodeSerializationFailure)
	p.host.Enter(PhaseIdle)
	p.txn.Absolve()
	for {
		off, after, err := p.backend.ask(insideOff)
		if err != nil {
			return lost, "", err
		}
		if off.failed == nil {
			return lost, changedSince(before[0], after[0]), nil
		}
		if off.failed.Code != wire.CodeQueryCanceled { // a cancel meant for the statement may hit ours
			return lost, "", fmt.Errorf("session: %s: %s", insideOff, off.failed.Message)
		}
	}
}

// changedSince is since when roles, databases or owners have changed, from the answers to insideOn and insideOff; empty
// if they have not.
func changedSince(before, after [][]byte) string {
	if string(before[0]) == string(after[0]) {
		return ""
	}
	return string(before[1])
}

// What goes before and behind such a statement. The first answers differ if roles, databases or owners have changed in
// between.
const (
	insideOn = "SELECT tutti.shared_version(), pg_catalog.set_config('tutti.since', " +
		"pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.text, false), " +
		"pg_catalog.set_config('tutti.tx', 'procedure', false)"
	insideOff = "SELECT tutti.shared_version(), pg_catalog.set_config('tutti.tx', '', false), " +
		"pg_catalog.set_config('tutti.shared', '', false), pg_catalog.set_config('tutti.since', '', false)"
	// insideShares notes what roles and databases look like, and whose is what was changed since a transaction.
	insideShares = "SELECT tutti.note_shared_behind('%s')"
)

// shareBehind has the other members make roles, databases and owners as they are here, in a transaction of its own.
func (p *procedures) shareBehind(since string) (failure *wire.SQLError, err error) {
	for try := 0; ; try++ {
		p.block.reset()
		var retry bool
		if failure, retry, err = p.shareOnce(since); err != nil || failure == nil {
			return nil, err
		}
		if !retry || try == p.triesMax {
			const alone = "what was committed of roles and databases is at this member alone: %s"
			told := wire.Errorf(failure.Code, alone, failure.Message)
			return told.WithHint("%s", failure.Hint), nil
		}
	}
}

func (p *procedures) shareOnce(since string) (failure *wire.SQLError, retry bool, err error) {
	if err := p.tx.ensureOpen(true); err != nil {
		return nil, false, err
	}
	if doom := p.txn.Reason(); doom != nil && !p.txn.Open() {
		p.txn.Absolve()
		return doom, doom.Code == wire.CodeSerializationFailure, nil
	}
	p.host.Writing("")
	r, _, err := p.backend.ask(fmt.Sprintf(insideShares, since))
	if err != nil {
		return nil, false, err
	}
	if r.failed != nil {
		failure, retry = failureOf(r), p.tx.doomed() || r.failed.Code == wire.CodeSerializationFailure
		return failure, retry, p.tx.rollbackServer()
	}
	c := p.collecting.appendCollect()
	if err := p.tx.collect(&c, true); err != nil {
		return nil, false, err
	}
	return p.tx.settle(c)
}

// enteredFirst is what the first of its transactions says when it begins to write: capture.EnteredFirst.
const enteredFirst = "first"

// entered notes what a transaction says when it begins to write.
func (i *inside) entered(message string) {
	i.first = i.first || message == enteredFirst
	i.later = i.later || message != enteredFirst
}

// commitInside ends a transaction that asks for it. What it says later is heard by say.
func (p *procedures) commitInside(message string, r *reply) (ours bool, err error) {
	conversation, kind, rest, ok := p.conversing.InsideMessage(message)
	if !ok {
		return false, nil
	}
	if kind == "cancelled" {
		p.inside.stopped = rest
		p.host.Cancel()
		return true, nil
	}
	if kind != "commit" {
		return true, fmt.Errorf("%w: a transaction says %q unasked", errBackend, kind)
	}
	if err := p.host.Attend(conversation); err != nil {
		return true, err
	}
	defer p.host.Leave()
	t := &talk{r: r}
	p.inside.talk = t
	err = p.endInside(t)
	p.inside.talk = nil
	if errors.Is(err, errOver) {
		err = nil
	}
	return true, err
}

func (p *procedures) endInside(t *talk) error {
	if !p.inside.calling {
		return p.failInside(t, nil)
	}
	c, err := p.collectInside(t)
	switch {
	case err != nil:
		return err
	case c.failed != nil:
		return p.failInside(t, c.failed)
	case c.ws == nil || c.ws.Empty():
		t.said++
		return p.host.Say(t.said, insideGo)
	}
	if failure := p.collecting.share(c.ws); failure != nil {
		return p.failInside(t, failure)
	}
	doom := p.host.Pass(c.ws, nil)
	if doom == nil {
		doom = p.host.Enter(PhaseSubmitted)
	}
	if doom != nil {
		return p.failInside(t, doom)
	}
	d := p.host.Submit(Submission{Seq: c.seq, Base: p.tx.base, Order: c.order, Writeset: c.ws})
	if !d.Commit {
		if d.Err.Severity == wire.SeverityFatal {
			return p.block.fail(d.Err)
		}
		return p.failInside(t, d.Err)
	}
	t.said++
	if err := p.host.GoesOn(t.said, c.seq); err != nil {
		return fmt.Errorf("%w: %w", errBackend, err) // it is ended: nobody can speak to it
	}
	p.inside.commits++
	*p.schema = schema{}
	p.host.Enter(PhaseIdle)
	p.tx.doomed()
	p.tx.base = p.host.Follows()
	if p.inside.stopped != "" {
		p.host.Cancel()
	}
	return nil
}

// Commands besides SQL: capture.InsideGo and capture.InsideFail.
const (
	insideGo   = "go"
	insideFail = "fail"
)

// failInside has the transaction fail; the client is told why.
func (p *procedures) failInside(t *talk, why *wire.SQLError) error {
	p.inside.lost = why
	_, err := p.say(t, insideFail)
	return err
}

// collectInside is the collect step.
func (p *procedures) collectInside(t *talk) (c collected, err error) {
	for followed := false; ; followed = true {
		c = collected{marked: true}
		c.slot, c.incarnation, c.seq = p.host.NewSeq()
		rows, err := p.say(t, p.conversing.InsideCommand(c.slot, c.incarnation, c.seq))
		if err == nil {
			err = p.collecting.decode(&c, rows, p.rereadInside)
		}
		if errors.As(err, &c.failed) {
			return c, nil
		}
		if err != nil || !c.unfollowed || followed {
			return c, err
		}
		if rows, err = p.say(t, p.conversing.AskFollowCommand()); err != nil {
			return c, err
		}
		if len(rows) != 1 || len(rows[0]) != 1 {
			return c, errors.New("session: what definitions need was not answered")
		}
		command, err := p.conversing.FollowCommand(rows[0][0])
		if errors.As(err, &c.failed) {
			return c, nil
		}
		if err != nil {
			return c, err
		}
		if _, err := p.say(t, command); err != nil {
			return c, err
		}
	}
}

// rereadInside has the transaction that waits read rows again.
func (p *procedures) rereadInside(q Reread) (rows [][][]byte, failure *wire.SQLError, err error) {
	array, typ, err := p.host.Texts(q)
	if errors.As(err, &failure) {
		return nil, failure, nil
	}
	if err != nil {
		return nil, nil, err
	}
	rows, err = p.say(p.inside.talk, q.Command(array, typ))
	return rows, nil, err
}

// say has the transaction carry a command out and returns the rows of its answer. With errOver it has failed.
func (p *procedures) say(t *talk, command string) ([][][]byte, error) {
	t.said++
	if err := p.host.Say(t.said, command); err != nil {
		return nil, err
	}
	got := gathered{limits: &p.backend.limits}
	for {
		f, err := p.backend.next()
		if err != nil {
			return nil, err
		}
		switch f.Type {
		case wire.TypeErrorResponse:
			if err := p.relaying.passError(f, t.r); err != nil {
				return nil, err
			}
			return nil, errOver
		case wire.TypeParameterStatus, wire.TypeNotificationResponse:
			if err := p.relaying.postpone(f); err != nil {
				return nil, err
			}
		case wire.TypeNoticeResponse:
			row, done, err := p.overhear(f, t.r)
			switch {
			case err != nil:
				return nil, err
			case done && got.refused != nil:
				return nil, got.refused
			case done:
				return got.rows, nil
			case row != nil:
				got.add(row)
			}
		default:
			return nil, fmt.Errorf("%w: it sent a frame of type %q while its transaction was talked to", errBackend,
				f.Type)
		}
	}
}

// overhear takes a notice in a conversation.
func (p *procedures) overhear(f wire.Frame, r *reply) (row [][]byte, done bool, err error) {
	e, err := wire.DecodeErrorFields(f.Body())
	if err != nil {
		return nil, false, err
	}
	if e.Code == wire.CodeTuttiInside {
		if _, kind, rest, ok := p.conversing.InsideMessage(e.Message); ok {
			switch kind {
			case "row":
				row, err = p.conversing.ReadRecord(rest)
			case "cancelled":
				p.inside.stopped = rest
			}
			return row, kind == "done", err
		}
	}
	if ours, err := p.relaying.noticed(f, r); ours || err != nil {
		return nil, false, err
	}
	return nil, false, p.results.Remark(f)
}

// insideFrames is what the function that ends a transaction of a procedure's adds to an error's context.
var insideFrames = regexp.MustCompile(`(?m)^PL/pgSQL function tutti\.commit_inside\(\) line .* at ` +
	`RAISE(\n|$)|^(PL/pgSQL function tutti\.converse\(\) line .*\n)?[^\n]*(SET CONSTRAINTS ALL IMMEDIATE|SELECT ` +
	`tutti\.converse\(\)).*\nPL/pgSQL function tutti\.commit_inside\(\) line .*(\n|$)`)

// failed words the error with which a transaction of a procedure's fails. False if it is no such error.
func (i *inside) failed(e *wire.ErrorFields) bool {
	if e.Code == wire.CodeQueryCanceled && i.stopped != "" {
		e.Message = i.stopped
		return true
	}
	at := insideFrames.FindStringIndex(e.Where)
	if at == nil {
		return false
	}
	where := strings.TrimSuffix(e.Where[:at[0]]+e.Where[at[1]:], "\n")
	if i.lost != nil {
		*e = i.lost.ErrorFields
	}
	e.Where = where
	return true
}
