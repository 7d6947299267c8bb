package session

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// reply is what the backend answered to one request, up to its ReadyForQuery.
type reply struct {
	status      byte
	tag         string            // of the last CommandComplete; internal only
	failed      *wire.ErrorFields // the first ErrorResponse
	parsed      int               // ParseCompletes
	unparsed    bool              // the session has answered a Parse without a name
	done        int               // extended-protocol messages carried out
	copied      bool              // a COPY FROM STDIN has begun
	read        int               // client messages it has read
	copying     bool              // a COPY FROM STDIN waits for data
	ended       bool              // ReadyForQuery has come
	yielded     bool              // it lost, see way.yields
	resumes     bool              // see way.resumes
	interrupted bool              // and so it was
	extended    bool
	answer      answering  // the request's
	taking      *directRun // it is a direct statement's, see takeRow
	plan        bool       // its rows are those of EXPLAIN
	described   []byte     // the last RowDescription; internal only
	noticed     bool       // there was a notice; internal only
}

// swallows reports whether PostgreSQL would have read the Sync after Execute as part of a
// COPY: unless that failed before it asked for data.
func (r *reply) swallows() bool {
	return r.copied && (r.read > 0 || r.failed != nil && r.failed.Code == wire.CodeQueryCanceled)
}

// relaying passes on what the backend says: answers, what it says beside them, and the data of a COPY the other way.
type relaying struct {
	backend *backend
	in      *wire.Reader // from the client
	out     *wire.Writer // to the client
	results *proto.Results
	host    relayingHost
	facts   Facts

	// who takes a part of it
	txn        *txn.Machine
	tx         *transaction
	texts      *texts
	sight      *sight
	forms      *forms
	unnamed    *unnamed
	direct     *direct
	schema     *schema
	locks      *locks
	advisory   *advisory
	later      *later
	turns      *rowTurns
	inside     *inside
	commitHere func(message string, r *reply) (ours bool, err error) // see procedures.commitInside

	late   proto.Late
	shift  int32      // characters of a Query before the statement being run
	moved  bool       // a sequence has gone on to another chunk, see spent
	unread wire.Frame // a client frame put back by COPY
}

// relayingHost is what it needs of the node.
type relayingHost struct {
	Control
	Sequences
}

// hears takes what the backend says while it answers the session itself.
func (y *relaying) hears(f wire.Frame) error {
	if f.Type == wire.TypeNoticeResponse {
		y.ownNotice(f)
		return nil
	}
	return y.postpone(f)
}

// ownNotice passes on what a statement of ours gave notice of, a COMMIT among them. What is meant for
// the server's log may show its parameters, which are secrets (debug_print_plan).
func (y *relaying) ownNotice(f wire.Frame) {
	e, err := wire.DecodeErrorFields(f.Body())
	if err != nil || y.forms.preparing || e.SeverityUnlocalized == "LOG" ||
		strings.HasPrefix(e.SeverityUnlocalized, "DEBUG") {
		return
	}
	switch e.Code {
	case wire.CodeTuttiDefined:
		y.schema.note(e.Message)
	case wire.CodeTuttiHeir:
		y.texts.heirs = true
	case wire.CodeTuttiLock:
		y.advisory.notice(e.Message)
	default:
		y.results.Notice(f.Raw)
	}
}

// neverBegan ends a request that was skipped because what went ahead of it failed: our
// statement was forgotten, or a cancel hit it.
func (y *relaying) neverBegan(q request, e *wire.ErrorFields) (r reply, err error) {
	if !q.extended && !q.way.chosen { // a Query is no Sync
		y.backend.out.Append(wire.AppendSync(y.backend.out.AvailableBuffer()))
		if err := y.backend.flush(); err != nil {
			return r, err
		}
	}
	if y.backend.lost {
		e = &errForgotten(forgottenStatements).ErrorFields
	}
	if err := y.passError(wire.Frame{Type: wire.TypeErrorResponse, Raw: wire.AppendErrorResponse(nil, *e)},
		&r); err != nil {
		return r, err
	}
	for !r.ended {
		if err := y.passOne(&r); err != nil {
			return r, err
		}
	}
	if y.backend.lost && r.status != wire.TxIdle {
		y.backend.out.Append(wire.AppendQuery(nil, "ROLLBACK"))
		y.unnamed.owed = true
		_, err := y.backend.quiet()
		return r, err
	}
	if r.status == wire.TxIdle && !y.backend.lost {
		y.txn.End()
		y.later.end()
		y.host.Enter(PhaseIdle)
		r.status = wire.TxFailed // as far as the client is concerned
	}
	return r, nil
}

