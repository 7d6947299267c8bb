package session

import (
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// detach carries out DETACH PARTITION with CONCURRENTLY or FINALIZE, outside a block (decision 0039). done is false if
// it is to be carried out like other definitions, without CONCURRENTLY.
func (s *Session) detach(st *semantics.Statement) (done, failed bool, err error) {
	r, rows, err := s.backend.ask(s.o.Collector.AskDetach(st.Detach))
	if err != nil || r.failed != nil || len(rows) != 1 {
		return false, false, err
	}
	of, _, err := s.o.Collector.Detach(rows[0][0])
	if err != nil || of.Partition[1] == "" {
		return false, false, err
	}
	locks := [][2]string{{lockNames(of.Parent, of.Partition), "SHARE UPDATE EXCLUSIVE"},
		{lockNames(of.Refs...), "SHARE"}}
	if st.Detach.Finalizes {
		locks = [][2]string{{lockNames(of.Partition), "ACCESS EXCLUSIVE"}}
	}
	failure, err := s.awaitLocks(locks)
	switch {
	case err != nil:
		return true, true, err
	case failure != nil:
		return true, true, s.block.fail(failure)
	case st.Detach.Finalizes:
		failed, err = s.define(st)
		return true, failed, err
	}
	return s.detachConcurrently(st)
}

// finalizes finds out whether a definition ends a detachment.
func (s *Session) finalizes(st *semantics.Statement, d *Definition) error {
	if d.Detach = (Detach{}); st.Detach == nil || !st.Detach.Finalizes {
		return nil
	}
	r, rows, err := s.backend.ask(s.o.Collector.AskDetach(st.Detach))
	if err != nil || r.failed != nil || len(rows) != 1 {
		return err
	}
	of, _, err := s.o.Collector.Detach(rows[0][0])
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
func (s *Session) awaitLocks(locks [][2]string) (failure *wire.SQLError, err error) {
	if doom := s.o.Host.Enter(PhaseRunning); doom != nil {
		return doom, nil
	}
	defer s.o.Host.Enter(PhaseIdle)
	if _, _, err := s.backend.ask("BEGIN"); err != nil {
		return nil, err
	}
	for _, l := range locks {
		if l[0] == "" || failure != nil {
			continue
		}
		r, _, err := s.backend.ask("LOCK TABLE " + l[0] + " IN " + l[1] + " MODE")
		if err != nil {
			return nil, err
		}
		if r.failed == nil {
			continue
		}
		// else it was in the order's way
		if r.failed.Code != wire.CodeInsufficientPrivilege && s.o.Host.Enter(PhaseRunning) == nil {
			failure = failureOf(r)
		}
		break
	}
	for idle := false; !idle; { // a cancel may have come late
		r, _, err := s.backend.ask("ROLLBACK")
		if err != nil {
			return nil, err
		}
		idle = r.status == wire.TxIdle
	}
	return failure, nil
}

// detachConcurrently has the first step take its place in the order, where the backend carries it out. The backend goes
// on with the second one when that has its place in turn.
func (s *Session) detachConcurrently(st *semantics.Statement) (done, failed bool, err error) {
	d, err := s.carrying.described(st.Detach.Text)
	if err != nil {
		return true, true, err
	}
	for looks := 1; ; looks++ {
		d.Base = s.o.Host.Applied() // before the tables are looked up
		r, rows, err := s.backend.ask(s.o.Collector.AskDetach(st.Detach))
		if err != nil || r.failed != nil || len(rows) != 1 {
			return false, false, err
		}
		if d.Detach, d.Extent, err = s.o.Collector.Detach(rows[0][0]); err != nil || d.Detach.Partition[1] == "" {
			return false, false, err
		}
		turn, told := s.o.Host.Detach(d)
		if turn != nil {
			failed, err = s.takeTurn(turn, st.Detach.Text)
			return true, failed, err
		}
		if told.Err == nil || told.Err.Code != wire.CodeTuttiOutdated || looks == looksMax {
			return true, told.Err != nil, s.block.answer(told, false)
		}
	}
}

// takeTurn runs a definition that has its place in the order here, outside any transaction of ours.
func (s *Session) takeTurn(turn Turn, sql string) (failed bool, err error) {
	ended := false
	defer func() {
		if !ended { // the backend is lost
			turn.Ended(&wire.ErrorFields{Code: wire.CodeAdminShutdown})
		}
	}()
	on, off := s.o.Collector.TurnStatements()
	if _, err := s.backend.query(on); err != nil {
		return true, err
	}
	s.results.Hold(false)
	s.backend.out.Append(wire.AppendQuery(nil, sql))
	s.named.unnamed.owed = true
	rep, err := s.relaying.relay(request{frames: wire.AppendQuery(nil, sql)})
	if err != nil {
		return true, err
	}
	ended = true
	r := turn.Ended(rep.failed)
	s.o.Host.Enter(PhaseIdle) // it may have stood in the order's way, which did not end it
	s.txn.Absolve()
	if _, err := s.backend.query(off); err != nil {
		return true, err
	}
	if r.Err == nil && r.Tag == "" {
		s.results.Release()
		return rep.failed != nil, nil
	}
	s.results.Drop()
	return r.Err != nil, s.block.answer(r, false)
}
