package session

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// A procedure, or DO, may commit. Then it runs outside of a transaction of ours, and each of its transactions, before
// it commits, asks the session by an INFO what to do (capture.InsideState), as a function asks for advisory locks. The
// session has it carry out the collect step, hands the writeset over, and lets it go on or fail.

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
func (s *Session) commitsInside(r *request) (bool, error) {
	if r.added != 1 || !r.commits && r.calls == "" || s.levels.level >= semantics.RepeatableRead {
		return false, nil
	}
	if r.commits {
		return true, nil
	}
	rows, err := s.backend.query("SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.prokind " +
		"OPERATOR(pg_catalog.=) 'p' AND p.proname OPERATOR(pg_catalog.=) " + quoted(r.calls) +
		"::pg_catalog.name AND p.prosrc OPERATOR(pg_catalog.~*) '(commit|rollback|call)')")
	return err == nil && string(rows[0][0]) == "t", err
}

// call runs such a statement, and again if its first transaction has lost and the client has seen nothing yet.
func (s *Session) call(r request, rep *reply) (bool, error) {
	parsed := rep.parsed
	s.host.Writing("")
	for try := 0; ; try++ {
		again, shares, err := s.callOnce(r, closeFirst(r, parsed), rep)
		if err != nil {
			return true, err
		}
		parsed = max(parsed, rep.parsed)
		if again && !s.results.Spilled() && try < s.o.RetriesMax && r.outlives&effects == 0 {
			again, err := s.advisory.giveBack()
			if err != nil {
				return true, err
			}
			if again {
				s.results.Drop()
				s.block.reset()
				continue
			}
		}
		var failure *wire.SQLError
		if shares {
			if failure, err = shareBehind(s); err != nil {
				return true, err
			}
		}
		return endCall(s, &r, rep, failure)
	}
}

// endCall passes on what is held, and the failure of what came behind the statement, if there is one.
func endCall(s *Session, r *request, rep *reply, failure *wire.SQLError) (failedToo bool, err error) {
	switch {
	case failure == nil:
	case rep.failed != nil: // it is told beside the other one
		failure.Severity = wire.SeverityWarning
		s.results.Notice(wire.AppendNoticeResponse(nil, failure.ErrorFields))
		failure = nil
	case !r.extended:
		s.results.Uncommitted()
	}
	s.results.Release()
	s.block.reset()
	if failure != nil {
		return true, s.block.fail(failure)
	}
	return rep.failed != nil, nil
}

// callOnce is one try. It reports whether that has lost before it had committed anything, and whether roles, or what
// they may do to databases, have changed meanwhile: PostgreSQL tells nobody of it if a transaction does nothing else.
func (s *Session) callOnce(r request, closes []byte, rep *reply) (lost, shares bool, err error) {
	if err := s.anew(&r, closes); err != nil {
		return false, false, err
	}
	s.tx.base = s.host.Base()
	before, err := s.backend.query(insideOn)
	if err != nil {
		return false, false, err
	}
	s.inside = inside{calling: true}
	s.backend.out.Append(r.frames)
	*rep, err = s.relaying.relay(r)
	calls := s.inside
	s.inside = inside{}
	if err != nil {
		return false, false, err
	}
	lost = rep.failed != nil && calls.first && !calls.later && calls.commits == 0 &&
		(s.tx.doomed() || calls.lost != nil && calls.lost.Code == wire.CodeSerializationFailure ||
			rep.failed.Code == wire.CodeSerializationFailure)
	s.host.Enter(PhaseIdle)
	s.txn.Absolve()
	for {
		off, after, err := s.backend.ask(insideOff)
		if err != nil {
			return lost, false, err
		}
		if off.failed == nil {
			return lost, string(before[0][0]) != string(after[0][0]), nil
		}
		if off.failed.Code != wire.CodeQueryCanceled { // a cancel meant for the statement may hit ours
			return lost, false, fmt.Errorf("session: %s: %s", insideOff, off.failed.Message)
		}
	}
}

