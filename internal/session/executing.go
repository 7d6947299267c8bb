package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
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
