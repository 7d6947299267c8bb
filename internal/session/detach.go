package session

import (
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// detach carries out DETACH PARTITION with CONCURRENTLY or FINALIZE, outside a block (decision 0039). done is false if
// it is to be carried out like other definitions, without CONCURRENTLY.
func (f *definitions) detach(st *semantics.Statement) (done, failed bool, err error) {
	r, rows, err := f.backend.ask(f.extents.AskDetach(st.Detach))
	if err != nil || r.failed != nil || len(rows) != 1 {
		return false, false, err
	}
	of, _, err := f.extents.Detach(rows[0][0])
	if err != nil || of.Partition[1] == "" {
		return false, false, err
	}
	locks := [][2]string{{lockNames(of.Parent, of.Partition), "SHARE UPDATE EXCLUSIVE"},
		{lockNames(of.Refs...), "SHARE"}}
	if st.Detach.Finalizes {
		locks = [][2]string{{lockNames(of.Partition), "ACCESS EXCLUSIVE"}}
	}
	failure, err := f.awaitLocks(locks)
	switch {
	case err != nil:
		return true, true, err
	case failure != nil:
		return true, true, f.block.fail(failure)
	case st.Detach.Finalizes:
		failed, err = f.define(st)
		return true, failed, err
	}
	return f.detachConcurrently(st)
}

// finalizes finds out whether a definition ends a detachment.
func (f *definitions) finalizes(st *semantics.Statement, d *Definition) error {
	if d.Detach = (Detach{}); st.Detach == nil || !st.Detach.Finalizes {
		return nil
	}
	r, rows, err := f.backend.ask(f.extents.AskDetach(st.Detach))
	if err != nil || r.failed != nil || len(rows) != 1 {
		return err
	}
	of, _, err := f.extents.Detach(rows[0][0])
	if of.Ends = true; err == nil && of.Partition[1] != "" {
		d.Detach = of
	}
	return err
}

func lockNames(tables ...[2]string) string {
	var names []string
	for _, t := range tables {
		names = append(names, "ONLY "+identifier(t[0])+"."+identifier(t[1]))
	}
	return strings.Join(names, ", ")
}

func identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// awaitLocks waits, as PostgreSQL does, for those sessions of this member that stand in a definition's way: at its
// place in the order they would lose. It keeps no lock. What the session may not lock is not waited for.
func (f *definitions) awaitLocks(locks [][2]string) (failure *wire.SQLError, err error) {
	if doom := f.host.Enter(PhaseRunning); doom != nil {
		return doom, nil
	}
	defer f.host.Enter(PhaseIdle)
	if _, _, err := f.backend.ask("BEGIN"); err != nil {
		return nil, err
	}
	for _, l := range locks {
		if l[0] == "" || failure != nil {
			continue
		}
		r, _, err := f.backend.ask("LOCK TABLE " + l[0] + " IN " + l[1] + " MODE")
		if err != nil {
			return nil, err
		}
		if r.failed == nil {
			continue
		}
		// else it was in the order's way
		if r.failed.Code != wire.CodeInsufficientPrivilege && f.host.Enter(PhaseRunning) == nil {
			failure = failureOf(r)
		}
		break
	}
	for idle := false; !idle; { // a cancel may have come late
		r, _, err := f.backend.ask("ROLLBACK")
		if err != nil {
			return nil, err
		}
		idle = r.status == wire.TxIdle
	}
	return failure, nil
}

// detachConcurrently has the first step take its place in the order, where the backend carries it out. The backend goes
// on with the second one when that has its place in turn.
func (f *definitions) detachConcurrently(st *semantics.Statement) (done, failed bool, err error) {
	d, err := f.carrying.described(st.Detach.Text)
	if err != nil {
		return true, true, err
	}
	for looks := 1; ; looks++ {
		d.Base = f.host.Applied() // before the tables are looked up
		r, rows, err := f.backend.ask(f.extents.AskDetach(st.Detach))
		if err != nil || r.failed != nil || len(rows) != 1 {
			return false, false, err
		}
		if d.Detach, d.Extent, err = f.extents.Detach(rows[0][0]); err != nil || d.Detach.Partition[1] == "" {
			return false, false, err
		}
		turn, told := f.host.Detach(d)
		if turn != nil {
			failed, err = f.takeTurn(turn, st.Detach.Text)
			return true, failed, err
		}
		if told.Err == nil || told.Err.Code != wire.CodeTuttiOutdated || looks == looksMax {
			return true, told.Err != nil, f.block.answer(told, false)
		}
	}
}

// takeTurn runs a definition that has its place in the order here, outside any transaction of ours.
func (f *definitions) takeTurn(turn Turn, sql string) (failed bool, err error) {
	ended := false
	defer func() {
		if !ended { // the backend is lost
			turn.Ended(&wire.ErrorFields{Code: wire.CodeAdminShutdown})
		}
	}()
	on, off := f.extents.TurnStatements()
	if _, err := f.backend.query(on); err != nil {
		return true, err
	}
	f.results.Hold(false)
	f.backend.out.Append(wire.AppendQuery(nil, sql))
	f.unnamed.owed = true
	rep, err := f.relaying.relay(request{frames: wire.AppendQuery(nil, sql)})
	if err != nil {
		return true, err
	}
	ended = true
	r := turn.Ended(rep.failed)
	f.host.Enter(PhaseIdle) // it may have stood in the order's way, which did not end it
	f.txn.Absolve()
	if _, err := f.backend.query(off); err != nil {
		return true, err
	}
	if r.Err == nil && r.Tag == "" {
		f.results.Release()
		return rep.failed != nil, nil
	}
	f.results.Drop()
	return r.Err != nil, f.block.answer(r, false)
}
