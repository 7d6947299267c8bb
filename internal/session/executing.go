package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// executing has a request carried out by whom it is for: alone, by procedures, or in the client's block.
type executing struct {
	results *proto.Results
	block   *block

	txn        *txn.Machine
	texts      *texts
	levels     *levels
	listener   *listener
	sight      *sight
	forms      *forms
	planner    *planner
	plain      *plain
	alone      *alone
	procedures *procedures
	blocks     *blocks
}

// execute runs a request in whatever block the session is in and passes the results on.
// It reports whether the request failed, and in rep how far it came.
func (x *executing) execute(r request, rep *reply) (failedToo bool, err error) {
	if e := x.listener.may(r.does.channels); e != nil {
		return true, x.block.fail(e)
	}
	x.listener.stale = x.listener.stale || r.does.listens
	x.results.Begin(r.way.yields == 0)
	if r.way.direct != nil && !x.txn.Failed() {
		x.forms.renew()
		if done, err := x.planner.foreknow(&r); done || err != nil {
			return true, err
		}
	}
	x.texts.noteOutside(&r)
	if !x.planner.keepsSight(&r) {
		x.sight.lose()
	}
	if x.txn.Idle() {
		return x.outside(&r, rep)
	}
	return x.blocks.inBlock(r, rep)
}

// outside runs a request outside of the client's blocks.
func (x *executing) outside(r *request, rep *reply) (failedToo bool, err error) {
	if err := x.levels.refresh(); err != nil {
		return true, err
	}
	r.does.write = r.does.write || x.texts.guarded(r) && r.asksAccess()
	if r.does.write {
		if done, err := x.alone.blindly(r, rep, 0); done || err != nil {
			return rep.failed != nil, err
		}
	}
	if inside, err := x.procedures.commitsInside(r); err != nil {
		return true, err
	} else if inside {
		return x.procedures.call(*r, rep)
	}
	if r.does.write || x.levels.level >= semantics.RepeatableRead && !r.does.local && !r.does.settings {
		return x.alone.autocommit(*r, rep)
	}
	return x.plain.run(*r, rep)
}

// refused has PostgreSQL parse a text that we cannot, or may misread, which must be one statement: a Query can have
// more of them, and a COMMIT that we do not see would commit here alone. It reports whether the client was told what is
// against it.
func (x *executing) refused(st *semantics.Statement, sql string) (bool, error) {
	if st.Kind != semantics.Unknown && !x.texts.misread(sql) {
		return false, nil
	}
	if err := x.block.tx.takeAhead(); err != nil || x.txn.Failed() || x.txn.Reason() != nil { // then nothing is run
		return false, err
	}
	if x.txn.Active() {
		if err := x.block.tx.ensureOpen(true); err != nil {
			return false, err
		}
	}
	r, err := x.block.backend.parse(sql)
	if err != nil || r.failed == nil {
		return false, err
	}
	e := &wire.SQLError{ErrorFields: *r.failed}
	if e.Code == wire.CodeSyntaxError && e.Routine == "exec_parse_message" { // it is several
		e = wire.Errorf(wire.CodeFeatureNotSupported, "the statements of this text cannot be told apart").
			WithDetail("Tutti's parser does not know something that stands in it, or in the client's encoding it may " +
				"mean something else.").
			WithHint("Send one statement at a time.")
	}
	return true, x.block.fail(e)
}