// What goes before and behind such a statement. The answers differ if roles or databases have changed in between.
const (
	insideOn  = "SELECT tutti.shared_version(), pg_catalog.set_config('tutti.tx', 'procedure', false)"
	insideOff = "SELECT tutti.shared_version(), pg_catalog.set_config('tutti.tx', '', false), " +
		"pg_catalog.set_config('tutti.shared', '', false)"
	// insideShares notes what roles and databases look like.
	insideShares = "SELECT tutti.note_shared_behind()"
)

// shareBehind has the other members make roles and databases as they are here, in a transaction of its own.
func shareBehind(s *Session) (failure *wire.SQLError, err error) {
	for try := 0; ; try++ {
		s.block.reset()
		var retry bool
		if failure, retry, err = shareOnce(s); err != nil || failure == nil {
			return nil, err
		}
		if !retry || try == s.o.RetriesMax {
			const alone = "what was committed of roles and databases is at this member alone: %s"
			told := wire.Errorf(failure.Code, alone, failure.Message)
			return told.WithHint("%s", failure.Hint), nil
		}
	}
}

func shareOnce(s *Session) (failure *wire.SQLError, retry bool, err error) {
	if err := s.tx.ensureOpen(true); err != nil {
		return nil, false, err
	}
	if doom := s.txn.Reason(); doom != nil && !s.txn.Open() {
		s.txn.Absolve()
		return doom, doom.Code == wire.CodeSerializationFailure, nil
	}
	s.host.Writing("")
	r, _, err := s.backend.ask(insideShares)
	if err != nil {
		return nil, false, err
	}
	if r.failed != nil {
		failure, retry = failureOf(r), s.tx.doomed() || r.failed.Code == wire.CodeSerializationFailure
		return failure, retry, s.tx.rollbackServer()
	}
	c := s.collecting.appendCollect()
	if err := s.tx.collect(&c, true); err != nil {
		return nil, false, err
	}
	return s.tx.settle(c)
}

// enteredFirst is what the first of its transactions says when it begins to write: capture.EnteredFirst.
const enteredFirst = "first"

// entered notes what a transaction says when it begins to write.
func (i *inside) entered(message string) {
	i.first = i.first || message == enteredFirst
	i.later = i.later || message != enteredFirst
}

// commitInside ends a transaction that asks for it. What it says later is heard by say.
func (s *Session) commitInside(message string, r *reply) (ours bool, err error) {
	conversation, kind, rest, ok := s.o.Collector.InsideMessage(message)
	if !ok {
		return false, nil
	}
	if kind == "cancelled" {
		s.inside.stopped = rest
		s.host.Cancel()
		return true, nil
	}
	if kind != "commit" {
		return true, fmt.Errorf("%w: a transaction says %q unasked", errBackend, kind)
	}
	if err := s.host.Attend(conversation); err != nil {
		return true, err
	}
	defer s.host.Leave()
	t := &talk{r: r}
	s.inside.talk = t
	err = s.endInside(t)
	s.inside.talk = nil
	if errors.Is(err, errOver) {
		err = nil
	}
	return true, err
}

func (s *Session) endInside(t *talk) error {
	if !s.inside.calling {
		return s.failInside(t, nil)
	}
	c, err := s.collectInside(t)
	switch {
	case err != nil:
		return err
	case c.failed != nil:
		return s.failInside(t, c.failed)
	case c.ws == nil || c.ws.Empty():
		t.said++
		return s.host.Say(t.said, insideGo)
	}
	if failure := s.collecting.share(c.ws); failure != nil {
		return s.failInside(t, failure)
	}
	doom := s.host.Pass(c.ws, nil)
	if doom == nil {
		doom = s.host.Enter(PhaseSubmitted)
	}
	if doom != nil {
		return s.failInside(t, doom)
	}
	d := s.host.Submit(Submission{Seq: c.seq, Base: s.tx.base, Order: c.order, Writeset: c.ws})
	if !d.Commit {
		if d.Err.Severity == wire.SeverityFatal {
			return s.block.fail(d.Err)
		}
		return s.failInside(t, d.Err)
	}
	t.said++
	if err := s.host.GoesOn(t.said, c.seq); err != nil {
		return fmt.Errorf("%w: %w", errBackend, err) // it is ended: nobody can speak to it
	}
	s.inside.commits++
	s.schema = schema{}
	s.host.Enter(PhaseIdle)
	s.tx.doomed()
	s.tx.base = s.host.Follows()
	if s.inside.stopped != "" {
		s.host.Cancel()
	}
	return nil
}