// relay sends a request to the backend and passes its answer on, without the ReadyForQuery.
// What of it may be followed by data for a COPY ends with a Flush, and gets its Sync once
// everything is answered: nobody could tell whether the COPY has swallowed an earlier one.
func (y *relaying) relay(q request) (r reply, err error) {
	if doom := y.host.Enter(PhaseRunning); doom != nil {
		y.txn.Condemn(doom) // told when the answer is complete
	}
	if err := y.backend.flush(); err != nil {
		return r, err
	}
	if y.backend.prefix > 0 {
		if failed, err := y.backend.prefixed(); failed != nil || err != nil {
			if err != nil {
				return r, err
			}
			return y.neverBegan(q, failed)
		}
	}
	r.taking, r.answer, r.extended, r.resumes = q.way.run(), q.answer, q.extended, q.way.resumes
	if q.way.chosen { // the text is ours
		r.answer.shifts = nil
	}
	synced := !q.flushes()
	for !r.ended {
		if !synced && (r.failed != nil || r.done == q.messages) {
			synced = true
			y.backend.out.Append(wire.AppendSync(y.backend.out.AvailableBuffer()))
			if err := y.backend.flush(); err != nil {
				return r, err
			}
		}
		if err := y.passOne(&r); err != nil {
			return r, err
		}
		if r.copying {
			r.copying = false
			if r.read, err = y.copyIn(&r); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// passOne reads one frame of the backend and passes it on.
func (y *relaying) passOne(r *reply) error {
	f, err := y.backend.next()
	if err != nil {
		return err
	}
	if ours, err := y.takes(r, &f); ours || err != nil {
		return err
	}
	switch f.Type {
	case wire.TypeReadyForQuery:
		r.ended = true
		r.status, err = wire.DecodeReadyForQuery(f.Body())
		return err
	case wire.TypeErrorResponse:
		return y.passError(f, r)
	case wire.TypeParameterStatus, wire.TypeNotificationResponse:
		return y.postpone(f)
	case wire.TypeNoticeResponse:
		if ours, err := y.noticed(f, r); ours || err != nil {
			return err
		}
		return y.results.Remark(f)
	case wire.TypeBindComplete:
		if r.taking != nil && r.taking.part().describes {
			r.done++
			if err := y.results.Emit(f); err != nil {
				return err
			}
			f = r.taking.part().description()
		}
	}
	if err := r.count(f); err != nil {
		return err
	}
	return y.results.Emit(f)
}

// takes takes what is the session's own out of an answer. It reports whether that is all of a frame.
func (y *relaying) takes(r *reply, f *wire.Frame) (all bool, err error) {
	if r.taking != nil {
		if taken, err := y.direct.takeOf(r, f); taken || err != nil {
			return true, err
		}
	}
	if l := r.lockedBy(); l != nil && (f.Type == wire.TypeDataRow || f.Type == wire.TypeRowDescription) {
		if err := y.locks.cut(l, f); err != nil {
			return true, err
		}
	}
	if r.answer.tag != "" && f.Type == wire.TypeCommandComplete {
		f.Raw = wire.AppendCommandComplete(nil, r.answer.tag)
	}
	return r.ofPlan(*f), nil
}

// count notes how far the answer has come with a frame.
func (r *reply) count(f wire.Frame) error {
	switch f.Type {
	case wire.TypeParseComplete:
		r.parsed++
		r.done++
	case wire.TypeParameterDescription:
		return r.tell(f)
	case wire.TypeBindComplete, wire.TypeCloseComplete, wire.TypeNoData, wire.TypeRowDescription,
		wire.TypeCommandComplete, wire.TypePortalSuspended, wire.TypeEmptyQueryResponse:
		r.done++
	case wire.TypeCopyInResponse:
		r.copying, r.copied = true, true
	}
	return nil
}

// tell notes the types of parameters for a statement that is noted.
func (r *reply) tell(f wire.Frame) (err error) {
	if len(r.answer.describes) > 0 {
		if of := r.answer.describes[0]; of != nil && of.statement.Notes {
			of.told, err = wire.DecodeParameterDescription(f.Body())
		}
		r.answer.describes = r.answer.describes[1:]
	}
	return err
}

// passError passes an error on, as a plain PostgreSQL would have told it.
func (y *relaying) passError(f wire.Frame, r *reply) error {
	e, err := wire.DecodeErrorFields(f.Body())
	if err != nil {
		return err
	}
	reworded, err := y.reword(r, &e)
	if err != nil {
		return err
	}
	if r.failed == nil {
		r.failed = &e
	}
	y.advisory.stale = y.advisory.used
	if y.backend.noteFatal(e); y.backend.fatal != nil {
		return nil // told when the connection ends
	}
	reworded = plainContext(&e) || reworded
	wished := y.host.Cancelled()
	switch shift := y.shifted(r); {
	case e.Code == wire.CodeQueryCanceled && y.tx.doomed():
		if r.resumes && !wished && y.txn.Reason().Code == wire.CodeSerializationFailure && !y.advisory.used &&
			!y.schema.noted {
			r.interrupted = true
			return nil
		}
		f.Raw, reworded = y.txn.Reason().Append(nil), false // the cancel was ours
		y.turns.told(y.txn.Reason())
	case e.Position > 0 && shift != 0:
		e.Position += shift
		reworded = true
	}
	if reworded {
		f.Raw = wire.AppendErrorResponse(nil, e)
	}
	return y.results.Emit(f)
}

// reword makes of an error of a statement that was run in another way than the client's one of the client's. It reports
// whether it has changed it.
func (y *relaying) reword(r *reply, e *wire.ErrorFields) (changed bool, err error) {
	if r.taking != nil {
		if err := r.taking.part().failedDirect(y.direct, r, e); err != nil {
			return true, err
		}
		changed = true
	}
	if l := r.lockedBy(); l != nil {
		y.locks.refused(l, e)
		changed = true
	}
	if e.Code == wire.CodeSequenceSpent {
		y.spent(e)
		changed = true
	}
	changed = y.inside.failed(e) || changed
	return overtaken(e) || changed, nil
}

// shifted is how much further in the client's text something stands than in the backend's.
func (y *relaying) shifted(r *reply) int32 {
	if r.done < len(r.answer.shifts) {
		return y.shift + r.answer.shifts[r.done]
	}
	return y.shift
}

// postpone keeps what PostgreSQL tells just before ReadyForQuery; notifications, if a block ends by it.
func (y *relaying) postpone(f wire.Frame) error {
	if f.Type == wire.TypeParameterStatus {
		name, value, err := wire.DecodeParameterStatus(f.Body())
		if err != nil {
			return err
		}
		y.texts.noteParameter(name, value)
		y.sight.who, y.sight.asked = "", false // it may be what decides whether a transaction may write
	}
	y.late.Keep(y.out, f)
	return nil
}

// badFrame tells the client of a protocol violation before the connection ends.
func (y *relaying) badFrame(err error) error {
	var p *wire.ProtocolError
	if errors.As(err, &p) {
		y.out.Append(p.SQLError().AsFatal().Append(nil))
		if err := y.out.Flush(); err != nil {
			return err
		}
	}
	return err
}

// hear passes on what the backend says unasked. A block of the client gets its notifications when
// it ends, as in PostgreSQL, even if the backend does not know of it yet.
func (y *relaying) hear() error {
	for {
		f, err := y.backend.next()
		if err != nil {
			return err
		}
		switch f.Type {
		case wire.TypeNotificationResponse, wire.TypeParameterStatus:
			err = y.postpone(f)
		case wire.TypeNoticeResponse:
			y.late.Tell(y.out, y.txn.Idle()) // so that the order stays
			y.ownNotice(f)
		case wire.TypeErrorResponse:
			var e wire.ErrorFields
			if e, err = wire.DecodeErrorFields(f.Body()); err == nil {
				y.backend.noteFatal(e) // told when the connection ends
			}
		default:
			return fmt.Errorf("%w: it sent a message of type %q unasked", errBackend, f.Type)
		}
		if err != nil {
			return err
		}
		if more := y.backend.in.Buffered(); !more || y.out.Full() {
			y.late.Tell(y.out, y.txn.Idle())
			if err := y.out.Flush(); err != nil || !more {
				return err
			}
		}
	}
}

// anew comes before each try of a request whose results are held; closes is closeFirst's.
func (y *relaying) anew(r *request, closes []byte) error {
	y.results.Hold(!r.extended)
	y.advisory.attempt()
	return y.backend.close(closes)
}
