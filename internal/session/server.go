package session

import (
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// reply is what the backend answered to one request, up to its ReadyForQuery.
type reply struct {
	status      byte
	tag         string                // of the last CommandComplete; internal only
	failed      *wire.ErrorFields     // the first ErrorResponse
	parsed      int                   // ParseCompletes
	unparsed    bool                  // the session has answered a Parse without a name
	done        int                   // extended-protocol messages carried out
	copied      bool                  // a COPY FROM STDIN has begun
	read        int                   // client messages it has read
	copying     bool                  // a COPY FROM STDIN waits for data
	ended       bool                  // ReadyForQuery has come
	yielded     bool                  // it lost, see request.yields
	resumes     bool                  // see request.resumes
	interrupted bool                  // and so it was
	locks       []*semantics.RowLocks // the request's
	extended    bool
	shifts      []int32    // of the request
	taking      *directRun // it is a direct statement's, see takeRow
	plan        bool       // its rows are those of EXPLAIN
	described   []byte     // the last RowDescription; internal only
	noticed     bool       // there was a notice; internal only

	describes []*prepared // whose parameters are yet to be described
}

// swallows reports whether PostgreSQL would have read the Sync after Execute as part of a
// COPY: unless that failed before it asked for data.
func (r *reply) swallows() bool {
	return r.copied && (r.read > 0 || r.failed != nil && r.failed.Code == wire.CodeQueryCanceled)
}

// hears takes what the backend says while it answers the session itself.
func (s *Session) hears(f wire.Frame) error {
	if f.Type == wire.TypeNoticeResponse {
		s.ownNotice(f)
		return nil
	}
	return s.postpone(f)
}

// ownNotice passes on what a statement of ours gave notice of, a COMMIT among them. What is meant for
// the server's log may show its parameters, which are secrets (debug_print_plan).
func (s *Session) ownNotice(f wire.Frame) {
	e, err := wire.DecodeErrorFields(f.Body())
	if err != nil || s.forms.preparing || e.SeverityUnlocalized == "LOG" ||
		strings.HasPrefix(e.SeverityUnlocalized, "DEBUG") {
		return
	}
	switch e.Code {
	case wire.CodeTuttiDefined:
		s.schema.note(e.Message)
	case wire.CodeTuttiHeir:
		s.texts.heirs = true
	case wire.CodeTuttiLock:
		s.advisory.notice(e.Message)
	default:
		s.results.Notice(f.Raw)
	}
}

// neverBegan ends a request that was skipped because what went ahead of it failed: our
// statement was forgotten, or a cancel hit it.
func (s *Session) neverBegan(q request, e *wire.ErrorFields) (r reply, err error) {
	if !q.extended && !q.chosen { // a Query is no Sync
		s.srvW.Append(wire.AppendSync(s.srvW.AvailableBuffer()))
		if err := s.backend.flush(); err != nil {
			return r, err
		}
	}
	if s.backend.lost {
		e = &errForgotten(forgottenStatements).ErrorFields
	}
	if err := s.passError(wire.Frame{Type: wire.TypeErrorResponse, Raw: wire.AppendErrorResponse(nil, *e)},
		&r); err != nil {
		return r, err
	}
	for !r.ended {
		if err := s.passOne(&r); err != nil {
			return r, err
		}
	}
	if s.backend.lost && r.status != wire.TxIdle {
		s.srvW.Append(wire.AppendQuery(nil, "ROLLBACK"))
		s.unnamed.owed = true
		_, err := s.backend.quiet()
		return r, err
	}
	if r.status == wire.TxIdle && !s.backend.lost {
		s.txn.End()
		s.later.end()
		s.host.Enter(PhaseIdle)
		r.status = wire.TxFailed // as far as the client is concerned
	}
	return r, nil
}

// relay sends a request to the backend and passes its answer on, without the ReadyForQuery.
// What of it may be followed by data for a COPY ends with a Flush, and gets its Sync once
// everything is answered: nobody could tell whether the COPY has swallowed an earlier one.
func (s *Session) relay(q request) (r reply, err error) {
	if doom := s.host.Enter(PhaseRunning); doom != nil {
		s.txn.Condemn(doom) // told when the answer is complete
	}
	if err := s.backend.flush(); err != nil {
		return r, err
	}
	if s.backend.prefix > 0 {
		if failed, err := s.backend.prefixed(); failed != nil || err != nil {
			if err != nil {
				return r, err
			}
			return s.neverBegan(q, failed)
		}
	}
	r.taking, r.locks, r.extended, r.describes, r.resumes = q.run(), q.locks, q.extended, q.describes, q.resumes
	if !q.chosen {
		r.shifts = q.shifts
	}
	synced := !q.flushes()
	for !r.ended {
		if !synced && (r.failed != nil || r.done == q.messages) {
			synced = true
			s.srvW.Append(wire.AppendSync(s.srvW.AvailableBuffer()))
			if err := s.backend.flush(); err != nil {
				return r, err
			}
		}
		if err := s.passOne(&r); err != nil {
			return r, err
		}
		if r.copying {
			r.copying = false
			if r.read, err = s.copyIn(&r); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// passOne reads one frame of the backend and passes it on.
func (s *Session) passOne(r *reply) error {
	f, err := s.backend.next()
	if err != nil {
		return err
	}
	if r.taking != nil {
		if taken, err := s.direct.takeOf(r, &f); taken || err != nil {
			return err
		}
	}
	if l := r.lockedBy(); l != nil && (f.Type == wire.TypeDataRow || f.Type == wire.TypeRowDescription) {
		if err := s.locks.cut(l, &f); err != nil {
			return err
		}
	}
	if r.ofPlan(f) {
		return nil
	}
	switch f.Type {
	case wire.TypeDataRow, wire.TypeCopyData:
		return s.results.Emit(f)
	case wire.TypeReadyForQuery:
		r.ended = true
		r.status, err = wire.DecodeReadyForQuery(f.Body())
		return err
	case wire.TypeErrorResponse:
		return s.passError(f, r)
	case wire.TypeParameterStatus, wire.TypeNotificationResponse:
		return s.postpone(f)
	case wire.TypeNoticeResponse:
		if ours, err := s.noticed(f, r); ours || err != nil {
			return err
		}
		return s.results.Remark(f)
	case wire.TypeParseComplete:
		r.parsed++
		r.done++
	case wire.TypeBindComplete:
		r.done++
		if r.taking != nil && r.taking.part().describes {
			r.done++
			if err := s.results.Emit(f); err != nil {
				return err
			}
			f = r.taking.part().description()
		}
	case wire.TypeParameterDescription:
		if err := r.tell(f); err != nil {
			return err
		}
	case wire.TypeCloseComplete, wire.TypeNoData, wire.TypeRowDescription,
		wire.TypeCommandComplete, wire.TypePortalSuspended, wire.TypeEmptyQueryResponse:
		r.done++
	case wire.TypeCopyInResponse:
		r.copying, r.copied = true, true
	}
	return s.results.Emit(f)
}

// tell notes the types of parameters for a statement that is noted.
func (r *reply) tell(f wire.Frame) (err error) {
	if len(r.describes) > 0 {
		if of := r.describes[0]; of != nil && of.statement.Notes {
			of.told, err = wire.DecodeParameterDescription(f.Body())
		}
		r.describes = r.describes[1:]
	}
	return err
}

func (s *Session) passError(f wire.Frame, r *reply) error {
	e, err := wire.DecodeErrorFields(f.Body())
	if err != nil {
		return err
	}
	if r.taking != nil {
		if err := r.taking.part().failedDirect(&s.direct, r, &e); err != nil {
			return err
		}
		f.Raw = wire.AppendErrorResponse(nil, e)
	}
	if l := r.lockedBy(); l != nil {
		s.locks.refused(l, &e)
		f.Raw = wire.AppendErrorResponse(nil, e)
	}
	if e.Code == wire.CodeSequenceSpent {
		s.spent(&e)
		f.Raw = wire.AppendErrorResponse(nil, e)
	}
	if s.failedInside(&e) {
		f.Raw = wire.AppendErrorResponse(nil, e)
	}
	if overtaken(&e) {
		f.Raw = wire.AppendErrorResponse(nil, e)
	}
	if r.failed == nil {
		r.failed = &e
	}
	s.advisory.stale = s.advisory.used
	if s.backend.noteFatal(e); s.backend.fatal != nil {
		return nil // told when the connection ends
	}
	if plainContext(&e) {
		f.Raw = wire.AppendErrorResponse(nil, e)
	}
	shift := s.shift
	if r.done < len(r.shifts) {
		shift += r.shifts[r.done]
	}
	wished := s.host.Cancelled()
	switch {
	case e.Code == wire.CodeQueryCanceled && s.tx.doomed():
		if r.resumes && !wished && s.txn.Reason().Code == wire.CodeSerializationFailure && !s.advisory.used &&
			!s.schema.noted {
			r.interrupted = true
			return nil
		}
		f.Raw = s.txn.Reason().Append(nil) // the cancel was ours
	case e.Position > 0 && shift != 0:
		e.Position += shift
		f.Raw = wire.AppendErrorResponse(nil, e)
	}
	return s.results.Emit(f)
}

// postpone keeps what PostgreSQL tells just before ReadyForQuery; notifications, if a block ends by it.
func (s *Session) postpone(f wire.Frame) error {
	if f.Type == wire.TypeParameterStatus {
		name, value, err := wire.DecodeParameterStatus(f.Body())
		if err != nil {
			return err
		}
		s.texts.noteParameter(name, value)
		s.sight.who, s.sight.asked = "", false // it may be what decides whether a transaction may write
	}
	s.late.Keep(s.out, f)
	return nil
}