// Commands besides SQL: capture.InsideGo and capture.InsideFail.
const (
	insideGo   = "go"
	insideFail = "fail"
)

// failInside has the transaction fail; the client is told why.
func (s *Session) failInside(t *talk, why *wire.SQLError) error {
	s.inside.lost = why
	_, err := s.say(t, insideFail)
	return err
}

// collectInside is the collect step.
func (s *Session) collectInside(t *talk) (c collected, err error) {
	for followed := false; ; followed = true {
		c = collected{marked: true}
		c.slot, c.incarnation, c.seq = s.host.NewSeq()
		rows, err := s.say(t, s.o.Collector.InsideCommand(c.slot, c.incarnation, c.seq))
		if err == nil {
			err = s.collecting.decode(&c, rows, s.rereadInside)
		}
		if errors.As(err, &c.failed) {
			return c, nil
		}
		if err != nil || !c.unfollowed || followed {
			return c, err
		}
		if rows, err = s.say(t, s.o.Collector.AskFollowCommand()); err != nil {
			return c, err
		}
		if len(rows) != 1 || len(rows[0]) != 1 {
			return c, errors.New("session: what definitions need was not answered")
		}
		command, err := s.o.Collector.FollowCommand(rows[0][0])
		if errors.As(err, &c.failed) {
			return c, nil
		}
		if err != nil {
			return c, err
		}
		if _, err := s.say(t, command); err != nil {
			return c, err
		}
	}
}

// rereadInside has the transaction that waits read rows again.
func (s *Session) rereadInside(q Reread) (rows [][][]byte, failure *wire.SQLError, err error) {
	array, typ, err := s.host.Texts(q)
	if errors.As(err, &failure) {
		return nil, failure, nil
	}
	if err != nil {
		return nil, nil, err
	}
	rows, err = s.say(s.inside.talk, q.Command(array, typ))
	return rows, nil, err
}

// say has the transaction carry a command out and returns the rows of its answer. With errOver it has failed.
func (s *Session) say(t *talk, command string) ([][][]byte, error) {
	t.said++
	if err := s.host.Say(t.said, command); err != nil {
		return nil, err
	}
	got := gathered{limits: &s.backend.limits}
	for {
		f, err := s.backend.next()
		if err != nil {
			return nil, err
		}
		switch f.Type {
		case wire.TypeErrorResponse:
			if err := s.relaying.passError(f, t.r); err != nil {
				return nil, err
			}
			return nil, errOver
		case wire.TypeParameterStatus, wire.TypeNotificationResponse:
			if err := s.relaying.postpone(f); err != nil {
				return nil, err
			}
		case wire.TypeNoticeResponse:
			row, done, err := s.overhear(f, t.r)
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
func (s *Session) overhear(f wire.Frame, r *reply) (row [][]byte, done bool, err error) {
	e, err := wire.DecodeErrorFields(f.Body())
	if err != nil {
		return nil, false, err
	}
	if e.Code == wire.CodeTuttiInside {
		if _, kind, rest, ok := s.o.Collector.InsideMessage(e.Message); ok {
			switch kind {
			case "row":
				row, err = s.o.Collector.ReadRecord(rest)
			case "cancelled":
				s.inside.stopped = rest
			}
			return row, kind == "done", err
		}
	}
	if ours, err := s.relaying.noticed(f, r); ours || err != nil {
		return nil, false, err
	}
	return nil, false, s.results.Remark(f)
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
